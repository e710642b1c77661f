//! Reading and following: what is there, then what comes, through whatever breaks on the way.
//!
//! ```text
//!   plain reads ──▶ at the tail ──▶ events ──▶ long-polls, if events do not hold
//!        ▲                            │              │
//!        └────── from the last offset ┴──────────────┘   after every break
//! ```

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use wire::{
    ContentType, Messages, headers, json,
    sse::{Event, EventReader},
};

use crate::{
    Failure, OffsetToken, Stream,
    caps::{EVENT_BYTES_MAX, QUICK_ANSWER, SHORT_LIFE, SHORT_LIVES_MAX},
    failure::parsed,
    stream::{is_true, tail},
    transport::{Ask, Repeat},
};

/// How a reader waits for what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// Not at all: it ends at the tail.
    Off,
    /// A request at a time.
    LongPoll,
    /// By server-sent events, and by long-polls if something between cannot bear them.
    Sse,
    /// The same, but what is there already is read plainly first, as caches like it.
    Auto,
}

/// Reads a stream to its end.
///
/// Dropping a call to [`Reader::next`] loses nothing.
#[derive(Debug)]
pub struct Reader {
    stream: Stream,
    live: Live,
    /// Where the next read begins.
    from: OffsetToken,
    cursor: Option<String>,
    content_type: Option<ContentType>,
    is_caught_up: bool,
    /// Whether whoever reads knows that there is no more for now.
    has_told_tail: bool,
    is_over: bool,
    last_status: StatusCode,
    /// In a row.
    failures: u32,
    /// In a row.
    short_lives: u32,
    events: Option<Events>,
}

/// What was read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The bytes; in JSON mode one array. Nothing, if only the place is news.
    pub data: Bytes,
    /// What they are, if the server said.
    pub content_type: Option<ContentType>,
    /// Where to go on.
    pub next: OffsetToken,
    /// Whether that is the tail.
    pub is_up_to_date: bool,
    /// Whether nothing can follow.
    pub is_closed: bool,
}

/// An answer that goes on.
#[derive(Debug)]
struct Events {
    body: Incoming,
    reader: EventReader,
    is_base64: bool,
    content_type: Option<ContentType>,
    data: Vec<Bytes>,
    data_bytes: usize,
    began_at: Duration,
}

/// The event after each data event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Control {
    stream_next_offset: String,
    #[serde(default)]
    stream_cursor: Option<String>,
    #[serde(default)]
    up_to_date: bool,
    #[serde(default)]
    stream_closed: bool,
}

impl Batch {
    /// The values of a JSON batch.
    ///
    /// # Errors
    /// [`Failure::Unreadable`] if it is no JSON.
    pub fn values(&self) -> Result<Messages, Failure> {
        json::split(&self.data).map_err(|error| Failure::Unreadable(error.to_string()))
    }
}

impl Reader {
    pub(crate) fn new(stream: Stream, from: OffsetToken, live: Live) -> Self {
        // Nothing lies between now and the tail.
        let is_caught_up = live == Live::Sse || from == OffsetToken::now();
        Self {
            stream,
            live,
            from,
            cursor: None,
            content_type: None,
            is_caught_up,
            has_told_tail: false,
            is_over: false,
            last_status: StatusCode::OK,
            failures: 0,
            short_lives: 0,
            events: None,
        }
    }

    /// Where the next read begins: all before it was given out.
    #[must_use]
    pub fn offset(&self) -> &OffsetToken {
        &self.from
    }

    /// The status of the newest answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.last_status
    }

    /// What comes next; none at the end of a closed stream, or at the tail if it is not live.
    ///
    /// # Errors
    /// [`Failure`] once retries have not helped, or cannot. Calling again asks again.
    pub async fn next(&mut self) -> Result<Option<Batch>, Failure> {
        while !self.is_over {
            let step = match self.events {
                Some(_) => self.hear().await,
                None => self.ask().await,
            };
            match step {
                Ok(Some(batch)) => {
                    self.failures = 0;
                    return Ok(Some(batch));
                }
                Ok(None) => {}
                Err(failure) => self.recover(failure).await?,
            }
        }
        Ok(None)
    }

    async fn recover(&mut self, failure: Failure) -> Result<(), Failure> {
        self.events = None;
        self.failures += 1;
        let http = &self.stream.client.http;
        if !failure.is_retryable() || !http.settings.retry.allows(self.failures) {
            self.failures = 0;
            return Err(failure);
        }
        http.pause(self.failures, failure).await
    }

    /// Learns what events do not tell: what the stream holds, and where "now" is, so that a break
    /// loses nothing.
    async fn prepare(&mut self) -> Result<(), Failure> {
        let is_now = self.from == OffsetToken::now();
        let needs_type = self.is_caught_up && self.content_type.is_none();
        if self.live == Live::Off || !(is_now || needs_type) {
            return Ok(());
        }
        let ask = self.stream.ask(Method::HEAD, Repeat::Safe);
        let answer = self.stream.client.http.ask_once(&ask).await?;
        self.content_type = content_type(&answer.headers);
        if is_now {
            self.from = tail(&answer.headers)?;
        }
        Ok(())
    }

    /// Asks for more, in the way that suits the moment.
    async fn ask(&mut self) -> Result<Option<Batch>, Failure> {
        self.prepare().await?;
        let wants_events = matches!(self.live, Live::Sse | Live::Auto);
        if self.is_caught_up && wants_events && self.short_lives < SHORT_LIVES_MAX {
            self.events = Some(self.connect().await?);
            return Ok(None);
        }
        let is_live = self.is_caught_up && self.live != Live::Off;
        // Retries are counted here, so that those of a request do not multiply them.
        let ask = self.request(is_live.then_some("long-poll"));
        let clock = self.stream.client.http.sys.clock.clone();
        let asked_at = clock.elapsed();
        let answer = self.stream.client.http.ask_once(&ask).await?;
        let batch = Batch {
            is_up_to_date: is_true(&answer.headers, headers::UP_TO_DATE)
                || answer.status == StatusCode::NO_CONTENT,
            is_closed: is_true(&answer.headers, headers::CLOSED),
            next: tail(&answer.headers)?,
            content_type: content_type(&answer.headers),
            data: without_nothing(&answer.headers, answer.body),
        };
        self.content_type = content_type(&answer.headers).or(self.content_type.take());
        let is_idle = batch.data.is_empty() && batch.next == self.from && !batch.is_closed;
        if is_idle && !is_live && !batch.is_up_to_date {
            let why = "the server gives nothing, and does not say that there is nothing";
            return Err(Failure::Unreadable(why.to_owned()));
        }
        if is_idle && is_live && clock.elapsed() - asked_at < QUICK_ANSWER {
            // A server that does not wait must not be asked in a hurry.
            clock.sleep(QUICK_ANSWER).await;
        }
        Ok(self.advance(batch, answer.status, parsed(&answer.headers, headers::CURSOR)))
    }

    fn request(&self, live: Option<&'static str>) -> Ask {
        let mut ask = Ask::get(self.stream.path.clone()).param("offset", self.from.as_str());
        if let Some(live) = live {
            ask = ask.param("live", live);
            ask.patience = Some(self.stream.client.http.settings.silence_max);
            if let Some(cursor) = &self.cursor {
                ask = ask.param("cursor", cursor.as_str());
            }
        }
        ask
    }

    /// Takes the reader to where a batch ends; none if there is nothing to tell.
    fn advance(
        &mut self,
        batch: Batch,
        status: StatusCode,
        cursor: Option<String>,
    ) -> Option<Batch> {
        let is_at_tail = batch.is_up_to_date || batch.is_closed;
        let is_news =
            !batch.data.is_empty() || batch.is_closed || is_at_tail && !self.has_told_tail;
        self.is_caught_up |= is_at_tail;
        self.has_told_tail = is_at_tail || (self.has_told_tail && batch.data.is_empty());
        self.from = batch.next.clone();
        self.cursor = cursor.or(self.cursor.take());
        self.last_status = status;
        self.is_over = batch.is_closed || (self.live == Live::Off && batch.is_up_to_date);
        is_news.then_some(batch)
    }

    async fn connect(&mut self) -> Result<Events, Failure> {
        let http = &self.stream.client.http;
        let (head, body) = http.open(&self.request(Some("sse"))).await?.into_parts();
        let kind: Option<String> = parsed(&head.headers, "content-type");
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            self.short_lives = SHORT_LIVES_MAX;
            return Err(Failure::Unreachable("the server sends no events".to_owned()));
        }
        let encoding: Option<String> = parsed(&head.headers, headers::SSE_DATA_ENCODING);
        Ok(Events {
            body,
            reader: EventReader::new(EVENT_BYTES_MAX),
            is_base64: encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64")),
            content_type: self.content_type.clone(),
            data: Vec::new(),
            data_bytes: 0,
            began_at: http.sys.clock.elapsed(),
        })
    }

    /// Hears events until one says where we are; none if they end.
    async fn hear(&mut self) -> Result<Option<Batch>, Failure> {
        let http = self.stream.client.http.clone();
        let Some(events) = &mut self.events else { return Ok(None) };
        loop {
            let unreadable = |error: wire::sse::BadEvent| Failure::Unreadable(error.to_string());
            if let Some(event) = events.reader.next_event().map_err(unreadable)? {
                let Some((batch, cursor)) = events.take(&event)? else { continue };
                return Ok(self.advance(batch, StatusCode::OK, cursor));
            }
            let frame = http.sys.clock.timeout(http.settings.silence_max, events.body.frame());
            match frame.await {
                Ok(Some(Ok(frame))) => {
                    if let Some(bytes) = frame.data_ref() {
                        events.reader.push(bytes);
                    }
                }
                // It ended, broke, or is as good as dead: go on from where we are.
                Ok(Some(Err(_)) | None) | Err(_) => return self.hang_up().await,
            }
        }
    }

    async fn hang_up(&mut self) -> Result<Option<Batch>, Failure> {
        let http = self.stream.client.http.clone();
        let Some(events) = self.events.take() else { return Ok(None) };
        let lived = http.sys.clock.elapsed().saturating_sub(events.began_at);
        if lived >= SHORT_LIFE {
            self.short_lives = 0;
            return Ok(None);
        }
        self.short_lives += 1;
        let why = Failure::Unreachable("the events ended at once".to_owned());
        http.pause(self.short_lives, why).await?;
        Ok(None)
    }
}

impl Events {
    fn keep<T>(&mut self, bytes: Bytes) -> Result<Option<T>, Failure> {
        self.data_bytes += bytes.len();
        if self.data_bytes > EVENT_BYTES_MAX {
            let why = "too much data comes without a word of where it ends";
            return Err(Failure::Unreadable(why.to_owned()));
        }
        self.data.push(bytes);
        Ok(None)
    }

    /// All data since the last control event: arrays of JSON become one, bytes follow each other.
    fn take_data(&mut self) -> Bytes {
        self.data_bytes = 0;
        let parts = std::mem::take(&mut self.data);
        let is_json = self.content_type.as_ref().is_some_and(ContentType::is_json);
        match (parts.as_slice(), is_json) {
            ([only], true) if only.trim_ascii() == b"[]" => Bytes::new(),
            ([only], _) => only.clone(),
            (arrays, true) => match arrays.iter().map(json::split).collect::<Result<Vec<_>, _>>() {
                Ok(runs) if !runs.is_empty() => json::join(&runs),
                _ => arrays.concat().into(),
            },
            (parts, false) => parts.concat().into(),
        }
    }

    /// What an event says: data is kept until its place is known.
    fn take(&mut self, event: &Event) -> Result<Option<(Batch, Option<String>)>, Failure> {
        let unreadable = |what: &str, error: &dyn std::fmt::Display| {
            Failure::Unreadable(format!("{what}: {error}"))
        };
        match event.kind.as_str() {
            "data" if self.is_base64 => {
                let text: String = event.data.split_ascii_whitespace().collect();
                let bytes = STANDARD.decode(text).map_err(|error| unreadable("base64", &error))?;
                self.keep(bytes.into())
            }
            "data" => self.keep(Bytes::copy_from_slice(event.data.as_bytes())),
            "control" => {
                let control: Control = serde_json::from_str(&event.data)
                    .map_err(|error| unreadable("a control event", &error))?;
                let next = control.stream_next_offset.parse();
                let batch = Batch {
                    data: self.take_data(),
                    content_type: self.content_type.clone(),
                    next: next.map_err(|error| unreadable("an offset", &error))?,
                    is_up_to_date: control.up_to_date || control.stream_closed,
                    is_closed: control.stream_closed,
                };
                Ok(Some((batch, control.stream_cursor)))
            }
            _ => Ok(None),
        }
    }
}

fn content_type(answer: &HeaderMap) -> Option<ContentType> {
    parsed(answer, "content-type")
}

/// An empty array is no data.
fn without_nothing(answer: &HeaderMap, body: Bytes) -> Bytes {
    let is_json = content_type(answer).is_some_and(|content_type| content_type.is_json());
    let is_empty = is_json && body.trim_ascii() == b"[]";
    if is_empty { Bytes::new() } else { body }
}
