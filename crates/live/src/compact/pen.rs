//! The pen of a compaction: appends a snapshot where the stream ended, or only measures it.

use log::{Append, AppendError, Outcome};
use state::Control;
use sys::Sys;
use wire::{
    Epoch, Messages, Offset, Position, Producer, ProducerId, ProducerSeq,
    caps::{APPEND_MESSAGES_MAX, MESSAGE_BYTES_MAX},
};

use super::{CompactError, Size};
use crate::{caps::SNAPSHOT_APPEND_BYTES, retry::Retry, stream::Stream};

/// Who the stream knows compactions by.
const PRODUCER: &str = "compaction";

/// Writes messages, as many at once as may be, each append right behind the one before.
pub(super) struct Pen {
    ink: Option<Ink>,
    /// Where the stream ended, and so what the snapshot stands for.
    tail: Offset,
    batch: Vec<Box<[u8]>>,
    batch_bytes: usize,
    written: Size,
}

/// What it takes to append.
struct Ink {
    stream: Stream,
    sys: Sys,
    epoch: Epoch,
    seq: ProducerSeq,
    /// Where the next append must begin.
    expected: Offset,
}

impl Pen {
    /// A pen that measures.
    pub(super) fn dry(tail: Offset) -> Self {
        Self { ink: None, tail, batch: Vec::new(), batch_bytes: 0, written: Size::default() }
    }

    /// A pen that appends to the stream, which ends at `tail`.
    pub(super) fn wet(stream: &Stream, sys: &Sys, tail: Offset) -> Self {
        // Above the epochs of earlier compactions, and nobody else's: the time, and chance.
        let epoch = sys.clock.unix_ms().get().saturating_mul(1_000) + sys.chance.below(1_000);
        let ink = Ink {
            stream: stream.clone(),
            sys: sys.clone(),
            epoch: Epoch::new(epoch),
            seq: ProducerSeq::FIRST,
            expected: tail,
        };
        Self { ink: Some(ink), ..Self::dry(tail) }
    }

    /// Writes a message that stands at `position`.
    pub(super) async fn write(
        &mut self,
        position: Position,
        message: &[u8],
    ) -> Result<(), CompactError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(CompactError::TooLarge { position });
        }
        let is_full = self.batch_bytes + message.len() > SNAPSHOT_APPEND_BYTES
            || self.batch.len() == APPEND_MESSAGES_MAX;
        if is_full && !self.batch.is_empty() {
            self.flush().await?;
        }
        self.batch_bytes += message.len();
        self.batch.push(message.into());
        Ok(())
    }

    /// Ends the snapshot; answers how large it is.
    pub(super) async fn finish(mut self) -> Result<Size, CompactError> {
        let end = Control::SnapshotEnd.encode_at(self.tail);
        self.write(self.tail.position, end.as_bytes()).await?;
        self.flush().await?;
        Ok(self.written)
    }

    async fn flush(&mut self) -> Result<(), CompactError> {
        let batch = std::mem::take(&mut self.batch);
        self.written.messages += batch.len() as u64;
        self.written.bytes += std::mem::take(&mut self.batch_bytes) as u64;
        let Some(ink) = &mut self.ink else { return Ok(()) };
        let messages = Messages::copied(batch.iter().map(|message| &**message));
        // Each of them and all together were measured.
        ink.append(messages.map_err(|_| CompactError::TooLarge { position: self.tail.position })?)
            .await
    }
}

impl Ink {
    /// Appends until it is known what came of it: a repeated append is recognised by its number.
    async fn append(&mut self, messages: Messages) -> Result<(), CompactError> {
        let id: ProducerId = PRODUCER.parse().map_err(|_| CompactError::Moved)?;
        let end = self.expected.after(messages.len() as u64, messages.data().len() as u64);
        let (retry, mut failures) = (Retry::default(), 0);
        loop {
            let producer = Producer { id: id.clone(), epoch: self.epoch, seq: self.seq };
            let append = Append {
                producer: Some(producer),
                expected: Some(self.expected),
                ..Append::messages(messages.clone())
            };
            match self.stream.log.append(&self.stream.address, append).await {
                // Another compaction has this number; the expected offset tells whether it is
                // at work.
                Ok(appended) if appended.outcome == Outcome::Duplicate && failures == 0 => {
                    self.claim(self.epoch)?;
                }
                // It was not our own append that came through, or somebody has written since.
                Ok(appended) if appended.outcome == Outcome::Duplicate && appended.tail != end => {
                    return Err(CompactError::Moved);
                }
                Ok(_) => break,
                Err(AppendError::Fenced(fenced)) => self.claim(fenced.current)?,
                Err(error) if error.is_retryable() && failures < retry.attempts_max => {
                    failures += 1;
                    self.sys.clock.sleep(retry.pause(failures, &self.sys.chance)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        (self.expected, self.seq) = (end, self.seq.next());
        Ok(())
    }

    /// Takes a number above one that is taken; too late if something was written already.
    fn claim(&mut self, taken: Epoch) -> Result<(), CompactError> {
        if self.seq != ProducerSeq::FIRST {
            return Err(CompactError::Moved);
        }
        self.epoch = Epoch::new(taken.get() + 1);
        Ok(())
    }
}
