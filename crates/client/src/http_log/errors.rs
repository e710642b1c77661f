//! What a refusal means to whoever asked: by the name that our servers give it, else by what the
//! protocol says of statuses and headers.

use log::{
    Append, AppendError, ContentTypeMismatch, CreateError, DeleteError, ExpectedOffsetConflict,
    Fork, ForkError, HeadError, ListError, OffsetBeyondTail, OffsetTrimmed, OffsetUnknown,
    ProducerEpochStart, ProducerFenced, ProducerGap, ReadError, StreamClosed, StreamExists,
    StreamGone, StreamNotFound, StreamSeqConflict, TooManyProducers, TrimError, Unavailable,
};
use wire::{ContentType, Offset, ReadFrom, headers};

use crate::{Failure, Refusal, stream::is_true};

pub(super) fn head(failure: Failure) -> HeadError {
    match refusal(failure) {
        Ok(refusal) => match refusal.status.as_u16() {
            404 => StreamNotFound.into(),
            410 => StreamGone.into(),
            _ => unavailable(refusal).into(),
        },
        Err(why) => why.into(),
    }
}

pub(super) fn create(failure: Failure) -> CreateError {
    match refusal(failure) {
        Ok(refusal) => match (refusal.code.as_str(), refusal.status.as_u16()) {
            ("name-taken", _) | (_, 410) => StreamGone.into(),
            ("", 409) if says(&refusal, "delet") => StreamGone.into(),
            (_, 409) => exists(refusal).into(),
            _ => unavailable(refusal).into(),
        },
        Err(why) => why.into(),
    }
}

/// The stream was made, and is not there any more.
pub(super) fn unmade(error: HeadError) -> CreateError {
    match error {
        HeadError::Gone(fact) => fact.into(),
        HeadError::Unsupported(fact) => fact.into(),
        HeadError::Unavailable(why) => why.into(),
        _ => Unavailable::Overloaded.into(),
    }
}

/// The stream could not be looked at before an append.
pub(super) fn unseen(error: HeadError) -> AppendError {
    match error {
        HeadError::NotFound(fact) => fact.into(),
        HeadError::Gone(fact) => fact.into(),
        HeadError::Unsupported(fact) => fact.into(),
        HeadError::Unavailable(why) => why.into(),
        _ => Unavailable::Overloaded.into(),
    }
}

pub(super) fn fork(failure: Failure, fork: &Fork) -> ForkError {
    let refusal = match refusal(failure) {
        Ok(refusal) => refusal,
        Err(why) => return why.into(),
    };
    let offset = fork.offset.unwrap_or_default();
    match (refusal.code.as_str(), refusal.status.as_u16()) {
        (_, 404) => StreamNotFound.into(),
        ("offset-trimmed", _) => trimmed(&refusal).into(),
        ("name-taken", _) | (_, 410) => StreamGone.into(),
        ("offset-unknown", _) => OffsetUnknown(named(&refusal).unwrap_or(offset)).into(),
        ("offset-beyond-tail", _) => beyond(&refusal).into(),
        ("forks-too-deep", _) => ForkError::TooDeep,
        ("content-type-mismatch", _) => mismatch(&refusal, fork.content_type.as_ref()).into(),
        ("", 409) if says(&refusal, "delet") => StreamGone.into(),
        ("", 409) if says(&refusal, "content") => {
            mismatch(&refusal, fork.content_type.as_ref()).into()
        }
        (_, 409) => exists(refusal).into(),
        (_, 400) if fork.offset.is_none() && fork.sub_offset != Default::default() => {
            ForkError::SubOffsetAlone
        }
        ("", 400) => beyond(&refusal).into(),
        _ => unavailable(refusal).into(),
    }
}

pub(super) fn append(failure: Failure, append: &Append) -> AppendError {
    let refusal = match refusal(failure) {
        Ok(refusal) => refusal,
        Err(why) => return why.into(),
    };
    let is_gap = refusal.headers.contains_key(headers::PRODUCER_EXPECTED_SEQ);
    if refusal.is_repeated && !is_gap {
        return Failure::in_doubt(&refusal).into_unavailable().into();
    }
    let tail = refusal.header(headers::NEXT_OFFSET).unwrap_or_default();
    match (refusal.code.as_str(), refusal.status.as_u16()) {
        (_, 404) => StreamNotFound.into(),
        (_, 410) => StreamGone.into(),
        (_, 403) => match refusal.header(headers::PRODUCER_EPOCH) {
            Some(current) => ProducerFenced { current }.into(),
            None => unavailable(refusal).into(),
        },
        ("too-many-producers", _) => TooManyProducers.into(),
        ("expected-offset-conflict", _) => ExpectedOffsetConflict { tail }.into(),
        ("producer-epoch-start", _) => epoch_start(append)
            .map_or_else(|| unavailable(refusal.clone()).into(), AppendError::from),
        (_, 409) => conflict(&refusal, append, tail),
        ("", 400) => match epoch_start(append).filter(|_| says(&refusal, "epoch")) {
            Some(fact) => fact.into(),
            None => unavailable(refusal).into(),
        },
        _ => unavailable(refusal).into(),
    }
}

/// What stands in the way of an append.
fn conflict(refusal: &Refusal, append: &Append, tail: Offset) -> AppendError {
    if is_true(&refusal.headers, headers::CLOSED) {
        return StreamClosed { tail }.into();
    }
    let expected = refusal.header(headers::PRODUCER_EXPECTED_SEQ);
    if let Some((expected, producer)) = expected.zip(append.producer.as_ref()) {
        return ProducerGap { expected, received: producer.seq }.into();
    }
    match (&append.seq, refusal.code.as_str()) {
        (Some(given), "" | "sequence-conflict") if says(refusal, "equence") => {
            let last = refusal.facts.last.parse().unwrap_or_else(|_| given.clone());
            StreamSeqConflict { last, given: given.clone(), tail }.into()
        }
        _ => mismatch(refusal, append.content_type.as_ref()).into(),
    }
}

fn epoch_start(append: &Append) -> Option<ProducerEpochStart> {
    append.producer.as_ref().map(|producer| ProducerEpochStart { received: producer.seq })
}

pub(super) fn read(failure: Failure, from: ReadFrom) -> ReadError {
    let refusal = match refusal(failure) {
        Ok(refusal) => refusal,
        Err(why) => return why.into(),
    };
    match (refusal.code.as_str(), refusal.status.as_u16(), from) {
        (_, 404, _) => StreamNotFound.into(),
        ("offset-trimmed", ..) => trimmed(&refusal).into(),
        ("messages-damaged", ..) => unavailable(refusal).into(),
        (_, 410, _) => StreamGone.into(),
        ("offset-unknown" | "", 400, ReadFrom::At(offset) | ReadFrom::Before(offset)) => {
            OffsetUnknown(offset).into()
        }
        _ => unavailable(refusal).into(),
    }
}

pub(super) fn trim(failure: Failure, before: Offset) -> TrimError {
    let refusal = match refusal(failure) {
        Ok(refusal) => refusal,
        Err(why) => return why.into(),
    };
    match (refusal.code.as_str(), refusal.status.as_u16()) {
        (_, 404) => StreamNotFound.into(),
        (_, 410) => StreamGone.into(),
        ("offset-unknown", _) => OffsetUnknown(before).into(),
        ("offset-beyond-tail", _) => beyond(&refusal).into(),
        _ => unavailable(refusal).into(),
    }
}

pub(super) fn delete(failure: Failure) -> DeleteError {
    match refusal(failure) {
        Ok(refusal) => match refusal.status.as_u16() {
            404 => StreamNotFound.into(),
            410 => StreamGone.into(),
            _ => unavailable(refusal).into(),
        },
        Err(why) => why.into(),
    }
}

pub(super) fn list(failure: Failure) -> ListError {
    failure.into_unavailable().into()
}

fn refusal(failure: Failure) -> Result<Refusal, Unavailable> {
    match failure {
        Failure::Refused(refusal) => Ok(*refusal),
        other => Err(other.into_unavailable()),
    }
}

fn unavailable(refusal: Refusal) -> Unavailable {
    Failure::Refused(Box::new(refusal)).into_unavailable()
}

fn says(refusal: &Refusal, word: &str) -> bool {
    refusal.detail.to_ascii_lowercase().contains(word)
}

fn exists(refusal: Refusal) -> StreamExists {
    let differs_in = match refusal.facts.differs_in {
        known if !known.is_empty() => known,
        _ => "its settings".to_owned(),
    };
    StreamExists { differs_in: differs_in.into() }
}

fn mismatch(refusal: &Refusal, given: Option<&ContentType>) -> ContentTypeMismatch {
    let given = given.cloned().unwrap_or_else(ContentType::octet_stream);
    let stream = refusal.facts.content_type.parse().unwrap_or_else(|_| ContentType::octet_stream());
    ContentTypeMismatch { stream, given }
}

fn trimmed(refusal: &Refusal) -> OffsetTrimmed {
    OffsetTrimmed { earliest: refusal.header(headers::EARLIEST_OFFSET).unwrap_or_default() }
}

fn beyond(refusal: &Refusal) -> OffsetBeyondTail {
    OffsetBeyondTail { tail: refusal.header(headers::NEXT_OFFSET).unwrap_or_default() }
}

fn named(refusal: &Refusal) -> Option<Offset> {
    refusal.facts.offset.parse().ok()
}
