//! A [`Log`] that is elsewhere: the contract of the waist, over HTTP.
//!
//! Against our own servers bodies are framed, so boundaries, positions and incarnations are what
//! they are in one process. Servers that only keep to the protocol lack what
//! [`Log::capabilities`] says, and three things more:
//!
//! - Messages of streams that are not JSON have no boundaries: what one read brings is one
//!   message, and several messages of one append are stored end to end.
//! - Offsets do not say how many messages lie before them, and a read may bring more than was
//!   asked for.
//! - Nobody knows when a stream was made, nor which life of its name it is: all look like one.

mod errors;
mod watch;

use std::{collections::HashMap, str::FromStr, sync::Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use log::{
    Answer, Append, AppendError, Appended, Capabilities, Chunk, Closing, ContentTypeMismatch,
    Create, CreateError, Created, Delete, DeleteError, Fork, ForkError, Freshness, Head, HeadError,
    Incarnation, Lifetime, List, ListError, Listed, Log, Outcome, Page, ProducerState, ReadError,
    TrimError, Unavailable, Unsupported, Watch, WatchError,
};
use serde::Deserialize;
use sys::UnixMs;
use wire::{
    Address, ContentType, Expiry, Glob, Messages, Offset, ReadFrom, StreamPath, SubOffset,
    Timestamp, framing, headers, json,
};

use crate::{
    Client, Dialect, Failure, Stream,
    caps::{CONTENT_TYPES_MAX, POLL_PAUSE},
    failure::parsed,
    stream::{is_true, with_closing, with_expiry, with_producer, with_type},
    transport::{Ask, Repeat, Whole},
};

/// A log that a server keeps.
#[derive(Debug)]
pub struct HttpLog {
    client: Client,
    /// What streams hold, for servers that want to be told with every append.
    // Held for a look only.
    types: Mutex<HashMap<StreamPath, ContentType>>,
}

impl HttpLog {
    /// The log behind this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, types: Mutex::default() }
    }

    fn is_ours(&self) -> bool {
        self.client.dialect == Dialect::Headwater
    }

    fn stream(&self, address: &Address) -> Result<Stream, Unsupported> {
        match address.stream() {
            Some(path) => Ok(self.client.stream(path)),
            None => Err(Unsupported { what: "reach system streams; they are the server's own" }),
        }
    }

    async fn ask(&self, ask: Ask) -> Result<Whole, Failure> {
        let ask = match self.is_ours() {
            true => ask.header(headers::FRAMING, framing::LENGTH),
            false => ask,
        };
        self.client.http.ask(ask).await
    }

    /// A body of these messages.
    fn body(&self, messages: &Messages, is_json: bool) -> Bytes {
        match (messages.is_empty(), self.is_ours(), is_json) {
            (true, ..) => Bytes::new(),
            (false, true, _) => framing::join([messages]),
            (false, false, true) => json::join([messages]),
            (false, false, false) => messages.data().clone(),
        }
    }

    fn learn(&self, address: &Address, content_type: &ContentType) {
        let Some(path) = address.stream().filter(|_| !self.is_ours()) else { return };
        let mut types = self.types.lock().expect("no panic while held");
        if types.len() < CONTENT_TYPES_MAX || types.contains_key(path) {
            types.insert(path.clone(), content_type.clone());
        }
    }

    fn forget(&self, address: &Address) {
        let Some(path) = address.stream() else { return };
        self.types.lock().expect("no panic while held").remove(path);
    }

    /// What a stream of a foreign server holds.
    async fn content_type(&self, address: &Address) -> Result<ContentType, HeadError> {
        let known = address
            .stream()
            .and_then(|path| self.types.lock().expect("no panic while held").get(path).cloned());
        match known {
            Some(content_type) => Ok(content_type),
            None => Ok(self.look(address).await?.content_type),
        }
    }

    async fn look(&self, address: &Address) -> Result<Head, HeadError> {
        let ask = self.stream(address)?.ask(Method::HEAD, Repeat::Safe);
        let answer = self.ask(ask).await.map_err(errors::head)?;
        let head = read_head(&answer.headers)?;
        self.learn(address, &head.content_type);
        Ok(head)
    }

    async fn make(&self, address: &Address, create: Create) -> Result<Created, CreateError> {
        let content_type = create.content_type.clone().unwrap_or_else(ContentType::octet_stream);
        let body = self.body(&create.messages, content_type.is_json());
        let ask = self.stream(address)?.ask(Method::PUT, Repeat::Safe).body(body);
        let ask = with_closing(with_type(ask, Some(&content_type)), create.closing);
        let answer = self.ask(with_expiry(ask, &create.expiry)).await.map_err(errors::create)?;
        self.created(address, &answer).await.map_err(errors::unmade)
    }

    async fn created(&self, address: &Address, answer: &Whole) -> Result<Created, HeadError> {
        let is_new = answer.status == StatusCode::CREATED;
        let head = match self.is_ours() {
            true => read_head(&answer.headers)?,
            false => self.look(address).await?,
        };
        let outcome = if is_new { Outcome::New } else { Outcome::Duplicate };
        Ok(Created { outcome, head })
    }

    async fn split_off(&self, address: &Address, fork: Fork) -> Result<Created, ForkError> {
        let source = self.stream(&fork.source)?;
        let is_json = match (&fork.content_type, fork.messages.is_empty()) {
            (Some(content_type), _) => content_type.is_json(),
            (None, true) => false,
            (None, false) => self.content_type(&fork.source).await?.is_json(),
        };
        let root = self.client.http.settings.root_path();
        let ask = self
            .stream(address)?
            .ask(Method::PUT, Repeat::Safe)
            .body(self.body(&fork.messages, is_json))
            .header(headers::FORKED_FROM, format!("{root}{}", source.path));
        let ask = with_closing(with_type(ask, fork.content_type.as_ref()), fork.closing);
        let mut ask = match &fork.lifetime {
            Lifetime::Inherited => ask,
            Lifetime::Own(Expiry::Never) if self.is_ours() => {
                ask.header(headers::EXPIRES_AT, "never")
            }
            Lifetime::Own(expiry) => with_expiry(ask, expiry),
        };
        if let Some(offset) = fork.offset {
            ask = ask.header(headers::FORK_OFFSET, offset.to_string());
        }
        if fork.sub_offset != SubOffset::default() {
            ask = ask.header(headers::FORK_SUB_OFFSET, fork.sub_offset.get().to_string());
        }
        let answer = self.ask(ask).await.map_err(|failure| errors::fork(failure, &fork))?;
        Ok(self.created(address, &answer).await?)
    }

    async fn store(&self, address: &Address, append: Append) -> Result<Appended, AppendError> {
        let content_type = match (&append.content_type, append.messages.is_empty()) {
            (_, true) => None,
            (None, false) if self.is_ours() => None,
            (None, false) => Some(self.content_type(address).await.map_err(errors::unseen)?),
            (Some(content_type), false) => Some(content_type.clone()),
        };
        if append.messages.is_empty() && append.closing == Closing::LeaveOpen {
            // Refused as the server would, which is not asked about nothing.
            self.look(address).await.map_err(errors::unseen)?;
            return Err(AppendError::Empty);
        }
        let is_json = content_type.as_ref().is_some_and(ContentType::is_json);
        let has_key = append.producer.is_some() || append.messages.is_empty();
        let repeat = if has_key { Repeat::Safe } else { Repeat::Refused };
        let ask = self.stream(address)?.ask(Method::POST, repeat);
        let ask = with_type(ask, content_type.as_ref()).body(self.body(&append.messages, is_json));
        let ask = with_closing(ask, append.closing);
        let ask = self.with_conditions(ask, &append)?;
        let answer = match self.ask(ask).await {
            Ok(answer) => answer,
            Err(failure) => return Err(self.refused(address, failure, &append).await),
        };
        let tail = match parsed(&answer.headers, headers::NEXT_OFFSET) {
            Some(tail) => tail,
            // Some servers do not say it of what they knew already.
            None => self.look(address).await.map_err(errors::unseen)?.tail,
        };
        Ok(appended(&append, &answer, tail))
    }

    /// Why an append was refused, with what the server did not say.
    async fn refused(&self, address: &Address, failure: Failure, append: &Append) -> AppendError {
        match errors::append(failure, append) {
            AppendError::ContentType(fact) if !self.is_ours() => {
                let known = self.content_type(address).await;
                let stream = known.unwrap_or_else(|_| fact.stream.clone());
                ContentTypeMismatch { stream, ..fact }.into()
            }
            other => other,
        }
    }

    fn with_conditions(&self, mut ask: Ask, append: &Append) -> Result<Ask, Unsupported> {
        if let Some(producer) = &append.producer {
            ask = with_producer(ask, producer);
        }
        if let Some(seq) = &append.seq {
            ask = ask.header(headers::SEQ, seq.as_str());
        }
        match append.expected {
            None => Ok(ask),
            Some(expected) if self.is_ours() => {
                Ok(ask.header(headers::EXPECTED_OFFSET, expected.to_string()))
            }
            Some(_) => Err(Unsupported { what: "compare the tail before it appends" }),
        }
    }

    async fn fetch(
        &self,
        address: &Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Result<Chunk, ReadError> {
        if matches!(from, ReadFrom::Last | ReadFrom::Before(_)) && !self.is_ours() {
            return Err(Unsupported { what: "read backwards" }.into());
        }
        let (name, token) = place(from);
        let ask = self.stream(address)?.ask(Method::GET, Repeat::Safe).param(name, token);
        let ask = match self.is_ours() {
            true => ask.param("bytes_max", bytes_max.to_string()),
            false => ask,
        };
        let answer = self.ask(ask).await.map_err(|failure| errors::read(failure, from))?;
        let chunk = read_chunk(&answer, from, self.is_ours())?;
        self.learn(address, &chunk.content_type);
        Ok(chunk)
    }

    /// Asks until the tail is past `after`.
    async fn follow(&self, address: &Address, after: Offset) -> Result<Head, HeadError> {
        let mut life = None;
        loop {
            let head = match self.is_ours() {
                true => self.head_after(address, after).await?,
                false => self.poll(address, after).await?,
            };
            // Another stream got the name meanwhile; this waiter's offset means nothing there.
            if life.is_some_and(|life| life != head.incarnation) {
                return Err(log::StreamNotFound.into());
            }
            if head.tail > after || head.closed {
                return Ok(head);
            }
            life = Some(head.incarnation);
            // A server that does not wait must not be asked in a hurry.
            self.client.http.sys.clock.sleep(POLL_PAUSE).await;
        }
    }

    /// The head once the tail is past `after`, or when the server tires of waiting.
    async fn head_after(&self, address: &Address, after: Offset) -> Result<Head, HeadError> {
        let ask = self.stream(address)?.ask(Method::HEAD, Repeat::Safe);
        let mut ask = ask.param("after", after.to_string());
        ask.patience = Some(self.client.http.settings.silence_max);
        let answer = self.ask(ask).await.map_err(errors::head)?;
        Ok(read_head(&answer.headers)?)
    }

    /// The same of a foreign server, which can only be asked for what follows.
    async fn poll(&self, address: &Address, after: Offset) -> Result<Head, HeadError> {
        let ask = self.stream(address)?.ask(Method::GET, Repeat::Safe);
        let mut ask = ask.param("offset", after.to_string()).param("live", "long-poll");
        ask.patience = Some(self.client.http.settings.silence_max);
        self.ask(ask).await.map_err(errors::head)?;
        self.look(address).await
    }
}

impl Log for HttpLog {
    fn capabilities(&self) -> Capabilities {
        let is_ours = self.is_ours();
        Capabilities {
            list: is_ours,
            expected_offset: is_ours,
            trim: is_ours,
            watch: is_ours,
            read_back: is_ours,
            system_streams: false,
        }
    }

    fn create<'a>(
        &'a self,
        address: &'a Address,
        create: Create,
    ) -> Answer<'a, Result<Created, CreateError>> {
        Box::pin(self.make(address, create))
    }

    fn fork<'a>(
        &'a self,
        address: &'a Address,
        fork: Fork,
    ) -> Answer<'a, Result<Created, ForkError>> {
        Box::pin(self.split_off(address, fork))
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Box::pin(self.store(address, append))
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(self.fetch(address, from, bytes_max))
    }

    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        Box::pin(self.follow(address, after))
    }

    fn watch(&self, glob: Glob) -> Result<Watch, WatchError> {
        match self.is_ours() {
            true => Ok(watch::watch(&self.client, glob)),
            false => {
                Err(Unsupported { what: "watch; only Headwater's servers tell what moved" }.into())
            }
        }
    }

    fn head<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Head, HeadError>> {
        Box::pin(self.look(address))
    }

    fn trim<'a>(
        &'a self,
        address: &'a Address,
        before: Offset,
    ) -> Answer<'a, Result<Head, TrimError>> {
        Box::pin(async move {
            if !self.is_ours() {
                return Err(Unsupported { what: "trim; only Headwater's servers can" }.into());
            }
            let ask = self.stream(address)?.ask(Method::DELETE, Repeat::Safe);
            let ask = ask.param("before", before.to_string());
            let answer = self.ask(ask).await.map_err(|failure| errors::trim(failure, before))?;
            Ok(read_head(&answer.headers)?)
        })
    }

    fn delete<'a>(
        &'a self,
        address: &'a Address,
        delete: Delete,
    ) -> Answer<'a, Result<(), DeleteError>> {
        Box::pin(async move {
            let ask = self.stream(address)?.ask(Method::DELETE, Repeat::Safe);
            let ask = match (delete, self.is_ours()) {
                (Delete::Stream, _) => ask,
                (Delete::Erase, true) => ask.param("erase", "true"),
                (Delete::Erase, false) => {
                    return Err(Unsupported { what: "erase; only Headwater's servers can" }.into());
                }
            };
            self.forget(address);
            match self.ask(ask).await {
                Ok(_) => Ok(()),
                Err(failure) if failure.is_own_delete() => Ok(()),
                Err(failure) => Err(errors::delete(failure)),
            }
        })
    }

    fn list<'a>(&'a self, list: List) -> Answer<'a, Result<Page, ListError>> {
        Box::pin(async move {
            if !self.is_ours() {
                return Err(Unsupported { what: "list; only Headwater's servers can" }.into());
            }
            let mut ask = Ask::get("/".to_owned());
            if !list.prefix.is_empty() {
                ask = ask.param("prefix", list.prefix);
            }
            if let Some(after) = &list.after {
                ask = ask.param("after", after.as_str());
            }
            if list.limit > 0 {
                ask = ask.param("limit", list.limit.to_string());
            }
            let answer = self.client.http.ask(ask).await.map_err(errors::list)?;
            Ok(read_page(&answer.body)?)
        })
    }
}

/// The query parameter that says where a read starts.
fn place(from: ReadFrom) -> (&'static str, String) {
    match from {
        ReadFrom::Start => ("offset", "-1".to_owned()),
        ReadFrom::At(offset) => ("offset", offset.to_string()),
        ReadFrom::Now => ("offset", "now".to_owned()),
        ReadFrom::Last => ("before", "now".to_owned()),
        ReadFrom::Before(offset) => ("before", offset.to_string()),
    }
}

fn unreadable(what: &str) -> Unavailable {
    Unavailable::Unreadable(format!("{what} is missing or malformed"))
}

/// A header that must be there.
fn required<T: FromStr>(answer: &HeaderMap, name: &str) -> Result<T, Unavailable> {
    parsed(answer, name).ok_or_else(|| unreadable(name))
}

fn read_head(answer: &HeaderMap) -> Result<Head, Unavailable> {
    let ttl: Option<String> = parsed(answer, headers::TTL);
    let expires_at: Option<String> = parsed(answer, headers::EXPIRES_AT);
    let expiry = Expiry::from_headers(ttl.as_deref(), expires_at.as_deref());
    let created_at: Option<Timestamp> = parsed(answer, headers::CREATED_AT);
    let content_type: Option<ContentType> = parsed(answer, "content-type");
    Ok(Head {
        incarnation: incarnation(answer),
        content_type: content_type.unwrap_or_else(ContentType::octet_stream),
        expiry: expiry.map_err(|_| unreadable(headers::TTL))?,
        earliest: parsed(answer, headers::EARLIEST_OFFSET).unwrap_or_default(),
        tail: required(answer, headers::NEXT_OFFSET)?,
        closed: is_true(answer, headers::CLOSED),
        created_at: UnixMs::new(created_at.map_or(0, Timestamp::unix_ms)),
    })
}

/// All streams of a foreign server look like the first of their names.
fn incarnation(answer: &HeaderMap) -> Incarnation {
    Incarnation::new(parsed(answer, headers::INCARNATION).unwrap_or(0))
}

fn appended(append: &Append, answer: &Whole, tail: Offset) -> Appended {
    let epoch = parsed(&answer.headers, headers::PRODUCER_EPOCH);
    let seq = parsed(&answer.headers, headers::PRODUCER_SEQ);
    let producer = epoch.zip(seq).map(|(epoch, seq)| ProducerState { epoch, seq });
    let tells = append.producer.is_some() && !append.messages.is_empty();
    let is_duplicate = match parsed::<String>(&answer.headers, headers::OUTCOME) {
        Some(outcome) => outcome == "duplicate",
        None => tells && answer.status == StatusCode::NO_CONTENT,
    };
    Appended {
        outcome: if is_duplicate { Outcome::Duplicate } else { Outcome::New },
        tail,
        closed: is_true(&answer.headers, headers::CLOSED),
        producer: producer.filter(|_| append.producer.is_some()),
    }
}

fn read_chunk(answer: &Whole, from: ReadFrom, is_ours: bool) -> Result<Chunk, Unavailable> {
    let content_type: Option<ContentType> = parsed(&answer.headers, "content-type");
    let content_type = content_type.unwrap_or_else(ContentType::octet_stream);
    let messages = read_messages(&answer.body, &content_type, is_ours)?;
    let next = required(&answer.headers, headers::NEXT_OFFSET)?;
    let start = match from {
        _ if is_ours => required(&answer.headers, headers::START_OFFSET)?,
        ReadFrom::At(offset) => offset,
        ReadFrom::Start => Offset::START,
        ReadFrom::Now | ReadFrom::Last | ReadFrom::Before(_) => next,
    };
    let freshness = match (
        is_true(&answer.headers, headers::CLOSED),
        is_true(&answer.headers, headers::UP_TO_DATE),
    ) {
        (true, _) => Freshness::Closed,
        (false, true) => Freshness::UpToDate,
        (false, false) => Freshness::Behind,
    };
    Ok(Chunk {
        incarnation: incarnation(&answer.headers),
        content_type,
        start,
        next,
        runs: if messages.is_empty() { Vec::new() } else { vec![messages] },
        freshness,
    })
}

fn read_messages(
    body: &Bytes,
    content_type: &ContentType,
    is_ours: bool,
) -> Result<Messages, Unavailable> {
    let unreadable = |error: &dyn std::fmt::Display| Unavailable::Unreadable(error.to_string());
    match (is_ours, content_type.is_json()) {
        _ if body.is_empty() => Ok(Messages::none()),
        (true, _) => framing::split(body).map_err(|error| unreadable(&error)),
        (false, true) => json::split(body).map_err(|error| unreadable(&error)),
        (false, false) => Messages::one(body.clone()).map_err(|error| unreadable(&error)),
    }
}

#[derive(Deserialize)]
struct PageBody {
    streams: Vec<EntryBody>,
    next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryBody {
    path: String,
    incarnation: u64,
    earliest: String,
    tail: String,
    content_type: String,
    closed: bool,
    created_at: String,
    ttl: Option<u64>,
    expires_at: Option<String>,
}

fn read_page(body: &[u8]) -> Result<Page, Unavailable> {
    let page: PageBody =
        serde_json::from_slice(body).map_err(|error| Unavailable::Unreadable(error.to_string()))?;
    let streams =
        page.streams.iter().map(|entry| entry.read().ok_or_else(|| unreadable("a stream")));
    let next = page.next.map(|path| path.parse()).transpose();
    Ok(Page {
        streams: streams.collect::<Result<_, _>>()?,
        next: next.map_err(|_| unreadable("next"))?,
    })
}

impl EntryBody {
    fn read(&self) -> Option<Listed> {
        let ttl = self.ttl.map(|seconds| seconds.to_string());
        let expiry = Expiry::from_headers(ttl.as_deref(), self.expires_at.as_deref()).ok()?;
        let created_at: Timestamp = self.created_at.parse().ok()?;
        let head = Head {
            incarnation: Incarnation::new(self.incarnation),
            content_type: self.content_type.parse().ok()?,
            expiry,
            earliest: self.earliest.parse().ok()?,
            tail: self.tail.parse().ok()?,
            closed: self.closed,
            created_at: UnixMs::new(created_at.unix_ms()),
        };
        Some(Listed { path: self.path.parse().ok()?, head })
    }
}
