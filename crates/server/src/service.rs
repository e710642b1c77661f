//! The service: from a request to an answer.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Method, Response, request::Parts};
use http_body::Body as _;
use log::Log;
use sys::Sys;
use wake::Subscriptions;
use wire::{Address, StreamPath};

use crate::{
    Neighbour, Settings,
    auth::{Access, Guard},
    budget::{Budget, Load},
    call::{Call, Peer},
    cors::Cors,
    handlers,
    metrics::Metrics,
    neighbour,
    phase::Phases,
    problem::{Kind, Problem},
    rate::RateLimit,
    request::Incoming,
    response::Body,
    route::Route,
};

static STREAM_METHODS: HeaderValue =
    HeaderValue::from_static("GET, POST, PUT, DELETE, HEAD, OPTIONS");
static READ_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// Everything that answers share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) subscriptions: Option<Arc<dyn Subscriptions>>,
    /// Who answers what is not the server's own.
    pub(crate) neighbour: OnceLock<Arc<dyn Neighbour>>,
    pub(crate) sys: Sys,
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) cors: Cors,
    pub(crate) rate: Option<RateLimit>,
    pub(crate) metrics: Metrics,
    pub(crate) phases: Phases,
    /// True once the log refused a write because an earlier one failed.
    pub(crate) poisoned: AtomicBool,
    /// Bytes of request bodies.
    pub(crate) inflight: Budget,
    /// Bytes of answers.
    pub(crate) outgoing: Budget,
    /// Live readers.
    pub(crate) seats: Budget,
}

/// Answers a request, and keeps the books.
pub(crate) async fn answer(
    service: &Arc<Service>,
    peer: Peer,
    head: &Parts,
    body: Incoming<'_>,
) -> Response<Body> {
    let began = service.sys.clock.elapsed();
    let host = service.guard.check_host(head);
    // Pages under another name are told nothing that pages may read.
    let is_called_so = host.is_ok();
    let routed = match host {
        Ok(()) => route(service, peer, head, body).await,
        Err(problem) => Err(problem),
    };
    let mut response = match routed.and_then(|response| load(service, response)) {
        Ok(response) => response,
        Err(problem) => {
            service.note(&problem);
            problem.into_response()
        }
    };
    if is_called_so {
        service.cors.address(&mut response, head);
    }
    let took = service.sys.clock.elapsed() - began;
    service.metrics.answered(head.method.as_str(), &response, took);
    trace(head, &response, took);
    response
}

/// Counts a large answer until it is sent, or refuses it if too much is on its way.
fn load(service: &Arc<Service>, mut response: Response<Body>) -> Result<Response<Body>, Problem> {
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let load = Load::take(service, bytes).ok_or_else(|| {
        Problem::overloaded("too many bytes are on their way to readers; retry after a second")
    })?;
    response.body_mut().load = Some(load);
    Ok(response)
}

/// The answer to bytes that were no request.
pub(crate) fn refusal(service: &Service, problem: Problem) -> Response<Body> {
    let response = problem.into_response();
    service.metrics.answered("", &response, Duration::ZERO);
    tracing::debug!(status = response.status().as_u16(), "refused what was no request");
    response
}

impl Service {
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Relaxed)
    }

    fn note(&self, problem: &Problem) {
        if problem.kind() == Kind::Poisoned {
            self.poisoned.store(true, Ordering::Relaxed);
        }
    }
}

fn trace(head: &Parts, response: &Response<Body>, took: Duration) {
    tracing::debug!(
        method = %head.method,
        path = head.uri.path(),
        status = response.status().as_u16(),
        ms = took.as_secs_f64() * 1000.0,
        "answered"
    );
}

async fn route(
    service: &Arc<Service>,
    peer: Peer,
    head: &Parts,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    let enter = || Call::enter(service, peer, head);
    match (Route::of(head.uri.path()), &head.method) {
        (Route::Unknown, _) => match service.neighbour.get() {
            Some(neighbour) => {
                Box::pin(neighbour::visit(service, peer, head, body, &**neighbour)).await
            }
            None => Err(Problem::not_found("streams are at /v1/stream/{path}")),
        },
        (_, &Method::OPTIONS) => Ok(service.cors.preflight()),
        (Route::Stream(path), _) => stream(&enter()?, path, body).await,
        (Route::Streams, &Method::GET | &Method::HEAD) => {
            let call = enter()?;
            call.client.require_everywhere(&[Access::Read, Access::Admin])?;
            Box::pin(handlers::list(&call)).await
        }
        (Route::Metrics, &Method::GET | &Method::HEAD) => {
            enter()?.client.require_everywhere(&[Access::Admin])?;
            Ok(handlers::metrics(service))
        }
        (Route::Reserved(rest), _) => {
            Box::pin(handlers::subscriptions(service, peer, head, rest, body)).await
        }
        (Route::Health, &Method::GET | &Method::HEAD) => handlers::health(service),
        (Route::Ready, &Method::GET | &Method::HEAD) => handlers::ready(service),
        (Route::Streams | Route::Metrics | Route::Health | Route::Ready, _) => {
            Err(Problem::method_not_allowed(&READ_METHODS))
        }
    }
}

async fn stream(
    call: &Call<'_>,
    path: &str,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    let Some(access) = Access::of(&call.head.method) else {
        return Err(Problem::method_not_allowed(&STREAM_METHODS));
    };
    let path = StreamPath::from_url(path)?;
    call.client.require(access, &path)?;
    let address = Address::from(path);
    match call.head.method {
        Method::POST => handlers::append(call, &address, body).await,
        Method::GET => handlers::read(call, &address).await,
        Method::HEAD => handlers::head(call, &address).await,
        // Boxed: seldom asked for, and every request would carry the room for it.
        Method::PUT => Box::pin(handlers::create(call, &address, body)).await,
        Method::DELETE => Box::pin(handlers::delete(call, &address)).await,
        _ => Err(Problem::method_not_allowed(&STREAM_METHODS)),
    }
}
