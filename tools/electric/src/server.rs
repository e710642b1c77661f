//! HTTP: shapes for clients, and a back door for tests.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::Result;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::{
    body::{Body, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sys::Sys;
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};

use crate::{
    params::{Definition, Params},
    shape::{Page, Shape, schema},
    subset::Subset,
    table::{Operation, Table},
};

/// How long a live request is held. The service holds them for 20 s.
const LONG_POLL: Duration = Duration::from_secs(3);
/// Pieces of an answer that are on their way.
const PIECES_MAX: usize = 16;

/// Something to do to the next requests for a shape, once to each client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// Refuse one with this status.
    Status(u16),
    /// Break the connection after so many bytes of the body of the next one that has rows.
    Cut(usize),
}

/// A server. Cheap to clone: all clones are one server.
#[derive(Clone, Debug)]
pub struct Fixture {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Debug)]
struct Shared {
    sys: Sys,
    /// Held for moments, never across an await.
    state: Mutex<State>,
    news: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    shapes: BTreeMap<Definition, Shape>,
    /// How many logs were begun.
    logs: u64,
    faults: Vec<Fault>,
    /// How many of them each client has had, by what it calls itself.
    faults_had: BTreeMap<String, usize>,
    requests: u64,
    subsets_refused: Option<String>,
}

/// What a request leads to.
enum Told {
    Page { shape: Shape, page: Page, lsn: u64 },
    Gone { handle: String },
    Refused { status: u16, body: String },
}

impl Fixture {
    /// Serves an empty table on a free port, for as long as the runtime lives.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start(sys: &Sys) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (news, _) = watch::channel(0);
        let shared = Arc::new(Shared { sys: sys.clone(), state: Mutex::default(), news });
        let fixture = Self { shared, address };
        let (served, sys) = (fixture.clone(), sys.clone());
        sys.spawn.clone().task("fixture", async move {
            while let Ok((connection, _)) = listener.accept().await {
                let fixture = served.clone();
                sys.spawn.task("connection", async move {
                    let service = service_fn(move |request| {
                        let fixture = fixture.clone();
                        async move { Ok::<_, Infallible>(fixture.serve(request).await) }
                    });
                    // Clients hang up when they like.
                    let connection = TokioIo::new(connection);
                    let _ = http1::Builder::new().serve_connection(connection, service).await;
                });
            }
        });
        Ok(fixture)
    }

    /// Where its shapes are.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/v1/shape", self.address)
    }

    /// Does all of this in one transaction, and gives its number.
    pub fn transact(&self, operations: Vec<Operation>) -> u64 {
        let txid = self.shared.state.lock().table.transact(operations);
        self.shared.tell();
        txid
    }

    /// Gives all logs up.
    pub fn rotate(&self) {
        self.shared.state.lock().shapes.clear();
        self.shared.tell();
    }

    /// Does this to a later request, after all that were given before.
    pub fn fail(&self, fault: Fault) {
        self.shared.state.lock().faults.push(fault);
    }

    /// Refuses all requests for subsets from now on.
    pub fn refuse_subsets(&self, why: &str) {
        self.shared.state.lock().subsets_refused = Some(why.to_owned());
    }

    /// The table as it is.
    #[must_use]
    pub fn table(&self) -> Table {
        self.shared.state.lock().table.clone()
    }

    /// How many requests for shapes there were.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.state.lock().requests
    }

    async fn serve(&self, request: Request<Incoming>) -> Response<Pieces> {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/v1/shape") => {
                let agent = request.headers().get("user-agent");
                let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or_default();
                let query = request.uri().query().unwrap_or_default();
                self.shape(&Params::parse(query, agent)).await
            }
            (&Method::GET, "/rows") => {
                let rows = self.table().rows();
                answer(StatusCode::OK, json!(rows).to_string())
            }
            (&Method::POST, "/v1/shape") => {
                let query = request.uri().query().unwrap_or_default();
                let params = Params::parse(query, "");
                let body = request.into_body().collect().await;
                let body = body.map(|body| body.to_bytes()).unwrap_or_default();
                self.subset(&params, &body)
            }
            (&Method::POST, path) => {
                let path = path.to_owned();
                let body = request.into_body().collect().await;
                let body = body.map(|body| body.to_bytes()).unwrap_or_default();
                match self.command(&path, &body) {
                    Ok(told) => answer(StatusCode::OK, told),
                    Err(error) => answer(StatusCode::BAD_REQUEST, error.to_string()),
                }
            }
            _ => answer(StatusCode::NOT_FOUND, r#"{"message":"Not found"}"#.to_owned()),
        }
    }

    fn command(&self, path: &str, body: &[u8]) -> Result<String> {
        match path {
            "/transact" => Ok(self.transact(serde_json::from_slice(body)?).to_string()),
            "/rotate" => {
                self.rotate();
                Ok(String::new())
            }
            "/fail" => {
                self.fail(serde_json::from_slice(body)?);
                Ok(String::new())
            }
            path => anyhow::bail!("there is nothing at {path}"),
        }
    }

    async fn shape(&self, params: &Params) -> Response<Pieces> {
        let mut news = self.shared.news.subscribe();
        let mut told = self.shared.look(params, true);
        if let Told::Page { page, .. } = &told
            && page.is_end
            && page.messages.is_empty()
            && params.is_true("live")
            && !params.is_true("live_sse")
        {
            // Whatever happens, the table is looked at once more.
            let _ = self.shared.sys.clock.timeout(LONG_POLL, news.changed()).await;
            told = self.shared.look(params, false);
        }
        match told {
            Told::Refused { status, body } => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
                let mut refused = answer(status, body);
                if status == StatusCode::TOO_MANY_REQUESTS {
                    refused.headers_mut().insert("retry-after", http::HeaderValue::from(0));
                }
                refused
            }
            Told::Gone { handle } => gone(&handle),
            Told::Page { shape, page, lsn } if params.is_true("live_sse") => {
                self.events(params, &shape, page, lsn)
            }
            Told::Page { shape, page, lsn } => self.page(params, &shape, &page, lsn),
        }
    }

    fn subset(&self, params: &Params, body: &[u8]) -> Response<Pieces> {
        let invalid = |why: String| {
            let body = json!({"message": "Invalid request", "errors": {"subset": [why]}});
            answer(StatusCode::BAD_REQUEST, body.to_string())
        };
        let subset: Subset = match serde_json::from_slice(body) {
            Ok(subset) => subset,
            Err(error) => return invalid(error.to_string()),
        };
        if let Some(why) = self.shared.state.lock().subsets_refused.clone() {
            return invalid(why);
        }
        let (shape, offset) = match self.shared.look_from(params, "now") {
            Told::Page { shape, page, .. } => (shape, page.offset),
            Told::Gone { handle } => return gone(&handle),
            Told::Refused { body, .. } => return answer(StatusCode::BAD_REQUEST, body),
        };
        if params.get("offset") != Some("now") && params.get("handle") != Some(&shape.handle) {
            return gone(&shape.handle);
        }
        match shape.subset(&subset, &self.table()) {
            Ok(rows) => {
                let told = answer(StatusCode::OK, rows.to_string());
                let headers =
                    [("electric-handle", shape.handle.as_str()), ("electric-offset", &offset)];
                let told = with(told, &headers);
                with(told, &[("electric-schema", &schema()), ("electric-snapshot", "true")])
            }
            Err(why) => invalid(why),
        }
    }

    fn page(&self, params: &Params, shape: &Shape, page: &Page, lsn: u64) -> Response<Pieces> {
        let mut messages = page.messages.clone();
        if page.is_end {
            messages.push(up_to_date(lsn));
        }
        let body = json!(messages).to_string();
        let cut = match page.messages.is_empty() {
            true => None,
            false => self.shared.state.lock().take_cut(&params.agent),
        };
        let mut told = Response::new(Pieces::cut(body, cut));
        told = with(told, &[("content-type", "application/json; charset=utf-8")]);
        told = with(told, &[("electric-handle", &shape.handle), ("electric-offset", &page.offset)]);
        if page.is_end {
            told = with(told, &[("electric-up-to-date", "")]);
        }
        match params.is_true("live") {
            true => with(told, &[("electric-cursor", &cursor(&self.shared.sys))]),
            false => with(told, &[("electric-schema", &schema())]),
        }
    }

    /// A live answer that goes on until the log is given up or it is time for another.
    fn events(&self, params: &Params, shape: &Shape, page: Page, lsn: u64) -> Response<Pieces> {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        let headers = [
            ("content-type", "text/event-stream"),
            ("electric-handle", shape.handle.as_str()),
            ("electric-offset", &page.offset),
            ("electric-cursor", &cursor(&self.shared.sys)),
        ];
        let told = with(Response::new(Pieces(receiver)), &headers);
        let (shared, params) = (self.shared.clone(), params.clone());
        let mut news = shared.news.subscribe();
        let sys = shared.sys.clone();
        sys.spawn.clone().task("events", async move {
            let began_at = sys.clock.elapsed();
            let (mut page, mut lsn) = (page, lsn);
            while sys.clock.elapsed().saturating_sub(began_at) < LONG_POLL {
                let end = page.is_end.then(|| up_to_date(lsn));
                for message in page.messages.iter().chain(&end) {
                    let piece = Bytes::from(format!("data: {message}\n\n"));
                    if sender.send(Ok(piece)).await.is_err() {
                        return;
                    }
                }
                if page.is_end {
                    let _ = sys.clock.timeout(LONG_POLL, news.changed()).await;
                }
                match shared.look_from(&params, &page.offset) {
                    Told::Page { page: next, lsn: at, .. } => (page, lsn) = (next, at),
                    _ => return,
                }
            }
        });
        told
    }
}

impl Shared {
    fn tell(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    fn look(&self, params: &Params, is_first: bool) -> Told {
        let mut state = self.state.lock();
        if is_first {
            state.requests += 1;
            let is_refusal = |fault: &Fault| matches!(fault, Fault::Status(_));
            if let Some(Fault::Status(status)) = state.take_fault(&params.agent, is_refusal) {
                return Told::Refused { status, body: r#"{"message":"as told"}"#.to_owned() };
            }
        }
        drop(state);
        self.look_from(params, params.get("offset").unwrap_or_default())
    }

    fn look_from(&self, params: &Params, offset: &str) -> Told {
        let invalid = |field: &str, why: &str| {
            let body = json!({"message": "Invalid request", "errors": {field: [why]}}).to_string();
            Told::Refused { status: 400, body }
        };
        let definition = match params.definition() {
            Ok(definition) => definition,
            Err((field, why)) => return invalid(field, why),
        };
        let mut state = self.state.lock();
        let shape = state.shape(definition);
        if !matches!(offset, "-1" | "now") && params.get("handle") != Some(&shape.handle) {
            return Told::Gone { handle: shape.handle };
        }
        match shape.page(offset, &state.table) {
            Some(page) => Told::Page { page, lsn: state.table.lsn(), shape },
            None => invalid("offset", "out of bounds for this shape"),
        }
    }
}

impl State {
    fn shape(&mut self, definition: Definition) -> Shape {
        let Self { table, shapes, logs, .. } = self;
        let shape = shapes.entry(definition).or_insert_with_key(|definition| {
            *logs += 1;
            Shape::new(format!("{}-{logs}", 70_000_000 + *logs), definition.clone(), table)
        });
        shape.clone()
    }

    /// The next fault of a client, if it is one of these.
    fn take_fault(&mut self, agent: &str, is_wanted: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let had = self.faults_had.entry(agent.to_owned()).or_default();
        let fault = self.faults.get(*had).filter(|fault| is_wanted(fault))?;
        *had += 1;
        Some(fault.clone())
    }

    fn take_cut(&mut self, agent: &str) -> Option<usize> {
        match self.take_fault(agent, |fault| matches!(fault, Fault::Cut(_)))? {
            Fault::Cut(at) => Some(at),
            Fault::Status(_) => None,
        }
    }
}

fn up_to_date(lsn: u64) -> serde_json::Value {
    json!({"headers": {"control": "up-to-date", "global_last_seen_lsn": lsn.to_string()}})
}

fn gone(handle: &str) -> Response<Pieces> {
    let body = json!([{"headers": {"control": "must-refetch"}}]).to_string();
    with(answer(StatusCode::CONFLICT, body), &[("electric-handle", handle)])
}

fn cursor(sys: &Sys) -> String {
    (sys.clock.unix_ms().get() / 1_000).to_string()
}

fn answer(status: StatusCode, body: String) -> Response<Pieces> {
    let mut told = Response::new(Pieces::cut(body, None));
    *told.status_mut() = status;
    with(told, &[("content-type", "application/json; charset=utf-8")])
}

fn with(mut told: Response<Pieces>, headers: &[(&'static str, &str)]) -> Response<Pieces> {
    for (name, value) in headers {
        if let Ok(value) = http::HeaderValue::from_str(value) {
            told.headers_mut().insert(*name, value);
        }
    }
    told
}

/// A body whose pieces are on their way; an error breaks the connection.
struct Pieces(mpsc::Receiver<Result<Bytes, std::io::Error>>);

impl Pieces {
    /// A body that is known, up to where it breaks.
    fn cut(body: String, cut: Option<usize>) -> Self {
        let (sender, receiver) = mpsc::channel(2);
        let mut body = Bytes::from(body);
        let cut = cut.map(|at| body.truncate(at.min(body.len().saturating_sub(1))));
        let broken = cut.map(|()| Err(std::io::Error::other("cut as told")));
        for piece in [Some(Ok(body)), broken].into_iter().flatten() {
            // There is room for both.
            let _ = sender.try_send(piece);
        }
        Self(receiver)
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
