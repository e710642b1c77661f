//! A window on the end of a session: where to begin to read so that all is seen that was written
//! from a position on, and nothing more than that.

use live::Since;
use log::{Chunk, ReadError};
use state::{Body, Control, decode};
use wire::{Offset, Position, ReadFrom};

use super::Session;
use crate::caps::WINDOW_READ_BYTES;

/// Where to begin to read a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Which life of the stream it is in.
    pub incarnation: u64,
    /// The first message to be read.
    pub offset: Offset,
    /// All before this position is left out.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Among {
    /// What was written by whoever writes to the session.
    Own,
    /// A snapshot that came to its end: all that was before it is in it.
    Snapshot,
    /// A snapshot that came to no end: it counts for nothing.
    Unfinished,
}

impl Session {
    /// Where to begin to read in order to see all that was written from this position on.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn window(&self, from: Position) -> Result<Window, ReadError> {
        let (mut place, mut among) = (ReadFrom::Last, Among::Own);
        let mut found = None;
        loop {
            let chunk = self.log.read(&self.address, place, WINDOW_READ_BYTES).await?;
            let ended = chunk.runs.is_empty() || chunk.start == Offset::START;
            let step = back_through(&chunk, from, &mut among, &mut found);
            let incarnation = chunk.incarnation.get();
            match (step, ended) {
                (Some(offset), _) => return Ok(Window { incarnation, offset, covered: from }),
                (None, true) => {
                    let offset = found.unwrap_or(chunk.start);
                    return Ok(Window { incarnation, offset, covered: from });
                }
                (None, false) => place = ReadFrom::Before(chunk.start),
            }
        }
    }
}

/// Goes through a chunk from behind; tells where the window begins, if that is in it. `found` is
/// the first message that is known to be in the window.
fn back_through(
    chunk: &Chunk,
    from: Position,
    among: &mut Among,
    found: &mut Option<Offset>,
) -> Option<Offset> {
    let mut at = chunk.start;
    let mut messages = Vec::new();
    for message in chunk.messages() {
        messages.push((at, message));
        at = at.after(1, message.len() as u64);
    }
    for (offset, message) in messages.into_iter().rev() {
        let seen = look(offset.position, message);
        let stands = match (*among, seen) {
            (Among::Unfinished, Seen::Start) => {
                *among = Among::Own;
                continue;
            }
            (Among::Unfinished, _) => continue,
            (Among::Snapshot, Seen::Start) => return Some(found.unwrap_or(offset)),
            (Among::Own, Seen::End) => {
                *among = Among::Snapshot;
                *found = Some(offset);
                continue;
            }
            (Among::Own, Seen::Copy(_)) => {
                *among = Among::Unfinished;
                continue;
            }
            (_, Seen::Copy(stands)) => stands,
            (..) => offset.position,
        };
        if stands < from {
            return Some(found.unwrap_or(at));
        }
        *found = Some(offset);
    }
    None
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
