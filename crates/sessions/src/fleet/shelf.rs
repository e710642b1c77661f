//! The shelf: sessions whose agent was ended with its work undone, since it only waits for somebody
//! else or finds nothing to do. They are left alone until they move, or for a while.

use std::{collections::HashMap, time::Duration};

use log::Incarnation;
use wire::Offset;

use crate::{
    SessionId,
    caps::{SHELF_PAUSE_FIRST, SHELF_PAUSE_MAX, SHELVED_MAX},
};

/// How far a session had come, and in which life of its stream.
pub(super) type Place = (Offset, Incarnation);

/// Sessions that are left alone.
#[derive(Debug, Default)]
pub(super) struct Shelf(HashMap<SessionId, Left>);

#[derive(Debug)]
struct Left {
    place: Place,
    /// How often it was left alone without anything happening meanwhile.
    times: u32,
    /// Tells this time from others.
    ticket: u64,
    /// Whether its time is over.
    is_due: bool,
}

impl Shelf {
    /// Leaves a session alone; tells for how long, unless there is no room.
    pub(super) fn put(&mut self, id: &SessionId, place: Place, ticket: u64) -> Option<Duration> {
        let times = self.0.get(id).map_or(0, |left| left.times + 1);
        if self.0.len() >= SHELVED_MAX && times == 0 {
            return None;
        }
        self.0.insert(id.clone(), Left { place, times, ticket, is_due: false });
        let doubled = SHELF_PAUSE_FIRST.checked_mul(1 << times.min(16));
        Some(doubled.unwrap_or(SHELF_PAUSE_MAX).min(SHELF_PAUSE_MAX))
    }

    /// Whether a session that was seen at this place is to be left alone. One that has moved is
    /// not.
    pub(super) fn keeps(&mut self, id: &SessionId, seen: Place) -> bool {
        let Some(left) = self.0.get(id) else { return false };
        let has_moved = seen.1 != left.place.1 || seen.0 > left.place.0;
        if has_moved {
            self.0.remove(id);
            return false;
        }
        !left.is_due
    }

    /// A time is over: tells whether the session is to be looked at again.
    pub(super) fn is_over(&mut self, id: &SessionId, ticket: u64) -> bool {
        match self.0.get_mut(id) {
            Some(left) if left.ticket == ticket => {
                left.is_due = true;
                true
            }
            _ => false,
        }
    }

    /// It has nothing left to do.
    pub(super) fn forget(&mut self, id: &SessionId) {
        self.0.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(position: u64) -> Place {
        (Offset::new(position, position), Incarnation::new(1))
    }

    #[test]
    fn a_session_is_left_alone_for_longer_each_time_until_it_moves() {
        let (mut shelf, id) = (Shelf::default(), "a".parse().unwrap());
        assert!(!shelf.keeps(&id, place(1)));
        assert_eq!(shelf.put(&id, place(3), 1), Some(SHELF_PAUSE_FIRST));
        assert!(shelf.keeps(&id, place(2)) && shelf.keeps(&id, place(3)), "that is old news");
        assert!(!shelf.is_over(&id, 7), "another time");
        assert!(shelf.is_over(&id, 1) && !shelf.keeps(&id, place(3)));
        assert_eq!(shelf.put(&id, place(5), 2), Some(SHELF_PAUSE_FIRST * 2));
        assert!(!shelf.keeps(&id, place(6)), "it has moved");
        assert_eq!(shelf.put(&id, place(8), 3), Some(SHELF_PAUSE_FIRST));
        for ticket in 4..40 {
            assert!(shelf.put(&id, place(8), ticket).unwrap() <= SHELF_PAUSE_MAX);
        }
    }
}
