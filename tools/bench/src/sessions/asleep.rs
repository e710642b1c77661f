//! Starting over many sessions that rest. Each start has a process of its own, so that its memory
//! and its time on the processor can be told.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use agent::Lease;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use sessions::{Actions, SessionId};

use super::{
    history::{self, AGENT},
    wakes::launch,
};
use crate::{
    agent::{
        figures::Figures,
        place::{Place, run},
    },
    server::DataDir,
};

/// Messages of each session.
const MESSAGES: usize = 2;
/// Sessions that are made at a time.
const MAKERS: usize = 512;

/// The process that starts, and what it starts over.
#[derive(Debug, Args)]
pub(crate) struct AsleepArgs {
    /// How many sessions there are.
    count: usize,
    /// The directory of the log.
    dir: PathBuf,
}

/// Makes so many sessions, lets a process find that they rest, and measures the next start.
pub(super) fn measure(root: &Path, count: usize) -> Result<Figures> {
    let dir = DataDir::create(root)?;
    run(make(&dir.server_data(), count))?;
    // The first start looks at each session once; from then on it is known that they rest.
    let _ = start_in_process(count, &dir.server_data())?;
    start_in_process(count, &dir.server_data())
}

async fn make(dir: &Path, count: usize) -> Result<()> {
    let place = Place::at(dir).await?;
    let made = stream::iter(0..count).map(|number| {
        let place = &place;
        async move {
            let address = place.session(&format!("asleep-{number}")).await?;
            history::fill(place, &address, MESSAGES).await
        }
    });
    made.buffer_unordered(MAKERS).try_collect::<()>().await?;
    place.close().await;
    Ok(())
}

fn start_in_process(count: usize, dir: &Path) -> Result<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("sessions-asleep").arg(count.to_string()).arg(dir);
    let output = command.output().context("cannot start the process")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the process has failed: {errors}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Starts over a log, until it is known that nothing is open in it; its figures as JSON.
pub(crate) fn start(args: &AsleepArgs) -> Result<String> {
    let figures = run(async {
        let began = Instant::now();
        let place = Place::at(&args.dir).await?;
        let opened = began.elapsed().as_secs_f64();
        let actions = Actions::for_agent(&place.sys, place.log.clone(), AGENT);
        let start = |session: SessionId, _: Lease| async move {
            Err(agent::AgentError::Unreadable(format!("{session} should rest")))
        };
        let fleet = launch(&place, &actions, start)?;
        fleet.surveyed().await;
        let seconds = began.elapsed().as_secs_f64();
        let name = format!("{} sessions asleep", args.count);
        let mut figures = Figures::default();
        figures.amount(&format!("{name}: the log is open"), opened, "s");
        figures.amount(&format!("{name}: it is known that they rest"), seconds, "s");
        figures.amount(&format!("{name}: time on the processor"), cpu_seconds()?, "s");
        figures.amount(&format!("{name}: peak of memory"), peak_mib()?, "MiB");
        fleet.shutdown().await;
        place.close().await;
        Ok(figures)
    })?;
    Ok(serde_json::to_string(&figures)?)
}

fn peak_mib() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: f64 = kilobytes.context("no VmHWM in /proc/self/status")?.trim().parse()?;
    Ok(kilobytes / 1024.0)
}

/// Time of all threads on the processor so far.
fn cpu_seconds() -> Result<f64> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(now.tv_sec as f64 + now.tv_nsec as f64 / 1e9)
}
