//! HTTP: the wires, and what was asked.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::{
    body::{Body, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sys::Sys;
use tokio::net::TcpListener;

use crate::{
    Scenario, Wire,
    caps::{NAMES_REFUSED_MAX, REQUEST_BYTES_MAX, REQUESTS_KEPT_MAX},
    fault::{Pieces, answer},
    history::check_seals,
    refusal::Refusal,
    request::{Asked, read, route},
};

/// A server. Cheap to clone: all clones are one server.
#[derive(Clone, Debug)]
pub struct Fixture {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Debug, Default)]
struct Shared {
    /// Held for moments, never across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<Value>,
    /// How often a model that is refused at first was asked.
    asked: BTreeMap<(Wire, String), u64>,
}

impl Fixture {
    /// Serves on a free port of this machine, for as long as the runtime lives.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start(sys: &Sys) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let fixture = Self { shared: Arc::default(), address: listener.local_addr()? };
        let (served, sys) = (fixture.clone(), sys.clone());
        sys.spawn.clone().task("fixture", async move {
            while let Ok((connection, _)) = listener.accept().await {
                // A frame shall arrive when it is written.
                let _ = connection.set_nodelay(true);
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

    /// Where it is. Below it, each wire has a folder: `/openai/v1`, `/anthropic`, `/gemini`,
    /// `/ollama`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The last requests, oldest first: path, names of the headers, body. Values of headers are
    /// left out, because keys are among them.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        self.shared.state.lock().requests.iter().cloned().collect()
    }

    async fn serve(&self, request: Request<Incoming>) -> Response<Told> {
        let path = request.uri().path();
        match *request.method() {
            Method::GET if path == "/requests" => whole(StatusCode::OK, &json!(self.requests())),
            Method::POST if route(path).is_some() => self.ask(request).await,
            _ => whole(StatusCode::NOT_FOUND, &json!({"error": "nothing is here"})),
        }
    }

    async fn ask(&self, request: Request<Incoming>) -> Response<Told> {
        let (head, body) = request.into_parts();
        let wire = route(head.uri.path()).map_or(Wire::Chat, |(wire, _)| wire);
        let Ok(body) = Limited::new(body, REQUEST_BYTES_MAX).collect().await else {
            return refused(wire, &Refusal::BadRequest("the body is too large".to_owned()));
        };
        let asked = match read(&head.uri, &head.headers, &body.to_bytes()) {
            Ok(asked) => asked,
            Err(refusal) => return refused(wire, &refusal),
        };
        let headers: Vec<&str> = head.headers.keys().map(http::HeaderName::as_str).collect();
        let kept = json!({
            "path": head.uri.path(), "query": head.uri.query(), "headers": headers,
            "body": asked.body,
        });
        match self.shared.state.lock().admit(&asked, kept) {
            Ok(scenario) => stream(scenario, &asked),
            Err(refusal) => refused(wire, &refusal),
        }
    }
}

impl State {
    fn admit(&mut self, asked: &Asked, kept: Value) -> Result<Scenario, Refusal> {
        if self.requests.len() == REQUESTS_KEPT_MAX {
            self.requests.pop_front();
        }
        self.requests.push_back(kept);
        let unknown = || Refusal::UnknownModel(asked.model.clone());
        let scenario: Scenario = asked.model.parse().map_err(|_| unknown())?;
        match scenario {
            Scenario::BadKey => Err(Refusal::BadKey),
            Scenario::Overloaded => Err(Refusal::Overloaded),
            Scenario::UnknownModel => Err(unknown()),
            Scenario::RateLimited if self.is_refused(asked) => Err(Refusal::RateLimited),
            scenario if !scenario.is_on(asked.wire) => Err(unknown()),
            // Whatever was called for, a text ends it.
            scenario if asked.is_answered => {
                check_seals(scenario, asked.wire, &asked.body).map(|()| Scenario::Text)
            }
            scenario => Ok(scenario),
        }
    }

    /// Every other request is.
    fn is_refused(&mut self, asked: &Asked) -> bool {
        if self.asked.len() >= NAMES_REFUSED_MAX {
            self.asked.clear();
        }
        let count = self.asked.entry((asked.wire, asked.model.clone())).or_default();
        *count += 1;
        *count % 2 == 1
    }
}

fn stream(scenario: Scenario, asked: &Asked) -> Response<Told> {
    let pieces = answer(scenario, asked.wire, &asked.body);
    let mut told = Response::new(Told { pieces, has_rested: true });
    let kind = HeaderValue::from_static(asked.wire.content_type());
    told.headers_mut().insert(header::CONTENT_TYPE, kind);
    told
}

fn refused(wire: Wire, refusal: &Refusal) -> Response<Told> {
    let (status, body) = refusal.on(wire);
    let mut told = whole(status, &body);
    if matches!(refusal, Refusal::RateLimited | Refusal::Overloaded) {
        told.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(0));
    }
    told
}

fn whole(status: StatusCode, body: &Value) -> Response<Told> {
    let pieces: Pieces = Box::new(std::iter::once(Ok(Bytes::from(body.to_string()))));
    let mut told = Response::new(Told { pieces, has_rested: true });
    *told.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    told.headers_mut().insert(header::CONTENT_TYPE, kind);
    told
}

/// A body whose pieces are made when they are wanted.
struct Told {
    pieces: Pieces,
    has_rested: bool,
}

impl Body for Told {
    type Data = Bytes;
    type Error = io::Error;

    /// Rests after each piece, so that it is sent before the next: the piece before a break must
    /// arrive.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.has_rested {
            self.has_rested = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_rested = false;
        Poll::Ready(self.pieces.next().map(|piece| piece.map(Frame::data)))
    }
}
