//! A server of ours, and one that answers exactly what a test wrote down.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use client::{Client, NewStream, Retry, Settings, Stream};
use log::{Log, MemoryLog};
use sys::Sys;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Retries that do not keep a test waiting.
pub(crate) fn settings(address: SocketAddr) -> Settings {
    let mut settings = Settings::new(&format!("http://{address}")).unwrap();
    let ms = Duration::from_millis;
    settings.retry = Retry::new(5, ms(1), ms(5), 2.0).unwrap();
    settings
}

/// A server of ours, until the test ends.
pub(crate) async fn ours() -> SocketAddr {
    serving(Arc::new(MemoryLog::new(&Sys::real()))).await
}

/// The same, with streams that are there already.
pub(crate) async fn serving(log: Arc<dyn Log>) -> SocketAddr {
    let sys = Sys::real();
    let settings = server::Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        long_poll_timeout: Duration::from_millis(200),
        ..server::Settings::default()
    };
    let server = server::Server::bind(log, sys.clone(), settings).await.unwrap();
    let address = server.local_addr();
    sys.spawn.task("server", server.run(std::future::pending()));
    address
}

pub(crate) async fn connected(address: SocketAddr) -> Client {
    Client::connect(&Sys::real(), settings(address)).await.unwrap()
}

/// A new stream of this kind.
pub(crate) async fn stream(client: &Client, content_type: &str) -> Stream {
    let stream = client.stream(&"a/stream".parse().unwrap());
    let content_type = Some(content_type.parse().unwrap());
    stream.create(NewStream { content_type, ..NewStream::default() }).await.unwrap();
    stream
}

/// What a scripted server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends these bytes, and takes the next request.
    Say(String),
    /// Sends these bytes, and hangs up.
    SayAndLeave(String),
    /// Sends these bytes, and then nothing, for ever.
    SayAndFreeze(String),
}

/// A server that follows a script, request by request, and then hangs up on everybody.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub(crate) async fn start(script: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let script = Arc::new(Mutex::new(script.into_iter()));
        let noted = asked.clone();
        let spawn = Sys::real().spawn;
        spawn.clone().task("scripted", async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (script, noted) = (script.clone(), noted.clone());
                spawn.task("connection", async move {
                    let next = || script.lock().unwrap().next();
                    serve(socket, next, &noted).await;
                });
            }
        });
        Self { address, asked }
    }

    /// The requests so far: their heads.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn stream(&self) -> Stream {
        let client = Client::new(&Sys::real(), settings(self.address));
        client.stream(&"a/stream".parse().unwrap())
    }
}

async fn serve(mut socket: TcpStream, next: impl Fn() -> Option<Act>, asked: &Mutex<Vec<String>>) {
    while let Some(head) = request(&mut socket).await {
        asked.lock().unwrap().push(head);
        match next() {
            Some(Act::Say(text)) => socket.write_all(text.as_bytes()).await.unwrap(),
            Some(Act::SayAndLeave(text)) => {
                let _ = socket.write_all(text.as_bytes()).await;
                return;
            }
            Some(Act::SayAndFreeze(text)) => {
                let _ = socket.write_all(text.as_bytes()).await;
                std::future::pending::<()>().await;
            }
            None => return,
        }
    }
}

/// The head of the next request; its body is read and forgotten.
async fn request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// An answer with a body.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

/// Headers of an answer that reaches so far.
pub(crate) fn at(offset: &str) -> String {
    format!("content-type: text/plain\r\nstream-next-offset: {offset}\r\n")
}

/// The start of events.
pub(crate) fn events(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{text}")
}

/// A data event, and its control event.
pub(crate) fn event(data: &str, offset: &str, rest: &str) -> String {
    let control = format!("{{\"streamNextOffset\":\"{offset}\"{rest}}}");
    format!("event: data\ndata:{data}\n\nevent: control\ndata:{control}\n\n")
}
