//! From an append to its acknowledgement, through a server that is killed on the way.
//!
//! A producer appends, a webhook is called and a worker pulls; both read what they were woken for
//! and acknowledge it. When the server dies they stay, and go on with the next one as clients do:
//! asking again for what was not answered.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Client, Died, Hook, Receiver, Server};

/// Events of each stream; each waits until the last one was handled.
const ROUNDS: u64 = 4;
/// Appends and acknowledgements: each lasts before it is answered.
pub(crate) const STEPS: usize = 2 * 2 * ROUNDS as usize;
const HOOKED: &str = "hooked/a";
const PULLED: &str = "pulled/a";
const WAKES: &str = "wakes";
/// The shortest there is: whoever does not hear that it was given a wake waits for its end.
const LEASE_MS: u64 = 1_000;

/// How the webhook's subscription is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Usual,
    ByStream,
}

/// Everybody, through all lives of the server.
pub(crate) struct Story {
    mode: Mode,
    url: String,
    /// Locked by whoever receives, while it does.
    receiver: tokio::sync::Mutex<Receiver>,
    ledger: Mutex<Ledger>,
    /// Told whenever the ledger changes.
    changed: Notify,
}

/// What was appended, handled and acknowledged.
#[derive(Debug, Default)]
struct Ledger {
    /// Appends that were answered.
    appended: u64,
    streams: BTreeMap<String, Handled>,
    /// The newest wake of each subscription.
    wakes: BTreeMap<String, Seen>,
    /// Reports whose answers never came, by whom they are of.
    unanswered: BTreeMap<&'static str, Report>,
    /// Whether the webhook has failed once, if it was to.
    has_failed: bool,
    /// Whether this server has called before. Its first call may be one that it took over, made
    /// before it heard that the wake was done.
    has_called: bool,
}

/// What is known of one stream.
#[derive(Debug, Default)]
struct Handled {
    /// Events that were handled, at least once.
    events: u64,
    /// Up to where the server has said that it knows.
    confirmed: u64,
}

#[derive(Clone, Debug)]
struct Seen {
    id: String,
    generation: u64,
    is_over: bool,
}

#[derive(Clone, Debug)]
struct Report {
    subscription: &'static str,
    place: &'static str,
    token: String,
    stream: String,
    tail: u64,
    done: bool,
    body: String,
}

/// A wake, however it came.
#[derive(Debug)]
struct Wake {
    subscription: &'static str,
    id: String,
    generation: u64,
    token: String,
    stream: String,
    acked: u64,
    tail: u64,
    acked_offset: String,
    tail_offset: String,
}

impl Story {
    pub(crate) fn new(mode: Mode) -> Self {
        let receiver = Receiver::start();
        let (url, receiver) = (receiver.url.clone(), tokio::sync::Mutex::new(receiver));
        // One way with a failure is enough: it takes a second.
        let ledger = Ledger { has_failed: mode == Mode::Usual, ..Ledger::default() };
        Self { mode, url, receiver, ledger: Mutex::new(ledger), changed: Notify::new() }
    }

    /// Goes on with this server until all is done or the server dies.
    pub(crate) async fn tell(&self, server: &Server) -> Result<(), Died> {
        let client = Client::new(&server.address);
        // What the last server sent and nobody looked at is as good as never sent.
        self.receiver.lock().await.restart().await;
        self.ledger().has_called = false;
        self.prepare(&client).await?;
        tokio::select! {
            // Whoever only listens hears of the death here.
            died = self.watch(&client) => died,
            died = self.receive(&client) => died,
            died = self.pull(&client) => died,
            told = self.append(&client) => told,
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    async fn watch(&self, client: &Client) -> Result<(), Died> {
        let mut body = client.follow(&format!("{WAKES}?offset=-1&live=sse")).await?;
        while let Some(Ok(_)) = body.frame().await {}
        Err(Died)
    }

    /// Makes what is not there yet; asked again, it changes nothing.
    async fn prepare(&self, client: &Client) -> Result<(), Died> {
        let mut hooked = json!({ "type": "webhook", "pattern": "hooked/*",
            "webhook": { "url": self.url }, "lease_ttl_ms": LEASE_MS });
        if self.mode == Mode::ByStream {
            hooked["concurrency"] = json!("stream");
        }
        let pulled = json!({ "type": "pull-wake", "pattern": "pulled/*", "wake_stream": WAKES,
            "lease_ttl_ms": LEASE_MS });
        for (path, body) in [
            (WAKES, String::new()),
            ("__ds/subscriptions/hooked", hooked.to_string()),
            ("__ds/subscriptions/pulled", pulled.to_string()),
            (HOOKED, String::new()),
            (PULLED, String::new()),
        ] {
            let status = ask(client, Method::PUT, path, body).await?.0;
            assert!([200, 201].contains(&status), "{path}: {status}");
        }
        Ok(())
    }

    /// Appends event after event, each once and only when the last one was handled; then waits
    /// until all is acknowledged.
    async fn append(&self, client: &Client) -> Result<(), Died> {
        while self.ledger().appended < 2 * ROUNDS {
            let seq = self.ledger().appended;
            let (stream, number) = ([HOOKED, PULLED][(seq % 2) as usize], seq / 2);
            self.handled(stream, number).await;
            let request = client
                .ask(Method::POST, stream)
                .body("application/json", json!([{ "number": number }]).to_string())
                .header("producer-id", "p")
                .header("producer-epoch", 0)
                .header("producer-seq", number);
            let answer = request.send().await?;
            assert!([200, 204].contains(&answer.status), "{stream} {number}: {}", answer.status);
            self.ledger().appended += 1;
        }
        self.handled(HOOKED, ROUNDS).await;
        self.handled(PULLED, ROUNDS).await;
        while !self.is_settled(client).await? {
            let target = format!("{WAKES}?offset=now&live=long-poll");
            client.ask(Method::GET, &target).send().await?;
        }
        Ok(())
    }

    /// Waits until so many events of a stream were handled.
    async fn handled(&self, stream: &str, events: u64) {
        loop {
            let changed = self.changed.notified();
            let handled = self.ledger().streams.get(stream).map_or(0, |handled| handled.events);
            if handled >= events {
                return;
            }
            changed.await;
        }
    }

    /// True if the server shows everything acknowledged, and nothing failing.
    async fn is_settled(&self, client: &Client) -> Result<bool, Died> {
        for id in ["hooked", "pulled"] {
            let place = format!("__ds/subscriptions/{id}");
            let known = |stream: &str| self.ledger().streams.get(stream).unwrap().confirmed;
            let before = [HOOKED, PULLED].map(known);
            let (status, view) = ask(client, Method::GET, &place, String::new()).await?;
            assert_eq!(status, 200);
            for link in view["streams"].as_array().unwrap() {
                let acked = position(&link["acked_offset"]);
                let known = before[usize::from(link["path"] == PULLED)];
                assert!(known <= acked && acked <= ROUNDS, "{known} {view}");
                if acked < ROUNDS {
                    return Ok(false);
                }
            }
            assert_eq!(view["status"], "active");
        }
        Ok(true)
    }

    /// Answers calls: it fails once, then says at once that it is done, or reports later.
    async fn receive(&self, client: &Client) -> Result<(), Died> {
        self.report_again(client, "hooked").await?;
        let mut receiver = self.receiver.lock().await;
        loop {
            let hook = receiver.next().await;
            self.answer(client, hook).await?;
        }
    }

    async fn answer(&self, client: &Client, hook: Hook) -> Result<(), Died> {
        let wake = Wake::of("hooked", &hook.json(), "callback_token");
        let is_first = !std::mem::replace(&mut self.ledger().has_called, true);
        if !(is_first && self.is_known(&wake)) {
            self.note(&wake);
        }
        if !std::mem::replace(&mut self.ledger().has_failed, true) {
            hook.answer(500, "");
            return Ok(());
        }
        self.work(client, &wake).await?;
        if wake.generation % 2 == 1 {
            hook.answer(200, r#"{"done":true}"#);
            return Ok(());
        }
        hook.answer(202, "");
        self.report(client, wake.report("__ds/subscriptions/hooked/callback", false)).await?;
        self.report(client, wake.report("__ds/subscriptions/hooked/callback", true)).await
    }

    /// Claims wakes, and waits for the next one whenever there is none.
    async fn pull(&self, client: &Client) -> Result<(), Died> {
        self.report_again(client, "pulled").await?;
        loop {
            let body = json!({ "worker": "w" }).to_string();
            let place = "__ds/subscriptions/pulled/claim";
            let (status, claim) = ask(client, Method::POST, place, body).await?;
            if status == 200 {
                let wake = Wake::of("pulled", &claim, "token");
                self.note(&wake);
                self.work(client, &wake).await?;
                let report = wake.report("__ds/subscriptions/pulled/ack", true);
                self.report(client, report).await?;
            } else {
                assert_eq!(status, 409, "{claim}");
                let target = format!("{WAKES}?offset=now&live=long-poll");
                client.ask(Method::GET, &target).send().await?;
            }
        }
    }

    /// True if it is the newest wake, once more.
    fn is_known(&self, wake: &Wake) -> bool {
        let ledger = self.ledger();
        let last = ledger.wakes.get(wake.subscription);
        last.is_some_and(|last| (last.generation, &last.id) == (wake.generation, &wake.id))
    }

    /// Judges a wake against those before it.
    fn note(&self, wake: &Wake) {
        let mut ledger = self.ledger();
        let confirmed = ledger.streams.entry(wake.stream.clone()).or_default().confirmed;
        assert!(wake.acked >= confirmed, "{confirmed} was acknowledged: {wake:?}");
        assert!(wake.tail > wake.acked, "there is nothing to do: {wake:?}");
        let seen = Seen { id: wake.id.clone(), generation: wake.generation, is_over: false };
        if let Some(last) = ledger.wakes.insert(wake.subscription.to_owned(), seen) {
            assert!(wake.generation >= last.generation, "{last:?} {wake:?}");
            let is_same = wake.generation == last.generation;
            assert_eq!(is_same, wake.id == last.id, "{last:?} {wake:?}");
            assert!(!(is_same && last.is_over), "it was over: {last:?} {wake:?}");
        }
    }

    /// Reads what the wake is for, and handles it.
    async fn work(&self, client: &Client, wake: &Wake) -> Result<(), Died> {
        let target = format!("{}?offset={}", wake.stream, wake.acked_offset);
        let (status, events) = ask(client, Method::GET, &target, String::new()).await?;
        assert_eq!(status, 200);
        for number in wake.acked..wake.tail {
            let event = &events[(number - wake.acked) as usize];
            assert_eq!(event["number"], number, "{wake:?} {events}");
        }
        let mut ledger = self.ledger();
        let handled = ledger.streams.get_mut(&wake.stream).expect("it was noted");
        assert!(wake.acked <= handled.events, "events were left out: {wake:?} {handled:?}");
        handled.events = handled.events.max(wake.tail);
        self.changed.notify_waiters();
        Ok(())
    }

    async fn report_again(&self, client: &Client, subscription: &str) -> Result<(), Died> {
        let unanswered = self.ledger().unanswered.get(subscription).cloned();
        match unanswered {
            Some(report) => self.report(client, report).await,
            None => Ok(()),
        }
    }

    /// Reports, and remembers what was not answered.
    async fn report(&self, client: &Client, report: Report) -> Result<(), Died> {
        self.ledger().unanswered.insert(report.subscription, report.clone());
        let asking = client.ask(Method::POST, report.place);
        let asking = asking.header("authorization", format_args!("Bearer {}", report.token));
        let answer = asking.body("application/json", report.body.clone()).send().await?;
        let mut ledger = self.ledger();
        ledger.unanswered.remove(report.subscription);
        match answer.status {
            200 => {
                let wake = ledger.wakes.get_mut(report.subscription).expect("it was noted");
                wake.is_over = report.done;
                let handled = ledger.streams.get_mut(&report.stream).expect("it was noted");
                handled.confirmed = handled.confirmed.max(report.tail);
            }
            // It was taken although nobody heard so, or the lease has run out.
            status => assert_eq!(status, 409, "{report:?} {:?}", answer.body),
        }
        Ok(())
    }
}

impl Wake {
    fn of(subscription: &'static str, body: &Value, token: &str) -> Self {
        let work = &body["streams"][0];
        assert_eq!(body["streams"].as_array().unwrap().len(), 1, "{body}");
        Self {
            subscription,
            id: body["wake_id"].as_str().unwrap().to_owned(),
            generation: body["generation"].as_u64().unwrap(),
            token: body[token].as_str().unwrap().to_owned(),
            stream: work["path"].as_str().unwrap().to_owned(),
            acked: position(&work["acked_offset"]),
            tail: position(&work["tail_offset"]),
            acked_offset: work["acked_offset"].as_str().unwrap().to_owned(),
            tail_offset: work["tail_offset"].as_str().unwrap().to_owned(),
        }
    }

    fn report(&self, place: &'static str, done: bool) -> Report {
        let acks = json!([{ "stream": self.stream, "offset": self.tail_offset }]);
        let (id, generation) = (&self.id, self.generation);
        let body = json!({ "wake_id": id, "generation": generation, "acks": acks, "done": done });
        Report {
            subscription: self.subscription,
            place,
            token: self.token.clone(),
            stream: self.stream.clone(),
            tail: self.tail,
            done,
            body: body.to_string(),
        }
    }
}

async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    body: String,
) -> Result<(u16, Value), Died> {
    let answer = client.ask(method, path).body("application/json", body).send().await?;
    Ok((answer.status, serde_json::from_slice(&answer.body).unwrap_or_default()))
}

/// How many messages stand before an offset of ours.
fn position(offset: &Value) -> u64 {
    match offset.as_str().unwrap() {
        "-1" => 0,
        offset => offset.split_once('_').unwrap().0.parse().unwrap(),
    }
}
