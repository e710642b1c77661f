//! The service: from a request to an answer.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
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
    call::{Call, Caller, Peer},
    caps::{ANSWER_BYTES_FREE, DISK_FULL_LASTS},
    cors::Cors,
    handlers,
    metrics::Metrics,
    neighbour,
    phase::Phases,
    problem::{Kind, Problem},
    rate::RateLimit,
    request::Incoming,
    response::{Body, Load},
    route::Route,
    shares::{Account, Resource, Share, Shares},
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
    /// Until when the disk counts as full, in milliseconds since the start; 0 if it does not.
    pub(crate) full_until: AtomicU64,
    /// What all clients draw from.
    pub(crate) shares: Arc<Shares>,
}

/// Answers a request, and keeps the books.
pub(crate) async fn answer(
    service: &Arc<Service>,
    peer: &Peer,
    head: &Parts,
    body: Incoming<'_>,
) -> Response<Body> {
    let began = service.sys.clock.elapsed();
    let caller = Caller::of(service, peer, head);
    let account = caller.account.clone();
    // Pages under another name are told nothing that pages may read.
    let host = service.guard.check_host(head, &caller.client);
    let is_called_so = host.is_ok();
    // Before anything is done: what was stored must not be refused for want of room to say so.
    let request = account.take(Resource::Requests, 1);
    let routed = match (host, &request) {
        (Err(problem), _) => Err(problem),
        (Ok(()), None) => Err(service.shed("too many requests of yours are under way")),
        (Ok(()), Some(_)) => route(service, caller, head, body).await,
    };
    let loaded = routed.and_then(|mut response| {
        let bytes = match response.body_mut().counted.take() {
            None => service.count(&account, length(&response))?,
            counted => counted,
        };
        Ok((response, bytes))
    });
    let (mut response, bytes) = loaded.unwrap_or_else(|problem| {
        service.note(&problem);
        (problem.into_response(), None)
    });
    let load = request.map(|request| Load { _request: request, _bytes: bytes });
    response.body_mut().load = load.map(Arc::new);
    if is_called_so {
        service.cors.address(&mut response, head);
    }
    let took = service.sys.clock.elapsed() - began;
    service.metrics.answered(head.method.as_str(), &response, took);
    trace(head, &response, took);
    response
}

/// The bytes of an answer, as far as they are known.
fn length(response: &Response<Body>) -> usize {
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    usize::try_from(bytes).unwrap_or(usize::MAX)
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

    /// Counts a large answer until it is sent, or refuses it if too much is on its way to the
    /// client. Answers that large only tell what is stored, so nothing was done that is refused.
    pub(crate) fn count(
        &self,
        account: &Arc<Account>,
        bytes: usize,
    ) -> Result<Option<Share>, Problem> {
        if bytes <= ANSWER_BYTES_FREE {
            return Ok(None);
        }
        match account.take(Resource::Outgoing, bytes) {
            None => Err(self.shed("too many bytes are on their way to you")),
            share => Ok(share),
        }
    }

    /// Counts a refusal for want of room, and says so.
    pub(crate) fn shed(&self, what: &str) -> Problem {
        self.metrics.shed();
        Problem::overloaded(format!("{what}; retry after a second"))
    }

    /// True if a write was refused for want of room, lately, and none has succeeded since.
    pub(crate) fn is_full(&self) -> bool {
        self.full_until.load(Ordering::Relaxed) > millis(self.sys.clock.elapsed())
    }

    /// A write was stored, so there is room.
    pub(crate) fn has_stored(&self) {
        if self.full_until.load(Ordering::Relaxed) != 0 {
            self.full_until.store(0, Ordering::Relaxed);
        }
    }

    fn note(&self, problem: &Problem) {
        match problem.kind() {
            Kind::Poisoned => self.poisoned.store(true, Ordering::Relaxed),
            Kind::DiskFull => self.is_out_of_room(),
            _ => {}
        }
    }

    /// A write was refused for want of room.
    pub(crate) fn is_out_of_room(&self) {
        if !self.is_full() {
            tracing::warn!("there is no room on the disk: writes are refused");
        }
        let until = self.sys.clock.elapsed() + DISK_FULL_LASTS;
        self.full_until.store(millis(until), Ordering::Relaxed);
    }
}

fn millis(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
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
    caller: Caller,
    head: &Parts,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    match (Route::of(head.uri.path()), &head.method) {
        (Route::Unknown, _) => match service.neighbour.get() {
            Some(neighbour) => {
                Box::pin(neighbour::visit(service, caller, head, body, &**neighbour)).await
            }
            None => Err(Problem::not_found("streams are at /v1/stream/{path}")),
        },
        (_, &Method::OPTIONS) => Ok(service.cors.preflight()),
        (Route::Stream(path), _) => stream(&Call::enter(service, caller, head)?, path, body).await,
        (Route::Streams, &Method::GET | &Method::HEAD) => {
            let call = Call::enter(service, caller, head)?;
            call.client.require_everywhere(&[Access::Read, Access::Admin])?;
            Box::pin(handlers::list(&call)).await
        }
        (Route::Metrics, &Method::GET | &Method::HEAD) => {
            let call = Call::enter(service, caller, head)?;
            call.client.require_everywhere(&[Access::Admin])?;
            Ok(handlers::metrics(service))
        }
        (Route::Reserved(rest), _) => {
            Box::pin(handlers::subscriptions(service, caller, head, rest, body)).await
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
