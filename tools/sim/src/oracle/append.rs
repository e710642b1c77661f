//! Judging appends.

use log::{
    Append, AppendError, Appended, Closing, Incarnation, Outcome, StreamGone, StreamNotFound,
};
use sys::UnixMs;
use wire::{Address, ContentType, Offset, Producer, StreamSeq};

use super::{Absence, Fate, Known, Oracle, Verdict, Violation, demand};
use crate::dice::Dice;

/// One try to append what was submitted.
#[derive(Clone, Debug)]
pub(crate) struct Try {
    pub(crate) address: Address,
    pub(crate) number: usize,
    pub(crate) producer: Option<Producer>,
    pub(crate) seq: Option<StreamSeq>,
    pub(crate) expected: Option<Offset>,
    /// Said only to be refused: no stream is of this type.
    pub(crate) content_type: Option<ContentType>,
}

/// A try that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Appending {
    attempt: Try,
    id: Incarnation,
    before: Known,
    /// The highest `Stream-Seq` that was certainly stored when the try began.
    seq_before: Option<StreamSeq>,
}

impl Try {
    pub(crate) fn plain(address: &Address, number: usize) -> Self {
        let address = address.clone();
        Self { address, number, producer: None, seq: None, expected: None, content_type: None }
    }
}

impl Oracle {
    /// A `Stream-Seq` above all that were taken, or one that was taken.
    pub(crate) fn draw_seq(&mut self, id: Incarnation, dice: &Dice) -> Option<StreamSeq> {
        let taken = self.streams[&id].seq.clone();
        if dice.percent(20) && taken.is_some() {
            return taken;
        }
        format!("{:08}", self.submitted.len()).parse().ok()
    }

    /// Makes messages for a stream, to be sent by one or more tries.
    pub(crate) fn compose(&mut self, id: Incarnation, sizes: &[usize], closes: bool) -> usize {
        let address = self.streams[&id].address.clone();
        let number = self.submit(&address, Some(id), None, sizes, closes);
        self.stream_mut(id).open.push(number);
        number
    }

    /// Begins a try, unless the name leads to another stream by now.
    pub(crate) fn begin_append(
        &mut self,
        attempt: Try,
        now: UnixMs,
    ) -> Option<(Appending, Append)> {
        let before = self.known(&attempt.address, now);
        let id = self.submitted[attempt.number].incarnation?;
        if before.incarnation != Some(id) || !self.is_usable(&attempt.address) {
            return None;
        }
        self.name(&attempt.address).users += 1;
        let submitted = &mut self.submitted[attempt.number];
        submitted.unsettled += 1;
        if submitted.fate == Fate::Never {
            submitted.fate = Fate::Maybe;
        }
        let closes = submitted.closes;
        let append = Append {
            messages: submitted.run(),
            content_type: attempt.content_type.clone(),
            producer: attempt.producer.clone(),
            seq: attempt.seq.clone(),
            expected: attempt.expected,
            closing: if closes { Closing::Close } else { Closing::LeaveOpen },
        };
        let stream = self.stream_mut(id);
        stream.may_be_touched(now);
        stream.closing += usize::from(closes);
        let seq_before = stream.seq.clone();
        Some((Appending { attempt, id, before, seq_before }, append))
    }

    /// The caller did not wait, or the log could not say what happened.
    pub(crate) fn append_unanswered(&mut self, appending: &Appending, now: UnixMs) {
        self.name(&appending.attempt.address).users -= 1;
        self.stream_mut(appending.id).may_be_touched(now);
    }

    pub(crate) fn end_append(
        &mut self,
        appending: &Appending,
        answer: &Result<Appended, AppendError>,
        now: UnixMs,
    ) -> Verdict {
        match answer {
            Err(error) if !error.has_no_side_effects() => {
                self.append_unanswered(appending, now);
                Ok(())
            }
            Err(error) => self.append_refused(appending, error, now),
            Ok(appended) => self.appended(appending, appended, now),
        }
    }

    fn appended(&mut self, appending: &Appending, answer: &Appended, now: UnixMs) -> Verdict {
        let Appending { attempt, id, before, .. } = appending;
        self.name(&attempt.address).users -= 1;
        demand(!self.was_gone(*id, before), || {
            format!("{} is gone, but took append {}", attempt.address, attempt.number)
        })?;
        demand(attempt.content_type.is_none(), || {
            "an append of a wrong type was taken".to_owned()
        })?;
        match answer.outcome {
            Outcome::New => self.appended_new(appending, answer, now)?,
            Outcome::Duplicate => self.appended_before(appending, answer)?,
        }
        let submitted = &mut self.submitted[attempt.number];
        submitted.unsettled -= 1;
        let closes = submitted.closes;
        let stream = self.stream_mut(*id);
        if closes {
            stream.closing -= 1;
            stream.closed = true;
        }
        let is_wrong = match answer.closed {
            true => !stream.closed && stream.closing == 0,
            false => before.closed || closes,
        };
        demand(!is_wrong, || {
            format!("{stream}: append {} answers closed = {}", attempt.number, answer.closed)
        })?;
        stream.closed |= answer.closed;
        stream.reach(answer.tail)
    }

    fn appended_new(&mut self, appending: &Appending, answer: &Appended, now: UnixMs) -> Verdict {
        let Appending { attempt, id, before, .. } = appending;
        let number = attempt.number;
        let submitted = &self.submitted[number];
        let is_empty = submitted.messages.is_empty();
        let start = submitted.place_from_end(answer.tail).filter(|start| *start >= before.tail);
        let start = start.ok_or_else(|| {
            let said = format!("append {number} ends at {}", answer.tail);
            Violation(format!("{}: {said}, but began after {}", attempt.address, before.tail))
        })?;
        demand(!before.closed, || format!("{} is closed, but took {number}", attempt.address))?;
        demand(attempt.expected.is_none_or(|expected| expected == start), || {
            format!("append {number} expected {:?}, but stands at {start}", attempt.expected)
        })?;
        let state = answer.producer.map(|state| (state.epoch, state.seq));
        let sent = attempt.producer.as_ref().map(|producer| (producer.epoch, producer.seq));
        demand(state == sent, || format!("append {number} answers for producer {state:?}"))?;
        let stream = self.stream_mut(*id);
        stream.touched(before.at, now);
        if let Some(seq) = &attempt.seq {
            demand(Some(seq) > appending.seq_before.as_ref(), || {
                format!("append {number} of seq {seq} was taken after {:?}", appending.seq_before)
            })?;
            stream.seq = stream.seq.take().max(Some(seq.clone()));
        }
        if is_empty { Ok(()) } else { self.place(*id, number, start) }
    }

    /// A duplicate is a promise, too: the append is stored.
    fn appended_before(&mut self, appending: &Appending, answer: &Appended) -> Verdict {
        let Appending { attempt, id, before, .. } = appending;
        let number = attempt.number;
        let submitted = &mut self.submitted[number];
        let repeats_close = submitted.messages.is_empty() && attempt.producer.is_none();
        if repeats_close {
            let stream = &self.streams[id];
            return demand(stream.closed || stream.closing > 1, || {
                format!("{stream}: a close is a duplicate, but nobody closed it before")
            });
        }
        let sent_before = submitted.fate == Fate::Stored || submitted.unsettled > 1;
        demand(attempt.producer.is_some() && sent_before, || {
            format!("append {number} is a duplicate, but was not stored before")
        })?;
        submitted.fate = Fate::Stored;
        demand(answer.tail >= before.tail, || {
            format!("{}: a duplicate says the tail is {}", attempt.address, answer.tail)
        })
    }

    fn append_refused(
        &mut self,
        appending: &Appending,
        error: &AppendError,
        now: UnixMs,
    ) -> Verdict {
        let Appending { attempt, id, before, .. } = appending;
        let number = attempt.number;
        self.name(&attempt.address).users -= 1;
        self.submitted[number].refused();
        let closes = usize::from(self.submitted[number].closes);
        let stream = self.stream_mut(*id);
        stream.closing -= closes;
        let (closed, closing, tail) = (stream.closed, stream.closing, stream.tail);
        match error {
            AppendError::NotFound(StreamNotFound) => {
                self.absent(&attempt.address, Absence::NotFound, before, now)
            }
            AppendError::Gone(StreamGone) => {
                self.absent(&attempt.address, Absence::Gone, before, now)
            }
            AppendError::Closed(fact) => {
                demand(closed || closing > 0, || format!("nobody closed {}", attempt.address))?;
                let stream = self.stream_mut(*id);
                stream.closed = true;
                stream.reach(fact.tail)
            }
            AppendError::ContentType(_) => {
                demand(attempt.content_type.is_some(), || format!("append {number}: {error}"))
            }
            AppendError::ExpectedOffset(fact) => {
                let moved = attempt.expected.is_some_and(|expected| expected != fact.tail);
                demand(moved && fact.tail >= before.tail, || format!("append {number}: {error}"))?;
                self.stream_mut(*id).reach(fact.tail)
            }
            AppendError::StreamSeq(fact) => {
                demand(
                    attempt.seq.as_ref() == Some(&fact.given) && fact.given <= fact.last,
                    || format!("append {number}: {error}"),
                )?;
                demand(fact.tail >= before.tail, || format!("{error}: the tail was at {tail}"))
            }
            // What producers may be told, they judge themselves.
            AppendError::Fenced(_) | AppendError::Gap(_) | AppendError::EpochStart(_) => {
                demand(attempt.producer.is_some(), || format!("append {number}: {error}"))
            }
            AppendError::Unavailable(_) => Ok(()),
            other => Err(Violation(format!("append {number}: {other}"))),
        }
    }
}
