//! HTTP as the rest of the room needs it: a request, made again where that is safe, and its answer.

use std::{error::Error, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};
use sys::Sys;
use wire::escaped;

use crate::{
    Failure, Refusal, Settings,
    caps::{ANSWER_BYTES_MAX, CONNECT_PATIENCE, REFUSAL_BYTES_MAX},
    retry::{Budget, retry_after},
};

/// A server, and how we speak with it.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) sys: Sys,
    pub(crate) settings: Settings,
    hyper: Hyper<HttpsConnector<HttpConnector>, Full<Bytes>>,
    budget: Budget,
}

/// A request to make.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// What follows the root: a path that begins with a slash.
    pub(crate) path: String,
    pub(crate) params: Vec<(&'static str, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) repeat: Repeat,
    /// How long the answer may take to begin, if longer than usual.
    pub(crate) patience: Option<Duration>,
}

/// When a request may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Whatever happened: twice is as good as once.
    Safe,
    /// If the server answered that it failed, and never if it did not answer.
    Answered,
    /// Only if it is certain that nothing happened.
    Refused,
}

/// An answer that is no refusal, read whole.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether an earlier attempt may have done what was asked.
    pub(crate) is_repeated: bool,
}

impl Ask {
    pub(crate) fn new(method: Method, path: String, repeat: Repeat) -> Self {
        Self {
            method,
            path,
            params: Vec::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            repeat,
            patience: None,
        }
    }

    pub(crate) fn get(path: String) -> Self {
        Self::new(Method::GET, path, Repeat::Safe)
    }

    pub(crate) fn param(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.params.push((name, value.into()));
        self
    }

    /// A header from text that has no control characters by its type.
    pub(crate) fn header(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        let value = HeaderValue::from_bytes(value.as_ref().as_bytes());
        self.headers.insert(name, value.unwrap_or_else(|_| HeaderValue::from_static("?")));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }
}

impl Http {
    pub(crate) fn new(sys: &Sys, settings: Settings) -> Arc<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_PATIENCE));
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())
            .expect("ring speaks the versions it was built with")
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let hyper = Hyper::builder(TokioExecutor::new()).build(connector);
        Arc::new(Self { sys: sys.clone(), settings, hyper, budget: Budget::new() })
    }

    /// Makes the request, again where that is safe, and reads the answer whole.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Whole, Failure> {
        let (mut attempts, mut is_repeated) = (0, false);
        loop {
            attempts += 1;
            let failure = match self.attempt(&ask).await {
                Ok((status, headers, body)) => {
                    self.budget.earn();
                    return Ok(Whole { status, headers, body, is_repeated });
                }
                Err(failure) => failure,
            };
            if !self.settings.retry.allows(attempts) || !may_repeat(ask.repeat, &failure) {
                return Err(after_others(failure, is_repeated));
            }
            is_repeated |= leaves_doubt(&failure);
            self.pause(attempts, failure).await?;
        }
    }

    /// Makes the request once, and reads the answer whole.
    pub(crate) async fn ask_once(&self, ask: &Ask) -> Result<Whole, Failure> {
        let (status, headers, body) = self.attempt(ask).await?;
        self.budget.earn();
        Ok(Whole { status, headers, body, is_repeated: false })
    }

    async fn attempt(&self, ask: &Ask) -> Result<(StatusCode, HeaderMap, Bytes), Failure> {
        let (head, body) = self.open(ask).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect();
        let body = self.sys.clock.timeout(self.settings.patience, body).await;
        let lost = |why: String| Failure::Unreachable(why);
        let body = body.map_err(|_| lost("the answer does not end".to_owned()))?;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => Failure::Unreadable(format!("it has more than {ANSWER_BYTES_MAX} bytes")),
            false => lost(told(&*error)),
        })?;
        Ok((head.status, head.headers, body.to_bytes()))
    }

    /// Waits before another attempt, or gives up.
    pub(crate) async fn pause(&self, attempts: u32, failure: Failure) -> Result<(), Failure> {
        if !self.budget.spend() {
            return Err(failure);
        }
        let asked_for = match &failure {
            Failure::Refused(refusal) => retry_after(&refusal.headers),
            _ => None,
        };
        let pause = self.settings.retry.pause(attempts, &self.sys.chance);
        match attempts {
            1 => tracing::warn!(%failure, "asking again after a pause"),
            _ => tracing::debug!(%failure, attempts, "asking again after a pause"),
        }
        self.sys.clock.sleep(pause.max(asked_for.unwrap_or_default())).await;
        Ok(())
    }

    /// Makes the request once; the answer goes on for as long as it likes.
    pub(crate) async fn open(&self, ask: &Ask) -> Result<Response<Incoming>, Failure> {
        let request = self.request(ask).await?;
        let patience = ask.patience.unwrap_or(self.settings.patience);
        let answer = self.sys.clock.timeout(patience, self.hyper.request(request)).await;
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_connect() => {
                return Err(Failure::NotConnected(told(&error)));
            }
            Ok(Err(error)) => return Err(Failure::Unreachable(told(&error))),
            Err(_) => {
                let why = format!("no answer within {patience:?}");
                return Err(Failure::Unreachable(why));
            }
        };
        if answer.status().is_success() || answer.status() == StatusCode::NOT_MODIFIED {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, REFUSAL_BYTES_MAX).collect();
        let body = self.sys.clock.timeout(patience, body).await;
        let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        let asked = format!("{} {}", ask.method, ask.path);
        Err(Failure::Refused(Box::new(Refusal::new(asked, head.status, head.headers, &body))))
    }

    async fn request(&self, ask: &Ask) -> Result<Request<Full<Bytes>>, Failure> {
        let extras = self.settings.badge.show().await.map_err(Failure::Unaskable)?;
        let params = ask.params.iter().map(|(name, value)| (*name, value.as_str()));
        let extra = extras.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut params: Vec<_> = params.chain(extra).collect();
        // Caches know a URL by its text.
        params.sort_unstable();
        let mut uri = format!("{}{}", self.settings.root, ask.path);
        for (index, (name, value)) in params.into_iter().enumerate() {
            uri.push(if index == 0 { '?' } else { '&' });
            uri.push_str(&escaped(name));
            uri.push('=');
            uri.push_str(&escaped(value));
        }
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(uri)
            .body(Full::from(ask.body.clone()))
            .map_err(|error| Failure::Unaskable(error.to_string()))?;
        *request.headers_mut() = extras.headers;
        request.headers_mut().extend(ask.headers.clone());
        let agent = HeaderValue::from_static(concat!("headwater/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().entry(header::USER_AGENT).or_insert(agent);
        Ok(request)
    }
}

/// True if what was asked may have happened all the same.
fn leaves_doubt(failure: &Failure) -> bool {
    match failure {
        Failure::Unreachable(_) => true,
        // Whoever is busy has done nothing; whoever failed may have failed afterwards.
        Failure::Refused(refusal) => !matches!(refusal.status.as_u16(), 429 | 503 | 507),
        Failure::NotConnected(_) | Failure::Unreadable(_) | Failure::Unaskable(_) => false,
    }
}

/// What a failure means if an earlier attempt may have worked.
fn after_others(failure: Failure, is_repeated: bool) -> Failure {
    match failure {
        // Nobody knows whether the first attempt did it, so this one's word is not the last.
        Failure::NotConnected(why) if is_repeated => Failure::Unreachable(why),
        Failure::Refused(refusal) => {
            Failure::Refused(Box::new(Refusal { is_repeated, ..*refusal }))
        }
        other => other,
    }
}

fn may_repeat(repeat: Repeat, failure: &Failure) -> bool {
    match (repeat, failure) {
        (Repeat::Safe, failure) => failure.is_retryable(),
        (Repeat::Answered | Repeat::Refused, Failure::NotConnected(_)) => true,
        (Repeat::Answered, Failure::Refused(_)) => failure.is_retryable(),
        (Repeat::Refused, Failure::Refused(refusal)) => {
            failure.is_retryable() && matches!(refusal.status.as_u16(), 429 | 503 | 507)
        }
        (Repeat::Answered | Repeat::Refused, _) => false,
    }
}

/// An error with its causes.
pub(crate) fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
