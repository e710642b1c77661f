//! What operators and their tools ask: is it alive, is it ready, what has it done?

use http::{Response, StatusCode, header};

use crate::{
    names,
    phase::Phase,
    problem::{Kind, Problem},
    response::{Body, Reply},
    service::Service,
};

/// Answers `GET /healthz`: the process runs, and need not be restarted.
pub(crate) fn health(service: &Service) -> Result<Response<Body>, Problem> {
    match service.is_poisoned() {
        false => Ok(text("ok\n")),
        true => Err(Problem::poisoned()),
    }
}

/// Answers `GET /readyz`: the process wants traffic.
pub(crate) fn ready(service: &Service) -> Result<Response<Body>, Problem> {
    match service.phases.now() {
        _ if service.is_poisoned() => Err(Problem::poisoned()),
        Phase::Serving if service.is_full() => {
            let detail = "there is no room on the disk: writes are refused, reads go on";
            Err(Problem::new(Kind::DiskFull, detail))
        }
        Phase::Serving => Ok(text("ready\n")),
        Phase::Draining | Phase::Closed => {
            Err(Problem::new(Kind::Unavailable, "the server is shutting down"))
        }
    }
}

/// Answers `GET /metrics`.
pub(crate) fn metrics(service: &Service) -> Response<Body> {
    Reply::new(StatusCode::OK)
        .header(&header::CONTENT_TYPE, names::PROMETHEUS_TEXT.clone())
        .header(&header::CACHE_CONTROL, names::NO_STORE.clone())
        .bytes(service.metrics.render(&service.shares).into())
        .into_response()
}

fn text(text: &'static str) -> Response<Body> {
    Reply::new(StatusCode::OK)
        .header(&header::CONTENT_TYPE, names::PLAIN_TEXT.clone())
        .header(&header::CACHE_CONTROL, names::NO_STORE.clone())
        .bytes(text.as_bytes().into())
        .into_response()
}
