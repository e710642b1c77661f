//! How soon an append wakes somebody, and what subscriptions cost appends that they do not follow.
//!
//! The official server has no subscriptions, so ours stands alone here. A latency runs from just
//! before the append is sent until the call has arrived whole at the webhook, or until the worker
//! has its claim: that is an append, an entry of the diary and a call, or an append, an entry, a
//! message in the wake stream, a request and another entry, each durable before the next begins.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::load::{Histogram, Timing};
use crate::report::{Latency, Measurement};
use crate::rows::{Append, follow_others};
use crate::server::{Contestant, DataDir, Running};

/// Subscriptions that follow other streams.
const OTHERS: usize = 10_000;
const CONNECTIONS: [usize; 2] = [1, 64];
const WARM_UP: Duration = Duration::from_millis(500);
/// Between two appends that wake somebody: the last wake is over by then.
const PACE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(10);

/// Our server, measured alone.
pub(crate) struct Solo {
    pub(crate) server: Contestant,
    pub(crate) data_root: PathBuf,
    pub(crate) rounds: u64,
    pub(crate) seconds: u64,
}

impl Solo {
    /// Measures everything; the table of the medians.
    pub(crate) fn play(&self) -> Result<String> {
        let mut table = String::from("| measurement | p50 ms | p99 ms |\n| --- | ---: | ---: |\n");
        for (name, work) in [
            ("append to webhook", to_webhook as fn(SocketAddr, Timing) -> Result<Histogram>),
            ("append to claim", to_claim),
        ] {
            let round = || self.on_fresh(|server, timing| work(server.address(), timing));
            let rounds =
                (0..self.rounds).map(|_| Latency::of(&round()?)).collect::<Result<Vec<_>>>()?;
            let [p50, p99] = [|it: &Latency| it.ms_p50, |it: &Latency| it.ms_p99]
                .map(|part| median(rounds.iter().map(part).collect()));
            writeln!(table, "| {name} | {p50:.2} | {p99:.2} |")?;
            eprintln!("{name}: p50 {p50:.2} ms, p99 {p99:.2} ms");
        }
        table.push_str(
            "\n| measurement | no subscriptions | 10,000 others | ratio | without, p50 / p99 ms | \
             with, p50 / p99 ms |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
        );
        for connections in CONNECTIONS {
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                without.push(self.appends(connections, 0)?);
                with.push(self.appends(connections, OTHERS)?);
            }
            let (without, with) = (Middle::of(&without)?, Middle::of(&with)?);
            writeln!(
                table,
                "| append 256 B, {connections} conn, 1,000 streams | {:.0}/s | {:.0}/s | {:.2}x | \
                 {:.2} / {:.2} | {:.2} / {:.2} |",
                without.rate,
                with.rate,
                with.rate / without.rate,
                without.p50,
                without.p99,
                with.p50,
                with.p99,
            )?;
        }
        Ok(table)
    }

    fn appends(&self, connections: usize, others: usize) -> Result<Measurement> {
        let measured = self.on_fresh(|server, timing| {
            follow_others(server.address(), others)?;
            Append::small(connections).measure(server, timing)
        })?;
        eprintln!("append, {connections} conn, {others} subscriptions: {:.0}/s", measured.value);
        Ok(measured)
    }

    fn on_fresh<T>(&self, work: impl FnOnce(&Running, Timing) -> Result<T>) -> Result<T> {
        let data_dir = DataDir::create(&self.data_root)?;
        data_dir.flush_filesystem()?;
        let server = Running::start(&self.server, data_dir)?;
        let timing = Timing { warm_up: WARM_UP, measured: Duration::from_secs(self.seconds) };
        work(&server, timing)
    }
}

/// The medians of some rounds.
struct Middle {
    rate: f64,
    p50: f64,
    p99: f64,
}

impl Middle {
    fn of(rounds: &[Measurement]) -> Result<Self> {
        let latencies: Option<Vec<Latency>> = rounds.iter().map(|round| round.latency).collect();
        let latencies = latencies.context("appends have latencies")?;
        Ok(Self {
            rate: median(rounds.iter().map(|round| round.value).collect()),
            p50: median(latencies.iter().map(|latency| latency.ms_p50).collect()),
            p99: median(latencies.iter().map(|latency| latency.ms_p99).collect()),
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn to_webhook(address: SocketAddr, timing: Timing) -> Result<Histogram> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("http://{}/hook", listener.local_addr()?);
    let (called, calls) = mpsc::sync_channel(1);
    // Ends with its connection, when the server is stopped.
    thread::spawn(move || receive(&listener, &called));
    let mut peer = Peer::connect(address)?;
    let config = json!({ "type": "webhook", "pattern": "w/*", "webhook": { "url": url } });
    peer.ask("PUT", "__ds/subscriptions/s", None, &config)?;
    peer.ask("PUT", "w/1", None, &json!([]))?;
    paced(timing, || {
        let sent = Instant::now();
        peer.ask("POST", "w/1", None, &json!([1]))?;
        let arrived: Instant = calls.recv_timeout(PATIENCE).context("nobody was called")?;
        Ok(arrived - sent)
    })
}

/// Answers every call that all is done, and tells when it came.
fn receive(listener: &TcpListener, called: &mpsc::SyncSender<Instant>) -> Result<()> {
    loop {
        let mut socket = BufReader::new(listener.accept()?.0);
        socket.get_ref().set_nodelay(true)?;
        while read_message(&mut socket).is_ok() {
            called.send(Instant::now())?;
            let body = r#"{"done":true}"#;
            let length = body.len();
            write!(socket.get_mut(), "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")?;
        }
    }
}

fn to_claim(address: SocketAddr, timing: Timing) -> Result<Histogram> {
    let mut peer = Peer::connect(address)?;
    let config = json!({ "type": "pull-wake", "pattern": "w/*", "wake_stream": "wakes" });
    peer.ask("PUT", "wakes", None, &json!([]))?;
    peer.ask("PUT", "__ds/subscriptions/s", None, &config)?;
    peer.ask("PUT", "w/1", None, &json!([]))?;
    let mut follower = Follower::open(address)?;
    paced(timing, || {
        let sent = Instant::now();
        peer.ask("POST", "w/1", None, &json!([1]))?;
        follower.next_wake()?;
        let claim =
            peer.ask("POST", "__ds/subscriptions/s/claim", None, &json!({ "worker": "w" }))?;
        let taken = sent.elapsed();
        let work = &claim["streams"][0];
        let acks = json!([{ "stream": work["path"], "offset": work["tail_offset"] }]);
        let (id, generation) = (&claim["wake_id"], &claim["generation"]);
        let done = json!({ "wake_id": id, "generation": generation, "acks": acks, "done": true });
        peer.ask("POST", "__ds/subscriptions/s/ack", claim["token"].as_str(), &done)?;
        Ok(taken)
    })
}

/// Does something at a steady pace, and counts how long it took once it is warm.
fn paced(timing: Timing, mut work: impl FnMut() -> Result<Duration>) -> Result<Histogram> {
    let mut latency = Histogram::default();
    let start = Instant::now();
    let (open, end) = (start + timing.warm_up, start + timing.warm_up + timing.measured);
    while Instant::now() < end {
        let begun = Instant::now();
        let taken = work()?;
        if begun >= open {
            latency.record(taken);
        }
        thread::sleep(PACE.saturating_sub(begun.elapsed()));
    }
    Ok(latency)
}

/// One connection on which one request at a time is asked.
struct Peer(BufReader<TcpStream>);

impl Peer {
    fn connect(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(socket)))
    }

    fn ask(
        &mut self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &Value,
    ) -> Result<Value> {
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let (bearer, body) = (bearer.unwrap_or_default(), body.to_string());
        let length = body.len();
        let request = format!(
            "{method} /v1/stream/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{bearer}\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes())?;
        let (head, body) = read_message(&mut self.0)?;
        ensure!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {head}");
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }
}

/// Somebody who follows the wake stream.
struct Follower(BufReader<TcpStream>);

impl Follower {
    fn open(address: SocketAddr) -> Result<Self> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let request =
            "GET /v1/stream/wakes?offset=now&live=sse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        socket.write_all(request.as_bytes())?;
        let mut follower = Self(BufReader::new(socket));
        // The first event says where the tail is: from here on nothing is missed.
        follower.wait_for("event: control")?;
        Ok(follower)
    }

    fn next_wake(&mut self) -> Result<()> {
        self.wait_for("\"generation\"")
    }

    fn wait_for(&mut self, sign: &str) -> Result<()> {
        let mut line = String::new();
        while !line.contains(sign) {
            line.clear();
            ensure!(self.0.read_line(&mut line)? > 0, "the wake stream ended");
        }
        Ok(())
    }
}

/// A request or an answer whole: its head, and a body of the length that the head gives.
fn read_message(socket: &mut BufReader<TcpStream>) -> Result<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if socket.read_line(&mut head)? == 0 {
            bail!("the other end has left");
        }
        let line = head[start..].trim_end().to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body)?;
    Ok((head, body))
}
