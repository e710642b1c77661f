//! A server that wakes, a door that it wakes by, and a client so plain that it can also lie.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use agent::lifecycle::{DeskSettings, Finish, Session, WebhookDesk};
use axum::{Router, body::Body, extract::State, response::Response, routing::post};
use client::{Client, HttpLog, HttpSubscriptions, Webhooks};
use log::{Log, MemoryLog};
use server::{Server, Settings};
use sessions::{WakeDoor, handle_wake};
use sys::{Chance, Sys};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};
use wake::{Engine, Keys, Subscriptions};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) sys: Sys,
    pub(crate) keys: Arc<Keys>,
    /// As the runner sees them.
    pub(crate) subscriptions: Arc<dyn Subscriptions>,
    /// As the runner sees it.
    pub(crate) log: Arc<dyn Log>,
    server: SocketAddr,
    pub(crate) door: SocketAddr,
    /// Work that has begun.
    jobs: mpsc::Receiver<Job>,
    /// Wakes as they came in.
    wakes: mpsc::Receiver<Wake>,
    /// What each was answered.
    answers: mpsc::Receiver<Answer>,
}

/// How a runner reaches its server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    InProcess,
    Remote,
}

/// Work that waits to be told how it ends.
pub(crate) struct Job {
    pub(crate) session: Session,
    end: oneshot::Sender<Result<Finish, &'static str>>,
}

/// A request that woke.
#[derive(Clone, Debug)]
pub(crate) struct Wake {
    pub(crate) signature: String,
    pub(crate) body: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl World {
    pub(crate) async fn new(settings: DeskSettings) -> Self {
        Self::reached(Reach::InProcess, settings).await
    }

    pub(crate) async fn reached(reach: Reach, settings: DeskSettings) -> Self {
        let sys = Sys::real();
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let keys = Arc::new(Keys::generate(&Chance::real()));
        let courier = Arc::new(Webhooks::new());
        let engine = Engine::open(log.clone(), &sys, courier, keys.clone()).await.unwrap();
        let subscriptions: Arc<dyn Subscriptions> = Arc::new(engine);
        let listen = Settings { listen: "127.0.0.1:0".parse().unwrap(), ..Settings::default() };
        let served = Some(subscriptions.clone());
        let server = Server::bind_with(log.clone(), served, sys.clone(), listen).await.unwrap();
        let address = server.local_addr();
        sys.spawn.task("server", server.run(std::future::pending()));
        let (log, subscriptions) = match reach {
            Reach::InProcess => (log, subscriptions),
            Reach::Remote => remote(&sys, address).await,
        };

        let (began, jobs) = mpsc::channel(16);
        let work = move |session| {
            let began = began.clone();
            async move {
                let (end, ended) = oneshot::channel();
                began.send(Job { session, end }).await.unwrap();
                ended.await.unwrap()
            }
        };
        let desk = WebhookDesk::new(&sys, subscriptions.clone(), settings, work);
        let (door, wakes, answers) = open_door(&sys, subscriptions.clone(), desk).await;
        Self { sys, keys, subscriptions, log, server: address, door, jobs, wakes, answers }
    }

    /// Subscribes the door to everything below `events`.
    pub(crate) async fn subscribe(&self) {
        let body = format!(
            r#"{{"type":"webhook","pattern":"events/*","webhook":{{"url":"http://{}/wake"}},
                "lease_ttl_ms":30000}}"#,
            self.door
        );
        let answer = ask(self.server, "PUT", "/v1/stream/__ds/subscriptions/s", "", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    pub(crate) async fn append(&self, stream: &str) {
        let place = format!("/v1/stream/{stream}");
        ask(self.server, "PUT", &place, "", "").await;
        let answer = ask(self.server, "POST", &place, "", "1").await;
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    /// The next work that begins.
    pub(crate) async fn job(&mut self) -> Job {
        let job = within(self.sys.clone(), self.jobs.recv()).await.unwrap();
        // It was the desk's, and not some other wake's.
        assert_eq!(job.session.lease().subscription.as_str(), "s");
        job
    }

    /// Whether work has begun that nobody asked about.
    pub(crate) fn has_job(&mut self) -> bool {
        self.jobs.try_recv().is_ok()
    }

    /// The next request at the door.
    pub(crate) async fn wake(&mut self) -> Wake {
        within(self.sys.clone(), self.wakes.recv()).await.unwrap()
    }

    /// The next answer of the door.
    pub(crate) async fn answer(&mut self) -> Answer {
        within(self.sys.clone(), self.answers.recv()).await.unwrap()
    }

    /// Whether the door has answered anybody else.
    pub(crate) fn has_answer(&mut self) -> bool {
        self.answers.try_recv().is_ok()
    }

    /// Sends a request to the door.
    pub(crate) async fn send(&self, signature: &str, body: &str) -> Answer {
        within(self.sys.clone(), ask(self.door, "POST", "/wake", signature, body)).await
    }

    /// Signs as the server does.
    pub(crate) fn sign(&self, body: &str) -> String {
        self.keys.sign(body.as_bytes(), self.sys.clock.unix_ms())
    }
}

impl Job {
    pub(crate) fn end(self, outcome: Result<Finish, &'static str>) {
        self.end.send(outcome).unwrap();
    }
}

/// The same things, over HTTP.
async fn remote(sys: &Sys, server: SocketAddr) -> (Arc<dyn Log>, Arc<dyn Subscriptions>) {
    let settings = client::Settings::new(&format!("http://{server}")).unwrap();
    let client = Client::connect(sys, settings).await.unwrap();
    (Arc::new(HttpLog::new(client.clone())), Arc::new(HttpSubscriptions::new(client)))
}

/// A router as an application would make it, which also tells what came in and went out.
async fn open_door(
    sys: &Sys,
    subscriptions: Arc<dyn Subscriptions>,
    desk: Arc<WebhookDesk>,
) -> (SocketAddr, mpsc::Receiver<Wake>, mpsc::Receiver<Answer>) {
    let ((came, wakes), (went, answers)) = (mpsc::channel(64), mpsc::channel(64));
    let overhear =
        move |State(door): State<Arc<WakeDoor>>, headers: http::HeaderMap, body: Body| {
            let (came, went) = (came.clone(), went.clone());
            async move { overheard(came, went, door, headers, body).await }
        };
    let door = WakeDoor::new(sys, subscriptions, desk);
    let router = Router::new().route("/wake", post(overhear)).with_state(door);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    sys.spawn.task("door", async move { axum::serve(listener, router).await.unwrap() });
    (address, wakes, answers)
}

async fn overheard(
    came: mpsc::Sender<Wake>,
    went: mpsc::Sender<Answer>,
    door: Arc<WakeDoor>,
    headers: http::HeaderMap,
    body: Body,
) -> Response {
    let signature = headers.get("webhook-signature").map(|value| value.to_str().unwrap());
    let signature = signature.unwrap_or_default().to_owned();
    let (body, text) = whole(body).await;
    came.try_send(Wake { signature, body: text }).unwrap();
    let (head, body) = handle_wake(State(door), headers, body).await.into_parts();
    let (body, text) = whole(body).await;
    went.try_send(Answer { status: head.status.as_u16(), text }).unwrap();
    Response::from_parts(head, body)
}

async fn whole(body: Body) -> (Body, String) {
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (bytes.into(), text)
}

pub(crate) async fn within<T>(sys: Sys, future: impl Future<Output = T>) -> T {
    sys.clock.timeout(PATIENCE, future).await.expect("it came in time")
}

/// One request on a connection of its own.
async fn ask(to: SocketAddr, method: &str, place: &str, signature: &str, body: &str) -> Answer {
    let mut socket = TcpStream::connect(to).await.unwrap();
    let signature = match signature {
        "" => String::new(),
        signature => format!("webhook-signature: {signature}\r\n"),
    };
    let head = format!(
        "{method} {place} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{signature}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    // A server that has read enough may hang up before it was sent everything.
    let _ = socket.write_all(body.as_bytes()).await;
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, text }
}
