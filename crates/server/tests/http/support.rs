//! A server on loopback, and a client so plain that it can also be rude.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use log::{Log, MemoryLog};
use server::{Server, Settings};
use sys::{Sys, Task};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::oneshot,
};

/// How long any answer may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs until it is dropped or stopped.
pub(crate) struct Harness {
    pub(crate) sys: Sys,
    pub(crate) log: Arc<MemoryLog>,
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: Task,
}

/// Settings for tests: any port, short waits.
pub(crate) fn settings() -> Settings {
    Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        long_poll_timeout: Duration::from_millis(200),
        drain_timeout: Duration::from_secs(5),
        ..Settings::default()
    }
}

/// A file that the tests come with.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

impl Harness {
    pub(crate) async fn start() -> Self {
        Self::with(settings()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let sys = Sys::real();
        let log = Arc::new(MemoryLog::new(&sys));
        Self::serving(sys, log.clone(), log, settings).await
    }

    /// Serves `served`; `log` is what tests look into.
    pub(crate) async fn serving(
        sys: Sys,
        log: Arc<MemoryLog>,
        served: Arc<dyn Log>,
        settings: Settings,
    ) -> Self {
        let server = Server::bind(served, sys.clone(), settings).await.unwrap();
        Self::running(sys, log, server)
    }

    /// Runs a server that is bound already.
    pub(crate) fn running(sys: Sys, log: Arc<MemoryLog>, server: Server) -> Self {
        let address = server.local_addr();
        let (stop, stopped) = oneshot::channel();
        let running = sys.spawn.task("server", async move {
            server.run(async { drop(stopped.await) }).await;
        });
        Self { sys, log, address, stop, running }
    }

    pub(crate) async fn connect(&self) -> Wire {
        let socket = TcpStream::connect(self.address).await.unwrap();
        Wire { socket, sys: self.sys.clone(), unread: Vec::new() }
    }

    /// The same from another address of this machine, as another client.
    pub(crate) async fn connect_from(&self, client: u8) -> Wire {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, client], 0))).unwrap();
        let socket = socket.connect(self.address).await.unwrap();
        Wire { socket, sys: self.sys.clone(), unread: Vec::new() }
    }

    /// Waits until a gauge of the server says this.
    pub(crate) async fn until_gauge(&self, name: &str, is_it: impl Fn(u64) -> bool) {
        let reached = async {
            loop {
                let text = self.get("/metrics").await.text();
                let value =
                    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
                if value.is_some_and(&is_it) {
                    return;
                }
            }
        };
        let reached = self.sys.clock.timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "{name} never came to that");
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, request: Request<'_>) -> Answer {
        let mut wire = self.connect().await;
        let head_only = request.method == "HEAD";
        wire.send(request.header("connection", "close").to_string()).await;
        if head_only { wire.head().await } else { wire.answer().await }
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.ask(Request::new("GET", target)).await
    }

    /// Creates a stream of this content type.
    pub(crate) async fn create(&self, target: &str, content_type: &str) {
        let put = Request::new("PUT", target).header("content-type", content_type);
        self.ask(put).await.expect(201);
    }

    /// Appends to a stream of this content type.
    pub(crate) async fn append(&self, target: &str, content_type: &str, body: &str) -> Answer {
        self.ask(Request::new("POST", target).header("content-type", content_type).body(body)).await
    }

    /// Asks the server to end, and returns a future that resolves when it has.
    pub(crate) fn stop(self) -> impl Future<Output = ()> {
        let _ = self.stop.send(());
        self.running.join()
    }
}

/// A request that is written as its parts say, sensible or not.
#[derive(Clone)]
pub(crate) struct Request<'a> {
    method: &'a str,
    target: &'a str,
    host: &'a str,
    headers: Vec<(&'a str, String)>,
    body: &'a str,
}

impl<'a> Request<'a> {
    pub(crate) fn new(method: &'a str, target: &'a str) -> Self {
        Self { method, target, host: "localhost", headers: Vec::new(), body: "" }
    }

    pub(crate) fn host(mut self, host: &'a str) -> Self {
        self.host = host;
        self
    }

    pub(crate) fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn body(mut self, body: &'a str) -> Self {
        self.body = body;
        self
    }
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} HTTP/1.1\r\nhost: {}\r\n", self.method, self.target, self.host)?;
        for (name, value) in &self.headers {
            write!(f, "{name}: {value}\r\n")?;
        }
        if !self.body.is_empty() {
            write!(f, "content-length: {}\r\n", self.body.len())?;
        }
        write!(f, "\r\n{}", self.body)
    }
}

/// A connection.
pub(crate) struct Wire {
    socket: TcpStream,
    sys: Sys,
    unread: Vec<u8>,
}

/// An answer, its body as sent but for the chunking.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Wire {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn finish(&mut self) {
        self.socket.shutdown().await.unwrap();
    }

    /// Reads one answer. A body without a length lasts until the connection ends.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.until("\r\n\r\n").await;
        let mut answer = Answer {
            status: head.split(' ').nth(1).expect("a status line").parse().unwrap(),
            head,
            body: Vec::new(),
        };
        let bodiless = matches!(answer.status, 204 | 304);
        match answer.header("content-length").map(|length| length.parse().unwrap()) {
            Some(length) => answer.body = self.exactly(length).await,
            None if bodiless => {}
            None if answer.header("transfer-encoding") == Some("chunked") => {
                answer.body = self.chunks().await;
            }
            None => answer.body = self.rest().await,
        }
        answer
    }

    /// Reads the head of an answer whose body goes on.
    pub(crate) async fn head(&mut self) -> Answer {
        let head = self.until("\r\n\r\n").await;
        let status = head.split(' ').nth(1).expect("a status line").parse().unwrap();
        Answer { status, head, body: Vec::new() }
    }

    /// Reads up to and including `end`.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        let mut searched = 0;
        loop {
            let found =
                self.unread[searched..].windows(end.len()).position(|w| w == end.as_bytes());
            if let Some(at) = found {
                let bytes = self.take(searched + at + end.len());
                return String::from_utf8(bytes).unwrap();
            }
            searched = self.unread.len().saturating_sub(end.len());
            assert!(self.more().await, "ended before {end:?}: {:?}", self.text());
        }
    }

    /// Reads up to and including `end`, which need not stand in text.
    pub(crate) async fn until_bytes(&mut self, end: &[u8]) {
        while !self.unread.windows(end.len()).any(|window| window == end) {
            assert!(self.more().await, "ended before {end:?}");
        }
    }

    /// One chunk of a body that goes on; none at its end.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.until("\r\n").await;
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        let mut chunk = self.exactly(size + 2).await;
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// Everything until the connection ends.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.unread)
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await {
            body.extend(chunk);
        }
        body
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            assert!(self.more().await, "ended before {length} bytes: {:?}", self.text());
        }
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.unread.split_off(length);
        std::mem::replace(&mut self.unread, rest)
    }

    /// False if the connection ended.
    async fn more(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let reading = self.sys.clock.timeout(PATIENCE, self.socket.read(&mut buffer));
        let length = reading.await.expect("the server answers in time").unwrap_or(0);
        self.unread.extend_from_slice(&buffer[..length]);
        length > 0
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.unread).into_owned()
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn next_offset(&self) -> String {
        self.header("stream-next-offset").expect("a Stream-Next-Offset").to_owned()
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(document["status"], self.status);
        document["code"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, String::from_utf8_lossy(&self.body));
        self
    }
}
