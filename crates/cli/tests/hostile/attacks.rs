//! Clients that want all.

use std::{
    future::Future,
    io::Write as _,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sys::Sys;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

use super::{others::request, raw_http2};

/// Bytes of the largest body that a server takes by default.
const BODY_BYTES: usize = 16 * 1024 * 1024;
/// How long an attacker tries to send what nobody takes from it.
const EFFORT: Duration = Duration::from_secs(3);

/// One way to want all.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// How many descriptors the server may have, if fewer than usual.
    pub(crate) descriptors: Option<u32>,
    /// Takes everything it can get.
    pub(crate) begin: fn(SocketAddr) -> Pin<Box<dyn Future<Output = Held>>>,
}

/// What an attacker holds, until it is dropped.
#[derive(Default)]
pub(crate) struct Held {
    connections: Vec<TcpStream>,
    /// Those that go on attacking, and what tells them to stop.
    busy: Option<(Arc<AtomicBool>, JoinSet<()>)>,
}

impl Held {
    pub(crate) fn count(&self) -> usize {
        self.connections.len() + self.busy.as_ref().map_or(0, |(_, busy)| busy.len())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((stop, _)) = &self.busy {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "4 HTTP/2 connections, 67 answers of 12 MiB each, windows closed",
        descriptors: None,
        begin: |address| Box::pin(closed_windows(address, 4, 67, "/v1/stream/large?offset=-1", 0)),
    },
    Attack {
        name: "100 HTTP/2 connections, 100 answers of 60 KB each, one byte taken",
        descriptors: None,
        begin: |address| {
            Box::pin(closed_windows(address, 100, 100, "/v1/stream/small?offset=-1", 1))
        },
    },
    Attack {
        name: "40 uploads of 16 MiB that stall before the last byte",
        descriptors: None,
        begin: |address| Box::pin(stalled_uploads(address)),
    },
    Attack {
        name: "60 readers of 12 MiB that read nothing",
        descriptors: None,
        begin: |address| {
            let get = request("GET", "/v1/stream/large?offset=-1", 0);
            Box::pin(hold(address, 60, get.into_bytes()))
        },
    },
    Attack {
        name: "1,100 idle SSE readers of a server with 1,024 descriptors",
        descriptors: Some(1024),
        begin: |address| {
            let get = request("GET", "/v1/stream/mine?offset=-1&live=sse", 0);
            Box::pin(hold(address, 1100, get.into_bytes()))
        },
    },
    Attack {
        name: "5,000 connections with 60 KB of a head that never ends",
        descriptors: None,
        begin: |address| {
            let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}", "y".repeat(60_000));
            Box::pin(hold(address, 5000, head.into_bytes()))
        },
    },
    Attack {
        name: "8 clients that connect, ask and leave without end",
        descriptors: None,
        begin: |address| Box::pin(std::future::ready(churn(address))),
    },
    Attack {
        name: "64 bodies of 16 KB gzip that become 16 MB each",
        descriptors: None,
        begin: |address| Box::pin(bombs(address)),
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

fn churn(address: SocketAddr) -> Held {
    let stop = Arc::new(AtomicBool::new(false));
    let mut busy = JoinSet::new();
    for _ in 0..8 {
        let stop = stop.clone();
        busy.spawn(async move {
            let get = request("GET", "/v1/stream/small?offset=-1", 0);
            while !stop.load(Ordering::Relaxed) {
                let Ok(mut socket) = connect(address).await else { continue };
                let _ = socket.write_all(get.as_bytes()).await;
                let _ = socket.read(&mut [0; 16]).await;
            }
        });
    }
    Held { connections: Vec::new(), busy: Some((stop, busy)) }
}

async fn bombs(address: SocketAddr) -> Held {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![b' '; BODY_BYTES]).unwrap();
    let bomb = encoder.finish().unwrap();
    let head = request("POST", "/v1/stream/large", bomb.len());
    let head = head.replace("connection: close", "content-encoding: gzip");
    hold(address, 64, [head.as_bytes(), &bomb].concat()).await
}
