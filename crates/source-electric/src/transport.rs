//! HTTP as far as shapes need it.

use std::{error::Error, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use sys::Sys;

use crate::{
    caps::{
        ANSWER_BYTES_MAX, ANSWER_PATIENCE, CONNECT_PATIENCE, REFUSAL_BYTES_MAX, REFUSAL_SHOWN_MAX,
        RETRY_AFTER_MAX,
    },
    failure::Failure,
};

/// A way to the server.
#[derive(Debug)]
pub(crate) struct Http {
    sys: Sys,
    hyper: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// What the server says.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A piece of the log.
    Log { headers: HeaderMap, body: Body },
    /// Nothing has happened. Servers of old said so in this way.
    Nothing,
    /// The log is given up; the next one may have a name.
    Gone { handle: Option<String> },
}

/// A body that is on its way.
#[derive(Debug)]
pub(crate) struct Body {
    incoming: Incoming,
    sys: Sys,
}

impl Http {
    pub(crate) fn new(sys: &Sys) -> Self {
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
        Self { sys: sys.clone(), hyper: Client::builder(TokioExecutor::new()).build(connector) }
    }

    pub(crate) async fn get(&self, uri: Uri, headers: HeaderMap) -> Result<Answer, Failure> {
        self.ask(Method::GET, uri, headers, Bytes::new()).await
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let mut request = Request::new(Full::from(body));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        *request.headers_mut() = headers;
        let agent = HeaderValue::from_static(concat!("headwater/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().entry(header::USER_AGENT).or_insert(agent);
        let answer = self.sys.clock.timeout(ANSWER_PATIENCE, self.hyper.request(request)).await;
        let answer = answer
            .map_err(|_| Failure::passing(format!("no answer within {ANSWER_PATIENCE:?}")))?
            .map_err(|error| Failure::passing(told(&error)))?;
        let handle = answer.headers().get("electric-handle");
        let handle = handle.and_then(|handle| Some(handle.to_str().ok()?.to_owned()));
        match answer.status() {
            StatusCode::NO_CONTENT => Ok(Answer::Nothing),
            StatusCode::CONFLICT => Ok(Answer::Gone { handle }),
            status if status.is_success() => {
                let (head, incoming) = answer.into_parts();
                let body = Body { incoming, sys: self.sys.clone() };
                Ok(Answer::Log { headers: head.headers, body })
            }
            _ => Err(self.refused(answer).await),
        }
    }

    /// What a refusal means.
    async fn refused(&self, answer: Response<Incoming>) -> Failure {
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, REFUSAL_BYTES_MAX).collect();
        let body = self.sys.clock.timeout(ANSWER_PATIENCE, body).await;
        let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        let why = format!("the server answers {}: {}", head.status, reason(&body));
        let is_passing = head.status.is_server_error()
            || matches!(head.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        match is_passing {
            true => Failure::Passing { why, after: retry_after(&head.headers) },
            false => Failure::Final(why),
        }
    }
}

impl Body {
    /// The next piece, or nothing if that was all.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = self.sys.clock.timeout(ANSWER_PATIENCE, self.incoming.frame()).await;
            let silent = || format!("the answer does not go on within {ANSWER_PATIENCE:?}");
            let Some(frame) = frame.map_err(|_| Failure::passing(silent()))? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| Failure::passing(told(&error)))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// All of it.
    pub(crate) async fn whole(mut self) -> Result<Bytes, Failure> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.next().await? {
            if whole.len() + piece.len() > ANSWER_BYTES_MAX {
                let why = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
                return Err(Failure::Final(why));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }
}

/// What a server says about a refusal.
fn reason(body: &[u8]) -> String {
    let json = serde_json::from_slice::<serde_json::Value>(body).ok();
    let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
    let errors = json.as_ref().and_then(|json| json.get("errors"));
    let whole = match (message, errors) {
        (Some(message), Some(errors)) => format!("{message} {errors}"),
        (Some(message), None) => message.to_owned(),
        (None, _) => String::from_utf8_lossy(body).into_owned(),
    };
    let shown: String = whole.trim().chars().take(REFUSAL_SHOWN_MAX).collect();
    if shown.is_empty() { "it does not say why".to_owned() } else { shown }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// An error with its causes.
fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_repeated_in_few_words() {
        let invalid = br#"{"message":"Invalid request","errors":{"table":["can't be blank"]}}"#;
        assert_eq!(reason(invalid), r#"Invalid request {"table":["can't be blank"]}"#);
        assert_eq!(reason(br#"{"message":"no"}"#), "no");
        assert_eq!(reason(b"<h1>Bad</h1>\n"), "<h1>Bad</h1>");
        assert_eq!(reason(b""), "it does not say why");
        assert_eq!(reason("ü".repeat(9_999).as_bytes()).chars().count(), REFUSAL_SHOWN_MAX);
    }

    #[test]
    fn a_wait_is_bounded() {
        let asked = |word: &str| {
            retry_after(&HeaderMap::from_iter([(header::RETRY_AFTER, word.parse().unwrap())]))
        };
        assert_eq!(asked("2"), Some(Duration::from_secs(2)));
        assert_eq!(asked("99999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(asked("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
