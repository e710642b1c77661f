//! The model: every stream that ever was, in a list, and the rules of the contract.

use std::collections::BTreeMap;

use wire::Offset;

use crate::{
    answer::{Answer, Refusal},
    operation::{Branch, From, NAMES, Name, Operation, Place, Settings, Triple, Write},
    stream::{Origin, Presence, Stream},
};

/// How long an engine may take to drop what has expired.
const GRACE_MS: u64 = 2_000;
/// How long an operation may take.
const OPERATION_MS: u64 = 10;

/// Predicts what a log answers.
#[derive(Debug)]
pub(crate) struct Model {
    streams: Vec<Stream>,
    epoch: u64,
    now: u64,
}

type Answered = Result<Answer, Refusal>;

impl Model {
    /// A model of an empty log at this time.
    pub(crate) fn new(epoch: u64) -> Self {
        Self { streams: Vec::new(), epoch, now: epoch }
    }

    /// True while it cannot be told whether some stream has expired and was dropped.
    pub(crate) fn is_restless(&self, now: u64) -> bool {
        self.streams.iter().filter(|one| one.presence == Presence::Alive).any(|one| {
            one.ends.is_some_and(|(earliest, latest)| {
                earliest <= now + OPERATION_MS && now < latest + GRACE_MS
            })
        })
    }

    /// Time has come to `now`, and everything that expired until then is dropped.
    pub(crate) fn pass_to(&mut self, now: u64) {
        self.now = now;
        for id in 0..self.streams.len() {
            let one = &self.streams[id];
            if one.presence == Presence::Alive && one.ends.is_some_and(|(end, _)| end <= now) {
                self.delete_one(id);
            }
        }
    }

    /// The offset a place stands for in the stream of this name, if it were to be asked for now.
    pub(crate) fn resolve(&self, name: Name, place: &Place) -> Offset {
        let named = self.named(name).map(|id| &self.streams[id]);
        named.map_or(Offset::START, |one| one.resolve(place))
    }

    /// The answer that the contract demands.
    pub(crate) fn predict(&mut self, operation: &Operation) -> Answer {
        let answered = match operation {
            Operation::Create { name, settings, texts, close } => {
                self.create(*name, *settings, texts, *close)
            }
            Operation::Append { name, append } => self.append(*name, append),
            Operation::Fork { name, source, at, sub_offset, fork } => {
                let at = at.as_ref().map(|place| self.resolve(*source, place));
                self.fork(*name, *source, (at, *sub_offset), fork)
            }
            Operation::Read { name, from, bytes_max } => self.read(*name, from, *bytes_max),
            Operation::Head { name } => {
                self.find(*name).map(|id| Answer::Seen(self.streams[id].seen(id)))
            }
            Operation::Tail { name, after } => self.tail(*name, after),
            Operation::Trim { name, before } => self.trim(*name, before),
            Operation::Delete { name, erase } => self.delete(*name, *erase),
            Operation::List { prefix, after, limit } => Ok(self.list(prefix, *after, *limit)),
            Operation::Pass { .. } => Ok(Answer::Silence),
            Operation::Reopen => {
                self.streams.iter_mut().for_each(Stream::forget_touches);
                Ok(Answer::Silence)
            }
        };
        answered.unwrap_or_else(Answer::Refused)
    }

    fn create(
        &mut self,
        name: Name,
        settings: Settings,
        texts: &[String],
        close: bool,
    ) -> Answered {
        match self.find(name) {
            Ok(id) => {
                let one = &self.streams[id];
                let same = one.origin.is_none()
                    && (one.json, one.life, one.closed) == (settings.json, settings.life, close);
                self.confirm(id, same)
            }
            Err(Refusal::NotFound) => {
                let new = Stream { texts: texts.to_vec(), ..self.blank(name, settings, close) };
                Ok(self.add(new))
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn append(&mut self, name: Name, append: &Write) -> Answered {
        let id = self.find(name)?;
        let expected = append.expected.as_ref().map(|place| self.resolve(name, place));
        let now = self.now;
        let one = &mut self.streams[id];
        let tail = one.tail();
        if append.texts.is_empty() && !append.close {
            return Err(Refusal::Empty);
        }
        if one.closed {
            return closed_stream(one, append, now);
        }
        if !append.texts.is_empty() && append.json.is_some_and(|json| json != one.json) {
            return Err(Refusal::ContentType);
        }
        if let Some(triple) = append.producer
            && let Some((epoch, seq)) = judge(one, triple)?
        {
            one.may_touch(now);
            return Ok(Answer::Appended {
                new: false,
                tail,
                closed: false,
                producer: Some((epoch, seq)),
            });
        }
        if expected.is_some_and(|expected| expected != tail) {
            return Err(Refusal::ExpectedOffset { tail });
        }
        if append.seq.is_some_and(|seq| one.seq.is_some_and(|last| seq <= last)) {
            return Err(Refusal::StreamSeq { tail });
        }
        Ok(accept(one, append, now))
    }

    fn fork(
        &mut self,
        name: Name,
        source: Name,
        place: (Option<Offset>, u64),
        fork: &Branch,
    ) -> Answered {
        let now = self.now;
        let origin = self.named(source);
        if let Some(id) = origin {
            self.streams[id].may_touch(now);
        }
        match self.find(name) {
            Ok(id) => {
                let same = origin.is_some_and(|source| self.is_fork(id, source, place, fork));
                self.confirm(id, same)
            }
            Err(Refusal::NotFound) => {
                let source = self.find(source)?;
                self.make_fork(name, source, place, fork)
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn make_fork(
        &mut self,
        name: Name,
        source: usize,
        (at, sub_offset): (Option<Offset>, u64),
        fork: &Branch,
    ) -> Answered {
        let one = &self.streams[source];
        let (inherited, part) = leave(one, at, sub_offset)?;
        if fork.json.is_some_and(|json| json != one.json) {
            return Err(Refusal::ContentType);
        }
        let mut texts = one.texts[..inherited].to_vec();
        texts.extend(part);
        texts.extend_from_slice(&fork.texts);
        let origin = Origin { source, at, sub_offset, end: one.offset(inherited) };
        let settings = Settings { json: one.json, life: fork.life.unwrap_or(one.life) };
        let (trimmed, origin) = (one.trimmed, Some(origin));
        let blank = self.blank(name, settings, fork.close);
        Ok(self.add(Stream { texts, trimmed, origin, ..blank }))
    }

    /// True if a stream is what a fork asks for: a source that is gone for others still counts.
    fn is_fork(
        &self,
        id: usize,
        source: usize,
        (at, sub_offset): (Option<Offset>, u64),
        fork: &Branch,
    ) -> bool {
        let (one, source_stream) = (&self.streams[id], &self.streams[source]);
        let life = fork.life.unwrap_or(source_stream.life);
        let same_settings = fork.json.is_none_or(|json| json == one.json)
            && (one.life, one.closed) == (life, fork.close);
        let same_origin = one.origin.is_some_and(|origin| {
            let same_place = match (origin.at, at) {
                (None, None) => true,
                (Some(existing), Some(asked)) => existing == asked,
                (None, Some(asked)) => asked == origin.end,
                // A sub-offset alone names no place.
                (Some(_), None) if sub_offset > 0 => false,
                (Some(_), None) => {
                    source_stream.presence == Presence::Alive && source_stream.tail() == origin.end
                }
            };
            origin.source == source && origin.sub_offset == sub_offset && same_place
        });
        same_origin && same_settings
    }

    fn read(&mut self, name: Name, from: &From, bytes_max: usize) -> Answered {
        let id = self.find(name)?;
        let (now, one) = (self.now, &mut self.streams[id]);
        one.may_touch(now);
        let position = match from {
            From::Start => one.trimmed,
            From::Now | From::Last => one.texts.len(),
            From::At(place) | From::Before(place) => match one.resolve(place) {
                past if past.position > one.tail().position => one.texts.len(),
                offset => one.position(offset)?,
            },
        };
        one.touch(now);
        match from {
            From::Last | From::Before(_) => Ok(one.read_back(id, position, bytes_max)),
            _ => Ok(one.read(id, position, bytes_max)),
        }
    }

    fn tail(&self, name: Name, after: &Place) -> Answered {
        let id = self.find(name)?;
        let one = &self.streams[id];
        let moved = one.closed || one.tail() > one.resolve(after);
        Ok(if moved { Answer::Seen(one.seen(id)) } else { Answer::Waits })
    }

    fn trim(&mut self, name: Name, before: &Place) -> Answered {
        let id = self.find(name)?;
        let (now, one) = (self.now, &mut self.streams[id]);
        one.may_touch(now);
        let before = one.resolve(before);
        if before > one.tail() {
            return Err(Refusal::BeyondTail { tail: one.tail() });
        }
        if before > one.earliest() {
            one.trimmed = one.position(before)?;
        }
        Ok(Answer::Seen(one.seen(id)))
    }

    fn delete(&mut self, name: Name, erase: bool) -> Answered {
        match (self.find(name), erase) {
            (Ok(id), false) => self.delete_one(id),
            (Ok(id), true) => self.erase(id),
            (Err(Refusal::Gone), true) => {
                self.erase(self.named(name).expect("what is gone still has its name"));
            }
            (Err(refusal), _) => return Err(refusal),
        }
        Ok(Answer::Deleted)
    }

    fn list(&self, prefix: &str, after: Option<Name>, limit: usize) -> Answer {
        let mut found: Vec<(String, _)> = (0..NAMES.len())
            .filter(|name| NAMES[*name].starts_with(prefix))
            .filter(|name| after.is_none_or(|after| NAMES[*name] > NAMES[after]))
            .filter_map(|name| {
                let id = self.find(name).ok()?;
                Some((NAMES[name].to_owned(), self.streams[id].seen(id)))
            })
            .collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(name, _)| name.clone());
        Answer::Page { streams: found, next }
    }

    /// The stream that has this name, for whomever.
    fn named(&self, name: Name) -> Option<usize> {
        self.streams
            .iter()
            .position(|one| one.name == NAMES[name] && one.presence != Presence::Dropped)
    }

    /// The stream that has this name, for everybody.
    fn find(&self, name: Name) -> Result<usize, Refusal> {
        let id = self.named(name).ok_or(Refusal::NotFound)?;
        match self.streams[id].presence {
            Presence::Alive => Ok(id),
            Presence::Gone | Presence::Dropped => Err(Refusal::Gone),
        }
    }

    fn blank(&self, name: Name, settings: Settings, closed: bool) -> Stream {
        Stream {
            name: NAMES[name],
            json: settings.json,
            life: settings.life,
            born: self.now,
            epoch: self.epoch,
            texts: Vec::new(),
            trimmed: 0,
            closed,
            closer: None,
            producers: BTreeMap::new(),
            seq: None,
            origin: None,
            presence: Presence::Alive,
            ends: None,
        }
    }

    fn add(&mut self, mut new: Stream) -> Answer {
        new.start_clock();
        let id = self.streams.len();
        let seen = new.seen(id);
        self.streams.push(new);
        Answer::Created { new: true, seen }
    }

    fn confirm(&mut self, id: usize, same: bool) -> Answered {
        if !same {
            return Err(Refusal::Exists);
        }
        self.streams[id].may_touch(self.now);
        Ok(Answer::Created { new: false, seen: self.streams[id].seen(id) })
    }

    fn forks(&self, id: usize) -> Vec<usize> {
        let is_fork = |one: &Stream| one.origin.is_some_and(|origin| origin.source == id);
        let there = |fork: &usize| self.streams[*fork].presence != Presence::Dropped;
        (0..self.streams.len()).filter(|fork| is_fork(&self.streams[*fork])).filter(there).collect()
    }

    /// Forks keep a stream, for themselves.
    fn delete_one(&mut self, id: usize) {
        if self.forks(id).is_empty() {
            self.drop_one(id);
        } else {
            self.streams[id].presence = Presence::Gone;
        }
    }

    /// Drops a stream, and the one that was kept for it only.
    fn drop_one(&mut self, id: usize) {
        self.streams[id].presence = Presence::Dropped;
        if let Some(Origin { source, .. }) = self.streams[id].origin
            && self.streams[source].presence == Presence::Gone
            && self.forks(source).is_empty()
        {
            self.drop_one(source);
        }
    }

    fn erase(&mut self, id: usize) {
        for fork in self.forks(id) {
            self.erase(fork);
        }
        if self.streams[id].presence != Presence::Dropped {
            self.drop_one(id);
        }
    }
}

/// A closed stream knows who closed it.
fn closed_stream(one: &mut Stream, append: &Write, now: u64) -> Answered {
    let tail = one.tail();
    let producer = append.producer.map(|triple| (triple.epoch, triple.seq));
    let repeats = match append.producer {
        None => append.texts.is_empty(),
        some => some == one.closer,
    };
    if repeats {
        one.may_touch(now);
        return Ok(Answer::Appended { new: false, tail, closed: true, producer });
    }
    match append.producer.and_then(|triple| Some((triple, one.producers.get(triple.id)?))) {
        Some((triple, &(current, _))) if triple.epoch < current => Err(Refusal::Fenced { current }),
        _ => Err(Refusal::Closed { tail }),
    }
}

/// The table of the protocol: nothing if the triple is the next, what is known if it is repeated.
fn judge(one: &Stream, triple: Triple) -> Result<Option<(u64, u64)>, Refusal> {
    let (epoch, seq) = (triple.epoch, triple.seq);
    let gap = |expected| Err(Refusal::Gap { expected, received: seq });
    match one.producers.get(triple.id).copied() {
        None if seq == 0 => Ok(None),
        None => gap(0),
        Some((current, _)) if epoch < current => Err(Refusal::Fenced { current }),
        Some((current, _)) if epoch > current && seq == 0 => Ok(None),
        Some((current, _)) if epoch > current => Err(Refusal::EpochStart { received: seq }),
        Some((_, last)) if seq <= last => Ok(Some((epoch, last))),
        Some((_, last)) if seq == last + 1 => Ok(None),
        Some((_, last)) => gap(last + 1),
    }
}

fn accept(one: &mut Stream, append: &Write, now: u64) -> Answer {
    one.texts.extend_from_slice(&append.texts);
    one.seq = append.seq.or(one.seq);
    if let Some(triple) = append.producer {
        one.producers.insert(triple.id, (triple.epoch, triple.seq));
    }
    if append.close {
        one.closed = true;
        one.closer = append.producer;
    }
    one.touch(now);
    let producer = append.producer.map(|triple| (triple.epoch, triple.seq));
    Answer::Appended { new: true, tail: one.tail(), closed: one.closed, producer }
}

/// How many messages a fork inherits, and which part of the next.
fn leave(
    one: &Stream,
    at: Option<Offset>,
    sub_offset: u64,
) -> Result<(usize, Option<String>), Refusal> {
    let tail = one.tail();
    let beyond = Err(Refusal::BeyondTail { tail });
    let end = at.unwrap_or(tail);
    let sub_offset = sub_offset as usize;
    if end > tail {
        return beyond;
    }
    if sub_offset == 0 && end == tail {
        return Ok((one.texts.len(), None));
    }
    if at.is_none() {
        return Err(Refusal::SubOffsetAlone);
    }
    if end == tail {
        return beyond;
    }
    let position = one.position(end)?;
    if one.json {
        let position = position + sub_offset;
        return if position <= one.texts.len() { Ok((position, None)) } else { beyond };
    }
    let next = &one.texts[position];
    match sub_offset {
        0 => Ok((position, None)),
        part if part < next.len() => Ok((position, Some(next[..part].to_owned()))),
        all if all == next.len() => Ok((position + 1, None)),
        _ => beyond,
    }
}
