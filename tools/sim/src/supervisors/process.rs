//! One process: a supervisor, and the log as it reaches it.

use std::{sync::Arc, time::Duration};

use agent::{Agent, Home, Lease, session::Sessions};
use chat::{Effect, Tool};
use log::Log;
use providers::scripted::{Call, Order, Pace, Scripted, Turn};
use serde_json::json;
use sessions::{Fleet, FleetSettings, SessionId};
use sys::{Clock, Sys, UnixMs};

use super::{
    BEGINNING, SLOW_PERCENT, Scene,
    executor::{MEASURE, SEND},
};
use crate::{
    dice::Dice,
    line::Line,
    oracle::{Verdict, Violation},
};

pub(super) const AGENT: &str = "assistant";
/// Turns that a model has to say in one session.
const TURNS: u64 = 200;
/// Wall clocks are wrong by up to so many milliseconds.
const SKEW_MS_MAX: u64 = 2 * 24 * 3_600 * 1_000;
/// How long a call elsewhere may take.
const CALL_MAX: Duration = Duration::from_hours(1);

/// A process with a supervisor.
#[derive(Debug)]
pub(super) struct Process {
    fleet: Fleet,
    line: Arc<Line>,
    supervisor: Arc<parking_lot::Mutex<Option<String>>>,
}

impl Process {
    pub(super) fn start(
        scene: &Arc<Scene>,
        log: Arc<dyn Log>,
        home: Option<Home>,
        dice: &Dice,
    ) -> Verdict<Self> {
        // Wall clocks differ by days.
        let wall = BEGINNING.get() - SKEW_MS_MAX + dice.between(0..=2 * SKEW_MS_MAX);
        let sys = Sys { clock: Clock::simulated(UnixMs::new(wall)), ..scene.sys.clone() };
        let line = Line::new(&scene.sys, log, dice, SLOW_PERCENT, &scene.tally);
        let supervisor = Arc::new(parking_lot::Mutex::new(None));
        let (owned, wired, known) = (sys.clone(), line.clone(), supervisor.clone());
        let (seed, by) = (scene.seed, scene.clone());
        let start = move |session: SessionId, lease: Lease| {
            by.note(&format!("{} starts {session} after {}", lease.supervisor, lease.after));
            *known.lock() = Some(lease.supervisor.clone());
            let model = model_of(seed, &session, &owned);
            let agent = Agent::builder(AGENT).model(Arc::new(model));
            let agent = agent.tools(tools_elsewhere()).lease(lease);
            let agent = agent.session(wired.clone(), session.path().clone());
            let sys = owned.clone();
            async move { agent.start(&sys).await }
        };
        let settings = FleetSettings {
            running_max: dice.between(1..=4) as usize,
            waiting_max: dice.between(0..=2) as usize,
            warm_max: dice.between(0..=2) as usize,
            home,
            ..FleetSettings::default()
        };
        let sessions = Sessions::new(&sys, line.clone());
        let fleet = Fleet::launch(&sys, &sessions, AGENT, settings, start);
        let fleet =
            fleet.map_err(|error| Violation(format!("a supervisor cannot begin: {error}")))?;
        Ok(Self { fleet, line, supervisor })
    }

    /// It is gone, without a word.
    pub(super) fn kill(self, scene: &Scene) {
        self.line.kill();
        scene.dead.lock().extend(self.supervisor.lock().clone());
        drop(self.fleet);
    }

    /// It ends in peace; tells which supervisor it was.
    pub(super) async fn shut_down(self) -> Option<String> {
        self.line.connect();
        self.fleet.shutdown().await;
        self.supervisor.lock().clone()
    }

    /// The log as it reaches it.
    pub(super) fn line(&self) -> &Line {
        &self.line
    }
}

/// The tools that the agent knows; executors run them.
fn tools_elsewhere() -> impl Iterator<Item = Tool> {
    let tools = [(MEASURE, Effect::Idempotent), (SEND, Effect::Once)].map(|(name, effect)| {
        Tool::builder(name, "Runs elsewhere.").effect(effect).time_max(CALL_MAX).client()
    });
    tools.into_iter().flatten()
}

/// What the model says in a session: the same in every process.
fn model_of(seed: u64, session: &SessionId, sys: &Sys) -> Scripted {
    let number = session.as_str().bytes().last().map_or(0, u64::from);
    let dice = Dice::new(seed ^ (number << 32));
    let turns = (0..TURNS).map(|_| {
        let turn = Turn::new().pause_ms(dice.magnitude(1..=16_000));
        match dice.between(0..=99) {
            0..7 => turn.call(MEASURE, json!({})),
            7..14 => turn.call(SEND, json!({})),
            14 => turn.calls([MEASURE, SEND].map(|name| Call::new(name, json!({})))),
            _ => turn.text("word ".repeat(dice.between(1..=5) as usize)),
        }
    });
    let model = Scripted::ordered(turns.collect(), Order::ByConversation, sys.clone());
    model.pace(Pace::per_word(Duration::from_millis(dice.magnitude(1..=400))))
}
