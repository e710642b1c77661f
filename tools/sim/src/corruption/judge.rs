//! What may come of a damage, and what may never.

use std::{collections::BTreeMap, path::Path};

use log::{
    Freshness, List, Log, ReadError, Unavailable,
    file::{
        FileLog,
        doctor::{Report, Severity},
    },
};
use wire::ReadFrom;

use super::{
    DIR,
    damage::Damage,
    history::{Written, address},
    standing::Texts,
};
use crate::oracle::{Verdict, Violation, demand};

/// What a damage may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expect {
    pub(super) must_open: bool,
    pub(super) can_be_repaired: bool,
    /// Some messages may be refused.
    pub(super) may_refuse: bool,
    /// After a repair streams may end earlier, or be gone.
    pub(super) may_be_shorter: bool,
    /// Also without one: the newest frame may pass for a torn end.
    pub(super) may_shorten: bool,
    /// The checkpoint is made again: streams without messages may be gone, deleted ones back.
    pub(super) is_rebuilt: bool,
    /// No byte of a message was touched, so that no message may be gone.
    pub(super) keeps_all: bool,
}

impl Expect {
    /// Nothing comes of it.
    pub(super) fn nothing() -> Self {
        Self {
            must_open: true,
            can_be_repaired: true,
            may_refuse: false,
            may_be_shorter: false,
            may_shorten: false,
            is_rebuilt: false,
            keeps_all: true,
        }
    }

    /// Several damages may add up to anything, but never to wrong messages.
    pub(super) fn any(can_be_repaired: bool) -> Self {
        Self {
            must_open: false,
            can_be_repaired,
            may_refuse: true,
            may_be_shorter: true,
            may_shorten: true,
            is_rebuilt: true,
            keeps_all: false,
        }
    }

    pub(super) fn after_repair(self, opened_before: bool) -> Self {
        Self { may_shorten: self.may_shorten || (self.may_be_shorter && !opened_before), ..self }
    }

    /// What the doctor blames is what was damaged.
    pub(super) fn judge_report(self, report: &Report, damages: &[Damage]) -> Verdict {
        let blamed = report.findings.iter().filter(|one| one.severity == Severity::Damage);
        let mut blamed = blamed.map(|finding| finding.path.as_path()).peekable();
        let wal = Path::new(DIR).join("wal");
        // Without any checkpoint, one that is lost looks as a segment that is.
        let is_first = damages.iter().all(|one| one.is_of_segment() && !one.has_checkpoint);
        let is_true = |path: &Path| {
            let mut hit = damages.iter().flat_map(Damage::paths);
            let is_hit = |hit: &Path| {
                hit.starts_with(path) || (path.starts_with(&wal) && hit.starts_with(&wal))
            };
            hit.any(is_hit) || (is_first && path.ends_with("checkpoints"))
        };
        let is_one = damages.len() == 1;
        demand(!is_one || blamed.peek().is_none() || blamed.any(is_true), || {
            let hit: Vec<&Path> = damages.iter().map(Damage::path).collect();
            format!("{hit:?} was damaged, but {:?} is blamed", report.findings)
        })
    }
}

/// What can be read of a log.
#[derive(Debug, Default)]
pub(super) struct Readable {
    streams: BTreeMap<String, Stream>,
}

/// What became of some messages of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Whole,
    /// Some of them are refused or trimmed.
    Refused,
    /// The stream ends before them, or is another.
    Gone,
}

#[derive(Debug, Default)]
struct Stream {
    earliest: u64,
    tail: u64,
    closed: bool,
    messages: BTreeMap<u64, String>,
    /// Refused, from and up to.
    lost: Vec<(u64, u64)>,
}

impl Readable {
    pub(super) async fn read(log: &FileLog, bytes: usize) -> Verdict<Self> {
        let mut readable = Self::default();
        let page = log.list(List::default()).await.map_err(|e| Violation(e.to_string()))?;
        for listed in page.streams {
            let name = listed.path.to_string();
            let mut stream = Stream {
                earliest: listed.head.earliest.position.get(),
                tail: listed.head.tail.position.get(),
                closed: listed.head.closed,
                ..Stream::default()
            };
            stream.read(log, &name, bytes).await?;
            readable.streams.insert(name, stream);
        }
        Ok(readable)
    }

    /// True if nothing is refused.
    pub(super) fn is_whole(&self) -> bool {
        self.streams.values().all(|stream| stream.lost.is_empty())
    }

    pub(super) fn lost(&self) -> Vec<(&String, &Vec<(u64, u64)>)> {
        let lost = self.streams.iter().filter(|(_, stream)| !stream.lost.is_empty());
        lost.map(|(name, stream)| (name, &stream.lost)).collect()
    }

    /// What each stream consists of, for people who read a failed run.
    pub(super) fn describe(&self) -> String {
        let stream = |(name, stream): (&String, &Stream)| {
            let closed = if stream.closed { " closed" } else { "" };
            let lost = if stream.lost.is_empty() { "" } else { " lost" };
            format!("{name} {}..{}{closed}{lost}", stream.earliest, stream.tail)
        };
        self.streams.iter().map(stream).collect::<Vec<_>>().join(", ")
    }

    /// Every message that can be read.
    pub(super) fn texts(&self) -> Texts {
        self.streams.values().flat_map(|stream| stream.messages.values().cloned()).collect()
    }

    /// What became of the messages of a stream from `start` on.
    pub(super) fn standing_of(&self, name: &str, start: usize, texts: &[String]) -> Presence {
        let Some(stream) = self.streams.get(name) else { return Presence::Gone };
        let mut presence = Presence::Whole;
        for (position, text) in (start as u64..).zip(texts) {
            match stream.messages.get(&position) {
                Some(found) if found == text => {}
                // Another stream, under this name.
                Some(_) => return Presence::Gone,
                None if position >= stream.tail => return Presence::Gone,
                None => presence = Presence::Refused,
            }
        }
        presence
    }

    /// True if every message that was written is there.
    pub(super) fn is_all_of(&self, written: &Written) -> bool {
        written.live.iter().all(|(name, content)| {
            let found = self.streams.get(name);
            found.is_some_and(|found| {
                found.messages.len() == content.messages[content.earliest..].len()
            })
        })
    }

    /// What was read is what was written, and what is missing is told.
    pub(super) fn judge(&self, written: &Written, expect: Expect) -> Verdict {
        for (name, stream) in &self.streams {
            if name.starts_with("after/") {
                continue;
            }
            stream.judge(name, written, expect)?;
        }
        for (name, content) in &written.live {
            let may_be_gone = expect.may_shorten || (expect.is_rebuilt && !content.has_own());
            let is_nameless = expect.is_rebuilt
                && self.streams.keys().any(|name| name.starts_with("lost+found/"));
            demand(may_be_gone || is_nameless || self.streams.contains_key(name), || {
                format!("{name} is gone, with {} messages", content.messages.len())
            })?;
        }
        Ok(())
    }

    /// Every message stands in packs and segments, and these are whole: so it must be there. A
    /// stream of which a pack holds messages has its name there, too.
    pub(super) fn judge_all_kept(&self, written: &Written, packed: &Texts) -> Verdict {
        let found = self.texts();
        for (name, content) in &written.live {
            let own = content.own();
            let lost = own.iter().find(|text| !found.contains(*text));
            demand(lost.is_none(), || format!("{name} has lost {lost:?}, which was not damaged"))?;
            // An older stream of that name may be back.
            let is_it = |stream: &&Stream| own.iter().any(|text| stream.holds(text));
            let Some(stream) = self.streams.get(name).filter(is_it) else {
                let is_named = own.iter().any(|text| packed.contains(text));
                demand(!is_named, || format!("{name} is gone, and a pack knows it"))?;
                continue;
            };
            demand(stream.tail == content.messages.len() as u64, || {
                format!("{name} ends at {}", stream.tail)
            })?;
            demand(stream.closed == content.closed, || format!("{name}: {}", stream.closed))?;
        }
        Ok(())
    }

    /// Nothing that could be read here is missing there.
    pub(super) fn is_part_of(&self, other: &Self) -> Verdict {
        for (name, stream) in &self.streams {
            let Some(found) = other.streams.get(name) else {
                return Err(Violation(format!("{name} could be read, and is gone")));
            };
            for (position, message) in &stream.messages {
                demand(found.messages.get(position) == Some(message), || {
                    format!("{name} at {position} could be read, and cannot any more")
                })?;
            }
        }
        Ok(())
    }
}

impl Stream {
    async fn read(&mut self, log: &FileLog, name: &str, bytes: usize) -> Verdict {
        let mut from = ReadFrom::Start;
        loop {
            match log.read(&address(name), from, bytes).await {
                Ok(chunk) => {
                    let positions = chunk.start.position.get()..;
                    for (position, message) in positions.zip(chunk.messages()) {
                        self.messages.insert(position, String::from_utf8_lossy(message).into());
                    }
                    from = ReadFrom::At(chunk.next);
                    if chunk.freshness != Freshness::Behind {
                        return Ok(());
                    }
                }
                Err(ReadError::Unavailable(Unavailable::Damaged(lost))) => {
                    let (start, end) = (lost.from.position.get(), lost.until.position.get());
                    demand(end > start, || format!("{name}: nothing is lost, but: {lost}"))?;
                    self.lost.push((start, end));
                    if end >= self.tail {
                        return Ok(());
                    }
                    from = ReadFrom::At(lost.until);
                }
                Err(error) => return Err(Violation(format!("reading {name}: {error}"))),
            }
        }
    }

    fn judge(&self, name: &str, written: &Written, expect: Expect) -> Verdict {
        let told: u64 = self.lost.iter().map(|(start, end)| end - start).sum();
        let all = self.tail - self.earliest;
        demand(self.messages.len() as u64 + told == all, || {
            format!("{name} has {all} messages, {} read, {told} refused", self.messages.len())
        })?;
        demand(self.lost.is_empty() || expect.may_refuse || expect.is_rebuilt, || {
            format!("{name}: refused {:?}", self.lost)
        })?;
        let namesakes = written
            .deleted
            .iter()
            .filter(|(other, _)| other == name && (expect.is_rebuilt || expect.may_shorten));
        let live = written.live.get(name).into_iter();
        let mut candidates = live.chain(namesakes.map(|(_, content)| content));
        if name.starts_with("lost+found/") {
            let all = written.live.values().chain(written.deleted.iter().map(|(_, one)| one));
            return demand(all.into_iter().any(|content| self.agrees(&content.messages)), || {
                format!("{name} holds what was never written: {:?}", self.messages)
            });
        }
        let is_known = candidates.any(|content| {
            let is_whole = self.tail == content.messages.len() as u64
                && self.earliest == content.earliest as u64
                && self.closed == content.closed;
            // A close may be lost, and is not invented.
            let may_be_closed = content.closed || !self.closed;
            let may_be = self.agrees(&content.messages) && may_be_closed;
            may_be && (is_whole || expect.may_shorten || expect.is_rebuilt)
        });
        demand(is_known, || format!("{name} holds what was not written: {self:?}"))
    }

    fn holds(&self, text: &str) -> bool {
        self.messages.values().any(|message| message == text)
    }

    /// True if every message that was read stands where it was written.
    fn agrees(&self, written: &[String]) -> bool {
        self.messages.iter().all(|(position, text)| written.get(*position as usize) == Some(text))
    }
}
