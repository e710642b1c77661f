//! Many generations: a hundred at once in one session, and one in each of many sessions. Each
//! crowd has a process of its own, so that its memory can be told.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use agent::Agent;
use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use futures_util::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};

use super::{
    figures::Figures,
    models::{Notes, Talker},
    place::{Place, run},
};

/// Words of an answer in the one session, and their pace: an answer takes a second.
const WORDS_PACED: u32 = 100;
const PACE: Duration = Duration::from_millis(10);
/// Words of an answer in one of many sessions, all at once.
const WORDS: u32 = 20;
/// Agents that are alive at a time, where there are many sessions.
const ALIVE_MAX: usize = 100;

/// Which generations there are.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Crowd {
    /// All in one session.
    Together,
    /// Each in its own.
    Apart,
}

/// How many generations there are, of which kind, and where.
#[derive(Debug, Args)]
pub(crate) struct CrowdArgs {
    crowd: Crowd,
    count: usize,
    root: PathBuf,
}

/// Plays a crowd in a process of its own.
pub(super) fn measure(root: &Path, crowd: Crowd, count: usize) -> Result<Figures> {
    let name = crowd.to_possible_value().context("a crowd has a name")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("agent-crowd").arg(name.get_name()).arg(count.to_string()).arg(root);
    let output = command.output().context("cannot start the crowd")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the crowd has failed: {errors}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Plays a crowd; its figures as JSON.
pub(crate) fn gather(args: &CrowdArgs) -> Result<String> {
    let figures = run(async {
        let place = Place::open(&args.root).await?;
        let (seconds, name) = match args.crowd {
            Crowd::Together => {
                let name = format!("{} generations at once in one session", args.count);
                (together(&place, args.count).await?, name)
            }
            Crowd::Apart => {
                let name = format!(
                    "{} sessions with a generation each, {ALIVE_MAX} alive at a time",
                    args.count
                );
                (apart(&place, args.count).await?, name)
            }
        };
        let mut figures = Figures::default();
        figures.amount(&name, seconds, "s");
        figures.amount(&format!("{name}: rate"), args.count as f64 / seconds, "generations/s");
        figures.amount(&format!("{name}: peak of memory"), resident_mib_peak()?, "MiB");
        place.close().await;
        Ok(figures)
    })?;
    Ok(serde_json::to_string(&figures)?)
}

/// From the one append that asks all agents until the last has answered, in seconds.
async fn together(place: &Place, count: usize) -> Result<f64> {
    let address = place.session("crowd").await?;
    let mut agents = Vec::new();
    for number in 0..count {
        let model = Talker::new(WORDS_PACED, Some(PACE), Notes::default());
        let agent = Agent::builder(format!("agent-{number}")).model(Arc::new(model));
        let agent = agent.session(Arc::clone(&place.log), address.clone());
        agents.push(agent.start(&place.sys).await?);
    }
    for agent in &agents {
        agent.idle().await?;
    }
    let question = |number| place.question(&format!("m{number}"), &format!("agent-{number}"));
    let questions: Vec<_> = (0..count).map(question).collect();
    let answers = agents.iter().map(|agent| async {
        agent.busy().await;
        agent.idle().await
    });
    let began = Instant::now();
    place.insert(&address, &questions).await?;
    try_join_all(answers).await?;
    let seconds = began.elapsed().as_secs_f64();
    for agent in agents {
        agent.stop().await?;
    }
    let (_, completed) = place.weigh(&address).await?;
    ensure!(completed == count, "{completed} of {count} have completed");
    Ok(seconds)
}

/// Makes each session, asks, starts its agent, waits for the answer and stops it, in seconds.
async fn apart(place: &Place, count: usize) -> Result<f64> {
    let began = Instant::now();
    let sessions = stream::iter(0..count).map(|number| async move {
        let address = place.session(&format!("crowd-{number}")).await?;
        place.insert(&address, &[place.question("m1", "assistant")]).await?;
        let model = Talker::new(WORDS, None, Notes::default());
        let agent = Agent::builder("assistant").model(Arc::new(model));
        let agent = agent.session(Arc::clone(&place.log), address.clone());
        let agent = agent.start(&place.sys).await?;
        agent.idle().await?;
        agent.stop().await?;
        anyhow::Ok(address)
    });
    let sessions: Vec<_> = sessions.buffer_unordered(ALIVE_MAX).try_collect().await?;
    let seconds = began.elapsed().as_secs_f64();
    for address in &sessions {
        let (_, completed) = place.weigh(address).await?;
        ensure!(completed == 1, "{address} has no answer");
    }
    Ok(seconds)
}

fn resident_mib_peak() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: f64 = kilobytes.context("no VmHWM in /proc/self/status")?.trim().parse()?;
    Ok(kilobytes / 1024.0)
}
