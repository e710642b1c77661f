//! Connections take descriptors, and a write needs some, too.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::{Duration, Instant},
};

use sys::Sys;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

use super::{ALONE, others, raise_descriptors, support::Launch};

/// Descriptors of the server whose connections are all taken.
const DESCRIPTORS: u32 = 1024;
/// The greedy ones have the addresses 127.0.0.2 to this one. What is free after `n` of them have
/// taken what they may is one part of `n + 1`.
const LAST_ADDRESS: u8 = 60;
/// Connections of that server, less what is left free and some room.
const TAKEN_MIN: usize = 620;
/// What each append says, and how many there are: many times a segment.
const MESSAGE_BYTES: usize = 20_000;
const MESSAGES: usize = 100;
/// Packs that hold what stood in segments that are full.
const PACKS_MIN: usize = 3;
/// How long the server may take to close what it does not want.
const REFUSAL: Duration = Duration::from_millis(100);
/// How long it may take to regroup.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that stays open from one request to the next.
struct Kept(TcpStream);

impl Kept {
    async fn open(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// The status and the body of the answer.
    async fn ask(&mut self, method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let head = others::request(method, target, body.len()).replace("connection: close\r\n", "");
        self.0.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        let mut answer = Vec::new();
        loop {
            let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.map_or(0, |length| length.parse().unwrap());
                if answer.len() >= end + 4 + length {
                    return (head[9..12].parse().unwrap(), answer.split_off(end + 4));
                }
            }
            assert!(self.0.read_buf(&mut answer).await.unwrap() > 0, "{method} {target}: it ended");
        }
    }
}

/// A connection from that address, if the server keeps it.
async fn taken(from: u8, address: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, from), 0))).unwrap();
    let mut socket = socket.connect(address).await.ok()?;
    // One that is not wanted is told so and closed; one that is hears nothing.
    let heard = Sys::real().clock.timeout(REFUSAL, socket.read(&mut [0; 16])).await;
    heard.is_err().then_some(socket)
}

/// All that the addresses can have together.
async fn take_all(address: SocketAddr) -> Vec<TcpStream> {
    let mut held = Vec::new();
    loop {
        // Many at a time, so that none is closed for being idle before all are taken.
        let round = (2..=LAST_ADDRESS).map(|from| taken(from, address));
        let round: Vec<TcpStream> = at_once(round).await.into_iter().flatten().collect();
        if round.is_empty() {
            return held;
        }
        held.extend(round);
    }
}

async fn at_once<F>(all: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for one in all {
        tasks.spawn(one);
    }
    tasks.join_all().await
}

fn packs(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("packs")).map_or(0, Iterator::count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_finds_descriptors_when_all_connections_are_taken() {
    let _alone = ALONE.lock().await;
    raise_descriptors();
    let dir = tempfile::tempdir().unwrap();
    let settings = ["--engine-segment-bytes", "64KiB", "--engine-hot-bytes", "64KiB"];
    let server = Launch::new(dir.path()).args(settings).descriptors(DESCRIPTORS).start().unwrap();
    let address = server.address.parse().unwrap();
    let mut writer = Kept::open(address).await;
    assert_eq!(writer.ask("PUT", "/v1/stream/a", b"").await.0, 201);
    let held = take_all(address).await;
    assert!(held.len() >= TAKEN_MIN, "only {} connections were to be had", held.len());

    let before = packs(dir.path());
    let message = vec![b'x'; MESSAGE_BYTES];
    for number in 0..MESSAGES {
        assert_eq!(writer.ask("POST", "/v1/stream/a", &message).await.0, 204, "append {number}");
    }
    let began = Instant::now();
    while packs(dir.path()) < before + PACKS_MIN {
        assert!(began.elapsed() < PATIENCE, "{} packs: nothing is regrouped", packs(dir.path()));
        Sys::real().clock.sleep(REFUSAL).await;
    }
    let (status, text) = writer.ask("GET", "/v1/stream/a?offset=-1", b"").await;
    assert_eq!((status, text.len()), (200, MESSAGE_BYTES * (1024 * 1024 / MESSAGE_BYTES)));
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soft_limit_of_descriptors_is_raised() {
    const SOFT: u32 = 256;
    const READERS: usize = 300;
    let _alone = ALONE.lock().await;
    raise_descriptors();
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::new(dir.path()).soft_descriptors(SOFT).start().unwrap();
    let address = server.address.parse().unwrap();
    let mut writer = Kept::open(address).await;
    assert_eq!(writer.ask("PUT", "/v1/stream/a", b"").await.0, 201);
    let follow = others::request("GET", "/v1/stream/a?offset=-1&live=sse", 0);
    let mut readers = Vec::new();
    for number in 0..READERS {
        let mut reader = TcpStream::connect(address).await.unwrap();
        reader.write_all(follow.as_bytes()).await.unwrap();
        let mut line = [0; 12];
        reader.read_exact(&mut line).await.unwrap();
        assert_eq!(&line, b"HTTP/1.1 200", "reader {number}");
        readers.push(reader);
    }
    assert_eq!(writer.ask("POST", "/v1/stream/a", b"hello").await.0, 204);
}
