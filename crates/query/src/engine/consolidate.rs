//! Several things said of one key, said once.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Delta;
use crate::record::Key;

/// Keeps what the first said of before and the last of after, in the order of the first. What
/// came and went is dropped.
pub(super) fn consolidate(deltas: &mut Vec<Delta>) {
    if deltas.len() > 1 {
        match deltas.len() {
            2..=8 => few(deltas),
            _ => many(deltas),
        }
    }
    deltas.retain(|delta| delta.old.is_some() || delta.new.is_some());
}

fn few(deltas: &mut Vec<Delta>) {
    let mut next = 1;
    while next < deltas.len() {
        match deltas[..next].iter().position(|earlier| earlier.key == deltas[next].key) {
            Some(earlier) => deltas[earlier].new = deltas.remove(next).new,
            None => next += 1,
        }
    }
}

fn many(deltas: &mut Vec<Delta>) {
    let mut places: HashMap<Key, usize, FixedState> =
        HashMap::with_capacity_and_hasher(deltas.len(), FixedState::default());
    let mut kept: Vec<Delta> = Vec::with_capacity(deltas.len());
    for delta in deltas.drain(..) {
        let place = *places.entry(delta.key.clone()).or_insert(kept.len());
        match kept.get_mut(place) {
            Some(earlier) => earlier.new = delta.new,
            None => kept.push(delta),
        }
    }
    *deltas = kept;
}
