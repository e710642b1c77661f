//! The rows of a live query, in their order.

use std::{collections::BTreeMap, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Out;
use crate::{
    record::{Entry, Key},
    value::SortKey,
};

/// Rows as they are shown.
#[derive(Debug)]
pub(crate) enum Shown {
    /// In the order of their keys.
    ByKey(BTreeMap<Key, Arc<Entry>>),
    /// In the order that was asked for.
    Ordered { rows: BTreeMap<SortKey, Arc<Entry>>, places: Places },
}

impl Shown {
    pub(crate) fn by_key() -> Self {
        Self::ByKey(BTreeMap::new())
    }

    pub(crate) fn ordered() -> Self {
        Self::Ordered { rows: BTreeMap::new(), places: HashMap::default() }
    }

    /// Takes in what changed.
    pub(crate) fn apply(&mut self, outs: &[Out]) {
        match self {
            Self::ByKey(rows) if rows.is_empty() => {
                let entered = outs.iter().filter_map(|Out { change, .. }| {
                    change.new.as_ref().map(|entry| (change.key.clone(), entry.clone()))
                });
                *rows = entered.collect();
            }
            Self::ByKey(rows) => {
                for Out { change, .. } in outs {
                    match &change.new {
                        Some(entry) => drop(rows.insert(change.key.clone(), entry.clone())),
                        None => drop(rows.remove(&change.key)),
                    }
                }
            }
            Self::Ordered { rows, places } => {
                outs.iter().for_each(|out| move_row(rows, places, out));
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::ByKey(rows) => rows.len(),
            Self::Ordered { rows, .. } => rows.len(),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        match self {
            Self::ByKey(rows) => rows.get(key),
            Self::Ordered { rows, places } => rows.get(places.get(key)?),
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn DoubleEndedIterator<Item = &Arc<Entry>> + '_> {
        match self {
            Self::ByKey(rows) => Box::new(rows.values()),
            Self::Ordered { rows, .. } => Box::new(rows.values()),
        }
    }

    /// What it takes, beside the rows themselves.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::ByKey(rows) => rows.len() * (size_of::<Key>() + size_of::<usize>()),
            Self::Ordered { rows, places } => {
                let spilled: usize = rows.keys().map(SortKey::heap_bytes).sum();
                let place = size_of::<SortKey>();
                rows.len() * (place + size_of::<usize>())
                    + places.len() * (place + size_of::<Key>())
                    + 2 * spilled
            }
        }
    }
}

type Places = HashMap<Key, SortKey, FixedState>;

fn move_row(rows: &mut BTreeMap<SortKey, Arc<Entry>>, places: &mut Places, out: &Out) {
    let Out { change, place } = out;
    match (&change.new, place) {
        (None, _) => {
            if let Some(from) = places.remove(&change.key) {
                rows.remove(&from);
            }
        }
        (Some(entry), Some(to)) => {
            let from = places.insert(change.key.clone(), to.clone());
            if let Some(from) = from.filter(|from| from != to) {
                rows.remove(&from);
            }
            rows.insert(to.clone(), entry.clone());
        }
        (Some(entry), None) => {
            if let Some(at) = places.get(&change.key)
                && let Some(row) = rows.get_mut(at)
            {
                *row = entry.clone();
            }
        }
    }
}
