//! One stream of any server: make it, append to it, look at it, follow it, end it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use log::Closing;
use sys::Sys;
use wire::{ContentType, Epoch, Expiry, Producer, ProducerSeq, StreamPath, StreamSeq, headers};

use crate::{
    Failure, Live, OffsetToken, ProducerSettings, Reader, Settings,
    failure::parsed,
    transport::{Ask, Http, Repeat},
};

/// A server of streams. Cheap to clone; clones share connections and their budget of retries.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) http: Arc<Http>,
    pub(crate) dialect: Dialect,
}

/// What a server can do beyond the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Nothing.
    Protocol,
    /// What Headwater adds: boundaries of messages, expected offsets, lists, trims, watches.
    Headwater,
}

/// One stream of a server.
#[derive(Clone, Debug)]
pub struct Stream {
    pub(crate) client: Client,
    /// As it stands in a URL, from its first slash.
    pub(crate) path: String,
}

/// A stream to make.
#[derive(Clone, Debug, Default)]
pub struct NewStream {
    /// What it holds; the server's choice if not said.
    pub content_type: Option<ContentType>,
    /// How long it lives.
    pub expiry: Expiry,
    /// What it begins with.
    pub body: Bytes,
    /// Whether that is all.
    pub closing: Closing,
}

/// What is to be appended.
#[derive(Clone, Debug)]
pub struct Body {
    /// The bytes; in JSON mode one value, or an array of them.
    pub bytes: Bytes,
    /// What they are; must be the stream's.
    pub content_type: ContentType,
    /// The application's own order.
    pub seq: Option<StreamSeq>,
    /// Makes the append safe to repeat.
    pub producer: Option<Producer>,
    /// Whether nothing can follow.
    pub closing: Closing,
}

/// What is known of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it holds.
    pub content_type: Option<ContentType>,
    /// Its end.
    pub tail: OffsetToken,
    /// Whether nothing can follow.
    pub is_closed: bool,
    /// How long it lives.
    pub expiry: Expiry,
}

/// The answer to a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Whether it was not there before. If an answer was lost on the way, it may be new and not
    /// be called so.
    pub is_new: bool,
    /// Its end.
    pub tail: OffsetToken,
}

/// The answer to an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The stream's end.
    pub tail: OffsetToken,
    /// Whether it was stored by an earlier attempt.
    pub is_duplicate: bool,
    /// Whether nothing can follow.
    pub is_closed: bool,
    /// The producer's newest epoch and sequence, as the server knows them.
    pub producer: Option<(Epoch, ProducerSeq)>,
    /// Whether we asked more than once, and an earlier attempt may have been the one.
    pub(crate) is_repeated: bool,
}

impl Client {
    /// A client of a server that keeps to the protocol and does no more.
    #[must_use]
    pub fn new(sys: &Sys, settings: Settings) -> Self {
        Self { http: Http::new(sys, settings), dialect: Dialect::Protocol }
    }

    /// A client that asks the server what it can do.
    ///
    /// # Errors
    /// [`Failure`] if it does not answer. That it answers with a refusal is an answer.
    pub async fn connect(sys: &Sys, settings: Settings) -> Result<Self, Failure> {
        let client = Self::new(sys, settings);
        let ask = Ask::new(Method::OPTIONS, "/".to_owned(), Repeat::Safe);
        let extensions: Option<String> = match client.http.ask(ask).await {
            Ok(answer) => parsed(&answer.headers, headers::EXTENSIONS),
            Err(Failure::Refused(_)) => None,
            Err(failure) => return Err(failure),
        };
        let frames = extensions.is_some_and(|list| list.split(',').any(|e| e.trim() == "framing"));
        let dialect = if frames { Dialect::Headwater } else { Dialect::Protocol };
        Ok(Self { dialect, ..client })
    }

    /// What the server can do beyond the protocol, as far as is known.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// One of its streams.
    #[must_use]
    pub fn stream(&self, path: &StreamPath) -> Stream {
        Stream { client: self.clone(), path: format!("/{}", path.to_url()) }
    }
}

impl Stream {
    /// Makes it, or confirms that it is there with the same settings.
    ///
    /// # Errors
    /// [`Failure::Refused`] with 409 if another one has its name.
    pub async fn create(&self, new: NewStream) -> Result<Made, Failure> {
        let ask = self.ask(Method::PUT, Repeat::Safe).body(new.body);
        let ask = with_expiry(with_type(ask, new.content_type.as_ref()), &new.expiry);
        let answer = self.client.http.ask(with_closing(ask, new.closing)).await?;
        Ok(Made { is_new: answer.status == StatusCode::CREATED, tail: tail(&answer.headers)? })
    }

    /// Appends, closes, or both at once.
    ///
    /// Without a producer it is repeated only if the server said that it failed; one that stored
    /// the bytes before it failed stores them twice. With one, nothing is ever stored twice.
    ///
    /// # Errors
    /// [`Failure::Unreachable`] leaves open whether it was stored.
    pub async fn append(&self, body: Body) -> Result<Stored, Failure> {
        let repeat = if body.producer.is_some() { Repeat::Safe } else { Repeat::Answered };
        let mut ask = self.ask(Method::POST, repeat);
        if !body.bytes.is_empty() {
            ask = with_type(ask, Some(&body.content_type)).body(body.bytes);
        }
        if let Some(seq) = &body.seq {
            ask = ask.header(headers::SEQ, seq.as_str());
        }
        if let Some(producer) = &body.producer {
            ask = with_producer(ask, producer);
        }
        self.post(with_closing(ask, body.closing)).await
    }

    pub(crate) async fn post(&self, ask: Ask) -> Result<Stored, Failure> {
        let is_produced = ask.headers.contains_key(headers::PRODUCER_ID);
        let has_body = !ask.body.is_empty();
        let answer = self.client.http.ask(ask).await?;
        let epoch = parsed(&answer.headers, headers::PRODUCER_EPOCH);
        let seq = parsed(&answer.headers, headers::PRODUCER_SEQ);
        let tail = match parsed(&answer.headers, headers::NEXT_OFFSET) {
            Some(tail) => tail,
            // Some servers do not say it of what they knew already.
            None => self.head().await?.tail,
        };
        Ok(Stored {
            tail,
            is_duplicate: is_produced && has_body && answer.status == StatusCode::NO_CONTENT,
            is_closed: is_true(&answer.headers, headers::CLOSED),
            producer: epoch.zip(seq),
            is_repeated: answer.is_repeated,
        })
    }

    /// Closes it: nothing can follow. Closing again is no error.
    ///
    /// # Errors
    /// [`Failure`] if it is not there, or the server does not answer.
    pub async fn close(&self) -> Result<Stored, Failure> {
        let ask = with_closing(self.ask(Method::POST, Repeat::Safe), Closing::Close);
        self.post(ask).await
    }

    /// What is known of it.
    ///
    /// # Errors
    /// [`Failure::Refused`] with 404 if it is not there.
    pub async fn head(&self) -> Result<Facts, Failure> {
        let answer = self.client.http.ask(self.ask(Method::HEAD, Repeat::Safe)).await?;
        let ttl: Option<String> = parsed(&answer.headers, headers::TTL);
        let expires_at: Option<String> = parsed(&answer.headers, headers::EXPIRES_AT);
        let expiry = Expiry::from_headers(ttl.as_deref(), expires_at.as_deref());
        Ok(Facts {
            content_type: parsed(&answer.headers, "content-type"),
            tail: tail(&answer.headers)?,
            is_closed: is_true(&answer.headers, headers::CLOSED),
            expiry: expiry.unwrap_or_default(),
        })
    }

    /// Deletes it.
    ///
    /// # Errors
    /// [`Failure::Refused`] with 404 if it is not there.
    pub async fn delete(&self) -> Result<(), Failure> {
        match self.client.http.ask(self.ask(Method::DELETE, Repeat::Safe)).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_own_delete() => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Reads it from `from`, and follows it.
    #[must_use]
    pub fn reader(&self, from: OffsetToken, live: Live) -> Reader {
        Reader::new(self.clone(), from, live)
    }

    /// Appends to it exactly once, in batches.
    pub fn producer(&self, id: wire::ProducerId) -> ProducerSettings {
        ProducerSettings::new(self.clone(), id)
    }

    pub(crate) fn ask(&self, method: Method, repeat: Repeat) -> Ask {
        Ask::new(method, self.path.clone(), repeat)
    }
}

pub(crate) fn with_type(ask: Ask, content_type: Option<&ContentType>) -> Ask {
    match content_type {
        Some(content_type) => ask.header("content-type", content_type.as_str()),
        None => ask,
    }
}

pub(crate) fn with_expiry(ask: Ask, expiry: &Expiry) -> Ask {
    match expiry {
        Expiry::Never => ask,
        Expiry::Sliding(ttl) => ask.header(headers::TTL, ttl.seconds().to_string()),
        Expiry::At(time) => ask.header(headers::EXPIRES_AT, time.to_string()),
    }
}

pub(crate) fn with_closing(ask: Ask, closing: Closing) -> Ask {
    match closing {
        Closing::LeaveOpen => ask,
        Closing::Close => ask.header(headers::CLOSED, "true"),
    }
}

pub(crate) fn with_producer(ask: Ask, producer: &Producer) -> Ask {
    ask.header(headers::PRODUCER_ID, producer.id.as_str())
        .header(headers::PRODUCER_EPOCH, producer.epoch.to_string())
        .header(headers::PRODUCER_SEQ, producer.seq.to_string())
}

pub(crate) fn tail(answer: &HeaderMap) -> Result<OffsetToken, Failure> {
    parsed(answer, headers::NEXT_OFFSET)
        .ok_or_else(|| Failure::Unreadable("Stream-Next-Offset is missing".to_owned()))
}

pub(crate) fn is_true(answer: &HeaderMap, name: &str) -> bool {
    parsed::<String>(answer, name).is_some_and(|value| headers::is_closed(&value))
}
