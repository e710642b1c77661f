//! HTTP as far as commands need it: one request, one answer, and what a refusal says.

use std::{error::Error, iter};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header, request::Builder};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::crypto::ring;
use serde::Deserialize;

use crate::failure::Failure;

/// No answer is larger: a server's chunk holds one message of 32 MiB at most, and little else.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A server, and what it knows us by.
#[derive(Debug)]
pub(super) struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// What all URLs begin with.
    base: String,
    authorization: Option<HeaderValue>,
}

/// An answer that is not a refusal.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The part of a problem document (RFC 9457) that is for people.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl Http {
    pub(super) fn new(url: &str, token: Option<&str>) -> Result<Self, Failure> {
        let base = url.trim_end_matches('/').to_owned();
        let parsed: Option<Uri> = base.parse().ok();
        let scheme = parsed.as_ref().and_then(Uri::scheme_str);
        if !matches!(scheme, Some("http" | "https")) {
            let advice = "use one such as http://127.0.0.1:4437";
            return Err(Failure::usage(format!("{url:?} is not the URL of a server; {advice}")));
        }
        let authorization = token.map(bearer).transpose()?;
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(ring::default_provider())
            .map_err(|error| Failure::about("TLS cannot be set up", error))?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            base,
            authorization,
        })
    }

    /// Begins a request for what stands at `target` on the server.
    pub(super) fn request(&self, method: Method, target: &str) -> Builder {
        let request = Request::builder().method(method).uri(format!("{}{target}", self.base));
        match &self.authorization {
            Some(authorization) => request.header(header::AUTHORIZATION, authorization),
            None => request,
        }
    }

    /// Sends a request about `subject` and waits for the answer. A refusal becomes a failure.
    pub(super) async fn send(
        &self,
        subject: &str,
        request: Builder,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| Failure::about(subject, error))?;
        let response = self.client.request(request).await.map_err(|error| {
            let why = root_cause(&error);
            let advice = "check --url, or start a server with headwater dev";
            Failure::away(&self.base, format!("the server cannot be reached: {why}; {advice}"))
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body =
            body.map_err(|error| Failure::away(subject, format!("half an answer: {error}")))?;
        let answer = Answer { status: head.status, headers: head.headers, body: body.to_bytes() };
        if answer.status.is_success() { Ok(answer) } else { Err(refusal(subject, &answer)) }
    }
}

impl Answer {
    /// A header's text, if there is one.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Failure> {
    let mut value: HeaderValue = format!("Bearer {token}")
        .parse()
        .map_err(|_| Failure::usage("the token has characters that no token has; check it"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The sentence of the problem document, or else of whatever the server says.
fn refusal(subject: &str, answer: &Answer) -> Failure {
    let why = match serde_json::from_slice::<Problem>(&answer.body) {
        Ok(problem) => problem.detail,
        Err(_) => match String::from_utf8_lossy(&answer.body).lines().next() {
            Some(line) => format!("the server answers {}: {line}", answer.status),
            None => meaning(answer.status),
        },
    };
    match is_passing(answer.status) {
        true => Failure::away(subject, why),
        false => Failure::about(subject, why),
    }
}

/// Whether the server may answer otherwise before long.
fn is_passing(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// What a status means here; the answer to a HEAD has no body that could say it.
fn meaning(status: StatusCode) -> String {
    match status {
        StatusCode::UNAUTHORIZED => "the server does not know you; set HEADWATER_TOKEN".to_owned(),
        StatusCode::FORBIDDEN => "your token does not allow this; ask for another".to_owned(),
        StatusCode::NOT_FOUND => log::StreamNotFound.to_string(),
        StatusCode::GONE => log::StreamGone.to_string(),
        other => format!("the server answers {other}"),
    }
}

/// The innermost error is the one that people understand.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let innermost = iter::successors(Some(error), |error| (*error).source()).last();
    innermost.map(ToString::to_string).unwrap_or_default()
}
