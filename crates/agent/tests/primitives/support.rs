//! A world of its own for each test; time passes only when everybody waits.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use agent::{
    contract::{CallStatus, NewCall, ToolCallRow as _},
    rows::{self, Effect, Generation, GenerationStatus, Stop, ToolCall},
};
use chat::{Tool, ToolContext};
use live::{Collection, StreamDb};
use log::{Create, Log, MemoryLog};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wire::{Address, ContentType, StreamPath};

/// What is said in the order it was said, by anybody.
pub(crate) type Said = Arc<Mutex<Vec<String>>>;

/// Simulated time after which a test is taken to be stuck.
const PATIENCE: Duration = Duration::from_hours(24);

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) sys: Sys,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) stream: Address,
    /// Databases read for as long as somebody has them.
    kept: Arc<Mutex<Vec<StreamDb>>>,
}

/// Runs a test in simulated time.
pub(crate) fn simulate<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    simulate_with(1, test);
}

/// The same with a seed.
pub(crate) fn simulate_with<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(World) -> F) {
    simulate_boxed(seed, Box::new(|world| Box::pin(test(world))));
}

/// A test that is boxed, so that a runtime is compiled once, and not for every test.
type Boxed<'a> = Box<dyn FnOnce(World) -> Pin<Box<dyn Future<Output = ()> + 'a>> + 'a>;

fn simulate_boxed(seed: u64, test: Boxed<'_>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let disk = SimDisk::new(seed, SimFaults::default());
        let sys = Sys::simulated(seed, disk, UnixMs::new(1_000_000_000_000));
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let stream: Address = "main/sessions/s".parse::<StreamPath>().unwrap().into();
        let json = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = log.create(&stream, json).await.unwrap();
        let (clock, kept) = (sys.clock.clone(), Arc::default());
        let test = test(World { sys, log, stream, kept });
        assert!(clock.timeout(PATIENCE, test).await.is_ok(), "nothing happens any more");
    });
}

impl World {
    /// One more process that has the session open.
    pub(crate) async fn open(&self) -> StreamDb {
        let builder = StreamDb::builder(self.log.clone(), self.stream.clone(), &self.sys);
        let db = rows::session(builder).with::<rows::Chunk>().open().unwrap();
        db.ready().await.unwrap();
        self.kept.lock().push(db.clone());
        db
    }

    pub(crate) async fn rest(&self, ms: u64) {
        self.sys.clock.sleep(Duration::from_millis(ms)).await;
    }
}

/// A pending call.
pub(crate) fn call(id: &str, name: &str, args: Value) -> ToolCall {
    ToolCall::pending(NewCall {
        id: id.to_owned(),
        call_id: None,
        generation_id: None,
        name: name.to_owned(),
        args,
        effect: Effect::Pure,
        is_background: false,
        at: "2026-01-01T00:00:00.000Z".to_owned(),
    })
}

pub(crate) fn generation(id: &str, status: GenerationStatus) -> Generation {
    Generation {
        id: id.to_owned(),
        agent_name: "a".to_owned(),
        status,
        model: "scripted/script".to_owned(),
        read_after: None,
        read_up_to: 0,
        history_from: None,
        cancelled_by: None,
        error: None,
        created_at: String::new(),
        updated_at: String::new(),
        completed_at: None,
    }
}

/// A stop of this generation, or of all that was asked for before.
pub(crate) fn stop(id: &str, generation: Option<&str>) -> Stop {
    Stop {
        id: id.to_owned(),
        generation_id: generation.map(str::to_owned),
        agent_name: None,
        actor_id: "ada".to_owned(),
        reason: Some("enough".to_owned()),
        created_at: String::new(),
    }
}

/// Doubles `n`, and says so.
pub(crate) fn double(said: &Said) -> Tool {
    tool("double", said, chat::Effect::Pure, |args, _| async move {
        Ok(json!({"n": args["n"].as_i64().unwrap_or_default() * 2}))
    })
}

/// A tool that says its name and its key when it is called.
pub(crate) fn tool<F, A>(name: &str, said: &Said, effect: chat::Effect, work: F) -> Tool
where
    F: Fn(Value, ToolContext) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Value, chat::ToolError>> + Send + 'static,
{
    let said = said.clone();
    Tool::builder(name, "A tool.")
        .input_schema(json!({"type": "object"}))
        .effect(effect)
        .run(move |args: Value, context: ToolContext| {
            let word = format!("{} {}", context.tool(), context.idempotency_key());
            said.lock().push(word);
            work(args, context)
        })
        .unwrap()
}

/// Waits until a call has such a status.
pub(crate) async fn until(calls: &Collection<ToolCall>, id: &str, status: CallStatus) -> ToolCall {
    let mut changes = calls.changes().unwrap();
    loop {
        if let Some(row) = calls.get(id).filter(|row| row.status == status && row.is_synced()) {
            return (*row).clone();
        }
        changes.next().await;
    }
}

/// The same for any end.
pub(crate) async fn ended(calls: &Collection<ToolCall>, id: &str) -> ToolCall {
    let mut changes = calls.changes().unwrap();
    loop {
        if let Some(row) = calls.get(id).filter(|row| row.status.is_terminal() && row.is_synced()) {
            return (*row).clone();
        }
        changes.next().await;
    }
}
