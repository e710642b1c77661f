//! Learning where messages stand, and what can be concluded from it.

use log::Incarnation;
use wire::Offset;

use super::{Fate, Oracle, Verdict, Violation, demand, submitted::tag_of};

impl Oracle {
    /// Somebody was shown `bytes` at `at`: from now on they must always be there.
    pub(super) fn learn(&mut self, id: Incarnation, at: Offset, bytes: &[u8]) -> Verdict {
        let owner = self.owner(id, at.position.get());
        let (number, index) = self.identify(owner, at, bytes)?;
        let place = self.submitted[number].place_from(at, index).ok_or_else(|| {
            Violation(format!("message {index} of append {number} stands at {at}: too early"))
        })?;
        self.place(owner, number, place)
    }

    /// The append that a message is of.
    fn identify(&self, owner: Incarnation, at: Offset, bytes: &[u8]) -> Verdict<(usize, usize)> {
        let stream = &self.streams[&owner];
        // The first message of a fork may be part of a message, so its tag tells nothing.
        let first = self.submitted[stream.creation].messages.first();
        if at == stream.own_start() && first.is_some_and(|first| first == bytes) {
            return Ok((stream.creation, 0));
        }
        let sent = |(number, index): &(usize, usize)| {
            let append = self.submitted.get(*number)?;
            append.messages.get(*index).filter(|message| **message == bytes)
        };
        let tag = tag_of(bytes).filter(|tag| sent(tag).is_some());
        tag.ok_or_else(|| {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
            Violation(format!("{stream} holds bytes at {at} that nobody sent: {shown:?}"))
        })
    }

    /// An append is known to stand at `place`, all of it.
    pub(super) fn place(&mut self, owner: Incarnation, number: usize, place: Offset) -> Verdict {
        let stream = &self.streams[&owner];
        let append = &self.submitted[number];
        let here = append.incarnation == Some(owner) || stream.creation == number;
        demand(here, || format!("{stream} holds append {number}, sent to {}", append.address))?;
        demand(append.fate != Fate::Never, || {
            format!("{stream} holds append {number} at {place}: it was refused or rolled back")
        })?;
        if let Some(known) = append.place {
            return demand(known == place, || {
                format!("{stream} holds append {number} twice: at {known} and {place}")
            });
        }
        let first = place.position.get();
        let positions = first..first + append.messages.len() as u64;
        if let Some((position, other)) = stream.placed.range(positions.clone()).next() {
            let what = format!("append {number} stands at {position}, where append {other} stood");
            return Err(Violation(format!("{stream}: {what}")));
        }
        let end = append.end(place);
        self.submitted[number].place = Some(place);
        self.submitted[number].fate = Fate::Stored;
        let stream = self.stream_mut(owner);
        stream.placed.extend(positions.map(|position| (position, number)));
        stream.reach(end)
    }
}
