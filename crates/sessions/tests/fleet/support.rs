//! A world of sessions on a simulated clock.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent::{
    Agent, AgentBuilder, AgentError, Lease,
    rows::{self, CallStatus, Generation, GenerationStatus, ToolCall},
    session::Sessions,
};
use chat::Tool;
use live::StreamDb;
use log::{
    Answer, Append, AppendError, Appended, Chunk, Freshness, Layer, Log, MemoryLog, ReadError,
};
use parking_lot::Mutex;
use providers::scripted::{Order, Scripted, Turn};
use serde_json::{Value, json};
use sessions::{Actions, Deed, Fleet, FleetSettings, Say, SessionId};
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wire::{Address, ReadFrom};

pub(crate) struct World {
    pub(crate) sys: Sys,
    pub(crate) log: Arc<dyn Log>,
    /// The log as supervisors see it.
    pub(crate) watched: Arc<dyn Log>,
    pub(crate) actions: Actions,
    pub(crate) started: Arc<AtomicUsize>,
    /// Whether each supervisor's process lives.
    running: Mutex<VecDeque<Arc<AtomicBool>>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let disk = SimDisk::new(1, SimFaults::default());
        let sys = Sys::simulated(1, disk, UnixMs::new(1_000_000_000_000));
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let actions = Actions::for_agent(&sys, log.clone(), "assistant");
        Self {
            sys,
            watched: log.clone(),
            log,
            actions,
            started: Arc::default(),
            running: Mutex::default(),
        }
    }

    /// A fleet whose first agents cannot be started.
    pub(crate) fn launch(&self, settings: FleetSettings, failures: usize) -> Fleet {
        let (sys, log, started) = (self.sys.clone(), self.log.clone(), self.started.clone());
        let start = move |session: SessionId, lease: Lease| {
            let (sys, log) = (sys.clone(), log.clone());
            let count = started.fetch_add(1, Ordering::Relaxed);
            async move {
                if count < failures {
                    return Err(AgentError::Unreadable("not yet".to_owned()));
                }
                let agent = Agent::builder("assistant");
                let agent = agent.model(Arc::new(Scripted::demo(sys.clone()))).lease(lease);
                agent.session(log, session.path().clone()).start(&sys).await
            }
        };
        let sessions = Sessions::new(&self.sys, self.watched.clone());
        Fleet::launch(&self.sys, &sessions, "assistant", settings, start).unwrap()
    }

    /// A fleet of agents that are built so.
    pub(crate) fn launch_of(
        &self,
        settings: FleetSettings,
        build: impl Fn(&SessionId) -> AgentBuilder + Send + Sync + 'static,
    ) -> Fleet {
        let is_alive = Arc::new(AtomicBool::new(true));
        self.running.lock().push_back(is_alive.clone());
        let wired = |inner| Arc::new(Process { inner, is_alive: is_alive.clone() });
        let (log, watched) = (wired(self.log.clone()), wired(self.watched.clone()));
        let (sys, started) = (self.sys.clone(), self.started.clone());
        let start = move |session: SessionId, lease: Lease| {
            started.fetch_add(1, Ordering::Relaxed);
            let agent = build(&session).lease(lease).session(log.clone(), session.path().clone());
            let sys = sys.clone();
            async move { agent.start(&sys).await }
        };
        let sessions = Sessions::new(&self.sys, watched);
        Fleet::launch(&self.sys, &sessions, "assistant", settings, start).unwrap()
    }

    /// An agent that lets others measure, and then tells.
    pub(crate) fn measuring(&self, time_max: Duration) -> AgentBuilder {
        let turns = [Turn::new().call("measure", json!({})), Turn::new().text("Measured.")];
        let script = turns.into_iter().collect();
        let model = Scripted::ordered(script, Order::ByConversation, self.sys.clone());
        let tool = Tool::builder("measure", "Runs elsewhere.").time_max(time_max);
        Agent::builder("assistant").model(Arc::new(model)).tool(tool.client().unwrap())
    }

    pub(crate) async fn open(&self, session: &SessionId) -> StreamDb {
        let db = StreamDb::builder(self.log.clone(), session.path().clone(), &self.sys);
        let db = rows::session(db).open().unwrap();
        db.ready().await.unwrap();
        db
    }

    /// Waits until a session has asked somebody to measure.
    pub(crate) async fn asked(&self, session: &SessionId) {
        let calls = self.open(session).await.rows::<ToolCall>().unwrap();
        let mut changes = calls.changes().unwrap();
        while calls.is_empty() {
            changes.next().await;
        }
    }

    /// Somebody has measured.
    pub(crate) async fn measure(&self, session: &SessionId) {
        let db = self.open(session).await;
        let calls = db.rows::<ToolCall>().unwrap();
        let id = calls.rows()[0].id.clone();
        let answered = calls.update(id.as_str(), |row| {
            row.status = CallStatus::Completed;
            row.result = Some(json!("3 mm"));
        });
        answered.unwrap().settled().await.unwrap();
    }

    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    pub(crate) async fn rest(&self, time: Duration) {
        self.sys.clock.sleep(time).await;
    }

    pub(crate) async fn say(&self, session: &SessionId, text: &str) {
        let _ = self.actions.create(session).await.unwrap();
        let say = Say { id: None, text: text.to_owned(), target_agent: None };
        self.actions.act(session, "ada", Deed::Say(say)).await.unwrap();
    }

    /// Waits until so many generations of a session are complete.
    pub(crate) async fn answered(&self, session: &SessionId, count: usize) {
        let db = StreamDb::builder(self.log.clone(), session.path().clone(), &self.sys);
        let db = db.with::<Generation>().open().unwrap();
        db.ready().await.unwrap();
        let generations = db.rows::<Generation>().unwrap();
        let mut changes = generations.changes().unwrap();
        let is_done = |row: &live::RowRef<Generation>| row.status == GenerationStatus::Completed;
        while generations.rows().iter().filter(|row| is_done(row)).count() < count {
            changes.next().await;
        }
    }

    /// Waits until so many generations of a session are over, however they ended.
    pub(crate) async fn over(&self, session: &SessionId, count: usize) {
        let db = self.open(session).await;
        let generations = db.rows::<Generation>().unwrap();
        let mut changes = generations.changes().unwrap();
        let is_over = |row: &live::RowRef<Generation>| row.status.is_terminal();
        while generations.rows().iter().filter(|row| is_over(row)).count() < count {
            changes.next().await;
        }
    }

    /// The generations of a session.
    pub(crate) async fn generations(&self, session: &SessionId) -> Vec<Generation> {
        let db = self.open(session).await;
        let rows = db.rows::<Generation>().unwrap().rows();
        rows.iter().map(|row| (**row).clone()).collect()
    }

    /// All messages of a session.
    async fn lines(&self, session: &SessionId) -> Vec<Value> {
        let address = session.path().clone().into();
        let (mut from, mut rows) = (ReadFrom::Start, Vec::new());
        loop {
            let chunk = self.log.read(&address, from, 1 << 20).await.unwrap();
            let lines = chunk.messages().map(|line| serde_json::from_slice::<Value>(line).unwrap());
            rows.extend(lines);
            if chunk.freshness != Freshness::Behind {
                return rows;
            }
            from = ReadFrom::At(chunk.next);
        }
    }

    /// How often a runner of a session was taken over that had not released it.
    pub(crate) async fn takeovers(&self, session: &SessionId) -> usize {
        let mut rows = self.lines(session).await;
        rows.retain(|line| line["type"] == "runner");
        let claims = rows.windows(2).filter(|two| {
            let (before, after) = (&two[0]["value"], &two[1]["value"]);
            before["epoch"] != after["epoch"] && before["releasedAt"].is_null()
        });
        claims.count()
    }

    /// How often the agent of a session was claimed.
    pub(crate) async fn claims(&self, session: &SessionId) -> usize {
        let mut rows = self.lines(session).await;
        rows.retain(|line| line["type"] == "runner");
        rows.dedup_by_key(|line| line["value"]["epoch"].as_u64());
        rows.len()
    }

    /// The supervisor of each claim of the agent of a session, in order.
    pub(crate) async fn supervisors(&self, session: &SessionId) -> Vec<String> {
        let mut rows = self.lines(session).await;
        rows.retain(|line| line["type"] == "runner");
        rows.dedup_by_key(|line| line["value"]["epoch"].as_u64());
        rows.iter().map(|row| row["value"]["supervisor"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until each session has an answer, however it ended.
    pub(crate) async fn over_all(&self, sessions: &[SessionId]) {
        for session in sessions {
            self.over(session, 1).await;
        }
    }

    /// Ends the oldest supervisor and its agents at once, as the death of their process would.
    pub(crate) fn kill(&self, fleet: Fleet) {
        let oldest = self.running.lock().pop_front().unwrap();
        oldest.store(false, Ordering::Relaxed);
        drop(fleet);
    }

    /// How many messages of a type a session has.
    pub(crate) async fn count_of(&self, session: &SessionId, type_name: &str) -> usize {
        self.lines(session).await.iter().filter(|line| line["type"] == type_name).count()
    }
}

/// The log as one process has it: once that is dead, nothing comes or goes.
#[derive(Debug)]
struct Process {
    inner: Arc<dyn Log>,
    is_alive: Arc<AtomicBool>,
}

impl Process {
    async fn lives(&self) {
        if !self.is_alive.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }
}

impl Layer for Process {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            self.lives().await;
            self.inner.append(address, append).await
        })
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async move {
            self.lives().await;
            self.inner.read(address, from, bytes_max).await
        })
    }
}

pub(crate) fn ids(count: usize) -> Vec<SessionId> {
    (0..count).map(|number| format!("s{number}").parse().unwrap()).collect()
}
