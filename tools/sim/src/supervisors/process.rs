//! One process: a supervisor, and the log as it reaches it.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use agent::{Agent, Home, Lease, session::Sessions};
use chat::Tool;
use log::{
    Answer, Append, AppendError, Appended, Chunk, Hints, Layer, Log, Moved, ReadError, Unavailable,
    Watch, WatchError,
};
use providers::scripted::{Order, Pace, Scripted, Turn};
use serde_json::json;
use sessions::{Fleet, FleetSettings, SessionId};
use sys::{Clock, Sys, UnixMs};
use wire::{Address, Glob, ReadFrom};

use super::{BEGINNING, Scene};
use crate::{
    dice::Dice,
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

/// The log as a process reaches it.
#[derive(Debug)]
pub(super) struct Line {
    scene: Arc<Scene>,
    behind: Arc<dyn Log>,
    dice: Dice,
    state: AtomicU8,
    /// Hints that will not arrive.
    to_lose: Arc<AtomicU64>,
    // Held for a walk over the feeds.
    feeds: parking_lot::Mutex<Vec<Arc<Feed>>>,
}

/// The hints of one watch.
#[derive(Debug)]
struct Feed {
    hints: Hints,
    /// Whether hints were lost and the watcher does not know.
    owes_resync: AtomicBool,
}

const WELL: u8 = 0;
const CUT_OFF: u8 = 1;
const DEAD: u8 = 2;

impl Process {
    pub(super) fn start(
        scene: &Arc<Scene>,
        log: Arc<dyn Log>,
        home: Option<Home>,
        dice: &Dice,
    ) -> Verdict<Self> {
        let wall = BEGINNING.get() - SKEW_MS_MAX + dice.between(0..=2 * SKEW_MS_MAX);
        let sys = Sys { clock: Clock::simulated(UnixMs::new(wall)), ..scene.sys.clone() };
        let line = Arc::new(Line {
            scene: scene.clone(),
            behind: log,
            dice: dice.split(),
            state: AtomicU8::new(WELL),
            to_lose: Arc::default(),
            feeds: parking_lot::Mutex::default(),
        });
        let supervisor = Arc::new(parking_lot::Mutex::new(None));
        let (owned, wired, known) = (sys.clone(), line.clone(), supervisor.clone());
        let (seed, by) = (scene.seed, scene.clone());
        let start = move |session: SessionId, lease: Lease| {
            by.note(&format!("{} starts {session} after {}", lease.supervisor, lease.after));
            *known.lock() = Some(lease.supervisor.clone());
            let model = model_of(seed, &session, &owned);
            let tool = Tool::builder("measure", "Runs elsewhere.").time_max(CALL_MAX).client();
            let agent = Agent::builder(AGENT).model(Arc::new(model));
            let agent = agent.tools(tool).lease(lease);
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
        self.line.state.store(DEAD, Ordering::Relaxed);
        scene.dead.lock().extend(self.supervisor.lock().clone());
        drop(self.fleet);
    }

    /// It ends in peace; tells which supervisor it was.
    pub(super) async fn shut_down(self) -> Option<String> {
        self.line.state.store(WELL, Ordering::Relaxed);
        self.fleet.shutdown().await;
        self.supervisor.lock().clone()
    }

    /// It reaches the log, or does not.
    pub(super) fn connect(&self, is_well: bool) {
        self.line.state.store(if is_well { WELL } else { CUT_OFF }, Ordering::Relaxed);
    }

    /// Faults stop: it reaches the log. Only a watch that lost hints is told to resync: any other
    /// resync would make up for a wake-up that the supervisor itself has missed.
    pub(super) fn recover(&self) {
        self.connect(true);
        self.line.to_lose.store(0, Ordering::Relaxed);
        for feed in self.line.feeds.lock().iter() {
            if feed.owes_resync.swap(false, Ordering::Relaxed) {
                self.line.scene.met.lock().resyncs_owed += 1;
                feed.hints.tell(Moved::Resync);
            }
        }
    }

    pub(super) fn lose_hints(&self, count: u64) {
        self.line.to_lose.store(count, Ordering::Relaxed);
    }
}

/// What the model says in a session: the same in every process.
fn model_of(seed: u64, session: &SessionId, sys: &Sys) -> Scripted {
    let number = session.as_str().bytes().last().map_or(0, u64::from);
    let dice = Dice::new(seed ^ (number << 32));
    let turns = (0..TURNS).map(|_| {
        let turn = Turn::new().pause_ms(dice.magnitude(1..=16_000));
        match dice.percent(15) {
            true => turn.call("measure", json!({})),
            false => turn.text("word ".repeat(dice.between(1..=5) as usize)),
        }
    });
    let model = Scripted::ordered(turns.collect(), Order::ByConversation, sys.clone());
    model.pace(Pace::per_word(Duration::from_millis(dice.magnitude(1..=400))))
}

impl Line {
    /// Waits as long as a request is on its way; tells whether it gets through.
    async fn passes(&self) -> Result<(), Unavailable> {
        if self.dice.percent(10) {
            self.scene.sys.clock.sleep(self.dice.pause()).await;
        }
        match self.state.load(Ordering::Relaxed) {
            WELL => Ok(()),
            CUT_OFF => Err(Unavailable::Unreachable("cut off".into())),
            _ => pending().await,
        }
    }
}

impl Layer for Line {
    fn behind(&self) -> &dyn Log {
        &*self.behind
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            self.passes().await?;
            let appended = self.behind.append(address, append).await;
            // The answer may be lost, too.
            self.passes().await?;
            appended
        })
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async move {
            self.passes().await?;
            self.behind.read(address, from, bytes_max).await
        })
    }

    fn watch(&self, glob: Glob) -> Result<Watch, WatchError> {
        let mut inner = self.behind.watch(glob)?;
        let (hints, watch) = Watch::fed();
        let feed = Arc::new(Feed { hints, owes_resync: AtomicBool::new(false) });
        self.feeds.lock().push(feed.clone());
        let (to_lose, scene) = (self.to_lose.clone(), self.scene.clone());
        self.scene.sys.spawn.task("hints", async move {
            while let Some(hint) = inner.next().await {
                let lost = to_lose.load(Ordering::Relaxed);
                let hint = match lost {
                    0 => hint,
                    _ => {
                        to_lose.store(lost - 1, Ordering::Relaxed);
                        scene.met.lock().hints_lost += 1;
                        // That some were lost is told with the last of them.
                        feed.owes_resync.store(lost > 1, Ordering::Relaxed);
                        if lost > 1 {
                            continue;
                        }
                        Moved::Resync
                    }
                };
                if !feed.hints.tell(hint) {
                    return;
                }
            }
        });
        Ok(watch)
    }
}
