//! A process that runs calls for sessions, under claims, and the log as it reaches it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use agent::{
    ToolExecutor,
    caps::CLAIM_SLACK,
    rows::{self, Claim, ToolCall},
};
use chat::{Effect, Tool, ToolContext};
use live::StreamDb;
use log::Log;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sessions::SessionId;
use sys::{Clock, Sys, UnixMs};

use super::{SLOW_PERCENT, Scene, calls::Run};
use crate::{dice::Dice, line::Line};

/// A tool that may run again under the same key.
pub(super) const MEASURE: &str = "measure";
/// A tool that must not run twice.
pub(super) const SEND: &str = "send";
/// How long a tool may take.
const TOOL_MAX: Duration = Duration::from_secs(8);
const TOOL_MS_MAX: u64 = 6_000;
/// How much longer its claim holds.
const MARGIN: Duration = Duration::from_secs(4);
/// How long a claim holds.
pub(super) const CLAIM_LEASE: Duration = TOOL_MAX.saturating_add(MARGIN);
/// Wall clocks of executors are wrong by up to so many milliseconds: two of them differ by no more
/// than claims allow for.
const SKEW_MS_MAX: u64 = CLAIM_SLACK.as_secs() * 1_000 / 2;

/// A process with an executor for each session.
#[derive(Debug)]
pub(super) struct Executor {
    name: String,
    sys: Sys,
    line: Arc<Line>,
    dice: Dice,
    served: BTreeSet<SessionId>,
    // Held to add one.
    running: Arc<Mutex<Vec<(StreamDb, ToolExecutor)>>>,
}

impl Executor {
    pub(super) fn start(scene: &Scene, log: Arc<dyn Log>, dice: &Dice) -> Self {
        let skew_ms = dice.between(0..=2 * SKEW_MS_MAX).cast_signed() - SKEW_MS_MAX.cast_signed();
        let wall = scene.sys.clock.unix_ms().get().saturating_add_signed(skew_ms);
        let sys = Sys { clock: Clock::simulated(UnixMs::new(wall)), ..scene.sys.clone() };
        Self {
            name: scene.calls.lock().enlist(skew_ms),
            sys,
            line: Line::new(&scene.sys, log, dice, SLOW_PERCENT, &scene.tally),
            dice: dice.split(),
            served: BTreeSet::new(),
            running: Arc::default(),
        }
    }

    /// Runs what a session asks for, from now on.
    pub(super) fn serve(&mut self, scene: &Arc<Scene>, session: &SessionId) {
        if !self.served.insert(session.clone()) {
            return;
        }
        let tools = [(MEASURE, Effect::Idempotent), (SEND, Effect::Once)];
        let tools: Vec<_> =
            tools.into_iter().filter_map(|it| self.tool(scene, it.0, it.1)).collect();
        let log: Arc<dyn Log> = self.line.clone();
        let builder = StreamDb::builder(log, session.path().clone(), &self.sys);
        let db = rows::session(builder).open();
        let (name, concurrency) = (self.name.clone(), self.dice.between(1..=3) as usize);
        let (scene, session, running) = (scene.clone(), session.clone(), self.running.clone());
        self.sys.spawn.task("executor of a session", async move {
            let begun = begin(db, tools, name, &session, concurrency).await;
            match begun {
                Ok(begun) => running.lock().push(begun),
                Err(why) => scene.note(&format!("{session} is not served: {why}")),
            }
        });
    }

    /// A tool that takes its time, and says who ran it.
    fn tool(&self, scene: &Arc<Scene>, name: &str, effect: Effect) -> Option<Tool> {
        let (scene, sys, by) = (scene.clone(), self.sys.clone(), self.name.clone());
        let dice = self.dice.split();
        let run = move |_: Value, context: ToolContext| {
            let (attempt, by) = (context.attempt(), by.clone());
            let run = Run { at: scene.sys.clock.unix_ms(), attempt, by: by.clone() };
            scene.note(&format!("{} runs: {run:?}", context.idempotency_key()));
            scene.calls.lock().ran(context.idempotency_key(), run);
            let (sys, ms) = (sys.clone(), dice.magnitude(1..=TOOL_MS_MAX));
            async move {
                sys.clock.sleep(Duration::from_millis(ms)).await;
                Ok(json!({ "by": by, "attempt": attempt }))
            }
        };
        Tool::builder(name, "Runs here.").effect(effect).time_max(TOOL_MAX).run(run).ok()
    }

    /// It is gone, without a word.
    pub(super) fn kill(self) {
        self.line.kill();
        self.running.lock().clear();
    }

    /// It ends in peace.
    pub(super) async fn dispose(self) {
        let running = std::mem::take(&mut *self.running.lock());
        for (_db, executor) in running {
            executor.dispose().await;
        }
    }

    /// The log as it reaches it.
    pub(super) fn line(&self) -> &Line {
        &self.line
    }
}

async fn begin(
    db: Result<StreamDb, live::DbError>,
    tools: Vec<Tool>,
    name: String,
    session: &SessionId,
    concurrency: usize,
) -> Result<(StreamDb, ToolExecutor), String> {
    let db = db.map_err(|error| error.to_string())?;
    db.ready().await.map_err(|error| error.to_string())?;
    let calls = db.rows::<ToolCall>().map_err(|error| error.to_string())?;
    let claims = db.rows::<Claim>().map_err(|error| error.to_string())?;
    let executor = ToolExecutor::builder(calls)
        .claims(claims)
        .name(name)
        .key_prefix(format!("{session}/"))
        .lease_margin(MARGIN)
        .concurrency(concurrency)
        .tools(tools)
        .start()
        .map_err(|error| error.to_string())?;
    Ok((db, executor))
}
