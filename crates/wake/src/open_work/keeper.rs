//! The keeper: writes watermarks into their stream, many at a time, and anew when most of what
//! stands there does not count any more.

use std::sync::{Arc, Mutex};

use log::{Append, AppendError, Create, Freshness, Log, Unavailable};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use wire::{Address, ContentType, Messages, Offset, ReadFrom, caps::CHUNK_BYTES_DEFAULT};

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
}

/// A message of the stream.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    marks: Vec<Mark>,
}

impl Keeper {
    pub(super) async fn open(
        log: Arc<dyn Log>,
        address: Address,
    ) -> Result<(Self, Marks), OpenError> {
        let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = log.create(&address, create).await?;
        let (mut marks, mut written) = (Marks::default(), 0);
        let mut from = ReadFrom::Start;
        loop {
            let chunk = log.read(&address, from, CHUNK_BYTES_DEFAULT).await?;
            for message in chunk.messages() {
                match serde_json::from_slice::<Told>(message) {
                    Ok(told) => {
                        written += told.marks.len();
                        told.marks.into_iter().for_each(|mark| marks.set(mark));
                    }
                    // Its streams are looked at once more, which does no harm.
                    Err(error) => tracing::warn!(%error, %address, "watermarks cannot be read"),
                }
            }
            if chunk.freshness != Freshness::Behind {
                return Ok((Self { log, address, written }, marks));
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
            let compacted = {
                let marks = marks.lock().expect("no panic while held");
                let is_long = self.written > MARKS_WRITTEN_MIN.max(2 * marks.len());
                is_long.then(|| marks.iter().collect::<Vec<_>>())
            };
            if let Some(marks) = compacted {
                self.compact(&marks).await;
            }
        }
    }

    /// Appends watermarks; where they end. Without a producer: the same fact twice is one fact.
    async fn write(&mut self, marks: &[Mark]) -> Result<Offset, Unavailable> {
        let told = Told { marks: marks.to_vec() };
        let text = serde_json::to_vec(&told).expect("plain data can be written");
        let messages = Messages::one(text).expect("a bounded message that is not empty");
        let appended = self.log.append(&self.address, Append::messages(messages)).await;
        let appended = appended.map_err(|error| match error {
            AppendError::Unavailable(why) => why,
            other => Unavailable::Poisoned(other.to_string()),
        })?;
        self.written += marks.len();
        Ok(appended.tail)
    }

    /// Writes all that counts, then forgets what stood before. A crash in between leaves both,
    /// and what another process wrote meanwhile is at worst looked at again.
    async fn compact(&mut self, marks: &[Mark]) {
        let Ok(head) = self.log.head(&self.address).await else { return };
        let before = self.written;
        for part in marks.chunks(MARKS_PER_MESSAGE_MAX) {
            if let Err(why) = self.write(part).await {
                tracing::warn!(%why, "watermarks could not be compacted, which is tried again");
                return;
            }
        }
        if self.log.trim(&self.address, head.tail).await.is_ok() {
            self.written -= before;
        }
    }
}
