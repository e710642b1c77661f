//! Tools that run elsewhere: an agent in one process, its tools in two others, all over HTTP, and
//! one of them killed in the middle of a call.

#![allow(clippy::disallowed_methods, reason = "processes, and the time they take, are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a process tells how it fares")]

mod support;

use std::{
    env,
    future::pending,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use agent::{
    Agent, ToolExecutor,
    rows::{self, CallStatus, Claim, Generation, GenerationStatus, Message, Role, ToolCall},
};
use chat::{Effect, Tool, ToolContext};
use client::{Client, HttpLog, Settings};
use live::StreamDb;
use log::{Create, Log};
use providers::scripted::{Call, Order, Scripted, Turn};
use serde_json::{Value, json};
use support::Launch;
use sys::Sys;
use wire::{Address, StreamPath};

/// What a process is here for: `agent`, or an executor of the tool of this name.
const ROLE: &str = "HEADWATER_TEST_ROLE";
const SERVER: &str = "HEADWATER_TEST_SERVER";
/// Whether an executor never comes to an end with its first call.
const HANGS: &str = "HEADWATER_TEST_HANGS";

fn address() -> Address {
    "main/sessions/far".parse::<StreamPath>().unwrap().into()
}

/// The session on the server at this address.
async fn session(server: &str) -> (Sys, Arc<dyn Log>, StreamDb) {
    let sys = Sys::real();
    let settings = Settings::new(&format!("http://{server}")).unwrap();
    let client = Client::connect(&sys, settings).await.unwrap();
    let log: Arc<dyn Log> = Arc::new(HttpLog::new(client));
    let json = Some("application/json".parse().unwrap());
    let _ = log.create(&address(), Create { content_type: json, ..Create::default() }).await;
    let db = rows::session(StreamDb::builder(Arc::clone(&log), address(), &sys)).open().unwrap();
    db.ready().await.unwrap();
    (sys, log, db)
}

/// Not a test of its own: run by another one, it is the process of an agent or of an executor.
#[test]
fn process() {
    let (Ok(role), Ok(server)) = (env::var(ROLE), env::var(SERVER)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sys, log, db) = session(&server).await;
        match role.as_str() {
            "agent" => answer(sys, log).await,
            tool => execute(&db, tool, env::var_os(HANGS).is_some()).await,
        }
    });
}

async fn answer(sys: Sys, log: Arc<dyn Log>) {
    let turns = [
        Turn::new().text("Both at once.").calls([
            Call::new("weather", json!({"city": "Oslo"})),
            Call::new("price", json!({"of": "tea"})),
        ]),
        Turn::new().text("Sunny, and tea is 3."),
    ];
    let script = turns.into_iter().collect();
    let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
    let elsewhere = ["weather", "price"].map(|name| {
        let tool = Tool::builder(name, "Runs elsewhere.").effect(Effect::Idempotent);
        tool.time_max(Duration::from_secs(60)).client().unwrap()
    });
    let agent = Agent::builder("assistant").model(Arc::new(model)).tools(elsewhere);
    let agent = agent.session(log, address()).start(&sys).await.unwrap();
    println!("ready");
    agent.ended().await.unwrap();
}

async fn execute(db: &StreamDb, name: &str, hangs: bool) {
    let tool = Tool::builder(name, "Runs here.")
        .effect(Effect::Idempotent)
        .time_max(Duration::from_secs(1))
        .run(move |args: Value, context: ToolContext| async move {
            println!("began {} {}", context.idempotency_key(), context.attempt());
            if hangs {
                pending::<()>().await;
            }
            Ok(format!("{args} answered"))
        })
        .unwrap();
    let executor = ToolExecutor::builder(db.rows::<ToolCall>().unwrap())
        .tool(tool)
        .claims(db.rows::<Claim>().unwrap())
        .generations(db.rows::<Generation>().unwrap())
        .lease_margin(Duration::from_millis(500))
        .start()
        .unwrap();
    println!("ready");
    pending::<()>().await;
    drop(executor);
}

/// A process of its own, killed when dropped.
struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(role: &str, server: &str, hangs: bool) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "process", "--nocapture"]);
        command.env(ROLE, role).env(SERVER, server).stdout(Stdio::piped());
        if hangs {
            command.env(HANGS, "1");
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut process = Self { child, lines };
        process.says("ready");
        process
    }

    /// Reads what it says until a line has this in it.
    fn says(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended before {word:?}");
            if let Some(at) = line.find(word) {
                return line[at..].trim().to_owned();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn an_executor_that_is_killed_is_followed_by_another_and_each_call_is_answered_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::new(dir.path()).start().unwrap();
    let (sys, _log, db) = session(&server.address).await;
    let _agent = Process::start("agent", &server.address, false);
    let mut weather = Process::start("weather", &server.address, false);
    let mut price = Process::start("price", &server.address, true);

    let question = Message {
        id: "m1".to_owned(),
        role: Role::User,
        content: "Weather and price?".to_owned(),
        parts: None,
        actor_id: "ada".to_owned(),
        target_agent: Some("assistant".to_owned()),
        generation_id: None,
        request_id: None,
        in_reply_to: None,
        created_at: rows::now(&sys),
    };
    db.rows::<Message>().unwrap().insert(question).unwrap().settled().await.unwrap();
    let weather_began = weather.says("began");
    let first = price.says("began");
    price.child.kill().unwrap();
    let mut other = Process::start("price", &server.address, false);
    let second = other.says("began");

    let generations = db.rows::<Generation>().unwrap();
    let mut changes = generations.changes().unwrap();
    while !generations.rows().iter().any(|row| row.status.is_terminal()) {
        changes.next().await;
    }
    let generation = generations.rows().remove(0);
    assert_eq!((generation.status, &generation.error), (GenerationStatus::Completed, &None));
    let key = |said: &str| said.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(key(&first), key(&second), "the key is the same in every attempt");
    assert!(first.ends_with(" 1") && second.ends_with(" 2"), "{first}, {second}");
    assert_ne!(key(&weather_began), key(&first));
    for call in db.rows::<ToolCall>().unwrap().rows() {
        assert_eq!(call.status, CallStatus::Completed);
        let attempts = if call.name == "price" { 2 } else { 1 };
        assert_eq!(call.attempt, attempts, "{}", call.name);
    }
    let answer = db.rows::<Message>().unwrap().get(format!("{}:2", generation.id)).unwrap();
    assert_eq!(answer.content, "Sunny, and tea is 3.");
}
