//! The history that makes a directory: streams with packs, checkpoints and several segments.

use std::{collections::BTreeMap, time::Duration};

use log::{Append, Closing, Create, Delete, Fork, Log, file::FileLog};
use wire::{Address, ContentType, Messages, Offset, ReadFrom, StreamPath};

use super::Scene;
use crate::oracle::{Verdict, Violation};

/// Names that are used, some of them again and again.
const NAMES: u64 = 9;

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
}

impl Content {
    /// True if it has messages of its own that are kept.
    pub(super) fn has_own(&self) -> bool {
        self.messages.len() > self.inherited.max(self.earliest)
    }
}

impl Content {
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
        for step in 0..scene.dice.between(40..=160) {
            act(scene, &log, &mut written, life * 1_000 + step).await?;
            if scene.dice.percent(3) {
                scene.sys.clock.sleep(Duration::from_secs(scene.dice.between(1..=90))).await;
            }
        }
        if scene.dice.percent(50) {
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
                Ok(_) => drop(written.live.insert(name, Content::default())),
                // The name may belong to a stream that its forks still need.
                Err(log::CreateError::Gone(_)) => {}
                Err(error) => return Err(refused(error)),
            }
            Ok(())
        }
        (Some(content), 0..80) => append(scene, log, &name, content, step).await,
        (Some(content), 80..88) => {
            let position = scene.dice.index(content.messages.len() + 1).max(content.earliest);
            let before = content.offset(position);
            let _ = log.trim(&address(&name), before).await.map_err(refused)?;
            content.earliest = position;
            Ok(())
        }
        (Some(_), percent) => {
            let delete = if percent < 94 { Delete::Stream } else { Delete::Erase };
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
    let messages = Messages::copied(texts.iter().map(String::as_bytes)).expect("a few messages");
    let append = Append { closing: Closing::LeaveOpen, ..Append::messages(messages) };
    let _ = log.append(&address(name), append).await.map_err(refused)?;
    content.messages.extend(texts);
    Ok(())
}

async fn fork(scene: &Scene, log: &FileLog, written: &mut Written, name: &str) -> Verdict {
    let sources: Vec<&String> = written.live.keys().collect();
    let Some(source) = scene.dice.pick(&sources) else { return Ok(()) };
    let from = &written.live[*source];
    let position = scene.dice.index(from.messages.len() + 1).max(from.earliest);
    let fork = Fork { offset: Some(from.offset(position)), ..Fork::of(address(source)) };
    let messages = from.messages[..position].to_vec();
    let content = Content { messages, earliest: from.earliest, inherited: position };
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
        let message = Messages::one(format!("{number}{}", "z".repeat(1_000))).expect("one message");
        let _ = log.append(&name, Append::messages(message)).await.map_err(refused)?;
    }
    scene.sys.clock.sleep(Duration::from_secs(120)).await;
    let chunk = log.read(&name, ReadFrom::Start, usize::MAX).await.map_err(refused)?;
    let count = chunk.messages().count();
    crate::oracle::demand(count == 30, || format!("{count} of 30 new messages"))
}
