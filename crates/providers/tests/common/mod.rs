//! A server on a real socket that answers with exactly the bytes it was given.
#![allow(clippy::unwrap_used, dead_code, reason = "tests fail where they stand")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use chat::{Message, Model, ModelError, ModelEvent, Request, Role};
use futures_util::StreamExt as _;
use serde_json::Value;
use sys::{Cancellation, Canceller, Sys};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// What the server does with one request.
pub(crate) enum Reply {
    /// Writes these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Writes these bytes and keeps the connection open until the other side closes it.
    Hang(Vec<u8>),
    /// Writes the head, and then this piece again and again.
    Endless(Vec<u8>, Vec<u8>),
}

pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Says when a connection that was kept open has been closed by the other side.
    pub(crate) closed: mpsc::Receiver<()>,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Server {
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (closing, closed) = mpsc::channel(16);
        let mut replies = VecDeque::from(replies);
        let requests = seen.clone();
        Sys::real().spawn.task("a provider", async move {
            while let Some(reply) = replies.pop_front() {
                let (socket, _) = listener.accept().await.unwrap();
                serve(socket, reply, &requests, &closing).await;
            }
        });
        Self { url, seen, closed }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(
    mut socket: TcpStream,
    reply: Reply,
    seen: &Mutex<Vec<Seen>>,
    closing: &mpsc::Sender<()>,
) {
    let mut bytes = Vec::new();
    let (end, len) = loop {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the request broke off");
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some(end) = text.find("\r\n\r\n") {
            let len = text.split("content-length: ").nth(1).unwrap();
            break (end + 4, len.split("\r\n").next().unwrap().parse::<usize>().unwrap());
        }
    };
    while bytes.len() < end + len {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the request broke off");
    }
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let body = serde_json::from_slice(&bytes[end..end + len]).unwrap();
    seen.lock().unwrap().push(Seen { head, body });
    match reply {
        Reply::Bytes(bytes) => {
            socket.write_all(&bytes).await.unwrap();
            let _ = socket.shutdown().await;
        }
        Reply::Hang(bytes) => {
            socket.write_all(&bytes).await.unwrap();
            let mut rest = [0; 64];
            while socket.read(&mut rest).await.is_ok_and(|len| len > 0) {}
            closing.send(()).await.unwrap();
        }
        Reply::Endless(head, piece) => {
            socket.write_all(&head).await.unwrap();
            while socket.write_all(&piece).await.is_ok() {}
            closing.send(()).await.unwrap();
        }
    }
}

pub(crate) const SSE_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
pub(crate) const LINES_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n";

/// An answer of these events, each the data of one.
pub(crate) fn sse(events: &[&str]) -> Vec<u8> {
    let events: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
    format!("{SSE_HEAD}{events}").into_bytes()
}

pub(crate) fn refusal(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {len}\r\n\r\n");
    format!("{head}{body}").into_bytes()
}

pub(crate) fn hello() -> Arc<Request> {
    let message = Message::text("m1", Role::User, "Hello");
    Arc::new(Request { messages: [message].into(), ..Request::default() })
}

/// All that a model streams.
pub(crate) async fn ask(
    model: &dyn Model,
    request: Arc<Request>,
) -> (Vec<ModelEvent>, Option<ModelError>) {
    let (_canceller, cancellation): (Canceller, _) = Cancellation::new();
    let stream = model.call(request, cancellation);
    let clock = Sys::real().clock;
    let all = clock.timeout(Duration::from_secs(30), stream.collect::<Vec<_>>());
    let mut events = Vec::new();
    for item in all.await.expect("the answer ends") {
        match item {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// The text of all text blocks.
pub(crate) fn text(events: &[ModelEvent]) -> String {
    let deltas = events.iter().filter_map(|event| match event {
        ModelEvent::More { delta, .. } => Some(delta.as_str()),
        _ => None,
    });
    deltas.collect()
}
