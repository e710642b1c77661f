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
/// Whoever waits longer was refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message as large as one may be by default, less the room for a few more bytes.
pub(crate) const LARGE_BYTES: usize = 12 * 1024 * 1024;
/// An answer that fits into what HTTP/2 sends at a time, made anew for each reader.
const SMALL_VALUES: usize = 5_000;
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

/// Makes the streams: `large` and `small` for attackers, `medium` and `mine` for others.
pub(crate) async fn prepare(address: SocketAddr) {
    let values = format!("[{}]", vec!["\"aaaaaaaaa\""; SMALL_VALUES].join(","));
    for (stream, body) in [
        ("large", vec![b'x'; LARGE_BYTES]),
        ("small", values.into_bytes()),
        ("medium", vec![b'x'; MEDIUM_BYTES]),
        ("mine", vec![b'x'; 10]),
    ] {
        let is_json = stream == "small";
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
        let Service { asked, refused, slowest } = service.unwrap();
        all.asked += asked;
        all.refused.extend(refused);
        all.slowest = all.slowest.max(slowest);
    }
    all
}

pub(crate) fn request(method: &str, target: &str, length: usize) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    )
}

/// Asks once; what came instead if it is no success. Of an answer that goes on, its first event is
/// waited for.
async fn expect(address: SocketAddr, head: &str, body: &[u8]) -> Result<(), String> {
    let asking = async {
        let mut socket = TcpStream::connect(address).await?;
        socket.write_all(&[head.as_bytes(), body].concat()).await?;
        let mut answer = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = socket.read(&mut buffer).await?;
            answer.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&answer[..answer.len().min(2000)]).into_owned();
            if read == 0 || text.contains("event: control") {
                return Ok::<_, std::io::Error>(text);
            }
        }
    };
    let line = head.lines().next().unwrap_or_default();
    match Sys::real().clock.timeout(PATIENCE, asking).await {
        Ok(Ok(text)) if text.starts_with("HTTP/1.1 2") => Ok(()),
        Ok(Ok(text)) => Err(format!("{line}: {}", text.lines().next().unwrap_or_default())),
        Ok(Err(error)) => Err(format!("{line}: {error}")),
        Err(_) => Err(format!("{line}: no answer in {PATIENCE:?}")),
    }
}
