//! The rows of one value, in the order of their keys.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use crate::record::{Entry, Key};

/// Mostly there is one.
#[derive(Debug)]
pub(super) enum Bucket {
    One(Arc<Entry>),
    Many(BTreeMap<Key, Arc<Entry>>),
}

impl Bucket {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(rows) => rows.len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.after(None)
    }

    /// The rows whose keys come after this one.
    pub(super) fn after(&self, key: Option<&Key>) -> impl Iterator<Item = &Arc<Entry>> {
        let (one, many) = match self {
            Self::One(entry) => {
                (Some(entry).filter(|own| key.is_none_or(|key| own.key > *key)), None)
            }
            Self::Many(rows) => {
                let from = key.map_or(Unbounded, Excluded);
                (None, Some(rows.range((from, Unbounded)).map(|(_, entry)| entry)))
            }
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Puts a row in its place; true if there was none of its key.
    pub(super) fn put(&mut self, entry: &Arc<Entry>) -> bool {
        match self {
            Self::One(own) if own.key == entry.key => {
                *own = entry.clone();
                false
            }
            Self::One(own) => {
                let both = [own.clone(), entry.clone()];
                *self = Self::Many(both.map(|entry| (entry.key.clone(), entry)).into());
                true
            }
            Self::Many(rows) => rows.insert(entry.key.clone(), entry.clone()).is_none(),
        }
    }

    /// Takes a row out; whether it was there, and whether none is left.
    pub(super) fn remove(&mut self, key: &Key) -> (bool, bool) {
        match self {
            Self::One(own) => (own.key == *key, own.key == *key),
            Self::Many(rows) => (rows.remove(key).is_some(), rows.is_empty()),
        }
    }
}
