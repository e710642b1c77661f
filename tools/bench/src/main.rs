//! Measures our server beside the official one: same machine, same run, same load.
//!
//! ```text
//! cargo xtask bench streams [--quick] [--only ROW] [--seconds N] [--rounds N] [--json FILE]
//! cargo xtask bench wakes [--seconds N] [--rounds N]
//! cargo xtask bench client [--rounds N]
//! cargo xtask bench state [--rounds N]
//! cargo xtask bench chat [--rounds N]
//! cargo xtask bench live [--quick] [--only SCENARIOS] [--rounds N] [--ours-only]
//! cargo xtask bench agent [--quick] [--only PART] [--rounds N]
//! cargo xtask bench sessions [--quick] [--only PART]
//! ```
//!
//! Every row starts a fresh server in a fresh directory, loads it, and stops it before the other
//! one is started, so the two never share a core, a page cache or a disk queue. Rounds alternate
//! (ours, official, ours, official, ...) and the median of the rounds is reported. Both servers
//! wait for `fdatasync` before they acknowledge an append.
//!
//! It is not a profiler and not a capacity test: one thread generates all load, on the machine
//! that also runs the server. Only the ratios travel to other machines. Linux only, since it
//! drives `epoll` and reads `/proc`.
//!
//! Reading order: [`contest`] plays the rounds, [`rows`] says what is measured, [`load`] is the
//! HTTP/1.1 load generator, [`server`] installs, starts and stops the contestants, [`disk`]
//! measures the floor that any durable server stands on, [`report`] judges and prints. [`wakes`]
//! measures what the official server does not have, [`client`](mod@client) our client beside the
//! npm one, [`state`](mod@state) the fold above both, [`live`] the queries above that beside
//! those of `@tanstack/db`, [`turns`] the path from a model's bytes to events,
//! [`agent`](mod@agent) what an agent adds to it, [`sessions`](mod@sessions) what age and number
//! do to sessions.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a terminal program that measures the real clock, disk and processes"
)]

mod agent;
mod client;
mod contest;
mod disk;
mod live;
mod load;
mod process;
mod report;
mod rows;
mod server;
mod sessions;
mod state;
mod turns;
mod wakes;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};

use client::Clients;
use contest::Contest;
use report::{Environment, Report};
use rows::Scale;
use server::{Contestant, Workspace};
use wakes::Solo;

/// Benchmarks of the Headwater server.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare the stream API with the official Rust server.
    Streams(StreamsArgs),
    /// Measure how soon an append wakes somebody, and what subscriptions cost other appends.
    Wakes(WakesArgs),
    /// Compare our client's producer with the npm client's, against our server.
    Client(RoundsArgs),
    /// Measure how fast events of the State Protocol are folded.
    State(RoundsArgs),
    /// Measure how fast answers of models become events.
    Chat(RoundsArgs),
    /// Compare live queries with those of the npm package `@tanstack/db`.
    Live(live::LiveArgs),
    /// One scenario of `live` with our database; its figures as JSON.
    #[command(hide = true)]
    LiveScenario(live::ScenarioArgs),
    /// Measure what an agent costs that writes everything down before it goes on.
    Agent(agent::AgentArgs),
    /// The process of `agent` that runs tools.
    #[command(hide = true)]
    AgentExecutor(agent::ExecutorArgs),
    /// The process of `agent` that runs many generations; its figures as JSON.
    #[command(hide = true)]
    AgentCrowd(agent::CrowdArgs),
    /// Measure what sessions cost as they grow old and become many.
    Sessions(sessions::SessionsArgs),
    /// The process of `sessions` that starts over those that rest; its figures as JSON.
    #[command(hide = true)]
    SessionsAsleep(sessions::AsleepArgs),
}

#[derive(Debug, Args)]
struct RoundsArgs {
    /// Rounds per row; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=15))]
    rounds: u64,
    /// Our server's binary; built from this workspace when not given.
    #[arg(long, value_name = "PATH")]
    ours_bin: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct WakesArgs {
    /// Measured seconds per round, after half a second of warm-up.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=120))]
    seconds: u64,
    /// Rounds per row; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=15))]
    rounds: u64,
    /// Our server's binary; built from this workspace when not given.
    #[arg(long, value_name = "PATH")]
    ours_bin: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct StreamsArgs {
    /// One round of one second and a small memory row; for a first look, not for publishing.
    #[arg(long)]
    quick: bool,
    /// Run only the rows whose name contains this text.
    #[arg(long, value_name = "ROW-SUBSTRING")]
    only: Option<String>,
    /// Measured seconds per round, after half a second of warm-up [default: 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=120))]
    seconds: Option<u64>,
    /// Rounds per row; the median counts [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=15))]
    rounds: Option<u64>,
    /// Our server's binary; built from this workspace when not given.
    #[arg(long, value_name = "PATH", conflicts_with = "control")]
    ours_bin: Option<PathBuf>,
    /// The official server's binary; installed under the target directory when not given.
    #[arg(long, value_name = "PATH")]
    official_bin: Option<PathBuf>,
    /// Put the official server on both sides: the ratios then show the noise of this machine.
    #[arg(long)]
    control: bool,
    /// Also write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Streams(args) => compare_streams(&args),
        Command::Wakes(args) => measure_wakes(&args),
        Command::Client(args) => compare_clients(&args),
        Command::State(args) => {
            println!("{}", state::play(args.rounds)?);
            Ok(())
        }
        Command::Chat(args) => {
            println!("{}", turns::play(args.rounds)?);
            Ok(())
        }
        Command::Live(args) => {
            println!("{}", live::compare(&args)?);
            Ok(())
        }
        Command::LiveScenario(args) => {
            println!("{}", live::play(&args)?);
            Ok(())
        }
        Command::Agent(args) => {
            println!("{}", agent::play(&args)?);
            Ok(())
        }
        Command::AgentExecutor(args) => agent::execute(&args),
        Command::AgentCrowd(args) => {
            println!("{}", agent::gather(&args)?);
            Ok(())
        }
        Command::Sessions(args) => {
            println!("{}", sessions::play(&args)?);
            Ok(())
        }
        Command::SessionsAsleep(args) => {
            println!("{}", sessions::start(&args)?);
            Ok(())
        }
    }
}

fn compare_clients(args: &RoundsArgs) -> Result<()> {
    let workspace = Workspace::locate()?;
    let clients = Clients {
        server: Contestant::headwater(&workspace, args.ours_bin.as_deref())?,
        data_root: workspace.data_root()?,
        node_dir: workspace.node_dir("tools/conformance/node")?,
        rounds: args.rounds,
    };
    println!("{}", clients.play()?);
    Ok(())
}

fn measure_wakes(args: &WakesArgs) -> Result<()> {
    let workspace = Workspace::locate()?;
    server::raise_open_files_limit()?;
    let solo = Solo {
        server: Contestant::headwater(&workspace, args.ours_bin.as_deref())?,
        data_root: workspace.data_root()?,
        rounds: args.rounds,
        seconds: args.seconds,
    };
    let fdatasync = disk::measure_fdatasync(&solo.data_root)?;
    eprintln!("{fdatasync:?}");
    println!("{}", solo.play()?);
    Ok(())
}

fn compare_streams(args: &StreamsArgs) -> Result<()> {
    let workspace = Workspace::locate()?;
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    let open_files_max = server::raise_open_files_limit()?;

    let wanted = args.only.as_deref().unwrap_or_default();
    let mut rows = rows::all(scale, open_files_max);
    rows.retain(|row| row.name.contains(wanted));
    ensure!(!rows.is_empty(), "no row is called like {wanted:?}");

    let official = Contestant::official(&workspace, args.official_bin.as_deref())?;
    let ours = match args.control {
        true => official.clone(),
        false => Contestant::headwater(&workspace, args.ours_bin.as_deref())?,
    };
    let contest = Contest {
        ours,
        official,
        data_root: workspace.data_root()?,
        rounds: args.rounds.unwrap_or(scale.rounds()),
        seconds: args.seconds.unwrap_or(scale.seconds()),
    };

    eprintln!("measuring the disk");
    let fdatasync = disk::measure_fdatasync(&contest.data_root)?;
    let environment = Environment::of_this_machine(&contest, fdatasync)?;
    let report = Report { environment, rows: contest.play(&rows) };

    println!("{}", report.markdown());
    match &args.json {
        Some(path) => std::fs::write(path, report.json()?)
            .with_context(|| format!("write {}", path.display())),
        None => Ok(()),
    }
}
