//! A session that is read as it grows, also through the absence of its server.

use std::{collections::HashSet, sync::Arc, time::Duration};

use agent::rows::{Chunk, Message};
use live::Row;
use log::{Freshness, Log, ReadError};
use sessions::SessionId;
use state::{Body, Place, Places};
use sys::{Clock, Sys};
use wire::{Address, Offset, Position, ReadFrom, caps::CHUNK_BYTES_DEFAULT};

use super::{LOOK_EVERY, talk::Talk};
use crate::{
    failure::Failure,
    session::{Entry, Window, change},
};

/// Reads a session.
pub(super) struct Follower {
    clock: Clock,
    log: Arc<dyn Log>,
    address: Address,
    next: Option<Offset>,
    /// Of a session that was compacted, rows stand elsewhere than they lie.
    places: Places,
    away: Option<Absence>,
}

/// A server that does not answer.
#[derive(Clone, Copy)]
struct Absence {
    since: Duration,
    /// When to look for it again.
    due: Duration,
    /// One lost answer is no absence yet.
    is_told: bool,
}

/// What came of waiting.
pub(super) enum Heard {
    More,
    /// The server does not answer any more.
    Left,
    /// It still does not.
    Away {
        since: Duration,
        why: String,
    },
    /// It answers again.
    Back,
}

/// How much of a session was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// There is more before it.
    Newest,
}

impl Follower {
    pub(super) fn new(sys: &Sys, log: Arc<dyn Log>, session: &SessionId) -> Self {
        let address = Address::from(session.path().clone());
        let (clock, places) = (sys.clock.clone(), Places::default());
        Self { clock, log, address, next: None, places, away: None }
    }

    /// Reads the end of the session, and says whether that was all of it.
    pub(super) async fn catch_up(&mut self, talk: &mut Talk) -> Result<Extent, Failure> {
        if self.log.capabilities().read_back {
            return self.open_window(talk).await.map_err(Failure::refused);
        }
        while self.read(talk).await.map_err(Failure::refused)? == Freshness::Behind {}
        Ok(Extent::Whole)
    }

    /// Waits for more, and reads it.
    pub(super) async fn next(&mut self, talk: &mut Talk) -> Result<Heard, Failure> {
        if let Some(absence) = self.away {
            return self.look(absence, talk).await;
        }
        let before = self.next;
        match self.hear(talk).await {
            Ok(Freshness::Closed) if self.next == before => {
                Err(Failure::refused("the session is closed; nothing can be said in it any more"))
            }
            Ok(_) => Ok(Heard::More),
            Err(error) if error.is_retryable() => {
                let now = self.clock.elapsed();
                self.away = Some(Absence { since: now, due: now + LOOK_EVERY, is_told: false });
                Ok(Heard::More)
            }
            Err(error) => Err(Failure::refused(error)),
        }
    }

    /// Looks whether the server is back.
    async fn look(&mut self, absence: Absence, talk: &mut Talk) -> Result<Heard, Failure> {
        let Absence { since, due, is_told } = absence;
        self.clock.sleep(due.saturating_sub(self.clock.elapsed())).await;
        match self.read(talk).await {
            Ok(_) => {
                self.away = None;
                Ok(if is_told { Heard::Back } else { Heard::More })
            }
            Err(error) if error.is_retryable() => {
                let due = self.clock.elapsed() + LOOK_EVERY;
                self.away = Some(Absence { since, due, is_told: true });
                let why = error.to_string();
                Ok(if is_told { Heard::Away { since, why } } else { Heard::Left })
            }
            Err(error) => Err(Failure::refused(error)),
        }
    }

    async fn hear(&mut self, talk: &mut Talk) -> Result<Freshness, ReadError> {
        if let Some(next) = self.next {
            self.log.tail(&self.address, next).await?;
        }
        self.read(talk).await
    }

    /// Tells what is new in the newest part of the session.
    async fn open_window(&mut self, talk: &mut Talk) -> Result<Extent, ReadError> {
        let window = Window::open_with_work(&*self.log, &self.address).await?;
        let entries = window.entries();
        let messages = entries.iter().filter_map(|entry| change(entry, Message::NAME));
        let whole: HashSet<String> = messages.map(|(key, _)| key.to_owned()).collect();
        let known = self.places.covered().get();
        for Entry { stands, body, .. } in entries.into_iter().filter(|it| it.stands >= known) {
            // The pieces of a message that is there may be cut off; it has all of them.
            if !is_piece_of(&body, &whole) {
                talk.take(stands, body);
            }
        }
        self.next = Some(window.next());
        self.places = Places::from(window.next().position);
        Ok(if window.is_whole() { Extent::Whole } else { Extent::Newest })
    }

    async fn read(&mut self, talk: &mut Talk) -> Result<Freshness, ReadError> {
        let from = self.next.map_or(ReadFrom::Start, ReadFrom::At);
        let chunk = match self.log.read(&self.address, from, CHUNK_BYTES_DEFAULT).await {
            // It was compacted while we were away; what we have not seen is in what is left.
            Err(ReadError::Trimmed(_)) if self.log.capabilities().read_back => {
                self.open_window(talk).await?;
                return Ok(Freshness::UpToDate);
            }
            read => read?,
        };
        for (lies, message) in (chunk.start.position.get()..).zip(chunk.messages()) {
            let event = state::decode(message);
            match self.places.place(Position::new(lies), &event) {
                Place::At(stands) | Place::Row(stands) => talk.take(stands.get(), event.body),
                Place::Anew(_) | Place::Known => {}
            }
        }
        self.next = Some(chunk.next);
        Ok(chunk.freshness)
    }
}

fn is_piece_of(body: &Body<'_>, messages: &HashSet<String>) -> bool {
    let Body::Change(change) = body else { return false };
    if change.type_name != Chunk::NAME {
        return false;
    }
    let row = change.value.and_then(|value| serde_json::from_str::<Chunk>(value.get()).ok());
    row.and_then(|row| row.message_id).is_some_and(|message| messages.contains(&message))
}

#[cfg(test)]
mod tests {
    use log::{Append, Create, MemoryLog};
    use serde_json::{Value, json};
    use wire::{ContentType, Messages};

    use super::*;
    use crate::chat::talk::News;

    fn said(key: &str, headers: &Value) -> Value {
        let value = json!({
            "id": key, "role": "user", "content": key, "actorId": "ada", "createdAt": "t",
        });
        json!({ "type": "message", "key": key, "value": value, "headers": headers })
    }

    async fn append(log: &dyn Log, address: &Address, message: &Value) -> Offset {
        let message = Messages::one(message.to_string()).unwrap();
        log.append(address, Append::messages(message)).await.unwrap().tail
    }

    fn told(talk: &mut Talk) -> Vec<String> {
        let texts = std::iter::from_fn(|| talk.news()).map(|news| match news {
            News::Said { text, .. } => text,
            other => panic!("{other:?}"),
        });
        texts.collect()
    }

    #[tokio::test]
    async fn a_session_that_is_compacted_behind_a_reader_is_told_once() {
        let sys = Sys::real();
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let session: SessionId = "s".parse().unwrap();
        let address = Address::from(session.path().clone());
        let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = log.create(&address, create).await.unwrap();
        let insert = json!({ "operation": "insert" });
        append(&*log, &address, &said("a", &insert)).await;

        let (mut follower, mut talk) =
            (Follower::new(&sys, log.clone(), &session), Talk::default());
        assert_eq!(follower.catch_up(&mut talk).await.unwrap(), Extent::Whole);
        assert_eq!(told(&mut talk), ["a"]);

        // While it looks elsewhere something is said, and all of it is compacted.
        let tail = append(&*log, &address, &said("b", &insert)).await;
        append(&*log, &address, &json!({ "headers": { "control": "snapshot-start" } })).await;
        for (position, key) in ["a", "b"].into_iter().enumerate() {
            let stood =
                json!({ "operation": "upsert", "headwater.position": position.to_string() });
            append(&*log, &address, &said(key, &stood)).await;
        }
        append(&*log, &address, &json!({ "headers": { "control": "snapshot-end" } })).await;
        append(&*log, &address, &said("c", &insert)).await;
        log.trim(&address, tail).await.unwrap();
        assert!(matches!(follower.next(&mut talk).await, Ok(Heard::More)));
        assert_eq!(told(&mut talk), ["b", "c"]);
    }
}
