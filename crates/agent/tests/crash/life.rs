//! The life of a child: a person asks, an agent answers, a person decides on what is parked.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agent::{
    Agent,
    rows::{self, CallStatus, Chunk, Decision, Generation, Message, Resolution, Role, ToolCall},
};
use chat::{Abilities, Effect, Model, ModelName, ModelStream, Request, Tool, ToolContext};
use live::StreamDb;
use log::{
    Create, Log,
    file::{FileLog, Settings},
};
use providers::scripted::{Call, Order, Pace, Scripted, Turn};
use serde_json::{Value, json};
use sys::{Cancellation, Sys};
use wire::{Address, StreamPath};

pub(crate) const AGENT: &str = "assistant";
/// So small that preparing segments is not most of what is written.
const SEGMENT_BYTES: u32 = 64 * 1024;
/// What the tool that must run once says; a person who finds the trace says the same.
const PAID: &str = "paid 7";

pub(crate) fn address() -> Address {
    "main/sessions/crash".parse::<StreamPath>().unwrap().into()
}

pub(crate) async fn log(dir: &Path, sys: &Sys) -> FileLog {
    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::default() };
    FileLog::open(sys, &dir.join("data"), settings).await.unwrap()
}

async fn open(dir: &Path, sys: &Sys) -> (Arc<dyn Log>, StreamDb) {
    let log: Arc<dyn Log> = Arc::new(log(dir, sys).await);
    let json = Some("application/json".parse().unwrap());
    let _ =
        log.create(&address(), Create { content_type: json, ..Create::default() }).await.unwrap();
    let db = StreamDb::builder(Arc::clone(&log), address(), sys).client("person");
    let db = rows::session(db).with::<Chunk>().open().unwrap();
    db.ready().await.unwrap();
    (log, db)
}

/// Whatever happened before: the question is asked, and answered.
pub(crate) async fn live(dir: &Path, sys: &Sys) {
    let (log, db) = open(dir, sys).await;
    let messages = db.rows::<Message>().unwrap();
    if messages.get("m1").is_none() {
        messages.insert(question(sys)).unwrap().settled().await.unwrap();
    }
    let agent = Agent::builder(AGENT)
        .model(Arc::new(Noted { model: script(sys), notes: dir.join("requests") }))
        .tools([count(dir.join("counted")), pay(dir.join("paid"))])
        .session(log, address())
        .start(sys)
        .await
        .unwrap();
    let (generations, calls) = (db.rows::<Generation>().unwrap(), db.rows::<ToolCall>().unwrap());
    let (mut over, mut parked) = (generations.changes().unwrap(), calls.changes().unwrap());
    while !generations.rows().iter().any(|row| row.status.is_terminal()) {
        tokio::select! {
            _ = over.next() => {}
            _ = parked.next() => decide(&db, sys).await,
        }
    }
    agent.stop().await.unwrap();
}

/// A person looks whether the money is gone, and says so.
async fn decide(db: &StreamDb, sys: &Sys) {
    let calls = db.rows::<ToolCall>().unwrap().rows();
    for call in calls.iter().filter(|call| call.status == CallStatus::Parked) {
        let resolutions = db.rows::<Resolution>().unwrap();
        let id = format!("{}#{}", call.id, call.attempt);
        if resolutions.get(id.as_str()).is_some() {
            continue;
        }
        let resolution = Resolution {
            id,
            tool_call_id: call.id.clone(),
            attempt: call.attempt,
            decision: Decision::Complete,
            result: Some(json!(PAID)),
            actor_id: "ada".to_owned(),
            created_at: rows::now(sys),
        };
        resolutions.insert(resolution).unwrap().settled().await.unwrap();
    }
}

fn question(sys: &Sys) -> Message {
    Message {
        id: "m1".to_owned(),
        role: Role::User,
        content: "Count and pay.".to_owned(),
        parts: None,
        actor_id: "ada".to_owned(),
        target_agent: Some(AGENT.to_owned()),
        generation_id: None,
        request_id: None,
        in_reply_to: None,
        created_at: rows::now(sys),
    }
}

fn script(sys: &Sys) -> Scripted {
    let turns = [
        Turn::new().think("Two things to do.").text("I count and I pay at once.").calls([
            Call::new("count", json!({"what": "sheep"})),
            Call::new("pay", json!({"sum": 7})),
        ]),
        Turn::new().text("Three sheep were counted and seven were paid for them today."),
    ];
    let script = Scripted::ordered(turns.into_iter().collect(), Order::ByConversation, sys.clone());
    script.pace(Pace::per_word(Duration::from_millis(1)))
}

/// A tool that may run again: the world outside knows its key.
fn count(file: PathBuf) -> Tool {
    Tool::builder("count", "Counts.")
        .effect(Effect::Idempotent)
        .run(move |_: Value, context: ToolContext| {
            note(&file, context.idempotency_key());
            async { Ok(json!({"count": 3}).to_string()) }
        })
        .unwrap()
}

/// A tool that must not run twice.
fn pay(file: PathBuf) -> Tool {
    Tool::builder("pay", "Pays.")
        .effect(Effect::Once)
        .run(move |_: Value, _: ToolContext| {
            note(&file, "paid");
            async { Ok(PAID.to_owned()) }
        })
        .unwrap()
}

fn note(file: &Path, line: &str) {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// A model that notes which turn it is asked for.
#[derive(Debug)]
struct Noted {
    model: Scripted,
    notes: PathBuf,
}

impl Model for Noted {
    fn name(&self) -> &ModelName {
        self.model.name()
    }

    fn abilities(&self) -> Abilities {
        self.model.abilities()
    }

    fn call(&self, request: Arc<Request>, cancellation: Cancellation) -> ModelStream {
        let said = request.messages.iter().filter(|it| it.role == chat::Role::Assistant).count();
        note(&self.notes, &(said + 1).to_string());
        self.model.call(request, cancellation)
    }
}
