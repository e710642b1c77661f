//! Clients that want little, and count what they do not get.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use sys::Sys;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

/// Clients at a time, and what each of them asks for.
const CLIENTS: usize = 4;
const ROUNDS: usize = 40;
/// Bytes of an answer that are looked at.
const SHOWN: usize = 8_000;
/// Whoever waits longer was refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message as large as one may be by default, less the room for a few more bytes.
pub(crate) const LARGE_BYTES: usize = 12 * 1024 * 1024;
/// An answer that fits into what HTTP/2 sends at a time, made anew for each reader.
const SMALL_VALUES: usize = 5_000;
/// The largest answer that does not count by its bytes.
const FREE_VALUES: usize = 666;
/// A message of lines that says nothing: an event has six bytes for each.
const LINES: usize = 4 * 1024 * 1024;
/// An answer of a usual size.
const MEDIUM_BYTES: usize = 200_000;

/// What others got.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub(crate) asked: usize,
    /// What was answered instead.
    pub(crate) refused: Vec<String>,
    pub(crate) slowest: Duration,
}

impl Service {
    /// Both together.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.asked += other.asked;
        self.refused.extend(other.refused);
        self.slowest = self.slowest.max(other.slowest);
        self
    }
}

/// Makes the streams: `medium` and `mine` for others, the rest for attackers.
pub(crate) async fn prepare(address: SocketAddr) {
    let values = |count| format!("[{}]", vec!["\"aaaaaaaaa\""; count].join(",")).into_bytes();
    for (stream, body) in [
        ("large", vec![b'x'; LARGE_BYTES]),
        ("lines", vec![b'\n'; LINES]),
        ("small", values(SMALL_VALUES)),
        ("free", values(FREE_VALUES)),
        ("bombs", vec![b'x'; 10]),
        ("medium", vec![b'x'; MEDIUM_BYTES]),
        ("mine", vec![b'x'; 10]),
    ] {
        let is_json = matches!(stream, "small" | "free");
        let typed = |head: String| match is_json {
            true => head.replace("text/plain", "application/json"),
            false => head,
        };
        let put = typed(request("PUT", &format!("/v1/stream/{stream}"), 0));
        expect(address, &put, b"").await.unwrap();
        let post = typed(request("POST", &format!("/v1/stream/{stream}"), body.len()));
        expect(address, &post, &body).await.unwrap();
    }
}

/// Asks for this and that, each on a connection of its own.
pub(crate) async fn serve(address: SocketAddr) -> Service {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(async move {
            let mut service = Service::default();
            for _ in 0..ROUNDS {
                let small = [b'y'; 200];
                let follow = request("GET", "/v1/stream/mine?offset=now&live=sse", 0);
                for (head, body) in [
                    (request("POST", "/v1/stream/mine", small.len()), &small[..]),
                    (request("GET", "/v1/stream/mine?offset=-1", 0), b""),
                    (request("GET", "/v1/stream/small?offset=-1", 0), b""),
                    (request("GET", "/v1/stream/medium?offset=-1", 0), b""),
                    (follow, b""),
                    (request("GET", "/v1/stream/?watch=**", 0), b""),
                    (request("GET", "/healthz", 0), b""),
                ] {
                    let began = Instant::now();
                    service.asked += 1;
                    service.refused.extend(expect(address, &head, body).await.err());
                    service.slowest = service.slowest.max(began.elapsed());
                }
            }
            service
        });
    }
    let mut all = Service::default();
    while let Some(service) = clients.join_next().await {
        all = all.and(service.unwrap());
    }
    all
}

pub(crate) fn request(method: &str, target: &str, length: usize) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    )
}

/// Asks once; what came instead if it is no success.
async fn expect(address: SocketAddr, head: &str, body: &[u8]) -> Result<(), String> {
    ask(address, head, body).await.map(drop)
}

/// The beginning of the answer, if it is a success. Of one that goes on, its first event is waited
/// for, or its first sign of life.
pub(crate) async fn ask(address: SocketAddr, head: &str, body: &[u8]) -> Result<String, String> {
    let asking = async {
        let mut socket = TcpStream::connect(address).await?;
        socket.write_all(&[head.as_bytes(), body].concat()).await?;
        let mut answer = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = socket.read(&mut buffer).await?;
            answer.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&answer[..answer.len().min(SHOWN)]).into_owned();
            if read == 0 || text.contains("event: control") || text.contains(": keep-alive\n") {
                return Ok::<_, std::io::Error>(text);
            }
        }
    };
    let line = head.lines().next().unwrap_or_default();
    match Sys::real().clock.timeout(PATIENCE, asking).await {
        Ok(Ok(text)) if text.starts_with("HTTP/1.1 2") => Ok(text),
        Ok(Ok(text)) => Err(format!("{line}: {}", text.lines().next().unwrap_or_default())),
        Ok(Err(error)) => Err(format!("{line}: {error}")),
        Err(_) => Err(format!("{line}: no answer in {PATIENCE:?}")),
    }
}
