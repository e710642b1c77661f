//! Clients that want all of a server, and what others get meanwhile.
//!
//! Each attack comes from 127.0.0.2 against a `headwater serve` of its own; others ask from
//! 127.0.0.1. No request of theirs may be refused, and the server's memory stays bounded. That the
//! attack takes what it is meant to take is read from the server's own metrics, before others ask
//! and afterwards, or counted by its answers: one that takes less proves nothing, and fails. The
//! table is printed: `cargo test -p headwater --test hostile -- --nocapture`.

#![allow(clippy::disallowed_methods, reason = "processes, and what they leave behind, are real")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacks;
mod books;
mod descriptors;
mod held;
mod others;
#[path = "../../../server/tests/http/raw_http2.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod raw_http2;
#[path = "../support/mod.rs"]
mod support;

use std::{collections::BTreeMap, net::SocketAddr};

use attacks::{ATTACKS, Attack};
use books::Books;
use held::Held;
use others::Service;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Launch, Server};
use tokio::sync::Mutex;

/// Memory that a server may take, whatever is done to it.
const MEMORY_KIB_MAX: u64 = 300 * 1024;

/// What is measured here must not be measured while another test of this file keeps the machine
/// busy.
static ALONE: Mutex<()> = Mutex::const_new(());

/// How often others ask for all they want while an attack gets too little done.
const ROUNDS_MAX: usize = 5;

/// What came of an attack.
struct Outcome {
    held: usize,
    service: Service,
    memory_kib: u64,
    /// What the server held before others asked, and afterwards.
    books: [Books; 2],
    /// Answers of the attacker while others asked, by status.
    got: BTreeMap<u16, u64>,
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_clients_harm_themselves_alone() {
    let _alone = ALONE.lock().await;
    raise_descriptors();
    println!("| hostile client | held | took | others asked | refused | slowest | peak memory |");
    println!("|---|---|---|---|---|---|---|");
    let mut harmed = Vec::new();
    for attack in ATTACKS {
        let outcome = endure(attack).await;
        println!("{}", row(attack, &outcome));
        let complaints = complaints(attack, &outcome);
        if !complaints.is_empty() {
            harmed.push(format!("{}: {complaints:?}", attack.name));
        }
    }
    assert!(harmed.is_empty(), "{harmed:#?}");
}

/// The clients of these tests need descriptors, too.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

async fn endure(attack: &Attack) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    // Old messages come from the disk, so that each reader has a copy.
    let launch = Launch::new(dir.path()).args(["--engine-hot-bytes", "1MiB"]);
    let launch = match attack.descriptors {
        Some(most) => launch.descriptors(most),
        None => launch,
    };
    let server: Server = launch.start().unwrap();
    let address: SocketAddr = server.address.parse().unwrap();
    others::prepare(address).await;
    let held = (attack.begin)(address).await;
    let before = books::look_until_taken(address, attack).await.unwrap_or_default();
    let answered = held.answers();
    let mut service = others::serve(address).await;
    // Some attacks get little done where the machine is slow; others are to meet enough of it.
    for _ in 1..ROUNDS_MAX {
        if !falls_short(attack, &since(&answered, &held)) {
            break;
        }
        service = service.and(others::serve(address).await);
    }
    let got = since(&answered, &held);
    let after = books::look(address).await.unwrap_or_default();
    let memory_kib = server.peak_memory_kib();
    Outcome { held: held.count(), service, memory_kib, books: [before, after], got }
}

/// The answers since then.
fn since(before: &BTreeMap<u16, u64>, held: &Held) -> BTreeMap<u16, u64> {
    let mut answers = held.answers();
    for (status, count) in &mut answers {
        *count -= before.get(status).copied().unwrap_or_default();
    }
    answers
}

/// True if the attacker was not answered often enough.
fn falls_short(attack: &Attack, got: &BTreeMap<u16, u64>) -> bool {
    attack.got.iter().any(|(status, least)| got.get(status).copied().unwrap_or_default() < *least)
}

fn row(attack: &Attack, outcome: &Outcome) -> String {
    let [before, after] = &outcome.books;
    let took = attack.took.iter().map(|(gauge, _)| {
        let value = |books: &Books| books.get(gauge).copied().unwrap_or_default();
        format!("{gauge:?} {} … {}", value(before), value(after))
    });
    let got = outcome.got.iter().map(|(status, count)| format!("{count} × {status}"));
    let took: Vec<String> = took.chain(got).collect();
    format!(
        "| {} | {} | {} | {} | {} | {} ms | {} MB |",
        attack.name,
        outcome.held,
        took.join(", "),
        outcome.service.asked,
        outcome.service.refused.len(),
        outcome.service.slowest.as_millis(),
        outcome.memory_kib / 1024,
    )
}

/// What others lacked, and what the attack lacked to be one.
fn complaints(attack: &Attack, outcome: &Outcome) -> Vec<String> {
    let Outcome { service, memory_kib, books: [before, after], got, .. } = outcome;
    let mut complaints = service.refused.clone();
    if *memory_kib > MEMORY_KIB_MAX {
        complaints.push(format!("it took {memory_kib} KiB"));
    }
    if attack.slowest.is_some_and(|most| service.slowest > most) {
        complaints.push(format!("others waited for {:?}", service.slowest));
    }
    for (when, books) in [("before", before), ("after", after)] {
        let lacking = books::lacking(attack, books);
        complaints.extend(lacking.iter().map(|what| format!("{when}, it took too little: {what}")));
    }
    let count = |status: &u16| got.get(status).copied().unwrap_or_default();
    for (status, least) in attack.got {
        if count(status) < *least {
            complaints.push(format!("only {} of {least} answers {status}", count(status)));
        }
    }
    if let Some(status) = attack.missed
        && count(&status) > 0
    {
        complaints.push(format!("{} answers {status}: no such attack", count(&status)));
    }
    complaints
}
