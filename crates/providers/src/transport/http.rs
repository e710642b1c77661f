//! One request, and the answer to it until it begins.

use std::error::Error;

use bytes::Bytes;
use chat::{Id, ModelError, ModelErrorKind};
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};
use sys::Sys;

use super::{
    TransportSettings,
    retry::{is_in_vain, retry_after},
    settings::base_url,
};
use crate::{
    Key,
    caps::{IDLE_CONNECTIONS_MAX, REFUSAL_BYTES_MAX, RETRY_AFTER_MAX},
    wire::{Framing, Outgoing, Wire, quote},
};

/// A provider, and how we reach it.
#[derive(Debug)]
pub(super) struct Http {
    pub(super) sys: Sys,
    pub(super) settings: TransportSettings,
    pub(super) provider: Id,
    base_url: String,
    /// Known here only to take it out of errors.
    key: Option<Key>,
    hyper: Hyper<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// An attempt that came to nothing.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: ModelError,
    /// Whether another attempt may fare better.
    pub(super) may_repeat: bool,
}

impl Http {
    pub(super) fn new(
        sys: &Sys,
        provider: Id,
        url: &str,
        key: Option<Key>,
        settings: TransportSettings,
    ) -> Result<Self, ModelError> {
        let base_url = base_url(&provider, url, settings.plain_http)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(settings.connect_time));
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())
            .map_err(|error| {
                let message = format!("there is no TLS: {error}");
                ModelError::new(provider.clone(), ModelErrorKind::Unavailable, message)
            })?
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let hyper = Hyper::builder(TokioExecutor::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        Ok(Self { sys: sys.clone(), settings, provider, base_url, key, hyper })
    }

    /// Makes the request once; the body of the answer is what `wire` reads.
    pub(super) async fn open<W: Wire>(
        &self,
        wire: &W,
        outgoing: &Outgoing,
    ) -> Result<Incoming, Failed> {
        let request = self.request(wire.framing(), outgoing)?;
        let time = self.settings.first_byte_time;
        let answer = match self.sys.clock.timeout(time, self.hyper.request(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let what = match error.is_connect() {
                    true => format!("cannot be reached at {}", self.base_url),
                    false => "closed the connection before it answered".to_owned(),
                };
                return Err(
                    self.fail(ModelErrorKind::Unavailable, format!("{what}: {}", told(&error)))
                );
            }
            Err(_) => {
                let why = format!("no answer within {time:?}; allow more with first_byte_time");
                return Err(self.fail(ModelErrorKind::TimedOut, why));
            }
        };
        if !answer.status().is_success() {
            return Err(self.refused(wire, answer).await);
        }
        let kind = answer.headers().get(header::CONTENT_TYPE);
        if let Some(kind) = kind.filter(|kind| !fits(wire.framing(), kind)) {
            let kind = quote(kind.as_bytes());
            let body = self.start_of(answer.into_body()).await;
            let why =
                format!("the answer is {kind}, not a stream; it begins with {}", quote(&body));
            return Err(self.fail(ModelErrorKind::Malformed, why));
        }
        Ok(answer.into_body())
    }

    fn request(
        &self,
        framing: Framing,
        outgoing: &Outgoing,
    ) -> Result<Request<Full<Bytes>>, Failed> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{}", self.base_url, outgoing.path_and_query))
            .body(Full::from(outgoing.body.clone()))
            .map_err(|error| self.fail(ModelErrorKind::Unsupported, error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = match framing {
            Framing::Sse => "text/event-stream",
            Framing::Lines => "application/x-ndjson",
        };
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let agent = concat!("headwater/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        for (name, value) in &outgoing.headers {
            headers.insert(name.clone(), value.clone());
        }
        Ok(request)
    }

    async fn refused<W: Wire>(&self, wire: &W, answer: Response<Incoming>) -> Failed {
        let (head, body) = answer.into_parts();
        let body = self.start_of(body).await;
        let mut error = self.scrubbed(wire.failure(head.status, &body));
        // Some say it in a header, some in the body; whoever says both is left alone for longer.
        let asked = retry_after(&head.headers, self.sys.clock.unix_ms()).max(error.retry_after);
        error.retry_after = asked.map(|pause| pause.min(RETRY_AFTER_MAX));
        let may_repeat = error.is_retryable() && !is_in_vain(&head.headers);
        Failed { error, may_repeat }
    }

    /// As much of a body as an error needs.
    async fn start_of(&self, body: Incoming) -> Bytes {
        let body = Limited::new(body, REFUSAL_BYTES_MAX).collect();
        let body = self.sys.clock.timeout(self.settings.idle_time, body).await;
        body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default()
    }

    fn fail(&self, kind: ModelErrorKind, message: String) -> Failed {
        let error = self.scrubbed(ModelError::new(self.provider.clone(), kind, message));
        let may_repeat = error.is_retryable();
        Failed { error, may_repeat }
    }

    /// The error without the key, should somebody have echoed it.
    pub(super) fn scrubbed(&self, mut error: ModelError) -> ModelError {
        if let Some(key) = &self.key {
            error.message = key.scrub(error.message);
        }
        error
    }
}

/// Whether a body of this type is cut this way.
fn fits(framing: Framing, kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match framing {
        Framing::Sse => kind == "text/event-stream",
        Framing::Lines => kind.starts_with("application/") && kind.contains("json"),
    }
}

/// An error with its causes.
pub(super) fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
