//! The keeper: writes watermarks into their stream, many at a time, and anew when most of what
//! stands there does not count any more.

use std::sync::{Arc, Mutex};

use log::{Append, AppendError, Create, Delete, Freshness, Log, ReadError, Unavailable};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use wire::{Address, ContentType, Messages, ReadFrom, caps::CHUNK_BYTES_DEFAULT};

use super::marks::{Mark, Marks};
use crate::{
    OpenError,
    caps::{LEAVING_MAX, MARKS_PER_MESSAGE_MAX, MARKS_WRITTEN_MIN},
};

/// A stream that leaves the index.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) mark: Mark,
    pub(super) reply: oneshot::Sender<Result<(), Unavailable>>,
}

#[derive(Debug)]
pub(super) struct Keeper {
    log: Arc<dyn Log>,
    address: Address,
    /// Watermarks that stand in the stream, however often.
    written: usize,
    /// Whether some of the stream cannot be read, so that it is better written anew.
    is_damaged: bool,
}

/// A message of the stream.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    marks: Vec<Mark>,
}

impl Keeper {
    /// Opens the stream and reads it. One that cannot be read for good begins anew: then each
    /// stream is looked at once more, which is better than none.
    pub(super) async fn open(
        log: Arc<dyn Log>,
        address: Address,
    ) -> Result<(Self, Marks), OpenError> {
        let error = match Self::read(log.clone(), address.clone()).await {
            Err(error) if !error.is_retryable() => error,
            read => return read,
        };
        tracing::warn!(%error, %address, "watermarks cannot be read, and are begun anew");
        match log.delete(&address, Delete::Erase).await {
            Ok(()) => Self::read(log, address).await,
            Err(why) => {
                tracing::warn!(%why, %address, "watermarks that cannot be read cannot be erased");
                Err(error)
            }
        }
    }

    async fn read(log: Arc<dyn Log>, address: Address) -> Result<(Self, Marks), OpenError> {
        let _ = log.create(&address, creation()).await?;
        let mut keeper = Self { log, address, written: 0, is_damaged: false };
        let (mut marks, mut from) = (Marks::default(), ReadFrom::Start);
        let mut skipped = None;
        loop {
            let chunk = match keeper.log.read(&keeper.address, from, CHUNK_BYTES_DEFAULT).await {
                Ok(chunk) => chunk,
                // Streams whose watermarks stood there are open. All others are not.
                Err(ReadError::Unavailable(Unavailable::Damaged(damaged)))
                    if skipped.is_none_or(|at| damaged.until > at) =>
                {
                    tracing::warn!(%damaged, "watermarks are damaged and passed over");
                    keeper.is_damaged = true;
                    skipped = Some(damaged.until);
                    from = ReadFrom::At(damaged.until);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for message in chunk.messages() {
                match serde_json::from_slice::<Told>(message) {
                    Ok(told) => {
                        keeper.written += told.marks.len();
                        told.marks.into_iter().for_each(|mark| marks.set(mark));
                    }
                    // Its streams are looked at once more, which does no harm.
                    Err(error) => {
                        let address = &keeper.address;
                        tracing::warn!(%error, %address, "watermarks cannot be read");
                    }
                }
            }
            if chunk.freshness != Freshness::Behind {
                return Ok((keeper, marks));
            }
            from = ReadFrom::At(chunk.next);
        }
    }

    pub(super) async fn run(
        mut self,
        marks: Arc<Mutex<Marks>>,
        mut asked: mpsc::Receiver<Leaving>,
    ) {
        let mut group = Vec::new();
        while asked.recv_many(&mut group, LEAVING_MAX).await > 0 {
            let leaving: Vec<Mark> = group.iter().map(|leaving| leaving.mark).collect();
            let lasts = self.write(&leaving).await.map(|_| ());
            if lasts.is_ok() {
                let mut marks = marks.lock().expect("no panic while held");
                leaving.iter().for_each(|mark| marks.set(*mark));
            }
            for Leaving { reply, .. } in group.drain(..) {
                let _ = reply.send(lasts.clone());
            }
            let count = marks.lock().expect("no panic while held").len();
            if self.is_damaged || self.written > MARKS_WRITTEN_MIN.max(2 * count) {
                self.compact(&marks).await;
            }
        }
    }

    /// Appends watermarks. Without a producer: the same fact twice is one fact.
    async fn write(&mut self, marks: &[Mark]) -> Result<(), Unavailable> {
        let told = Told { marks: marks.to_vec() };
        let text = serde_json::to_vec(&told).expect("plain data can be written");
        let messages = Messages::one(text).expect("a bounded message that is not empty");
        let append = Append::messages(messages);
        let mut appended = self.log.append(&self.address, append.clone()).await;
        if matches!(appended, Err(AppendError::NotFound(_))) {
            // Another process could not read the stream, and has begun it anew.
            let _ = self.log.create(&self.address, creation()).await;
            appended = self.log.append(&self.address, append).await;
        }
        match appended {
            Ok(_) => self.written += marks.len(),
            Err(AppendError::Unavailable(why)) => return Err(why),
            Err(other) => return Err(Unavailable::Poisoned(other.to_string())),
        }
        Ok(())
    }

    /// Writes all that counts, then forgets what stood before. A crash in between leaves both,
    /// and what another process wrote meanwhile is at worst looked at again.
    async fn compact(&mut self, marks: &Mutex<Marks>) {
        let Ok(head) = self.log.head(&self.address).await else { return };
        let (before, mut last) = (self.written, None);
        loop {
            let part = {
                let marks = marks.lock().expect("no panic while held");
                marks.part(last, MARKS_PER_MESSAGE_MAX)
            };
            last = part.last().copied();
            if last.is_none() {
                break;
            }
            if let Err(why) = self.write(&part).await {
                tracing::warn!(%why, "watermarks could not be compacted, which is tried again");
                return;
            }
        }
        if self.log.trim(&self.address, head.tail).await.is_ok() {
            self.written -= before;
            self.is_damaged = false;
        }
    }
}

fn creation() -> Create {
    Create { content_type: Some(ContentType::json()), ..Create::default() }
}
