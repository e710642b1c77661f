//! A tool in another process: the agent here, its executor there, and HTTP between them.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use agent::{
    Agent, ToolExecutor,
    rows::{Claim, ToolCall},
};
use anyhow::{Context as _, Result, ensure};
use chat::{Effect, Strategy, Tool, ToolContext};
use clap::Args;
use client::{Client, HttpLog};
use serde_json::Value;
use sys::Sys;

use super::{
    figures::{Figures, Samples},
    models::{Caller, Moment, Notes, TOOL},
    place::{Place, open_db, path_of, run},
    steps,
};

const SESSION: &str = "far";
/// What the other process says when it is there.
const READY: &str = "ready";

/// Where the executor works.
#[derive(Debug, Args)]
pub(crate) struct ExecutorArgs {
    /// The server.
    url: String,
}

/// So many turns, each with a call.
pub(super) async fn measure(root: &Path, turns: u32) -> Result<Figures> {
    let place = Place::open(root).await?;
    let address = place.session(SESSION).await?;
    let served = place.serve().await?;
    let mut executor = Executor::start(&served.url)?;
    let notes = Notes::default();
    let tool = Tool::builder(TOOL, "Does nothing.").effect(Effect::Pure).client()?;
    let agent = Agent::builder("assistant")
        .model(Arc::new(Caller::new(turns, notes.clone())))
        .tool(tool)
        .strategy(Strategy::TurnsMax(turns))
        .session(Arc::clone(&place.log), address.clone())
        .start(&place.sys)
        .await?;
    agent.idle().await?;
    steps::answered(&place, &address, &agent, 0).await?;
    let mut samples = Samples::default();
    for pair in notes.take().windows(2) {
        let [(before, from), (after, to)] = [pair[0], pair[1]];
        if (before, after) == (Moment::ModelEnded, Moment::ModelAsked) {
            samples.push(from, to);
        }
    }
    agent.stop().await?;
    let (_, completed) = place.weigh(&address).await?;
    ensure!(completed == 1, "the generation has not completed");
    executor.stop()?;
    served.stop().await?;
    place.close().await;
    let mut figures = Figures::default();
    let name = "model asks to model goes on, tool in another process";
    figures.latencies.push(samples.latency(name, Some(steps::FLOOR))?);
    Ok(figures)
}

/// The other process. It is killed when dropped.
struct Executor(Child);

impl Executor {
    /// Comes back when it watches for calls.
    fn start(url: &str) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["agent-executor", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the executor")?;
        let output = child.stdout.take();
        let executor = Self(child);
        let mut line = String::new();
        BufReader::new(output.context("the executor has no output")?).read_line(&mut line)?;
        ensure!(line.trim() == READY, "the executor has not started");
        Ok(executor)
    }

    fn stop(&mut self) -> Result<()> {
        drop(self.0.stdin.take());
        let status = self.0.wait()?;
        ensure!(status.success(), "the executor has failed: {status}");
        Ok(())
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The life of the other process: runs tools until its input ends.
pub(crate) fn execute(args: &ExecutorArgs) -> Result<()> {
    run(async {
        let sys = Sys::real();
        let client = Client::connect(&sys, client::Settings::new(&args.url)?).await?;
        let log = Arc::new(HttpLog::new(client));
        let db = open_db(log, &path_of(SESSION)?.into(), &sys).await?;
        let tool = Tool::builder(TOOL, "Does nothing.").effect(Effect::Pure);
        let tool = tool.run(|_: Value, _: ToolContext| async { Ok("Done.") })?;
        let executor = ToolExecutor::builder(db.rows::<ToolCall>()?).tool(tool);
        let executor = executor.claims(db.rows::<Claim>()?).start()?;
        println!("{READY}");
        let input = || std::io::stdin().read_to_end(&mut Vec::new());
        tokio::task::spawn_blocking(input).await??;
        executor.dispose().await;
        db.close().await;
        Ok(())
    })
}
