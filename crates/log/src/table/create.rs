//! Judging a create and a fork.

use sys::UnixMs;
use wire::{Address, ContentType, Expiry, Messages, Offset, caps::FORK_DEPTH_MAX};

use super::{Absent, Change, Changes, Decided, Meta, NewStream, Origin, Table};
use crate::{
    Closing, ContentTypeMismatch, Create, CreateError, Created, Fork, ForkError, Head, Incarnation,
    Lifetime, OffsetTrimmed, Outcome, StreamExists, StreamGone,
};

/// A fork whose offset the engine has looked up in the source's messages, or tried to: a fork that
/// exists is confirmed whatever has become of its source.
#[derive(Clone, Debug)]
pub(crate) struct Forking {
    pub(crate) fork: Fork,
    pub(crate) point: Result<ForkPoint, ForkError>,
}

/// Where a fork leaves its source.
#[derive(Clone, Debug)]
pub(crate) struct ForkPoint {
    /// The source this was looked up in.
    pub(crate) source: Incarnation,
    /// A boundary between two messages of the source.
    pub(crate) end: Offset,
    /// The part of the next message that the fork takes along.
    pub(crate) partial: Messages,
}

impl Table {
    pub(crate) fn decide_create(
        &self,
        address: &Address,
        create: Create,
        now: UnixMs,
    ) -> Result<Decided<Created>, CreateError> {
        let content_type = create.content_type.unwrap_or_else(ContentType::octet_stream);
        let closed = create.closing == Closing::Close;
        let changes = match self.make_room(address, now)? {
            Room::Free(changes) => changes,
            Room::Taken(id, meta) => {
                let same = Settings { content_type: &content_type, expiry: create.expiry, closed };
                return Ok(confirm_plain(id, meta, &same)?);
            }
        };
        let new = NewStream {
            id: self.next_id(),
            address: address.clone(),
            content_type,
            expiry: create.expiry,
            at: now,
            origin: None,
            messages: create.messages,
            closed,
        };
        Ok(make(changes, new))
    }

    pub(crate) fn decide_fork(
        &self,
        address: &Address,
        forking: Forking,
        now: UnixMs,
    ) -> Result<Decided<Created>, ForkError> {
        let Forking { fork, point } = forking;
        let changes = match self.make_room(address, now)? {
            Room::Free(changes) => changes,
            Room::Taken(id, meta) => {
                return Ok(self.confirm_fork(id, meta, &fork, point.ok().as_ref())?);
            }
        };
        let point = point?;
        let (parent, source) = match self.find(&fork.source, now) {
            Ok((id, meta)) if id == point.source => (id, meta),
            // Made anew since it was looked up.
            Ok(_) => return Err(crate::StreamNotFound.into()),
            Err(absent) => return Err(absent.into()),
        };
        if point.end < source.earliest {
            // Trimmed since it was looked up.
            return Err(OffsetTrimmed { earliest: source.earliest }.into());
        }
        if source.depth + 1 > FORK_DEPTH_MAX {
            return Err(ForkError::TooDeep);
        }
        let origin = Origin {
            parent,
            end: point.end,
            earliest: source.earliest,
            offset: fork.offset,
            sub_offset: fork.sub_offset,
        };
        let new = NewStream {
            id: self.next_id(),
            address: address.clone(),
            content_type: matching_type(source, fork.content_type.as_ref())?,
            expiry: lifetime(&fork, source),
            at: now,
            origin: Some(origin),
            messages: joined(&point.partial, fork.messages),
            closed: fork.closing == Closing::Close,
        };
        Ok(make(changes, new))
    }

    fn confirm_fork(
        &self,
        id: Incarnation,
        meta: &Meta,
        fork: &Fork,
        point: Option<&ForkPoint>,
    ) -> Result<Decided<Created>, StreamExists> {
        // A source that is gone for all but its forks still has its name.
        let source = self.addresses.get(&fork.source).map(|id| (*id, self.meta(*id)));
        let origin = meta.origin.as_deref().zip(source);
        let Some((origin, (source_id, source))) =
            origin.filter(|(origin, (id, _))| same_origin(origin, *id, fork, point))
        else {
            return Err(StreamExists { differs_in: "what it is forked from, and where".into() });
        };
        debug_assert_eq!(origin.parent, source_id, "the same origin has the same parent");
        let same = Settings {
            content_type: fork.content_type.as_ref().unwrap_or(&source.content_type),
            expiry: lifetime(fork, source),
            closed: fork.closing == Closing::Close,
        };
        confirm(id, meta, &same)
    }

    /// Frees the name if what has it is past its time.
    fn make_room(&self, address: &Address, now: UnixMs) -> Result<Room<'_>, StreamGone> {
        match self.find(address, now) {
            Ok((id, meta)) => Ok(Room::Taken(id, meta)),
            Err(Absent::NotFound) => Ok(Room::Free(Changes::new())),
            Err(Absent::Gone) => Err(StreamGone),
            Err(Absent::Expired(id)) => Ok(Room::Free(self.drop_with_parents(id))),
        }
    }
}

enum Room<'a> {
    Free(Changes),
    Taken(Incarnation, &'a Meta),
}

struct Settings<'a> {
    content_type: &'a ContentType,
    expiry: Expiry,
    closed: bool,
}

fn make(mut changes: Changes, new: NewStream) -> Decided<Created> {
    let head: Head = Meta::new(&new).head(new.id);
    changes.push(Change::Create(Box::new(new)));
    Decided { answer: Created { outcome: Outcome::New, head }, changes }
}

fn confirm_plain(
    id: Incarnation,
    meta: &Meta,
    same: &Settings<'_>,
) -> Result<Decided<Created>, StreamExists> {
    match meta.origin {
        Some(_) => Err(StreamExists { differs_in: "being a fork".into() }),
        None => confirm(id, meta, same),
    }
}

/// The same request again is no error; another one of the same name is.
fn confirm(
    id: Incarnation,
    meta: &Meta,
    same: &Settings<'_>,
) -> Result<Decided<Created>, StreamExists> {
    let differs_in = if meta.content_type != *same.content_type {
        "its content type"
    } else if meta.expiry != same.expiry {
        "its TTL or expiry"
    } else if meta.closed != same.closed {
        "being closed or open"
    } else {
        let answer = Created { outcome: Outcome::Duplicate, head: meta.head(id) };
        return Ok(Decided::nothing_to_do(answer));
    };
    Err(StreamExists { differs_in: differs_in.into() })
}

/// A fork without an offset stays the same fork however the source has grown; the offset it got
/// may be named as well.
fn same_origin(
    existing: &Origin,
    source: Incarnation,
    fork: &Fork,
    point: Option<&ForkPoint>,
) -> bool {
    let same_place = match (existing.offset, fork.offset) {
        (existing, asked) if existing == asked => true,
        (None, Some(asked)) => asked == existing.end,
        (Some(_), None) => point.is_some_and(|point| point.end == existing.end),
        _ => false,
    };
    existing.parent == source && existing.sub_offset == fork.sub_offset && same_place
}

fn lifetime(fork: &Fork, source: &Meta) -> Expiry {
    match fork.lifetime {
        Lifetime::Own(expiry) => expiry,
        Lifetime::Inherited => source.expiry,
    }
}

fn matching_type(source: &Meta, given: Option<&ContentType>) -> Result<ContentType, ForkError> {
    match given {
        Some(given) if *given != source.content_type => {
            Err(ContentTypeMismatch { stream: source.content_type.clone(), given: given.clone() }
                .into())
        }
        _ => Ok(source.content_type.clone()),
    }
}

fn joined(first: &Messages, second: Messages) -> Messages {
    if first.is_empty() {
        return second;
    }
    let mut data = Vec::with_capacity(first.data().len() + second.data().len());
    data.extend_from_slice(first.data());
    data.extend_from_slice(second.data());
    let base = first.data().len() as u32;
    let ends = first.ends().iter().copied().chain(second.ends().iter().map(|end| base + end));
    Messages::from_parts(data.into(), ends).expect("two runs of messages make one")
}
