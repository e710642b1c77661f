//! Clients that want all of a server, and what others get meanwhile.
//!
//! Each attack comes from 127.0.0.2 against a `headwater serve` of its own; others ask from
//! 127.0.0.1. No request of theirs may be refused, and the server's memory stays bounded. The table
//! is printed: `cargo test -p headwater --test hostile -- --nocapture`.

#![allow(clippy::disallowed_methods, reason = "processes, and what they leave behind, are real")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacks;
mod others;
#[path = "../../../server/tests/http/raw_http2.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod raw_http2;
#[path = "../support/mod.rs"]
mod support;

use std::net::SocketAddr;

use attacks::{ATTACKS, Attack};
use others::Service;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Launch, Server};

/// Memory that a server may take, whatever is done to it.
const MEMORY_KIB_MAX: u64 = 300 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn hostile_clients_harm_themselves_alone() {
    // The clients of this test need descriptors, too.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    println!("| hostile client | held | others asked | refused | slowest | peak memory |");
    println!("|---|---|---|---|---|---|");
    let mut harmed = Vec::new();
    for attack in ATTACKS {
        let (held, service, memory_kib) = endure(attack).await;
        println!(
            "| {} | {held} | {} | {} | {} ms | {} MB |",
            attack.name,
            service.asked,
            service.refused.len(),
            service.slowest.as_millis(),
            memory_kib / 1024,
        );
        if !service.refused.is_empty() || memory_kib > MEMORY_KIB_MAX {
            harmed.push(format!("{}: {:?}, {memory_kib} KiB", attack.name, service.refused));
        }
    }
    assert!(harmed.is_empty(), "{harmed:#?}");
}

/// How many connections the attack holds when it is over, what others got, and what it cost.
async fn endure(attack: &Attack) -> (usize, Service, u64) {
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
    let service = others::serve(address).await;
    let memory_kib = server.peak_memory_kib();
    (held.count(), service, memory_kib)
}
