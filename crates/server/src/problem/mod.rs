//! Problems: the one map from what went wrong to a status, and the body that says what to do.

mod errors;

use std::{borrow::Cow, collections::BTreeMap, fmt};

use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use log::{
    ContentTypeMismatch, ExpectedOffsetConflict, MessagesDamaged, OffsetBeyondTail, OffsetTrimmed,
    OffsetUnknown, ProducerEpochStart, ProducerFenced, ProducerGap, StreamClosed, StreamExists,
    StreamGone, StreamNotFound, StreamSeqConflict, TooManyProducers, Unavailable, Unsupported,
};
use serde::Serialize;
use wire::{BadMessages, BadPath, framing::BadFraming, json::BadJson};

use crate::{
    caps::{DISK_FULL_RETRY, PRODUCERS_RETRY},
    names,
    response::{Body, Reply},
};

/// An answer that is not the one asked for, as RFC 9457 writes it.
#[derive(Debug)]
pub(crate) struct Problem(Box<Facts>);

#[derive(Debug)]
struct Facts {
    kind: Kind,
    detail: Cow<'static, str>,
    headers: Vec<(&'static HeaderName, HeaderValue)>,
    /// What programs want to know beyond the kind.
    facts: Vec<(&'static str, String)>,
    /// Who has the work that was asked for, and in which generation.
    holder: Option<(String, u64)>,
    /// Whether to speak as the APIs of subscriptions do, too.
    is_of_subscriptions: bool,
}

/// Every kind of problem a client can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    BadRequest,
    Unauthorized,
    Forbidden,
    UnknownHost,
    NotFound,
    StreamNotFound,
    MethodNotAllowed,
    RequestTimeout,
    StreamExists,
    StreamClosed,
    ContentTypeMismatch,
    SequenceConflict,
    ExpectedOffsetConflict,
    ProducerFenced,
    ProducerGap,
    TooManyProducers,
    StreamGone,
    NameTaken,
    OffsetTrimmed,
    MessagesDamaged,
    OffsetUnknown,
    OffsetBeyondTail,
    ReadBeyondTail,
    ProducerEpochStart,
    ForksTooDeep,
    SubscriptionNotFound,
    SubscriptionAlreadyExists,
    TooManySubscriptions,
    WebhookUrlRejected,
    TokenInvalid,
    Fenced,
    AlreadyClaimed,
    NoPendingWork,
    InvalidOffset,
    TooLarge,
    UnsupportedEncoding,
    HeadersTooLarge,
    TooManyRequests,
    Unsupported,
    Overloaded,
    DiskFull,
    Unavailable,
    Poisoned,
    Internal,
}

impl Kind {
    fn status(self) -> StatusCode {
        match self {
            Self::BadRequest
            | Self::OffsetUnknown
            | Self::OffsetBeyondTail
            | Self::ProducerEpochStart
            | Self::ForksTooDeep
            | Self::WebhookUrlRejected => StatusCode::BAD_REQUEST,
            Self::Unauthorized | Self::TokenInvalid => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::UnknownHost | Self::ProducerFenced => StatusCode::FORBIDDEN,
            Self::NotFound | Self::StreamNotFound | Self::SubscriptionNotFound => {
                StatusCode::NOT_FOUND
            }
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::StreamExists
            | Self::StreamClosed
            | Self::ContentTypeMismatch
            | Self::SequenceConflict
            | Self::ExpectedOffsetConflict
            | Self::ProducerGap
            | Self::NameTaken
            | Self::SubscriptionAlreadyExists
            | Self::TooManySubscriptions
            | Self::Fenced
            | Self::AlreadyClaimed
            | Self::NoPendingWork
            | Self::InvalidOffset => StatusCode::CONFLICT,
            Self::StreamGone
            | Self::OffsetTrimmed
            | Self::MessagesDamaged
            | Self::ReadBeyondTail => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TooManyRequests | Self::TooManyProducers => StatusCode::TOO_MANY_REQUESTS,
            Self::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Self::Overloaded | Self::Unavailable | Self::Poisoned => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The name that programs tell problems apart by, and the one for people.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::BadRequest => ("bad-request", "The request is malformed"),
            Self::Unauthorized => ("unauthorized", "Who are you?"),
            Self::Forbidden => ("forbidden", "The token does not allow this"),
            Self::UnknownHost => ("unknown-host", "The server has another name"),
            Self::NotFound => ("not-found", "There is nothing here"),
            Self::StreamNotFound => ("stream-not-found", "There is no such stream"),
            Self::MethodNotAllowed => ("method-not-allowed", "The method does not apply here"),
            Self::RequestTimeout => ("request-timeout", "The request took too long"),
            Self::StreamExists => ("stream-exists", "The stream exists with other settings"),
            Self::StreamClosed => ("stream-closed", "The stream is closed"),
            Self::ContentTypeMismatch => ("content-type-mismatch", "The content type differs"),
            Self::SequenceConflict => ("sequence-conflict", "Sequence conflict"),
            Self::ExpectedOffsetConflict => {
                ("expected-offset-conflict", "Expected offset conflict")
            }
            Self::ProducerFenced => ("producer-fenced", "A newer producer has taken over"),
            Self::ProducerGap => ("producer-gap", "A producer sequence is missing"),
            Self::TooManyProducers => ("too-many-producers", "The stream has too many producers"),
            Self::StreamGone => ("stream-gone", "The stream was deleted"),
            Self::NameTaken => ("name-taken", "The name belongs to a deleted stream"),
            Self::OffsetTrimmed => ("offset-trimmed", "The messages are no longer kept"),
            Self::MessagesDamaged => ("messages-damaged", "The messages cannot be read any more"),
            Self::OffsetUnknown => ("offset-unknown", "The offset is not one of this stream"),
            Self::OffsetBeyondTail | Self::ReadBeyondTail => {
                ("offset-beyond-tail", "The offset lies past the tail")
            }
            Self::ProducerEpochStart => {
                ("producer-epoch-start", "A new epoch starts with sequence 0")
            }
            Self::ForksTooDeep => ("forks-too-deep", "The chain of forks is too long"),
            Self::SubscriptionNotFound => {
                ("subscription-not-found", "There is no such subscription")
            }
            Self::SubscriptionAlreadyExists => {
                ("subscription-already-exists", "The subscription exists with another config")
            }
            Self::TooManySubscriptions => ("too-many-subscriptions", "There are too many already"),
            Self::WebhookUrlRejected => ("webhook-url-rejected", "The webhook must not be called"),
            Self::TokenInvalid => ("token-invalid", "The token is not one of this subscription"),
            Self::Fenced => ("fenced", "The wake is over"),
            Self::AlreadyClaimed => ("already-claimed", "Somebody else has the work"),
            Self::NoPendingWork => ("no-pending-work", "There is nothing to do"),
            Self::InvalidOffset => ("invalid-offset", "The offset cannot be acknowledged"),
            Self::UnsupportedEncoding => {
                ("unsupported-encoding", "The body is encoded in an unknown way")
            }
            Self::TooLarge => ("too-large", "The body is too large"),
            Self::HeadersTooLarge => ("headers-too-large", "The headers are too large"),
            Self::TooManyRequests => ("too-many-requests", "Too many requests"),
            Self::Unsupported => ("unsupported", "This server cannot do that"),
            Self::Overloaded => ("overloaded", "The server is busy"),
            Self::DiskFull => ("disk-full", "There is no room on the disk"),
            Self::Unavailable => ("unavailable", "The server cannot serve now"),
            Self::Poisoned => ("poisoned", "The log accepts no more writes"),
            Self::Internal => ("internal", "The server failed"),
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    #[serde(flatten)]
    facts: BTreeMap<&'static str, String>,
    /// The same once more, as the APIs of subscriptions want it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failed<'a>>,
}

#[derive(Serialize)]
struct Failed<'a> {
    code: String,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_holder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
}

impl<'a> Failed<'a> {
    fn new(code: &str, message: &'a str, holder: Option<&'a (String, u64)>) -> Self {
        let code = match code {
            "bad-request" => "INVALID_REQUEST".to_owned(),
            other => other.to_uppercase().replace('-', "_"),
        };
        let current_holder = holder.map(|(holder, _)| holder.as_str());
        Self { code, message, current_holder, generation: holder.map(|(_, number)| *number) }
    }
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Facts {
            kind,
            detail: detail.into(),
            headers: Vec::new(),
            facts: Vec::new(),
            holder: None,
            is_of_subscriptions: false,
        }))
    }

    pub(crate) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::BadRequest, detail)
    }

    pub(crate) fn bad_request_from(error: impl fmt::Display) -> Self {
        Self::bad_request(error.to_string())
    }

    pub(crate) fn not_found(detail: &'static str) -> Self {
        Self::new(Kind::NotFound, detail)
    }

    pub(crate) fn method_not_allowed(allow: &'static HeaderValue) -> Self {
        Self::new(Kind::MethodNotAllowed, "use one of the methods in the Allow header")
            .with(&header::ALLOW, allow.clone())
    }

    /// Nothing was done, and the same request may succeed in a second.
    pub(crate) fn overloaded(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Overloaded, detail).with(&header::RETRY_AFTER, names::ONE_SECOND.clone())
    }

    /// A write failed, and the process must restart to recover.
    pub(crate) fn poisoned() -> Self {
        Self::new(Kind::Poisoned, "a write failed; the server accepts no more until it restarts")
    }

    pub(crate) fn with(mut self, name: &'static HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// An answer of the APIs of subscriptions.
    pub(crate) fn of_subscriptions(mut self) -> Self {
        self.0.is_of_subscriptions = true;
        self
    }

    /// An acknowledgement that cannot be, named so that programs need not read the detail.
    pub(crate) fn invalid_ack(fact: &wake::InvalidAck, detail: String) -> Self {
        Self::new(Kind::InvalidOffset, detail)
            .because("stream", &fact.path)
            .because("offset", fact.offset)
    }

    fn because(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.facts.push((name, value.to_string()));
        self
    }

    fn from_fact(kind: Kind, fact: &impl fmt::Display) -> Self {
        Self::new(kind, fact.to_string())
    }

    pub(crate) fn with_offset(self, name: &'static HeaderName, offset: wire::Offset) -> Self {
        let value = HeaderValue::from_bytes(&offset.token()).expect("digits and an underscore");
        self.with(name, value)
    }

    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let Facts { kind, detail, headers, facts, holder, is_of_subscriptions } = *self.0;
        let (code, title) = kind.names();
        let document = Document {
            r#type: &format!("urn:headwater:problem:{code}"),
            title,
            status: kind.status().as_u16(),
            detail: &detail,
            code,
            facts: facts.into_iter().collect(),
            error: is_of_subscriptions.then(|| Failed::new(code, &detail, holder.as_ref())),
        };
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut reply = Reply::new(kind.status())
            .header(&header::CONTENT_TYPE, names::PROBLEM_JSON.clone())
            .header(&header::CACHE_CONTROL, names::NO_STORE.clone())
            .bytes(body.into());
        for (name, value) in headers {
            reply = reply.header(name, value);
        }
        reply.into_response()
    }
}

macro_rules! facts {
    ($($fact:ty => $kind:ident;)*) => {$(
        impl From<$fact> for Problem {
            fn from(fact: $fact) -> Self {
                Self::from_fact(Kind::$kind, &fact)
            }
        }
    )*};
}

facts! {
    BadPath => BadRequest;
    StreamNotFound => StreamNotFound;
    StreamGone => StreamGone;
    Unsupported => Unsupported;
    wake::BadConfig => BadRequest;
    wake::SubscriptionNotFound => SubscriptionNotFound;
    wake::SubscriptionExists => SubscriptionAlreadyExists;
    wake::TooMany => TooManySubscriptions;
    wake::TokenInvalid => TokenInvalid;
    wake::Fenced => Fenced;
    wake::NoPendingWork => NoPendingWork;
}

impl From<wake::WebhookUrlRejected> for Problem {
    fn from(fact: wake::WebhookUrlRejected) -> Self {
        Self::from_fact(Kind::WebhookUrlRejected, &fact).because("reason", fact.0)
    }
}

impl From<wake::InvalidAck> for Problem {
    fn from(fact: wake::InvalidAck) -> Self {
        let detail = fact.to_string();
        Self::invalid_ack(&fact, detail)
    }
}

impl From<wake::AlreadyClaimed> for Problem {
    fn from(fact: wake::AlreadyClaimed) -> Self {
        let mut problem = Self::from_fact(Kind::AlreadyClaimed, &fact);
        problem.0.holder = Some((fact.holder, fact.generation));
        problem
    }
}

impl From<StreamExists> for Problem {
    fn from(fact: StreamExists) -> Self {
        Self::from_fact(Kind::StreamExists, &fact).because("differs_in", fact.differs_in)
    }
}

impl From<ContentTypeMismatch> for Problem {
    fn from(fact: ContentTypeMismatch) -> Self {
        Self::from_fact(Kind::ContentTypeMismatch, &fact).because("content_type", fact.stream)
    }
}

impl From<ProducerEpochStart> for Problem {
    fn from(fact: ProducerEpochStart) -> Self {
        Self::from_fact(Kind::ProducerEpochStart, &fact)
            .with(&names::PRODUCER_RECEIVED_SEQ, fact.received.get().into())
    }
}

impl From<OffsetUnknown> for Problem {
    fn from(fact: OffsetUnknown) -> Self {
        Self::from_fact(Kind::OffsetUnknown, &fact).because("offset", fact.0)
    }
}

impl From<TooManyProducers> for Problem {
    fn from(fact: TooManyProducers) -> Self {
        let retry = HeaderValue::from(PRODUCERS_RETRY.as_secs());
        Self::from_fact(Kind::TooManyProducers, &fact).with(&header::RETRY_AFTER, retry)
    }
}

impl From<OffsetBeyondTail> for Problem {
    fn from(fact: OffsetBeyondTail) -> Self {
        Self::from_fact(Kind::OffsetBeyondTail, &fact).with_offset(&names::NEXT_OFFSET, fact.tail)
    }
}

impl From<StreamClosed> for Problem {
    fn from(fact: StreamClosed) -> Self {
        Self::from_fact(Kind::StreamClosed, &fact)
            .with(&names::CLOSED, names::TRUE.clone())
            .with_offset(&names::NEXT_OFFSET, fact.tail)
    }
}

impl From<StreamSeqConflict> for Problem {
    fn from(fact: StreamSeqConflict) -> Self {
        Self::from_fact(Kind::SequenceConflict, &fact)
            .because("last", &fact.last)
            .with_offset(&names::NEXT_OFFSET, fact.tail)
    }
}

impl From<ExpectedOffsetConflict> for Problem {
    fn from(fact: ExpectedOffsetConflict) -> Self {
        Self::from_fact(Kind::ExpectedOffsetConflict, &fact)
            .with_offset(&names::NEXT_OFFSET, fact.tail)
    }
}

impl From<ProducerFenced> for Problem {
    fn from(fact: ProducerFenced) -> Self {
        Self::from_fact(Kind::ProducerFenced, &fact)
            .with(&names::PRODUCER_EPOCH, fact.current.get().into())
    }
}

impl From<ProducerGap> for Problem {
    fn from(fact: ProducerGap) -> Self {
        Self::from_fact(Kind::ProducerGap, &fact)
            .with(&names::PRODUCER_EXPECTED_SEQ, fact.expected.get().into())
            .with(&names::PRODUCER_RECEIVED_SEQ, fact.received.get().into())
    }
}

impl From<OffsetTrimmed> for Problem {
    fn from(fact: OffsetTrimmed) -> Self {
        Self::from_fact(Kind::OffsetTrimmed, &fact)
            .with_offset(&names::EARLIEST_OFFSET, fact.earliest)
    }
}

/// A client that asks again gets the same answer, so this is none that is worth a retry.
impl From<MessagesDamaged> for Problem {
    fn from(fact: MessagesDamaged) -> Self {
        tracing::error!(%fact, "messages cannot be read");
        Self::from_fact(Kind::MessagesDamaged, &fact)
            .with_offset(&names::NEXT_OFFSET, fact.until)
            .because("offset", fact.from)
            .because("stream", fact.stream)
    }
}

impl From<BadMessages> for Problem {
    fn from(fact: BadMessages) -> Self {
        let kind = match fact {
            BadMessages::MessageTooLarge | BadMessages::TooLarge | BadMessages::TooMany => {
                Kind::TooLarge
            }
            _ => Kind::BadRequest,
        };
        Self::from_fact(kind, &fact)
    }
}

impl From<BadFraming> for Problem {
    fn from(fact: BadFraming) -> Self {
        match fact {
            BadFraming::Messages(fact) => fact.into(),
            other => Self::bad_request_from(other),
        }
    }
}

impl From<BadJson> for Problem {
    fn from(fact: BadJson) -> Self {
        match fact {
            BadJson::Messages(fact) => fact.into(),
            other => Self::bad_request_from(other),
        }
    }
}

impl From<Unavailable> for Problem {
    fn from(fact: Unavailable) -> Self {
        let problem = match fact {
            Unavailable::Overloaded => Self::from_fact(Kind::Overloaded, &fact),
            Unavailable::Closing => Self::from_fact(Kind::Unavailable, &fact),
            Unavailable::DiskFull(why) => {
                tracing::debug!(%why, "there is no room on the disk");
                let retry = HeaderValue::from(DISK_FULL_RETRY.as_secs());
                let detail = "there is no room on the server's disk, and nothing was stored; \
                              delete or trim streams, or have its operator make room, and retry";
                return Self::new(Kind::DiskFull, detail).with(&header::RETRY_AFTER, retry);
            }
            Unavailable::NoFile(why) => {
                tracing::error!(%why, "the disk gives no file to write to");
                let detail = "the server's disk gives no file to write to, and not for want of \
                              room; nothing was stored: retry, and tell the operator, whose log \
                              says why";
                Self::new(Kind::Unavailable, detail)
            }
            Unavailable::Damaged(fact) => return fact.into(),
            // What the disk said is for the operator, not for the client.
            Unavailable::Poisoned(why) => {
                tracing::error!(%why, "the log accepts no more writes; restart to recover");
                Self::poisoned()
            }
            other => {
                tracing::error!(error = %other, "the log cannot serve");
                Self::new(Kind::Internal, "the log could not be read; tell the operator")
            }
        };
        match problem.kind() {
            Kind::Internal => problem,
            _ => problem.with(&header::RETRY_AFTER, names::ONE_SECOND.clone()),
        }
    }
}

impl Problem {
    /// An error of the log that is newer than this map.
    fn unforeseen(error: &impl fmt::Display) -> Self {
        tracing::error!(%error, "the log failed in a way the server has no answer for");
        Self::new(Kind::Internal, "the log failed; tell the operator")
    }
}
