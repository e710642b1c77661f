//! Judging an append.

use std::{cmp::Ordering, time::Duration};

use sys::UnixMs;
use wire::{Address, Expiry, Producer, ProducerId, ProducerSeq, caps::PRODUCERS_PER_STREAM_MAX};

use super::{Absent, Change, Decided, Meta, NewMessages, Table};
use crate::{
    Append, AppendError, Appended, Closing, ContentTypeMismatch, ExpectedOffsetConflict,
    Incarnation, Outcome, ProducerEpochStart, ProducerFenced, ProducerGap, ProducerState,
    StreamClosed, StreamSeqConflict, TooManyProducers,
};

/// A producer that was silent for this long may be forgotten when the stream has too many.
const PRODUCER_IDLE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a producer's triple says of an append.
enum Standing {
    Next,
    Repeated(ProducerState),
}

impl Table {
    /// Judges an append in the protocol's order: closed, content type, producer, expected offset,
    /// sequence.
    pub(crate) fn decide_append(
        &self,
        address: &Address,
        append: Append,
        now: UnixMs,
    ) -> Result<Decided<Appended>, AppendError> {
        let (id, meta) = self.find(address, now).map_err(AppendError::from)?;
        if append.messages.is_empty() && append.closing == Closing::LeaveOpen {
            return Err(AppendError::Empty);
        }
        if meta.closed {
            return closed_stream(meta, &append).map(|answer| touched(id, meta, answer, now));
        }
        check_content_type(meta, &append)?;
        if let Some(producer) = &append.producer
            && let Standing::Repeated(state) = stand(meta, producer, now)?
        {
            return Ok(touched(id, meta, repeated(meta, state), now));
        }
        check_expected(meta, &append)?;
        check_seq(meta, &append)?;
        Ok(accept(id, meta, append, now))
    }
}

/// A repeated write stores nothing, but it is a write: the stream lives on.
fn touched(id: Incarnation, meta: &Meta, answer: Appended, now: UnixMs) -> Decided<Appended> {
    match meta.expiry {
        Expiry::Sliding(_) => Decided::one(answer, Change::Touch { id, at: now }),
        Expiry::Never | Expiry::At(_) => Decided::nothing_to_do(answer),
    }
}

fn accept(id: Incarnation, meta: &Meta, append: Append, now: UnixMs) -> Decided<Appended> {
    let messages = append.messages;
    let close = append.closing == Closing::Close;
    let answer = Appended {
        outcome: Outcome::New,
        tail: meta.tail.after(messages.len() as u64, messages.data().len() as u64),
        closed: close,
        producer: append
            .producer
            .as_ref()
            .map(|producer| ProducerState { epoch: producer.epoch, seq: producer.seq }),
    };
    let change = NewMessages {
        id,
        at: now,
        start: meta.tail,
        messages,
        producer: append.producer,
        seq: append.seq,
        close,
    };
    Decided::one(answer, Change::Append(Box::new(change)))
}

/// A closed stream takes only the repetition of what closed it.
fn closed_stream(meta: &Meta, append: &Append) -> Result<Appended, AppendError> {
    let closed = StreamClosed { tail: meta.tail };
    let Some(producer) = &append.producer else {
        return match append.messages.is_empty() {
            true => Ok(Appended {
                outcome: Outcome::Duplicate,
                tail: meta.tail,
                closed: true,
                producer: None,
            }),
            false => Err(closed.into()),
        };
    };
    if meta.closer.as_deref() == Some(producer) {
        let state = ProducerState { epoch: producer.epoch, seq: producer.seq };
        return Ok(repeated(meta, state));
    }
    match entry(meta, &producer.id) {
        Some(entry) if producer.epoch < entry.epoch => {
            Err(ProducerFenced { current: entry.epoch }.into())
        }
        _ => Err(closed.into()),
    }
}

fn repeated(meta: &Meta, state: ProducerState) -> Appended {
    Appended {
        outcome: Outcome::Duplicate,
        tail: meta.tail,
        closed: meta.closed,
        producer: Some(state),
    }
}

fn check_content_type(meta: &Meta, append: &Append) -> Result<(), AppendError> {
    match &append.content_type {
        Some(given) if !append.messages.is_empty() && *given != meta.content_type => {
            let stream = meta.content_type.clone();
            Err(ContentTypeMismatch { stream, given: given.clone() }.into())
        }
        _ => Ok(()),
    }
}

fn stand(meta: &Meta, producer: &Producer, now: UnixMs) -> Result<Standing, AppendError> {
    let Some(entry) = entry(meta, &producer.id) else {
        check_room(meta, now)?;
        return first(producer);
    };
    match producer.epoch.cmp(&entry.epoch) {
        Ordering::Less => Err(ProducerFenced { current: entry.epoch }.into()),
        Ordering::Greater if producer.seq == ProducerSeq::FIRST => Ok(Standing::Next),
        Ordering::Greater => Err(ProducerEpochStart { received: producer.seq }.into()),
        Ordering::Equal if producer.seq <= entry.seq => {
            Ok(Standing::Repeated(ProducerState { epoch: entry.epoch, seq: entry.seq }))
        }
        Ordering::Equal if producer.seq == entry.seq.next() => Ok(Standing::Next),
        Ordering::Equal => {
            Err(ProducerGap { expected: entry.seq.next(), received: producer.seq }.into())
        }
    }
}

fn first(producer: &Producer) -> Result<Standing, AppendError> {
    match producer.seq {
        ProducerSeq::FIRST => Ok(Standing::Next),
        received => Err(ProducerGap { expected: ProducerSeq::FIRST, received }.into()),
    }
}

fn check_room(meta: &Meta, now: UnixMs) -> Result<(), AppendError> {
    let producers = &meta.producers;
    let full = producers.len() >= PRODUCERS_PER_STREAM_MAX;
    if full && !producers.values().any(|entry| now.since(entry.at) > PRODUCER_IDLE_MAX) {
        return Err(TooManyProducers.into());
    }
    Ok(())
}

fn entry<'a>(meta: &'a Meta, id: &ProducerId) -> Option<&'a super::ProducerEntry> {
    meta.producers.get(id)
}

fn check_expected(meta: &Meta, append: &Append) -> Result<(), AppendError> {
    match append.expected {
        Some(expected) if expected != meta.tail => {
            Err(ExpectedOffsetConflict { tail: meta.tail }.into())
        }
        _ => Ok(()),
    }
}

fn check_seq(meta: &Meta, append: &Append) -> Result<(), AppendError> {
    match (&append.seq, &meta.seq) {
        (Some(given), Some(last)) if given <= last => {
            Err(StreamSeqConflict { last: last.clone(), given: given.clone(), tail: meta.tail }
                .into())
        }
        _ => Ok(()),
    }
}

impl From<Absent> for crate::CreateError {
    fn from(_: Absent) -> Self {
        crate::StreamGone.into()
    }
}
