//! Everything that anybody tried to store, and what became of it.

use bytes::Bytes;
use log::Incarnation;
use wire::{Address, Messages, Offset};

use super::Oracle;

/// Messages that somebody sent in one append, create or fork.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    pub(crate) address: Address,
    /// None for the first messages of a stream that is being made.
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) messages: Vec<Bytes>,
    pub(crate) closes: bool,
    pub(crate) fate: Fate,
    /// Where its first message stands, once that is known.
    pub(crate) place: Option<Offset>,
    /// The tail when it was first sent: it cannot stand before.
    pub(crate) not_before: Offset,
    /// Tries that are under way or were never answered.
    pub(crate) unsettled: usize,
}

/// Whether messages are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Sent, and not answered.
    Maybe,
    /// Acknowledged or shown.
    Stored,
    /// Refused, or dropped by recovery.
    Never,
}

impl Submitted {
    /// The messages as the log takes them.
    pub(crate) fn run(&self) -> Messages {
        Messages::copied(self.messages.iter().map(Bytes::as_ref)).expect("messages are small")
    }

    /// Where message `index` stands if the first one stands at `place`.
    pub(super) fn offset_of(&self, place: Offset, index: usize) -> Offset {
        place.after(index as u64, self.bytes_before(index))
    }

    pub(super) fn end(&self, place: Offset) -> Offset {
        self.offset_of(place, self.messages.len())
    }

    /// Where the first message stands if message `index` stands at `offset`; none if there is no
    /// room for those before it.
    pub(super) fn place_from(&self, offset: Offset, index: usize) -> Option<Offset> {
        let position = offset.position.get().checked_sub(index as u64)?;
        let byte = offset.byte.get().checked_sub(self.bytes_before(index))?;
        Some(Offset::new(position, byte))
    }

    /// The same, from where the last message ends.
    pub(super) fn place_from_end(&self, end: Offset) -> Option<Offset> {
        self.place_from(end, self.messages.len())
    }

    fn bytes_before(&self, index: usize) -> u64 {
        self.messages[..index].iter().map(|message| message.len() as u64).sum()
    }

    /// A try was refused for certain.
    pub(super) fn refused(&mut self) {
        self.unsettled -= 1;
        if self.unsettled == 0 && self.fate == Fate::Maybe {
            self.fate = Fate::Never;
        }
    }
}

impl Oracle {
    /// Notes messages before they are sent for the first time: `partial` as it is, and then one of
    /// each size beyond the tag that makes it unique.
    pub(super) fn submit(
        &mut self,
        address: &Address,
        incarnation: Option<Incarnation>,
        partial: Option<Bytes>,
        sizes: &[usize],
        closes: bool,
    ) -> usize {
        let number = self.submitted.len();
        let tagged = (usize::from(partial.is_some())..).zip(sizes);
        let tagged = tagged.map(|(index, size)| message(number, index, *size));
        self.submitted.push(Submitted {
            address: address.clone(),
            incarnation,
            messages: partial.into_iter().chain(tagged).collect(),
            closes,
            fate: Fate::Never,
            place: None,
            not_before: incarnation.map_or(Offset::START, |id| self.streams[&id].tail),
            unsettled: 0,
        });
        number
    }

    pub(crate) fn submitted(&self, number: usize) -> &Submitted {
        &self.submitted[number]
    }
}

/// Bytes of the tag that each message begins with.
pub(crate) const TAG_BYTES: usize = 10;

/// A message that says which append it is of, and which of its messages.
fn message(number: usize, index: usize, size: usize) -> Bytes {
    let mut text = format!("{number:06}.{index:02}:").into_bytes();
    let filler = (number * 31 + index * 7) as u8;
    text.extend((0..size).map(|at| b'a' + filler.wrapping_add(at as u8) % 26));
    text.into()
}

/// The append and message that a tag speaks of.
pub(super) fn tag_of(message: &[u8]) -> Option<(usize, usize)> {
    let tag = std::str::from_utf8(message.get(..TAG_BYTES)?).ok()?;
    let (number, index) = tag.strip_suffix(':')?.split_once('.')?;
    Some((number.parse().ok()?, index.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_name_the_append_and_the_message() {
        assert_eq!(tag_of(&message(123, 4, 0)), Some((123, 4)));
        assert_eq!(tag_of(&message(999_999, 99, 50)), Some((999_999, 99)));
        assert_eq!(tag_of(b"short"), None);
    }
}
