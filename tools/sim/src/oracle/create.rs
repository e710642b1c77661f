//! Judging creates and forks.

use bytes::Bytes;
use log::{
    Closing, Create, CreateError, Created, Fork, ForkError, Head, Incarnation, Lifetime, Outcome,
};
use sys::UnixMs;
use wire::{Address, ContentType, Expiry, Offset, SubOffset};

use super::{
    Absence, Fate, Known, Oracle, Standing, Stream, Verdict, Violation, demand, stream::Origin,
};

/// A stream to be made.
#[derive(Clone, Debug)]
pub(crate) struct Make {
    pub(crate) address: Address,
    pub(crate) content_type: ContentType,
    pub(crate) expiry: Expiry,
    pub(crate) fork: Option<ForkFrom>,
    /// What was submitted with it.
    pub(super) number: usize,
    begun: UnixMs,
}

/// Where a fork is to leave its source.
#[derive(Clone, Debug)]
pub(crate) struct ForkFrom {
    pub(crate) source: Address,
    pub(crate) parent: Incarnation,
    pub(crate) offset: Option<Offset>,
    pub(crate) sub_offset: SubOffset,
    /// Where its own messages begin, if that is known.
    pub(crate) end: Option<Offset>,
    /// The part of a message that it takes along.
    pub(crate) partial: Option<Bytes>,
    pub(crate) inherits_lifetime: bool,
}

/// A create or fork that is under way.
#[derive(Debug)]
pub(crate) struct Creating {
    make: Make,
    before: Known,
    source_before: Option<Known>,
}

impl Make {
    pub(crate) fn plain(address: &Address, content_type: ContentType, expiry: Expiry) -> Self {
        let (address, begun) = (address.clone(), UnixMs::new(0));
        Self { address, content_type, expiry, fork: None, number: 0, begun }
    }

    pub(crate) fn forked(self, from: ForkFrom) -> Self {
        Self { fork: Some(from), ..self }
    }
}

impl Oracle {
    /// Begins a create or fork with messages of these sizes.
    pub(crate) fn begin_make(
        &mut self,
        mut make: Make,
        sizes: &[usize],
        closes: bool,
        now: UnixMs,
    ) -> Creating {
        let before = self.known(&make.address, now);
        let partial = make.fork.as_ref().and_then(|fork| fork.partial.clone());
        make.number = self.submit(&make.address, None, partial, sizes, closes);
        make.begun = now;
        let submitted = &mut self.submitted[make.number];
        (submitted.fate, submitted.unsettled) = (Fate::Maybe, 1);
        let source = make.fork.as_ref().map(|fork| fork.source.clone());
        let source_before = source.map(|source| {
            self.name(&source).users += 1;
            // To find out whether the place is a boundary, the log may read the stream.
            self.begin_read(&source, now)
        });
        self.name(&make.address).making = Some(make.clone());
        Creating { make, before, source_before }
    }

    /// What the log is asked for.
    pub(crate) fn create_request(&self, creating: &Creating) -> Create {
        let make = &creating.make;
        let submitted = &self.submitted[make.number];
        Create {
            content_type: Some(make.content_type.clone()),
            expiry: make.expiry,
            messages: submitted.run(),
            closing: if submitted.closes { Closing::Close } else { Closing::LeaveOpen },
        }
    }

    /// What the log is asked for, of a fork.
    pub(crate) fn fork_request(&self, creating: &Creating) -> Fork {
        let make = &creating.make;
        let from = make.fork.as_ref().expect("a fork");
        let submitted = &self.submitted[make.number];
        let own = submitted.run();
        let taken_along = usize::from(from.partial.is_some());
        let lifetime = match from.inherits_lifetime {
            true => Lifetime::Inherited,
            false => Lifetime::Own(make.expiry),
        };
        Fork {
            offset: from.offset,
            sub_offset: from.sub_offset,
            lifetime,
            messages: own.slice(taken_along, own.len()),
            closing: if submitted.closes { Closing::Close } else { Closing::LeaveOpen },
            ..Fork::of(from.source.clone())
        }
    }

    pub(crate) fn end_create(
        &mut self,
        creating: &Creating,
        answer: &Result<Created, CreateError>,
        now: UnixMs,
    ) -> Verdict {
        match answer {
            Ok(created) => self.made(creating, created, now),
            Err(error) if !error.has_no_side_effects() => Ok(()),
            Err(error) => {
                self.not_made(creating);
                match error {
                    CreateError::Exists(_) => self.exists(creating, now),
                    CreateError::Gone(_) => {
                        self.absent(&creating.make.address, Absence::Gone, &creating.before, now)
                    }
                    CreateError::Unavailable(_) => Ok(()),
                    other => Err(Violation(format!("create {}: {other}", creating.make.address))),
                }
            }
        }
    }

    pub(crate) fn end_fork(
        &mut self,
        creating: &Creating,
        answer: &Result<Created, ForkError>,
        now: UnixMs,
    ) -> Verdict {
        let from = creating.make.fork.as_ref().expect("a fork");
        self.name(&from.source).users -= 1;
        match answer {
            Ok(created) => self.made(creating, created, now),
            Err(error) if !error.has_no_side_effects() => Ok(()),
            Err(error) => {
                self.not_made(creating);
                self.fork_refused(creating, error, now)
            }
        }
    }

    fn fork_refused(&mut self, creating: &Creating, error: &ForkError, now: UnixMs) -> Verdict {
        let Creating { make, before, source_before } = creating;
        let from = make.fork.as_ref().expect("a fork");
        let source_before = source_before.as_ref().expect("a fork has a source");
        let wrong = || Err(Violation(format!("fork {} of {}: {error}", make.address, from.source)));
        let stream = &self.streams[&from.parent];
        match error {
            ForkError::SourceNotFound(_) => {
                self.absent(&from.source, Absence::NotFound, source_before, now)
            }
            // The answer does not say which of the two.
            ForkError::Gone(_) => self
                .may_be_absent(&from.source, Absence::Gone, source_before, now)
                .or_else(|_| self.may_be_absent(&make.address, Absence::Gone, before, now)),
            ForkError::Exists(_) => self.exists(creating, now),
            ForkError::OffsetUnknown(_) => match from.offset {
                Some(offset) if self.is_boundary(from.parent, offset) != Some(true) => Ok(()),
                _ => wrong(),
            },
            ForkError::BeyondTail(fact) => match from.offset {
                Some(offset) if offset >= source_before.tail || from.end.is_none() => {
                    demand(fact.tail >= source_before.tail, || format!("{error}"))
                }
                _ => wrong(),
            },
            ForkError::Trimmed(fact) => match from.offset {
                Some(offset) if offset < fact.earliest && stream.earliest <= fact.earliest => {
                    Ok(())
                }
                _ => wrong(),
            },
            ForkError::Unavailable(_) => Ok(()),
            _ => wrong(),
        }
    }

    /// Another stream has the name, or the same one with other settings.
    fn exists(&mut self, creating: &Creating, now: UnixMs) -> Verdict {
        let Creating { make, before, .. } = creating;
        let after = self.known(&make.address, now);
        demand(before.standing != Standing::Absent, || {
            format!("{} does not exist, but the answer was Exists", make.address)
        })?;
        let Some(id) = after.incarnation else { return Ok(()) };
        let stream = &self.streams[&id];
        let closes = self.submitted[make.number].closes;
        let certainly_same = stream.content_type == make.content_type
            && stream.expiry == make.expiry
            && stream.closed == closes
            && stream.closing == 0
            && stream.origin.is_none()
            && make.fork.is_none();
        demand(!certainly_same, || format!("{stream} is the same, but the answer was Exists"))
    }

    fn not_made(&mut self, creating: &Creating) {
        self.name(&creating.make.address).making = None;
        self.submitted[creating.make.number].refused();
    }

    fn made(&mut self, creating: &Creating, created: &Created, now: UnixMs) -> Verdict {
        let Creating { make, before, .. } = creating;
        let head = &created.head;
        match created.outcome {
            Outcome::New => {
                let after = self.known(&make.address, now);
                let taken = before.standing == Standing::Live
                    && after.incarnation == before.incarnation
                    && before
                        .incarnation
                        .is_some_and(|id| self.standing(id, now) == Standing::Live);
                demand(!taken, || format!("{} exists, and was made again", make.address))?;
                self.adopt(make, head, now)
            }
            Outcome::Duplicate => {
                self.not_made(creating);
                demand(before.incarnation == Some(head.incarnation), || {
                    format!("{} is confirmed as {head:?}, which nobody made", make.address)
                })?;
                demand(!self.was_gone(head.incarnation, before), || {
                    format!("{} is gone, but is confirmed", make.address)
                })?;
                self.observe(head, before)
            }
        }
    }

    /// A stream is known to be made: by an answer, or because it was found after a crash.
    pub(super) fn adopt(&mut self, make: &Make, head: &Head, now: UnixMs) -> Verdict {
        let address = &make.address;
        demand(!self.streams.contains_key(&head.incarnation), || {
            format!("{address} is made as life {}, which was before", head.incarnation.get())
        })?;
        let submitted = &self.submitted[make.number];
        let is_empty = submitted.messages.is_empty();
        let expected = make.fork.as_ref().map_or(Some(Offset::START), |fork| fork.end);
        let own_start = submitted.place_from_end(head.tail);
        let own_start = own_start.filter(|start| expected.is_none_or(|place| place == *start));
        let own_start = own_start.ok_or_else(|| {
            let count = submitted.messages.len();
            Violation(format!("{address} ends at {}, not {count} after {expected:?}", head.tail))
        })?;
        let settings = head.content_type == make.content_type
            && head.expiry == make.expiry
            && head.closed == submitted.closes
            && (make.begun..=now).contains(&head.created_at);
        demand(settings, || format!("{address} was made otherwise than asked: {head:?}"))?;
        let origin = self.origin_of(make, head, own_start)?;
        self.succeed(address, head.incarnation);
        let made = make.begun..=now;
        let stream = Stream::new(address.clone(), head, origin, make.number, made);
        self.streams.insert(head.incarnation, stream);
        let submitted = &mut self.submitted[make.number];
        (submitted.fate, submitted.unsettled) = (Fate::Stored, 0);
        if is_empty { Ok(()) } else { self.place(head.incarnation, make.number, own_start) }
    }

    /// The name has a new life; the one before has ended.
    fn succeed(&mut self, address: &Address, id: Incarnation) {
        let tick = self.next_tick();
        let name = self.name(address);
        name.making = None;
        let previous = name.current.replace(id);
        if let Some(previous) = previous {
            self.stream_mut(previous).died.get_or_insert(tick);
        }
    }

    fn origin_of(&mut self, make: &Make, head: &Head, end: Offset) -> Verdict<Option<Origin>> {
        let Some(fork) = &make.fork else {
            demand(head.earliest == Offset::START, || format!("{head:?} is new, but trimmed"))?;
            return Ok(None);
        };
        let trims = self.name(&fork.source).trims.clone();
        let source = self.stream_mut(fork.parent);
        source.forks.push(head.incarnation);
        // The fork begins where its source began at some moment, or has nothing left of it.
        let possible = |earliest: Offset| head.earliest == earliest.min(end);
        let known = possible(source.earliest) || trims.iter().any(|trim| possible(*trim));
        demand(known || head.earliest <= source.earliest, || {
            format!(
                "{} begins at {}, its source at {}",
                make.address, head.earliest, source.earliest
            )
        })?;
        source.reach(end.max(source.tail))?;
        Ok(Some(Origin { parent: fork.parent, end }))
    }
}
