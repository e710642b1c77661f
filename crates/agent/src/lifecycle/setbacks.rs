//! Setbacks: how long work that failed waits before it is called for again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use wake::SubscriptionId;
use wire::StreamPath;

use super::Lease;
use crate::caps::{HEARTBEATS_PER_LEASE, SETBACK_FIRST, SETBACKS_MAX};

/// Failures in a row, for each piece of work. Clones share their counts.
///
/// A wake that is given back comes again at once. That is right for the first failure; for those
/// after it the runner waits with the wake in its hands, so that nobody else fails meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Setbacks(Arc<Mutex<BTreeMap<Piece, u32>>>);

/// What a wake is about, whichever wake it is: it is named by its first stream. One that fails
/// must not be forgotten because others go well.
type Piece = (SubscriptionId, Option<StreamPath>);

impl Setbacks {
    /// Counts a failure; how long to wait before the wake is given back. Never longer than a
    /// runner may be silent.
    pub(super) fn failed(&self, lease: &Lease) -> Duration {
        let (piece, mut counts) = (piece(lease), self.0.lock());
        if counts.len() >= SETBACKS_MAX && !counts.contains_key(&piece) {
            // Whichever is forgotten only fails once more without a wait.
            counts.pop_first();
        }
        let count = counts.entry(piece).or_default();
        let before = *count;
        *count = count.saturating_add(1);
        match before {
            0 => Duration::ZERO,
            _ => {
                let doubled = SETBACK_FIRST.saturating_mul(1 << (before - 1).min(16));
                doubled.min(lease.ttl / HEARTBEATS_PER_LEASE)
            }
        }
    }

    /// The work went well.
    pub(super) fn over(&self, lease: &Lease) {
        self.0.lock().remove(&piece(lease));
    }
}

fn piece(lease: &Lease) -> Piece {
    let first = lease.streams.first().map(|work| work.link.path.clone());
    (lease.subscription.clone(), first)
}

#[cfg(test)]
mod tests {
    use wake::{LinkKind, LinkView, Work};
    use wire::Offset;

    use super::*;

    fn lease(stream: &str) -> Lease {
        let link = LinkView { path: stream.parse().unwrap(), kind: LinkKind::Glob, acked: None };
        Lease {
            subscription: "s".parse().unwrap(),
            wake_id: "w".to_owned(),
            generation: 1,
            token: String::new(),
            streams: vec![Work { link, tail: Offset::START }],
            ttl: Duration::from_secs(15),
        }
    }

    #[test]
    fn the_wait_doubles_up_to_a_part_of_the_lease_and_ends_with_success() {
        let (setbacks, a, b) = (Setbacks::default(), lease("a"), lease("b"));
        let fail_while_others_go_well = |_| {
            setbacks.over(&b);
            setbacks.failed(&a).as_secs()
        };
        let waits: Vec<_> = (0..6).map(fail_while_others_go_well).collect();
        assert_eq!(waits, [0, 1, 2, 4, 5, 5]);
        setbacks.over(&a);
        assert_eq!(setbacks.failed(&a), Duration::ZERO);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let setbacks = Setbacks::default();
        for n in 0..SETBACKS_MAX + 10 {
            setbacks.failed(&lease(&format!("a/{n}")));
        }
        assert_eq!(setbacks.0.lock().len(), SETBACKS_MAX);
    }
}
