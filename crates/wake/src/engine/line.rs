//! The line of deliveries: few at a time, in the order in which they were decided.

use std::collections::{HashSet, VecDeque};

use crate::SubscriptionId;

/// Wakes whose delivery waits or is under way. What waits is looked up again when its turn comes:
/// a wake that was over by then is not delivered.
#[derive(Debug)]
pub(super) struct Line {
    waiting: VecDeque<(SubscriptionId, u64)>,
    /// By the ids of their wakes.
    under_way: HashSet<String>,
    under_way_max: usize,
}

impl Line {
    pub(super) fn new(under_way_max: usize) -> Self {
        Self { waiting: VecDeque::new(), under_way: HashSet::new(), under_way_max }
    }

    pub(super) fn join(&mut self, id: SubscriptionId, generation: u64) {
        self.waiting.push_back((id, generation));
    }

    /// Whose turn it is, if there is room.
    pub(super) fn next(&mut self) -> Option<(SubscriptionId, u64)> {
        if self.under_way.len() >= self.under_way_max {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Starts a delivery; false if it is under way already.
    pub(super) fn start(&mut self, wake_id: &str) -> bool {
        self.under_way.insert(wake_id.to_owned())
    }

    pub(super) fn ended(&mut self, wake_id: &str) {
        self.under_way.remove(wake_id);
    }

    /// Forgets what waits; what is under way goes on.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}
