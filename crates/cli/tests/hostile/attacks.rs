//! Clients that want all.

use std::{future::Future, io::Write as _, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use sys::Sys;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

use super::{
    books::Gauge,
    held::{Answers, Held},
    others::request,
    raw_http2,
};

/// Bytes of the largest body that a server takes by default.
const BODY_BYTES: usize = 16 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;
/// How long an attacker tries to send what is not taken from it.
const EFFORT: Duration = Duration::from_secs(3);
/// Pause of an attacker whose connection ended.
const BREATH: Duration = Duration::from_millis(20);

/// One way to want all.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// How many descriptors the server may have, if fewer than usual.
    pub(crate) descriptors: Option<u32>,
    /// Takes everything it can get.
    pub(crate) begin: fn(SocketAddr) -> Pin<Box<dyn Future<Output = Held>>>,
    /// What the server must say of it, both before others ask and after: at least so much of each.
    /// An attack that takes less proves nothing.
    pub(crate) took: &'static [(Gauge, u64)],
    /// Answers that it must get while others ask: status, and how many at least.
    pub(crate) got: &'static [(u16, u64)],
    /// An answer that shows that it did not attack what it was meant to.
    pub(crate) missed: Option<u16>,
    /// How long others may wait, if it is not for as long as they like.
    pub(crate) slowest: Option<Duration>,
}

/// What most attacks have in common.
const USUAL: Attack = Attack {
    name: "",
    descriptors: None,
    begin: |_| Box::pin(std::future::ready(Held::default())),
    took: &[],
    got: &[],
    missed: None,
    slowest: None,
};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "4 HTTP/2 connections, 67 answers of 12 MiB each, windows closed",
        begin: |address| Box::pin(closed_windows(address, 4, 67, "/v1/stream/large?offset=-1", 0)),
        took: &[(Gauge::Connections, 4), (Gauge::Outgoing, 48 * MIB), (Gauge::Shed, 100)],
        ..USUAL
    },
    Attack {
        name: "100 HTTP/2 connections, 100 answers of 60 KB each, one byte taken",
        begin: |address| {
            Box::pin(closed_windows(address, 100, 100, "/v1/stream/small?offset=-1", 1))
        },
        took: &[
            (Gauge::Connections, 100),
            (Gauge::Requests, 9_000),
            (Gauge::Outgoing, 56 * MIB),
            (Gauge::Shed, 5_000),
        ],
        ..USUAL
    },
    Attack {
        name: "150 HTTP/2 connections, 100 answers of 8,000 bytes each, one byte taken",
        begin: |address| {
            Box::pin(closed_windows(address, 150, 100, "/v1/stream/free?offset=-1", 1))
        },
        took: &[(Gauge::Connections, 150), (Gauge::Requests, 14_000)],
        ..USUAL
    },
    Attack {
        name: "40 uploads of 16 MiB that stall before the last byte",
        begin: |address| Box::pin(stalled_uploads(address)),
        took: &[(Gauge::Incoming, 64 * MIB), (Gauge::Shed, 20)],
        ..USUAL
    },
    Attack {
        name: "60 readers of 12 MiB that read nothing",
        begin: |address| {
            let get = request("GET", "/v1/stream/large?offset=-1", 0);
            Box::pin(hold(address, 60, get.into_bytes()))
        },
        took: &[(Gauge::Outgoing, 48 * MIB), (Gauge::Shed, 50)],
        ..USUAL
    },
    Attack {
        name: "60 SSE readers of 4 MiB of line ends, 24 MiB as events, that read nothing",
        begin: |address| {
            let get = request("GET", "/v1/stream/lines?offset=-1&live=sse", 0);
            Box::pin(hold(address, 60, get.into_bytes()))
        },
        took: &[(Gauge::Outgoing, 48 * MIB), (Gauge::Shed, 50)],
        ..USUAL
    },
    Attack {
        name: "1,100 idle SSE readers of a server with 1,024 descriptors",
        descriptors: Some(1024),
        begin: |address| {
            let get = request("GET", "/v1/stream/mine?offset=-1&live=sse", 0);
            Box::pin(hold(address, 1100, get.into_bytes()))
        },
        took: &[(Gauge::LiveReaders, 300), (Gauge::Shed, 700)],
        ..USUAL
    },
    Attack {
        name: "42 HTTP/2 connections with 100 watches each",
        begin: |address| Box::pin(closed_windows(address, 42, 100, "/v1/stream/?watch=**", 65_535)),
        took: &[(Gauge::LiveReaders, 1_000), (Gauge::Shed, 3_000)],
        ..USUAL
    },
    Attack {
        name: "5,000 connections with 60 KB of a head that never ends",
        begin: |address| Box::pin(std::future::ready(endless_heads(address))),
        took: &[(Gauge::Incoming, 100 * MIB), (Gauge::Connections, 800), (Gauge::Shed, 3_000)],
        ..USUAL
    },
    Attack {
        name: "8 clients that connect, ask and leave without end",
        begin: |address| Box::pin(std::future::ready(churn(address))),
        got: &[(200, 1_000)],
        ..USUAL
    },
    Attack {
        name: "64 clients whose bodies of 90 KB gzip become 16 MB each, without end",
        begin: |address| Box::pin(std::future::ready(bombs(address))),
        got: &[(204, 50)],
        missed: Some(413),
        slowest: Some(Duration::from_secs(1)),
        ..USUAL
    },
    Attack {
        name: "16 clients with arrays of 8,388,607 zeros, without end",
        begin: |address| Box::pin(std::future::ready(zeros(address))),
        got: &[(413, 50)],
        missed: Some(204),
        ..USUAL
    },
];

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 2], 0)))?;
    socket.connect(address).await
}

/// Sends the same on many connections, and reads nothing.
async fn hold(address: SocketAddr, connections: usize, bytes: Vec<u8>) -> Held {
    let bytes = Arc::new(bytes);
    let mut sending = JoinSet::new();
    for _ in 0..connections {
        let bytes = bytes.clone();
        sending.spawn(async move {
            let mut socket = connect(address).await.ok()?;
            // A server that takes no more need not be begged.
            let _ = Sys::real().clock.timeout(EFFORT, socket.write_all(&bytes)).await;
            Some(socket)
        });
    }
    let mut held = Held::default();
    while let Some(sent) = sending.join_next().await {
        held.connections.extend(sent.unwrap());
    }
    held
}

async fn closed_windows(
    address: SocketAddr,
    connections: usize,
    answers: u32,
    target: &str,
    window: u32,
) -> Held {
    let mut bytes = raw_http2::preface(window);
    for number in 0..answers {
        bytes.extend(raw_http2::get(1 + 2 * number, target));
    }
    hold(address, connections, bytes).await
}

async fn stalled_uploads(address: SocketAddr) -> Held {
    let mut bytes = request("POST", "/v1/stream/large", BODY_BYTES).into_bytes();
    bytes.resize(bytes.len() + BODY_BYTES - 1, b'x');
    hold(address, 40, bytes).await
}

/// A server ends a head that takes too long; then the next one begins.
fn endless_heads(address: SocketAddr) -> Held {
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}", "y".repeat(60_000));
    let head: Arc<[u8]> = head.into_bytes().into();
    Held::busy(5000, move |answers| endless_head(address, head.clone(), answers))
}

async fn endless_head(address: SocketAddr, head: Arc<[u8]>, answers: Arc<Answers>) {
    let clock = Sys::real().clock;
    while !answers.is_over() {
        if let Ok(mut socket) = connect(address).await
            && let Ok(Ok(())) = clock.timeout(EFFORT, socket.write_all(&head)).await
        {
            let began = clock.elapsed();
            answers.note(&mut socket).await;
            // Who is refused at once has nothing to win by asking at once.
            if clock.elapsed() - began > EFFORT {
                continue;
            }
        }
        clock.sleep(4 * EFFORT).await;
    }
}

/// Asks again and again, on a connection of its own each time.
async fn repeat(address: SocketAddr, request: Arc<[u8]>, answers: Arc<Answers>) {
    while !answers.is_over() {
        if let Ok(mut socket) = connect(address).await {
            let _ = socket.write_all(&request).await;
            answers.note(&mut socket).await;
        } else {
            Sys::real().clock.sleep(BREATH).await;
        }
    }
}

fn churn(address: SocketAddr) -> Held {
    let get: Arc<[u8]> = request("GET", "/v1/stream/small?offset=-1", 0).into_bytes().into();
    Held::busy(8, move |answers| repeat(address, get.clone(), answers))
}

/// Spaces alone become a thousand times their size, and that is refused: enough of what cannot be
/// packed stands before them.
fn bombs(address: SocketAddr) -> Held {
    let mut unpacked = vec![0; 75_000];
    Sys::real().chance.fill(&mut unpacked);
    unpacked.resize(BODY_BYTES, b' ');
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&unpacked).unwrap();
    let bomb = encoder.finish().unwrap();
    let head = request("POST", "/v1/stream/bombs", bomb.len());
    let head = head.replace("connection: close", "content-encoding: gzip\r\nconnection: close");
    let whole: Arc<[u8]> = [head.as_bytes(), &bomb].concat().into();
    Held::busy(64, move |answers| repeat(address, whole.clone(), answers))
}

/// The smallest elements that the largest body has.
fn zeros(address: SocketAddr) -> Held {
    let body = format!("[0{}]", ",0".repeat(BODY_BYTES / 2 - 2));
    let head = request("POST", "/v1/stream/small", body.len());
    let head = head.replace("text/plain", "application/json");
    let whole: Arc<[u8]> = [head.as_bytes(), body.as_bytes()].concat().into();
    Held::busy(16, move |answers| repeat(address, whole.clone(), answers))
}
