//! Streams on a server, over HTTP.
//!
//! Only what the commands need: no retries, no pool of producers. Programs use the client library,
//! and so does what takes many requests.

use std::sync::Arc;

use bytes::Bytes;
use client::{Bearer, Client, HttpLog, Retry, Settings};
use http::{Method, StatusCode, header, request::Builder};
use log::{Append, Closing, Create, Delete, Fork, Freshness, Lifetime, List, Log, Outcome};
use serde::Deserialize;
use sys::Sys;
use wire::{ContentType, Expiry, Messages, Offset, ReadFrom, StreamPath, headers, json};

use super::{
    Made, Page, Part, Stored,
    http::{Answer, Http},
};
use crate::{failure::Failure, stream::summary::Summary};

/// Where servers keep streams.
const ROOT: &str = "/v1/stream/";

/// A server.
#[derive(Debug)]
pub(crate) struct Remote {
    http: Http,
    url: String,
    token: Option<String>,
}

/// A page as a server writes it.
#[derive(Deserialize)]
struct PageDocument {
    streams: Vec<Summary>,
    next: Option<String>,
}

impl Remote {
    pub(super) fn new(url: &str, token: Option<&str>) -> Result<Self, Failure> {
        // People copy URLs from where they find them.
        let url = url.trim_end_matches('/').trim_end_matches(ROOT.trim_end_matches('/'));
        let http = Http::new(url, token)?;
        Ok(Self { http, url: url.to_owned(), token: token.map(str::to_owned) })
    }

    /// The same server, for whoever has this token.
    pub(crate) fn as_bearer(&self, token: &str) -> Result<Self, Failure> {
        Self::new(&self.url, Some(token))
    }

    /// One more handle of it.
    pub(crate) fn again(&self) -> Result<Self, Failure> {
        Self::new(&self.url, self.token.as_deref())
    }

    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Asks for what is at `target`, in JSON.
    pub(crate) async fn call(
        &self,
        method: Method,
        target: &str,
        body: &serde_json::Value,
    ) -> Result<serde_json::Value, Failure> {
        let request = self.http.request(method, target);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let answer = self.http.send(target, request, Bytes::from(body.to_string())).await?;
        serde_json::from_slice(&answer.body).map_err(|error| Failure::about(target, error))
    }

    /// The server as a log, for what takes more than one request.
    pub(crate) async fn log(&self, sys: &Sys, retry: Retry) -> Result<Arc<dyn Log>, Failure> {
        let mut settings = Settings::new(&self.url).map_err(Failure::usage)?;
        settings.retry = retry;
        if let Some(token) = &self.token {
            settings = settings.with_badge(Bearer::new(token).map_err(Failure::usage)?);
        }
        let connected = Client::connect(sys, settings).await;
        let client = connected.map_err(|error| Failure::about(&self.url, error))?;
        Ok(Arc::new(HttpLog::new(client)))
    }

    pub(super) async fn create(&self, path: &StreamPath, create: &Create) -> Result<Made, Failure> {
        let mut request = self.http.request(Method::PUT, &target(path));
        if let Some(content_type) = &create.content_type {
            request = request.header(header::CONTENT_TYPE, content_type.as_str());
        }
        let request = closing(expiry(request, create.expiry), create.closing);
        made(path, &self.send(path, request, Bytes::new()).await?)
    }

    pub(super) async fn fork(&self, path: &StreamPath, fork: &Fork) -> Result<Made, Failure> {
        let mut request = self.http.request(Method::PUT, &target(path));
        if let Some(source) = fork.source.stream() {
            request = request.header(headers::FORKED_FROM, target(source));
        }
        if let Some(offset) = fork.offset {
            request = request
                .header(headers::FORK_OFFSET, offset.to_string())
                .header(headers::FORK_SUB_OFFSET, fork.sub_offset.get());
        }
        if let Lifetime::Own(own) = fork.lifetime {
            request = expiry(request, own);
        }
        made(path, &self.send(path, request, Bytes::new()).await?)
    }

    pub(super) async fn append(
        &self,
        path: &StreamPath,
        append: &Append,
    ) -> Result<Stored, Failure> {
        if is_json(append) || append.messages.len() <= 1 {
            return self.post(path, append).await;
        }
        // Only JSON has a form for several messages in one request.
        if append.producer.is_some() || append.seq.is_some() || append.expected.is_some() {
            let advice = "a server takes a condition for one message at a time, unless it is JSON; \
                          append them one by one";
            return Err(Failure::about(path, advice));
        }
        let last = append.messages.len() - 1;
        for index in 0..last {
            let messages = append.messages.slice(index, index + 1);
            let one = Append { messages, closing: Closing::LeaveOpen, ..append.clone() };
            let posted = self.post(path, &one).await;
            posted
                .map_err(|failure| failure.with(format!("{index} of {} came before", last + 1)))?;
        }
        let messages = append.messages.slice(last, last + 1);
        self.post(path, &Append { messages, ..append.clone() }).await
    }

    pub(super) async fn read(&self, path: &StreamPath, from: ReadFrom) -> Result<Part, Failure> {
        let place = match from {
            ReadFrom::Start => "offset=-1".to_owned(),
            ReadFrom::Now => "offset=now".to_owned(),
            ReadFrom::At(offset) => format!("offset={offset}"),
            ReadFrom::Last => "before=now".to_owned(),
            ReadFrom::Before(offset) => format!("before={offset}"),
        };
        self.get(path, &format!("?{place}")).await
    }

    pub(super) async fn follow(&self, path: &StreamPath, after: Offset) -> Result<Part, Failure> {
        self.get(path, &format!("?live=long-poll&offset={after}")).await
    }

    pub(super) async fn head(&self, path: &StreamPath) -> Result<Summary, Failure> {
        let request = self.http.request(Method::HEAD, &target(path));
        let answer = self.send(path, request, Bytes::new()).await?;
        let text = |name: &str| answer.header(name).map(str::to_owned);
        Ok(Summary {
            path: path.to_string(),
            content_type: content_type(path, &answer)?.to_string(),
            earliest: text(headers::EARLIEST_OFFSET),
            tail: next_offset(path, &answer)?.to_string(),
            closed: is_closed(&answer),
            ttl: answer.header(headers::TTL).and_then(|seconds| seconds.parse().ok()),
            expires_at: text(headers::EXPIRES_AT),
            created_at: None,
        })
    }

    pub(super) async fn trim(&self, path: &StreamPath, before: Offset) -> Result<(), Failure> {
        self.remove(path, &format!("?before={before}")).await
    }

    pub(super) async fn delete(&self, path: &StreamPath, delete: Delete) -> Result<(), Failure> {
        let query = match delete {
            Delete::Stream => "",
            Delete::Erase => "?erase=true",
        };
        self.remove(path, query).await
    }

    pub(super) async fn list(&self, list: &List) -> Result<Page, Failure> {
        let mut target = format!("{ROOT}?limit={}&prefix={}", list.limit, escape(&list.prefix));
        if let Some(after) = &list.after {
            target.push_str(&format!("&after={}", escape(after.as_str())));
        }
        let request = self.http.request(Method::GET, &target);
        let answer = self.http.send("the list of streams", request, Bytes::new()).await?;
        let page: PageDocument = serde_json::from_slice(&answer.body)
            .map_err(|error| Failure::about("this server cannot list its streams", error))?;
        let next = page.next.map(|path| path.parse()).transpose().map_err(Failure::refused)?;
        Ok(Page { streams: page.streams, next })
    }

    async fn post(&self, path: &StreamPath, append: &Append) -> Result<Stored, Failure> {
        let mut request = self.http.request(Method::POST, &target(path));
        if let Some(content_type) = &append.content_type {
            request = request.header(header::CONTENT_TYPE, content_type.as_str());
        }
        let body = match is_json(append) && !append.messages.is_empty() {
            true => json::join([&append.messages]),
            false => append.messages.data().clone(),
        };
        let request = closing(conditions(request, append), append.closing);
        let answer = self.send(path, request, body).await?;
        let outcome = match answer.status {
            StatusCode::NO_CONTENT if append.producer.is_some() => Outcome::Duplicate,
            _ => Outcome::New,
        };
        Ok(Stored { outcome, tail: next_offset(path, &answer)?, closed: is_closed(&answer) })
    }

    async fn get(&self, path: &StreamPath, query: &str) -> Result<Part, Failure> {
        let request = self.http.request(Method::GET, &(target(path) + query));
        let answer = self.send(path, request, Bytes::new()).await?;
        let freshness = match () {
            () if is_closed(&answer) => Freshness::Closed,
            () if answer.header(headers::UP_TO_DATE).is_some() => Freshness::UpToDate,
            () => Freshness::Behind,
        };
        let next = next_offset(path, &answer)?;
        if answer.body.is_empty() {
            let content_type = ContentType::octet_stream();
            return Ok(Part { content_type, runs: Vec::new(), next, freshness });
        }
        let content_type = content_type(path, &answer)?;
        let messages = match content_type.is_json() {
            true => json::split(&answer.body).map_err(|error| Failure::about(path, error))?,
            false => Messages::one(answer.body).map_err(|error| Failure::about(path, error))?,
        };
        Ok(Part { content_type, runs: vec![messages], next, freshness })
    }

    async fn remove(&self, path: &StreamPath, query: &str) -> Result<(), Failure> {
        let request = self.http.request(Method::DELETE, &(target(path) + query));
        self.send(path, request, Bytes::new()).await.map(|_| ())
    }

    async fn send(
        &self,
        path: &StreamPath,
        request: Builder,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        self.http.send(path.as_str(), request, body).await
    }
}

fn is_json(append: &Append) -> bool {
    append.content_type.as_ref().is_some_and(ContentType::is_json)
}

fn target(path: &StreamPath) -> String {
    format!("{ROOT}{}", path.to_url())
}

fn closing(request: Builder, closing: Closing) -> Builder {
    match closing {
        Closing::LeaveOpen => request,
        Closing::Close => request.header(headers::CLOSED, "true"),
    }
}

fn expiry(request: Builder, expiry: Expiry) -> Builder {
    match expiry {
        Expiry::Never => request,
        Expiry::Sliding(ttl) => request.header(headers::TTL, ttl.seconds()),
        Expiry::At(time) => request.header(headers::EXPIRES_AT, time.to_string()),
    }
}

fn conditions(mut request: Builder, append: &Append) -> Builder {
    if let Some(producer) = &append.producer {
        request = request
            .header(headers::PRODUCER_ID, producer.id.as_str())
            .header(headers::PRODUCER_EPOCH, producer.epoch.get())
            .header(headers::PRODUCER_SEQ, producer.seq.get());
    }
    if let Some(seq) = &append.seq {
        request = request.header(headers::SEQ, seq.as_str());
    }
    if let Some(offset) = append.expected {
        request = request.header(headers::EXPECTED_OFFSET, offset.to_string());
    }
    request
}

fn made(path: &StreamPath, answer: &Answer) -> Result<Made, Failure> {
    let outcome = match answer.status {
        StatusCode::CREATED => Outcome::New,
        _ => Outcome::Duplicate,
    };
    Ok(Made {
        outcome,
        content_type: content_type(path, answer)?.to_string(),
        tail: next_offset(path, answer)?,
        closed: is_closed(answer),
    })
}

fn content_type(path: &StreamPath, answer: &Answer) -> Result<ContentType, Failure> {
    let text = answer.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
    text.parse().map_err(|_| foreign(path, "Content-Type"))
}

fn next_offset(path: &StreamPath, answer: &Answer) -> Result<Offset, Failure> {
    let token = answer.header(headers::NEXT_OFFSET).unwrap_or_default();
    token.parse().map_err(|_| foreign(path, "Stream-Next-Offset"))
}

fn is_closed(answer: &Answer) -> bool {
    answer.header(headers::CLOSED).is_some_and(headers::is_closed)
}

fn foreign(path: &StreamPath, header: &str) -> Failure {
    let advice = "is this a Headwater server?";
    Failure::about(path, format!("the server's answer has no {header} that we know; {advice}"))
}

/// Makes any text safe to stand in a query.
fn escape(text: &str) -> String {
    let escape_byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape_byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_hold_any_text() {
        assert_eq!(escape("chats/a b&c=+é"), "chats%2Fa%20b%26c%3D%2B%C3%A9");
    }
}
