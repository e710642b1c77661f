//! The newest frames, kept in memory as they were written and shared by all readers.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::RwLock;

use super::place::Place;

/// A bounded window on the end of the log.
#[derive(Debug)]
pub(super) struct Hot {
    bytes_max: usize,
    // Held to look a frame up or push one.
    window: RwLock<Window>,
}

#[derive(Debug, Default)]
struct Window {
    frames: VecDeque<Frame>,
    bytes: usize,
}

#[derive(Debug)]
struct Frame {
    /// [`Place::sequence`] of its first byte.
    sequence: u64,
    bytes: Bytes,
}

impl Hot {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, window: RwLock::default() }
    }

    pub(super) fn push(&self, place: Place, bytes: Bytes) {
        let mut window = self.window.write();
        window.bytes += bytes.len();
        window.frames.push_back(Frame { sequence: place.sequence(), bytes });
        while window.bytes > self.bytes_max {
            let Some(oldest) = window.frames.pop_front() else { break };
            window.bytes -= oldest.bytes.len();
        }
    }

    /// The record at `place`, if it is still in the window.
    pub(super) fn get(&self, place: Place, length: u32) -> Option<Bytes> {
        let wanted = place.sequence();
        let window = self.window.read();
        let after = window.frames.partition_point(|frame| frame.sequence <= wanted);
        let frame = window.frames.get(after.checked_sub(1)?)?;
        let at = usize::try_from(wanted - frame.sequence).ok()?;
        let end = at.checked_add(length as usize)?;
        (end <= frame.bytes.len()).then(|| frame.bytes.slice(at..end))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::place::FileId, *};

    fn place(offset: u32) -> Place {
        Place { file: FileId::Segment(1), offset }
    }

    #[test]
    fn the_window_holds_the_newest_frames() {
        let hot = Hot::new(20);
        hot.push(place(64), Bytes::from_static(b"0123456789"));
        hot.push(place(74), Bytes::from_static(b"abcdefghij"));
        assert_eq!(hot.get(place(66), 3).unwrap(), "234");
        assert_eq!(hot.get(place(74), 10).unwrap(), "abcdefghij");
        assert_eq!(hot.get(place(80), 5), None);
        hot.push(place(84), Bytes::from_static(b"x"));
        assert_eq!(hot.get(place(66), 3), None);
        assert_eq!(hot.get(Place { file: FileId::Pack(1), offset: 84 }, 1), None);
    }
}
