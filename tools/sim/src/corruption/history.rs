//! The history that makes a directory: streams with packs, checkpoints and several segments.

use std::{collections::BTreeMap, time::Duration};

use log::{Append, AppendError, Closing, Create, Delete, Fork, Log, Outcome, file::FileLog};
use wire::{
    Address, ContentType, Epoch, Messages, Offset, Producer, ProducerSeq, ReadFrom, StreamPath,
};

use super::{
    Scene,
    judge::{Expect, Presence, Readable},
};
use crate::oracle::{Verdict, Violation};

/// Names that are used, some of them again and again.
const NAMES: u64 = 9;

/// Of messages that are written after a repair.
const LATER_BYTES: usize = 1_000;

/// Everything that was ever written, deleted streams included.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The stream that has each name now.
    pub(super) live: BTreeMap<String, Content>,
    /// Streams of each name that were deleted.
    pub(super) deleted: Vec<(String, Content)>,
}

/// The messages of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) messages: Vec<String>,
    /// Messages before this one were trimmed.
    pub(super) earliest: usize,
    /// Messages before this one are those of a fork's source.
    pub(super) inherited: usize,
    pub(super) closed: bool,
    /// Who writes to it. Each life of a name has another producer: one that came back from an
    /// older life must not answer for this one.
    producer: Option<String>,
    /// The newest append of that producer.
    sent: Option<Sent>,
}

/// An append that may be sent again.
#[derive(Clone, Debug)]
struct Sent {
    producer: Producer,
    closing: Closing,
    /// Where its messages stand.
    start: usize,
    texts: Vec<String>,
}

impl Written {
    /// What each stream consists of, for people who read a failed run.
    pub(super) fn describe(&self) -> String {
        let stream = |(name, content): (&String, &Content)| {
            let Content { messages, earliest, inherited, closed, .. } = content;
            let closed = if *closed { " closed" } else { "" };
            format!("{name} {earliest}..{inherited}..{}{closed}", messages.len())
        };
        self.live.iter().map(stream).collect::<Vec<_>>().join(", ")
    }

    /// The messages of all streams that are there.
    pub(super) fn live_texts(&self) -> impl Iterator<Item = &str> {
        let kept = self.live.values().flat_map(|content| &content.messages[content.earliest..]);
        kept.map(String::as_str)
    }

    /// True if it was ever written.
    pub(super) fn knows(&self, text: &str) -> bool {
        let deleted = self.deleted.iter().map(|(_, content)| content);
        let mut all = self.live.values().chain(deleted);
        let is_later = text.ends_with(&"z".repeat(LATER_BYTES));
        is_later || all.any(|content| content.messages.iter().any(|message| message == text))
    }
}

impl Content {
    /// Its own messages that are kept.
    pub(super) fn own(&self) -> &[String] {
        self.messages.get(self.inherited.max(self.earliest)..).unwrap_or_default()
    }

    /// True if it has messages of its own that are kept.
    pub(super) fn has_own(&self) -> bool {
        !self.own().is_empty()
    }

    fn offset(&self, position: usize) -> Offset {
        let bytes: usize = self.messages[..position].iter().map(String::len).sum();
        Offset::new(position as u64, bytes as u64)
    }
}

pub(super) fn address(name: &str) -> Address {
    name.parse::<StreamPath>().expect("a plain name").into()
}

fn refused(error: impl std::fmt::Display) -> Violation {
    Violation(format!("a sound log refused: {error}"))
}

/// Writes a history, and closes the log.
pub(super) async fn write(scene: &Scene) -> Verdict<Written> {
    let mut written = Written::default();
    let lives = scene.dice.between(1..=2);
    for life in 0..lives {
        let log = scene.open().await.map_err(refused)?;
        let steps = scene.dice.between(if scene.keeps_segments { 160..=220 } else { 40..=160 });
        for step in 0..steps {
            act(scene, &log, &mut written, life * 1_000 + step).await?;
            if scene.dice.percent(3) && !scene.keeps_segments {
                scene.sys.clock.sleep(Duration::from_secs(scene.dice.between(1..=90))).await;
            }
        }
        if scene.dice.percent(50) && !scene.keeps_segments {
            scene.sys.clock.sleep(Duration::from_secs(120)).await;
        }
        log.close().await;
    }
    Ok(written)
}

/// One request.
async fn act(scene: &Scene, log: &FileLog, written: &mut Written, step: u64) -> Verdict {
    let name = format!("s{}", scene.dice.between(0..=NAMES - 1));
    let content = written.live.get_mut(&name);
    match (content, scene.dice.between(0..=99)) {
        (None, 0..20) => fork(scene, log, written, &name).await,
        (None, _) => {
            let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
            match log.create(&address(&name), create).await {
                Ok(_) => {
                    let producer = scene.dice.percent(70).then(|| format!("writer-{step}"));
                    let content = Content { producer, ..Content::default() };
                    drop(written.live.insert(name, content));
                }
                // The name may belong to a stream that its forks still need.
                Err(log::CreateError::Gone(_)) => {}
                Err(error) => return Err(refused(error)),
            }
            Ok(())
        }
        (Some(content), 0..80) if content.closed => Ok(()),
        (Some(content), 0..80) => append(scene, log, &name, content, step).await,
        (Some(content), 80..88) => {
            let position = scene.dice.index(content.messages.len() + 1).max(content.earliest);
            let before = content.offset(position);
            let _ = log.trim(&address(&name), before).await.map_err(refused)?;
            content.earliest = position;
            Ok(())
        }
        (Some(_), percent) => {
            // An erase regroups everything.
            let erases = percent >= 94 && !scene.keeps_segments;
            let delete = if erases { Delete::Erase } else { Delete::Stream };
            delete_stream(log, written, &name, delete).await
        }
    }
}

async fn append(
    scene: &Scene,
    log: &FileLog,
    name: &str,
    content: &mut Content,
    step: u64,
) -> Verdict {
    let count = scene.dice.between(1..=3);
    let texts: Vec<String> = (0..count)
        .map(|number| {
            let pad = "x".repeat(scene.dice.magnitude(1..=900) as usize);
            format!("\"{name}:{step}:{number}:{pad}\"")
        })
        .collect();
    let closing = if scene.dice.percent(3) { Closing::Close } else { Closing::LeaveOpen };
    let sent = content.next_sent(scene, closing, &texts);
    let append = match &sent {
        Some(sent) => sent.append(),
        None => Append { closing, ..Append::messages(messages_of(&texts)) },
    };
    let done = log.append(&address(name), append).await.map_err(refused)?;
    crate::oracle::demand(done.outcome == Outcome::New, || format!("{name}: {sent:?} was new"))?;
    content.closed = closing == Closing::Close;
    content.sent = sent.or(content.sent.take());
    content.messages.extend(texts);
    Ok(())
}

fn messages_of(texts: &[String]) -> Messages {
    Messages::copied(texts.iter().map(String::as_bytes)).expect("a few messages")
}

impl Content {
    /// The next append of its producer, if that is to write now.
    fn next_sent(&self, scene: &Scene, closing: Closing, texts: &[String]) -> Option<Sent> {
        let id = self.producer.as_ref().filter(|_| scene.dice.percent(60))?;
        let seq = self.sent.as_ref().map_or(0, |sent| sent.producer.seq.get() + 1);
        let id = id.parse().expect("a plain id");
        let producer = Producer { id, epoch: Epoch::new(1), seq: ProducerSeq::new(seq) };
        Some(Sent { producer, closing, start: self.messages.len(), texts: texts.to_vec() })
    }
}

impl Sent {
    fn append(&self) -> Append {
        let messages = Append::messages(messages_of(&self.texts));
        Append { producer: Some(self.producer.clone()), closing: self.closing, ..messages }
    }
}

/// Sends the newest append of every producer again. What is there must not be stored twice, and
/// what is not there must not be taken for a repetition; how many were known.
pub(super) async fn send_again(
    log: &FileLog,
    written: &Written,
    found: &Readable,
    expect: Expect,
) -> Verdict<u64> {
    let must_be_known = expect == Expect::nothing() && found.is_all_of(written);
    let may_be_forgotten = expect.may_be_shorter || expect.is_rebuilt;
    let mut known = 0;
    for (name, content) in &written.live {
        let Some(sent) = &content.sent else { continue };
        let there = found.standing_of(name, sent.start, &sent.texts);
        let answer = log.append(&address(name), sent.append()).await;
        let is_right = match (&answer, there) {
            (Ok(done), there) if done.outcome == Outcome::Duplicate => {
                known += 1;
                there != Presence::Gone
            }
            // A producer that was forgotten cannot be told from one that begins.
            (Ok(_), Presence::Whole) => may_be_forgotten && sent.producer.seq.get() == 0,
            (Ok(_), _) => !must_be_known,
            // An older stream of that name may be back.
            (Err(AppendError::Closed(_)), there) => content.closed || there != Presence::Whole,
            (Err(AppendError::Unavailable(_)), _) => false,
            // What is forgotten is refused as a gap.
            (Err(_), _) => !must_be_known,
        };
        crate::oracle::demand(is_right, || {
            format!("{name}: sent again, {there:?}: {answer:?} to {:?}", sent.producer)
        })?;
    }
    Ok(known)
}

async fn fork(scene: &Scene, log: &FileLog, written: &mut Written, name: &str) -> Verdict {
    let sources: Vec<&String> = written.live.keys().collect();
    let Some(source) = scene.dice.pick(&sources) else { return Ok(()) };
    let from = &written.live[*source];
    let position = scene.dice.index(from.messages.len() + 1).max(from.earliest);
    scene.history.note(&format!("{name} is a fork of {source} at {position}"));
    let fork = Fork { offset: Some(from.offset(position)), ..Fork::of(address(source)) };
    let messages = from.messages[..position].to_vec();
    let earliest = from.earliest;
    let content = Content { messages, earliest, inherited: position, ..Content::default() };
    match log.fork(&address(name), fork).await {
        Ok(_) => drop(written.live.insert(name.to_owned(), content)),
        // The name may belong to a stream that its forks still need.
        Err(log::ForkError::Gone(_)) => {}
        Err(error) => return Err(refused(error)),
    }
    Ok(())
}

async fn delete_stream(
    log: &FileLog,
    written: &mut Written,
    name: &str,
    delete: Delete,
) -> Verdict {
    log.delete(&address(name), delete).await.map_err(refused)?;
    // An erase takes forks along, and a name of a stream with forks stays taken.
    let mut gone = Vec::new();
    for other in written.live.keys() {
        if log.head(&address(other)).await.is_err() {
            gone.push(other.clone());
        }
    }
    for name in gone {
        let content = written.live.remove(&name).unwrap_or_default();
        written.deleted.push((name, content));
    }
    Ok(())
}

/// A log that was damaged goes on: it takes writes, gives them back, and regroups.
pub(super) async fn write_more(scene: &Scene, log: &FileLog) -> Verdict {
    let name = address("after/repair");
    let _ = log.create(&name, Create::default()).await.map_err(refused)?;
    for number in 0..30 {
        let message =
            Messages::one(format!("{number}{}", "z".repeat(LATER_BYTES))).expect("one message");
        let _ = log.append(&name, Append::messages(message)).await.map_err(refused)?;
    }
    scene.sys.clock.sleep(Duration::from_secs(120)).await;
    let chunk = log.read(&name, ReadFrom::Start, usize::MAX).await.map_err(refused)?;
    let count = chunk.messages().count();
    crate::oracle::demand(count == 30, || format!("{count} of 30 new messages"))
}
