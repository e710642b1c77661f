//! Wakes as workers meet them: real processes that are stopped, killed and started again.

#![allow(clippy::disallowed_methods, reason = "processes, and the time they take, are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a worker tells how it fares")]

mod support;

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{Client, Launch, Receiver};
use tokio::runtime::Builder;

/// Where the worker process finds its server.
const WORKER_SERVER: &str = "HEADWATER_TEST_WORKER_SERVER";
/// So long that it does not run out while its worker, or the server, waits for its turn on a busy
/// machine; and how often a worker says that it lives.
const LEASE_MS: u64 = 10_000;
const ALIVE_EVERY: Duration = Duration::from_millis(LEASE_MS / 20);
/// So long may a server take to start, and a call to arrive.
const SLACK: Duration = Duration::from_secs(5);

async fn ask(client: &Client, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let asking = client.ask(method, path).body("application/json", body);
    let answer = asking.send().await.unwrap();
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

async fn claim(client: &Client, worker: &str) -> (u16, Value) {
    ask(client, Method::POST, "__ds/subscriptions/s/claim", json!({ "worker": worker })).await
}

async fn status(client: &Client) -> Value {
    let place = "__ds/subscriptions/s";
    ask(client, Method::GET, place, Value::Null).await.1["status"].take()
}

/// Reports of a claim that it lives, or that all is done.
async fn report(client: &Client, claim: &Value, done: bool) -> (u16, Value) {
    let work = &claim["streams"][0];
    let acks = json!([{ "stream": work["path"], "offset": work["tail_offset"] }]);
    let acks = if done { acks } else { json!([]) };
    let (id, generation) = (&claim["wake_id"], &claim["generation"]);
    let body = json!({ "wake_id": id, "generation": generation, "acks": acks, "done": done });
    let asking = client.ask(Method::POST, "__ds/subscriptions/s/ack");
    let token = claim["token"].as_str().unwrap();
    let asking = asking.header("authorization", format_args!("Bearer {token}"));
    let answer = asking.body("application/json", body.to_string()).send().await.unwrap();
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

/// Not a test of its own: run by another one, it is a worker that claims a wake and says that it
/// lives until it is refused.
#[test]
fn worker_process() {
    let Ok(address) = env::var(WORKER_SERVER) else { return };
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let client = Client::new(&address);
        let (status, claim) = claim(&client, "zombie").await;
        println!("claimed {status} {}", claim["generation"]);
        let claimed = Instant::now();
        loop {
            let (status, answer) = report(&client, &claim, false).await;
            println!("alive {status} {}", answer["error"]["code"]);
            if status != 200 {
                return;
            }
            if claimed.elapsed() > Duration::from_millis(LEASE_MS) {
                println!("outlived its first lease");
            }
            tokio::time::sleep(ALIVE_EVERY).await;
        }
    });
}

/// A worker in a process of its own, killed when dropped.
struct Worker {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(address: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "worker_process", "--nocapture"]);
        command.env(WORKER_SERVER, address).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, lines }
    }

    /// Reads what it says until a line begins like this.
    fn says(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended before {start:?}");
            if let Some(at) = line.find(start) {
                return line[at..].trim().to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The wakes in the wake stream from an offset on, as soon as there are some.
async fn next_wakes(client: &Client, offset: &mut String) -> Vec<Value> {
    loop {
        let target = format!("wakes?live=long-poll&offset={offset}");
        let answer = client.ask(Method::GET, &target).send().await.unwrap();
        assert!([200, 204].contains(&answer.status), "{}", answer.status);
        answer.header("stream-next-offset").clone_into(offset);
        if answer.status == 200 {
            return serde_json::from_slice(&answer.body).unwrap();
        }
    }
}

#[tokio::test]
async fn a_worker_that_was_stopped_too_long_is_fenced() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::new(dir.path()).start().unwrap();
    let client = Client::new(&server.address);
    assert_eq!(ask(&client, Method::PUT, "wakes", Value::Null).await.0, 201);
    let config = json!({ "type": "pull-wake", "pattern": "jobs/*", "wake_stream": "wakes",
        "lease_ttl_ms": LEASE_MS });
    assert_eq!(ask(&client, Method::PUT, "__ds/subscriptions/s", config).await.0, 201);
    assert_eq!(ask(&client, Method::PUT, "jobs/1", json!([1])).await.0, 201);
    let mut offset = "-1".to_owned();
    assert_eq!(next_wakes(&client, &mut offset).await[0]["generation"], 1);

    let mut worker = Worker::start(&server.address);
    assert_eq!(worker.says("claimed"), "claimed 200 1");
    // Its heartbeats keep it for longer than a lease.
    worker.says("outlived");
    let (status, refused) = claim(&client, "heir").await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("ALREADY_CLAIMED")));

    worker.signal(Signal::STOP);
    let wakes = next_wakes(&client, &mut offset).await;
    assert_eq!(wakes[0]["generation"], 2, "the first wake since, when its lease is over");
    let (status, heir) = claim(&client, "heir").await;
    assert_eq!((status, &heir["generation"]), (200, &json!(2)));
    worker.signal(Signal::CONT);
    loop {
        let line = worker.says("alive");
        if line != "alive 200 null" {
            assert_eq!(line, "alive 409 \"FENCED\"");
            break;
        }
    }
    assert_eq!(
        report(&client, &heir, true).await,
        (200, json!({ "ok": true, "next_wake": false }))
    );
    let (_, view) = ask(&client, Method::GET, "__ds/subscriptions/s", Value::Null).await;
    assert_eq!(view["streams"][0]["acked_offset"], heir["streams"][0]["tail_offset"]);
}

// Its thread waits for what the server logs, while others answer the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_fails_is_called_again_in_its_time_through_kills() {
    let dir = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start();
    let mut server = Launch::new(dir.path()).start().unwrap();
    let client = Client::new(&server.address);
    let config = json!({ "type": "webhook", "pattern": "jobs/*", "lease_ttl_ms": 30_000,
        "webhook": { "url": receiver.url } });
    assert_eq!(ask(&client, Method::PUT, "__ds/subscriptions/s", config).await.0, 201);
    assert_eq!(ask(&client, Method::PUT, "jobs/1", json!([1])).await.0, 201);
    let first = receiver.next().await;
    let wake = first.json();
    let mut last = Instant::now();
    first.answer(500, "");
    for seconds in [1, 2, 4] {
        let due = Duration::from_secs(seconds);
        let earliest = due.mul_f64(0.8);
        server.logged("a delivery failed");
        // The answer waits until that is written, so that the next life knows.
        assert_eq!(status(&Client::new(&server.address)).await, "failed");
        server.kill();
        server = Launch::new(dir.path()).start().unwrap();
        let client = Client::new(&server.address);
        let status = status(&client).await;
        assert!(status == "failed" || last.elapsed() >= earliest, "{status} before its time");
        let again = receiver.next().await;
        let waited = last.elapsed();
        last = Instant::now();
        assert!(waited >= earliest, "attempt after {waited:?}, not {due:?}");
        assert!(waited < due.mul_f64(1.2) + SLACK, "attempt after {waited:?}, not {due:?}");
        assert_eq!(again.json(), wake, "the same wake each time");
        if seconds == 4 {
            again.answer(200, r#"{"done":true}"#);
        } else {
            again.answer(503, "");
        }
    }
    server.logged("deliveries succeed again");
    let client = Client::new(&server.address);
    let (_, view) = ask(&client, Method::GET, "__ds/subscriptions/s", Value::Null).await;
    assert_eq!(view["streams"][0]["acked_offset"], wake["streams"][0]["tail_offset"]);
    assert_eq!(view["status"], "active");
}
