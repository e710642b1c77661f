//! A client that notices when the server dies, and tells that apart from a refusal.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};

/// A client of one server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    hyper: Hyper<HttpConnector, Full<Bytes>>,
    address: String,
}

/// No answer came: the server is dead, and whether it did what was asked is unknown.
#[derive(Debug)]
pub(crate) struct Died;

/// An answer, good or bad.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A request in the making.
#[derive(Debug)]
#[must_use = "it is sent by calling send"]
pub(crate) struct Asking<'a> {
    client: &'a Client,
    request: http::request::Builder,
    body: Bytes,
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        let hyper = Hyper::builder(TokioExecutor::new()).build(HttpConnector::new());
        Self { hyper, address: address.to_owned() }
    }

    /// Asks about the stream at `path`, which may carry a query.
    pub(crate) fn ask(&self, method: Method, path: &str) -> Asking<'_> {
        self.ask_at(method, &format!("/v1/stream/{path}"))
    }

    /// What stands at a path of the server.
    pub(crate) async fn get(&self, target: &str) -> Result<Answer, Died> {
        self.ask_at(Method::GET, target).send().await
    }

    fn ask_at(&self, method: Method, target: &str) -> Asking<'_> {
        let url = format!("http://{}{target}", self.address);
        let request = Request::builder().method(method).uri(url);
        Asking { client: self, request, body: Bytes::new() }
    }

    /// An answer that goes on.
    pub(crate) async fn follow(&self, path: &str) -> Result<Incoming, Died> {
        let url = format!("http://{}/v1/stream/{path}", self.address);
        let request = Request::get(url).body(Full::default()).unwrap();
        let response = self.hyper.request(request).await.map_err(|_| Died)?;
        assert_eq!(response.status(), 200, "{path}");
        Ok(response.into_body())
    }
}

impl Asking<'_> {
    pub(crate) fn header(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.request = self.request.header(name, value.to_string());
        self
    }

    pub(crate) fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.request = self.request.header("content-type", content_type);
        self.body = body.into();
        self
    }

    pub(crate) async fn send(self) -> Result<Answer, Died> {
        let request = self.request.body(Full::new(self.body)).unwrap();
        let response = self.client.hyper.request(request).await.map_err(|_| Died)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|_| Died)?.to_bytes();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }
}

impl Answer {
    /// A header's text, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}
