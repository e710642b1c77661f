//! A window on the end of a session: where to begin to read so that all is seen that was written
//! from a position on, and nothing more than that.

use live::Since;
use log::{Chunk, ReadError};
use state::{Body, Control, decode};
use wire::{Offset, Position, ReadFrom};

use super::{AgentHead, Session};
use crate::caps::WINDOW_READ_BYTES;

/// Where to begin to read a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Which life of the stream it is in.
    pub incarnation: u64,
    /// The first message to be read.
    pub offset: Offset,
    /// All before this position may be left out.
    pub covered: Position,
}

impl Window {
    /// The same, for a database.
    pub(crate) const fn since(self) -> Since {
        Since { life: self.incarnation, offset: self.offset, position: self.covered }
    }
}

/// What a message is to a reader that comes from behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// It stands where it lies.
    Own,
    /// A compaction wrote it again; it stands here.
    Copy(Position),
    /// A snapshot of a compaction begins.
    Start,
    /// A snapshot of a compaction ends.
    End,
}

/// Whose messages a reader that comes from behind is among.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Among {
    /// What was written by whoever writes to the session.
    #[default]
    Own,
    /// A snapshot that came to its end: all that was before it is in it.
    Snapshot,
    /// A snapshot that came to no end: it counts for nothing, unless a fork begins with it.
    Unfinished,
}

impl Session {
    /// Where to begin to read in order to see all that was written from this position on.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn window(&self, from: Position) -> Result<Window, ReadError> {
        self.walk(from, Some(from), u64::MAX).await
    }

    /// Where an agent begins to read that is to go on: where its conversation begins, but no more
    /// than so many bytes before the end of the stream, unless something is under way that needs
    /// more. None if it was told nothing yet.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn window_of(
        &self,
        agent: &AgentHead,
        bytes_max: u64,
    ) -> Result<Option<Window>, ReadError> {
        let Some(from) = agent.window() else { return Ok(None) };
        let at_least = agent.window_at_least();
        self.walk(from, at_least, bytes_max).await.map(Some)
    }

    /// Goes back to `from`, but not for more than so many bytes unless `at_least` is further back.
    async fn walk(
        &self,
        mut from: Position,
        at_least: Option<Position>,
        bytes_max: u64,
    ) -> Result<Window, ReadError> {
        let (mut place, mut back) = (ReadFrom::Last, Back::default());
        let mut end = None;
        loop {
            let chunk = self.log.read(&self.address, place, WINDOW_READ_BYTES).await?;
            let ended = chunk.runs.is_empty() || chunk.start == Offset::START;
            let end = end.get_or_insert(chunk.next).byte.get();
            let step = back.through(&chunk, from);
            let incarnation = chunk.incarnation.get();
            match (step, ended) {
                (Some(offset), _) => return Ok(Window { incarnation, offset, covered: from }),
                (None, true) => {
                    let offset = back.cut.or(back.found).unwrap_or(chunk.start);
                    return Ok(Window { incarnation, offset, covered: from });
                }
                (None, false) => place = ReadFrom::Before(chunk.start),
            }
            if end.saturating_sub(chunk.start.byte.get()) >= bytes_max
                && let Some((offset, reached)) = back.found.zip(back.reached)
            {
                from = from.max(at_least.map_or(reached, |at_least| at_least.min(reached)));
                if from == reached {
                    return Ok(Window { incarnation, offset, covered: from });
                }
            }
        }
    }
}

/// A walk through a session from behind.
#[derive(Debug, Default)]
struct Back {
    among: Among,
    /// The first message that is known to be in the window.
    found: Option<Offset>,
    /// Where that one stands, if it says anything.
    reached: Option<Position>,
    /// The begin of a snapshot without an end, as long as nothing is known to stand before it: then
    /// a fork was made inside of it, and it stands for all that the source had.
    cut: Option<Offset>,
}

impl Back {
    /// Goes through a chunk; tells where the window begins, if that is in it.
    fn through(&mut self, chunk: &Chunk, from: Position) -> Option<Offset> {
        let mut at = chunk.start;
        let mut messages = Vec::new();
        for message in chunk.messages() {
            messages.push((at, message));
            at = at.after(1, message.len() as u64);
        }
        for (offset, message) in messages.into_iter().rev() {
            let seen = look(offset.position, message);
            self.cut = None;
            let stands = match (self.among, seen) {
                (Among::Unfinished, Seen::Start) => {
                    (self.among, self.cut) = (Among::Own, Some(offset));
                    continue;
                }
                (Among::Unfinished, _) => continue,
                (Among::Snapshot, Seen::Start) => return Some(self.found.unwrap_or(offset)),
                (Among::Own, Seen::End) => {
                    (self.among, self.found) = (Among::Snapshot, Some(offset));
                    continue;
                }
                (Among::Own, Seen::Copy(_)) => {
                    self.among = Among::Unfinished;
                    continue;
                }
                (_, Seen::Copy(stands)) => stands,
                (..) => offset.position,
            };
            if stands < from {
                return Some(self.found.unwrap_or(at));
            }
            (self.found, self.reached) = (Some(offset), Some(stands));
        }
        None
    }
}

fn look(lies: Position, message: &[u8]) -> Seen {
    let event = decode(message);
    match (event.body, event.headers.position.filter(|stands| *stands < lies)) {
        (Body::Control(Control::SnapshotStart), _) => Seen::Start,
        (Body::Control(Control::SnapshotEnd), _) => Seen::End,
        (_, Some(stands)) => Seen::Copy(stands),
        (_, None) => Seen::Own,
    }
}
