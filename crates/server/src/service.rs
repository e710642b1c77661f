//! The service: from a request to an answer.

use std::{net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Method, Request, Response, header, request::Parts};
use hyper::body::Incoming;
use log::Log;
use sys::Sys;
use tokio::sync::Semaphore;
use wire::{Address, StreamPath};

use crate::{
    Settings,
    auth::{Access, Client, Guard},
    cors::Cors,
    handlers,
    metrics::Metrics,
    names,
    phase::Phases,
    problem::Problem,
    rate::RateLimit,
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
    pub(crate) sys: Sys,
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) cors: Cors,
    pub(crate) rate: Option<RateLimit>,
    pub(crate) metrics: Metrics,
    pub(crate) phases: Phases,
    /// A permit per byte of request bodies.
    pub(crate) inflight: Semaphore,
    /// A permit per live reader.
    pub(crate) seats: Arc<Semaphore>,
}

/// Who is on the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) ip: IpAddr,
    pub(crate) scheme: &'static str,
}

/// One request under way.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) service: &'a Arc<Service>,
    pub(crate) head: &'a Parts,
    pub(crate) peer: Peer,
    pub(crate) client: Client,
}

/// Answers a request, and keeps the books.
pub(crate) async fn answer(
    service: &Arc<Service>,
    peer: Peer,
    request: Request<Incoming>,
) -> Response<Body> {
    let began = service.sys.clock.elapsed();
    let (head, body) = request.into_parts();
    let mut response = match route(service, peer, &head, body).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    service.cors.stamp(response.headers_mut());
    let took = service.sys.clock.elapsed() - began;
    service.metrics.answered(&head.method, &response, took);
    trace(&head, &response, took);
    response
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
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    let route = Route::of(head.uri.path());
    match (route, &head.method) {
        (Route::Unknown, _) => Err(Problem::not_found("streams are at /v1/stream/{path}")),
        (_, &Method::OPTIONS) => Ok(service.cors.preflight()),
        (Route::Health, &Method::GET | &Method::HEAD) => Ok(handlers::health()),
        (Route::Ready, &Method::GET | &Method::HEAD) => handlers::ready(service),
        (Route::Health | Route::Ready, _) => Err(Problem::method_not_allowed(&READ_METHODS)),
        (Route::Stream(_) | Route::Streams | Route::Reserved | Route::Metrics, _) => {
            let client = service.guard.identify(&head.headers)?;
            let call = Call { service, head, peer, client };
            call.within_rate()?;
            guarded(&call, route, body).await
        }
    }
}

/// Answers a client who is known, if not yet allowed.
async fn guarded(
    call: &Call<'_>,
    route: Route<'_>,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    match (route, &call.head.method) {
        (Route::Stream(path), method) => {
            let Some(access) = Access::of(method) else {
                return Err(Problem::method_not_allowed(&STREAM_METHODS));
            };
            let path = StreamPath::from_url(path)?;
            call.client.require(access, &path)?;
            stream(call, &path.into(), body).await
        }
        (Route::Streams, &Method::GET | &Method::HEAD) => {
            call.client.require_everywhere(&[Access::Read, Access::Admin])?;
            handlers::list(call).await
        }
        (Route::Metrics, &Method::GET | &Method::HEAD) => {
            call.client.require_everywhere(&[Access::Admin])?;
            Ok(handlers::metrics(call.service))
        }
        (Route::Streams | Route::Metrics, _) => Err(Problem::method_not_allowed(&READ_METHODS)),
        _ => Err(Problem::not_found("this server has no subscriptions")),
    }
}

async fn stream(
    call: &Call<'_>,
    address: &Address,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    match call.head.method {
        Method::POST => handlers::append(call, address, body).await,
        Method::GET => handlers::read(call, address).await,
        Method::HEAD => handlers::head(call, address).await,
        Method::PUT => handlers::create(call, address, body).await,
        Method::DELETE => handlers::delete(call, address).await,
        _ => Err(Problem::method_not_allowed(&STREAM_METHODS)),
    }
}

impl Call<'_> {
    /// The scheme the client used.
    pub(crate) fn scheme(&self) -> &str {
        let forwarded = self.forwarded(&names::X_FORWARDED_PROTO);
        match forwarded {
            Some("https") => "https",
            Some("http") => "http",
            _ => self.peer.scheme,
        }
    }

    /// The host the client asked for.
    pub(crate) fn host(&self) -> &str {
        let authority = self.head.uri.authority().map(http::uri::Authority::as_str);
        let host = || self.head.headers.get(header::HOST)?.to_str().ok();
        authority.or_else(host).unwrap_or("localhost")
    }

    fn within_rate(&self) -> Result<(), Problem> {
        let Some(rate) = &self.service.rate else { return Ok(()) };
        let forwarded = self.forwarded(&names::X_FORWARDED_FOR).and_then(|ip| ip.parse().ok());
        let admitted = match self.client.name() {
            Some(name) => rate.admit_name(name),
            None => rate.admit_ip(forwarded.unwrap_or(self.peer.ip)),
        };
        admitted.inspect_err(|_| self.service.metrics.shed())
    }

    /// What the nearest proxy says, if there is one to trust: it appends to the list.
    fn forwarded(&self, name: &'static http::HeaderName) -> Option<&str> {
        if !self.service.settings.trust_proxy {
            return None;
        }
        let last = self.head.headers.get_all(name).iter().next_back()?.to_str().ok()?;
        last.rsplit(',').next().map(str::trim)
    }
}
