//! Starting over many sessions that rest. Each start has a process of its own, so that its memory
//! and its time on the processor can be told: one that knows when it has found that all rest, and
//! the real `headwater dev`, which does not say so.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use agent::Lease;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use sessions::{Actions, SessionId, caps::AGENT_IDLE_DEFAULT};

use super::{
    dev::Dev,
    history::{self, AGENT},
    model_server,
    wakes::launch,
};
use crate::{
    agent::{
        figures::Figures,
        place::{Place, run},
    },
    process::Process,
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

/// The name of the figures of the process that says when it knows that all rest.
pub(super) fn name(count: usize) -> String {
    format!("{count} sessions asleep")
}

/// The name of the figures of the real program.
pub(super) fn dev_name(count: usize) -> String {
    format!("{count} sessions asleep, headwater dev")
}

/// Makes so many sessions, lets a process find that they rest, and measures the next starts.
pub(super) fn measure(root: &Path, binary: &Path, count: usize) -> Result<Figures> {
    let dir = DataDir::create(root)?;
    let data = dir.server_data();
    run(make(&data, count))?;
    // The first start looks at each session once; from then on it is known that they rest.
    let first = start_in_process(count, &data)?;
    let mut figures = start_in_process(count, &data)?;
    let seconds = first.amount_of(&format!("{}: it is known that they rest", name(count)));
    let seconds = seconds.context("the first start took some time")?;
    figures.amount(&format!("{}: the first start, without an index", name(count)), seconds, "s");
    figures.add(start_dev(binary, &data, count)?);
    Ok(figures)
}

fn start_dev(binary: &Path, data: &Path, count: usize) -> Result<Figures> {
    let model = model_server::start()?;
    let began = Instant::now();
    let dev = Dev::start(binary, data, model)?;
    let ready = began.elapsed().as_secs_f64();
    dev.settle()?;
    let (name, process) = (dev_name(count), dev.process());
    let mut figures = Figures::default();
    figures.amount(&format!("{name}: ready"), ready, "s");
    figures.amount(&format!("{name}: time on the processor"), process.cpu_seconds()?, "s");
    figures.amount(&format!("{name}: memory"), process.resident_mb()?, "MB");
    figures.amount(&format!("{name}: peak of memory"), process.resident_mb_peak()?, "MB");
    dev.stop()?;
    Ok(figures)
}

async fn make(dir: &Path, count: usize) -> Result<()> {
    let place = Place::at(dir).await?;
    let made = stream::iter(0..count).map(|number| {
        let place = &place;
        async move {
            let address = place.session(&format!("asleep-{number}")).await?;
            history::fill_as_agent(place, &address, MESSAGES).await
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
    let process = Process::current();
    let figures = run(async {
        let began = Instant::now();
        let place = Place::at(&args.dir).await?;
        let (opened, opened_mb) = (began.elapsed().as_secs_f64(), process.resident_mb()?);
        let actions = Actions::for_agent(&place.sys, place.log.clone(), AGENT);
        let start = |session: SessionId, _: Lease| async move {
            Err(agent::AgentError::Unreadable(format!("{session} should rest")))
        };
        let fleet = launch(&place, &actions, AGENT_IDLE_DEFAULT, start)?;
        fleet.surveyed().await;
        let seconds = began.elapsed().as_secs_f64();
        let name = name(args.count);
        let mut figures = Figures::default();
        figures.amount(&format!("{name}: the log is open"), opened, "s");
        figures.amount(&format!("{name}: memory with the log open"), opened_mb, "MB");
        figures.amount(&format!("{name}: it is known that they rest"), seconds, "s");
        figures.amount(&format!("{name}: time on the processor"), process.cpu_seconds()?, "s");
        figures.amount(&format!("{name}: memory"), process.resident_mb()?, "MB");
        figures.amount(&format!("{name}: peak of memory"), process.resident_mb_peak()?, "MB");
        fleet.shutdown().await;
        place.close().await;
        Ok(figures)
    })?;
    Ok(serde_json::to_string(&figures)?)
}
