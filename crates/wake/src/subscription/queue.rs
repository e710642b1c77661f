//! The queue: streams with work that nobody was called to, in the order in which they came.

use std::collections::BTreeMap;

use wire::StreamPath;

/// Each stream once. The order is not stored: after a restart all begin to wait together.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    turns: BTreeMap<StreamPath, u64>,
    order: BTreeMap<u64, StreamPath>,
    next: u64,
}

impl Queue {
    /// Puts a stream at the end, unless it waits already.
    pub(super) fn join(&mut self, path: &StreamPath) {
        if !self.turns.contains_key(path) {
            self.turns.insert(path.clone(), self.next);
            self.order.insert(self.next, path.clone());
            self.next += 1;
        }
    }

    pub(super) fn leave(&mut self, path: &StreamPath) {
        if let Some(turn) = self.turns.remove(path) {
            self.order.remove(&turn);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(super) fn by_turn(&self) -> impl Iterator<Item = &StreamPath> {
        self.order.values()
    }

    pub(super) fn by_name(&self) -> impl Iterator<Item = &StreamPath> {
        self.turns.keys()
    }
}

/// Two queues are equal if the same streams wait: whose turn it is follows from nothing stored.
impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        self.by_name().eq(other.by_name())
    }
}

impl Eq for Queue {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_again_waits_again() {
        let [a, b, c]: [StreamPath; 3] = ["a", "b", "c"].map(|path| path.parse().unwrap());
        let mut queue = Queue::default();
        [&c, &a, &b, &c].into_iter().for_each(|path| queue.join(path));
        assert!(queue.by_turn().eq([&c, &a, &b]));
        queue.leave(&c);
        queue.leave(&c);
        queue.join(&c);
        assert!(queue.by_turn().eq([&a, &b, &c]) && queue.by_name().eq([&a, &b, &c]));
        [&a, &b, &c].into_iter().for_each(|path| queue.leave(path));
        assert!(queue.is_empty() && queue.order.is_empty());
    }
}
