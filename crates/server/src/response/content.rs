//! Content: bytes at hand, or messages that are joined while they are sent.

use std::{ops::Range, vec};

use bytes::{BufMut as _, Bytes, BytesMut};
use wire::{ContentType, Messages, json};

/// Bytes that are joined at a time: few enough for the allocator to have them at hand.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of a message that is sent from where it is stored rather than copied.
const SHARED_BYTES_MIN: usize = 4 * 1024;
/// What stands around a message in an array: a mark before it, and the end of the array.
const MARKS_BYTES: usize = 2;

const _: () = assert!(SHARED_BYTES_MIN + MARKS_BYTES <= PIECE_BYTES);

/// What an answer says, before it is sent.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Whole(Bytes),
    Joined(Pieces),
}

/// Messages on their way out, joined piece by piece.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    runs: vec::IntoIter<Messages>,
    /// The run under way, and how many of its messages were taken.
    run: Messages,
    taken: usize,
    /// What stands before the next message of a JSON array; none if the bytes are plain.
    mark: Option<u8>,
    /// Bytes to send as they are before anything else.
    shared: Option<Bytes>,
    bytes_left: usize,
}

impl Content {
    /// The messages of a stream: one JSON array, or bytes end to end.
    pub(crate) fn of(content_type: &ContentType, runs: Vec<Messages>) -> Self {
        let is_json = content_type.is_json();
        let len = joined_len(&runs, is_json);
        match runs.as_slice() {
            [only] if !is_json => Self::Whole(only.data().clone()),
            runs if is_json && len <= PIECE_BYTES => Self::Whole(json::join(runs)),
            _ => Self::Joined(Pieces {
                runs: runs.into_iter(),
                run: Messages::none(),
                taken: 0,
                mark: is_json.then_some(b'['),
                shared: None,
                bytes_left: len,
            }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Joined(pieces) => pieces.bytes_left,
        }
    }

    pub(crate) fn pieces(self) -> impl Iterator<Item = Bytes> {
        let (whole, joined) = match self {
            Self::Whole(bytes) => (Some(bytes), None),
            Self::Joined(pieces) => (None, Some(pieces)),
        };
        whole.into_iter().chain(joined.into_iter().flatten())
    }
}

fn joined_len(runs: &[Messages], is_json: bool) -> usize {
    let bytes: usize = runs.iter().map(|run| run.data().len()).sum();
    let messages: usize = runs.iter().map(Messages::len).sum();
    let brackets_and_commas = 2 + messages.saturating_sub(1);
    if is_json { bytes + brackets_and_commas } else { bytes }
}

impl Pieces {
    pub(crate) fn bytes_left(&self) -> usize {
        self.bytes_left
    }

    /// Copies small messages until the piece is full, or until one comes that is better shared.
    fn fill(&mut self, piece: &mut BytesMut) {
        while let Some(part) = self.next_part() {
            let is_shared = part.len() >= SHARED_BYTES_MIN;
            if !is_shared && piece.len() + part.len() + MARKS_BYTES > PIECE_BYTES {
                return;
            }
            piece.extend(self.mark);
            self.mark = self.mark.map(|_| b',');
            self.taken = self.part_end();
            if is_shared {
                self.shared = Some(self.run.data().slice(part));
                return;
            }
            piece.put_slice(&self.run.data()[part]);
        }
        if self.mark.take().is_some() {
            piece.put_u8(b']');
        }
    }

    /// Where the next message of an array is, or the next run of plain bytes.
    fn next_part(&mut self) -> Option<Range<usize>> {
        while self.taken == self.run.len() {
            (self.run, self.taken) = (self.runs.next()?, 0);
        }
        Some(self.run.start(self.taken)..self.run.start(self.part_end()))
    }

    fn part_end(&self) -> usize {
        if self.mark.is_some() { self.taken + 1 } else { self.run.len() }
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.bytes_left == 0 {
            return None;
        }
        let mut piece = self.shared.take();
        if piece.is_none() {
            let mut joined = BytesMut::with_capacity(self.bytes_left.min(PIECE_BYTES));
            self.fill(&mut joined);
            piece = if joined.is_empty() { self.shared.take() } else { Some(joined.freeze()) };
        }
        let piece = piece?;
        self.bytes_left -= piece.len();
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of these lengths, in runs of two.
    fn runs(lengths: &[usize]) -> Vec<Messages> {
        let message = |(index, len): (usize, &usize)| vec![b'0' + (index % 10) as u8; *len];
        let messages: Vec<Vec<u8>> = lengths.iter().enumerate().map(message).collect();
        let runs = messages.chunks(2).map(|run| run.iter().map(Vec::as_slice));
        runs.map(|run| Messages::copied(run).unwrap()).collect()
    }

    #[track_caller]
    fn check(lengths: &[usize]) {
        let runs = runs(lengths);
        let plain =
            Bytes::from(runs.iter().map(Messages::data).cloned().collect::<Vec<_>>().concat());
        let rows = [(ContentType::octet_stream(), plain), (ContentType::json(), json::join(&runs))];
        for (content_type, expected) in rows {
            let content = Content::of(&content_type, runs.clone());
            assert_eq!(content.len(), expected.len());
            let pieces: Vec<Bytes> = content.pieces().collect();
            assert!(pieces.concat() == expected, "{lengths:?}");
            let run = runs.iter().map(|run| run.data().len()).max();
            let largest = run.unwrap_or(0).max(PIECE_BYTES);
            assert!(pieces.iter().all(|piece| piece.len() <= largest));
        }
    }

    #[test]
    fn pieces_are_the_whole() {
        check(&[]);
        check(&[1]);
        check(&[1, 2, 3]);
        check(&[100_000]);
        check(&[100_000, 1, 1, 200_000, 20_000, 3]);
        check(&[1; 1000]);
        check(&[300; 1000]);
        check(&[SHARED_BYTES_MIN; 20]);
        check(&[SHARED_BYTES_MIN - 1; 20]);
        check(&[PIECE_BYTES - 1, 1]);
        check(&[PIECE_BYTES / 4 - 1; 9]);
    }
}
