//! The rows of one collection: what is synced, what lies on it, and what both come to.

mod index;
mod overlay;

use std::{
    collections::{BTreeMap, btree_map},
    mem,
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use smol_str::SmolStr;

use self::{index::Indexes, overlay::Overlay};
pub(crate) use self::{index::Purpose, overlay::Patch};
use crate::{
    engine::{Change, Probe, Watch},
    ir::View,
    record::{Entry, Key, Record},
    transaction::TransactionId,
    value::Value,
};

/// Synced rows, and writes on them that are not confirmed yet.
#[derive(Debug, Default)]
pub(crate) struct Store {
    base: BTreeMap<Key, Arc<Entry>>,
    overlays: BTreeMap<Key, Overlay>,
    indexes: Indexes,
}

impl Store {
    /// A synced row.
    pub(crate) fn synced(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.base.get(key)
    }

    /// A row as the user sees it.
    pub(crate) fn visible(&self, key: &Key) -> Option<&Arc<Entry>> {
        match self.overlays.get(key) {
            Some(overlay) => overlay.shown(),
            None => self.base.get(key),
        }
    }

    /// A row with the writes of some transactions on it.
    pub(crate) fn partly(
        &self,
        key: &Key,
        is_on: &dyn Fn(TransactionId) -> bool,
    ) -> Option<Record> {
        let base = self.base.get(key);
        match self.overlays.get(key) {
            Some(overlay) => overlay.partly(base, is_on),
            None => base.map(|entry| entry.record.clone()),
        }
    }

    pub(crate) fn get(&self, key: &Key, view: View) -> Option<&Arc<Entry>> {
        match view {
            View::Visible => self.visible(key),
            View::Synced => self.synced(key),
        }
    }

    pub(crate) fn synced_keys(&self) -> impl Iterator<Item = &Key> {
        self.base.keys()
    }

    /// All rows, in the order of their keys.
    pub(crate) fn iter(&self, view: View) -> Box<dyn Iterator<Item = &Arc<Entry>> + '_> {
        self.between(view, (Bound::Unbounded, Bound::Unbounded))
    }

    /// The rows whose keys lie between these, in the order of their keys.
    fn between(
        &self,
        view: View,
        bounds: (Bound<&Key>, Bound<&Key>),
    ) -> Box<dyn Iterator<Item = &Arc<Entry>> + '_> {
        if view == View::Synced || self.overlays.is_empty() {
            return Box::new(self.base.range::<Key, _>(bounds).map(|(_, entry)| entry));
        }
        Box::new(self.merged(bounds))
    }

    pub(crate) fn len(&self, view: View) -> usize {
        if view == View::Synced || self.overlays.is_empty() {
            return self.base.len();
        }
        let shown = self.overlays.values().filter(|overlay| overlay.shown().is_some()).count();
        let covered = self.overlays.keys().filter(|key| self.base.contains_key(*key)).count();
        self.base.len() - covered + shown
    }

    /// Base and overlays in one order.
    fn merged<'a>(
        &'a self,
        bounds: (Bound<&Key>, Bound<&Key>),
    ) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        let mut base = self.base.range::<Key, _>(bounds).peekable();
        let mut overlays = self.overlays.range::<Key, _>(bounds).peekable();
        std::iter::from_fn(move || {
            loop {
                let takes_overlay = match (base.peek(), overlays.peek()) {
                    (None, None) => return None,
                    (Some(_), None) => false,
                    (None, Some(_)) => true,
                    (Some((key, _)), Some((covered, _))) => covered <= key,
                };
                if !takes_overlay {
                    return base.next().map(|(_, entry)| entry);
                }
                let (key, overlay) = overlays.next()?;
                base.next_if(|(covered, _)| *covered == key);
                if let Some(entry) = overlay.shown() {
                    return Some(entry);
                }
            }
        })
    }

    /// True if nothing is synced.
    pub(crate) fn is_bare(&self) -> bool {
        self.base.is_empty()
    }

    /// Puts rows, which are in the order of their keys, where nothing is synced.
    pub(crate) fn fill<'a>(&mut self, rows: impl Iterator<Item = &'a Arc<Entry>>) {
        self.base = rows.map(|entry| (entry.key.clone(), entry.clone())).collect();
    }

    /// Puts a synced row in its place; answers the row as it stands there, and the one before it.
    pub(crate) fn put(&mut self, mut entry: Entry) -> (Arc<Entry>, Option<Arc<Entry>>) {
        match self.base.entry(entry.key.clone()) {
            btree_map::Entry::Vacant(place) => (place.insert(Arc::new(entry)).clone(), None),
            btree_map::Entry::Occupied(mut place) => {
                // A row stands where it was written first.
                entry.meta.position = place.get().meta.position.or(entry.meta.position);
                let entry = Arc::new(entry);
                let old = place.insert(entry.clone());
                (entry, Some(old))
            }
        }
    }

    /// Removes a synced row; answers it.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Entry>> {
        self.base.remove(key)
    }

    /// Puts a synced row back as it was.
    pub(crate) fn restore(&mut self, key: &Key, entry: Option<Arc<Entry>>) {
        match entry {
            Some(entry) => drop(self.base.insert(key.clone(), entry)),
            None => drop(self.base.remove(key)),
        }
    }

    /// What the writes on a row come to, if there are any.
    pub(crate) fn covered(&self, key: &Key) -> Option<Option<&Arc<Entry>>> {
        if self.overlays.is_empty() {
            return None;
        }
        self.overlays.get(key).map(Overlay::shown)
    }

    /// Lays a write of a transaction on a row, which is synced as given.
    pub(crate) fn lay(
        &mut self,
        key: &Key,
        transaction: TransactionId,
        patch: Patch,
        synced: Option<&Arc<Entry>>,
    ) {
        let overlay = self.overlays.entry(key.clone()).or_default();
        overlay.lay(transaction, patch);
        overlay.refresh(key, synced);
    }

    /// Takes the writes of a transaction, from the given one on, off a row.
    pub(crate) fn lift(&mut self, key: &Key, transaction: TransactionId, keep: usize) {
        if let Some(overlay) = self.overlays.get_mut(key)
            && overlay.lift(transaction, keep)
        {
            self.overlays.remove(key);
        }
    }

    /// How many writes of a transaction lie on a row.
    pub(crate) fn laid(&self, key: &Key, transaction: TransactionId) -> usize {
        self.overlays.get(key).map_or(0, |overlay| overlay.laid(transaction))
    }

    /// Works out what a row shows, after something below or on it has changed.
    pub(crate) fn refresh(&mut self, key: &Key) {
        if let Some(overlay) = self.overlays.get_mut(key) {
            overlay.refresh(key, self.base.get(key));
        }
    }

    /// What a row shows on this synced one, after something has changed.
    pub(crate) fn settle(&mut self, key: &Key, synced: Option<&Arc<Entry>>) -> Option<Arc<Entry>> {
        if !self.overlays.is_empty()
            && let Some(overlay) = self.overlays.get_mut(key)
        {
            if overlay.is_stale(synced) {
                overlay.refresh(key, synced);
            }
            return overlay.shown().cloned();
        }
        synced.cloned()
    }

    /// Whether a view has indexes.
    pub(crate) fn is_indexed(&self, view: View) -> bool {
        self.indexes.has(view)
    }

    /// Keeps the indexes of a view up to date.
    pub(crate) fn index(&mut self, view: View, changes: &[Change]) {
        self.indexes.apply(view, changes);
    }

    /// Makes an index for what is looked for if that pays.
    pub(crate) fn consider(&mut self, watch: &Watch, purpose: Purpose) {
        let len = self.len(watch.view);
        if let Some(by) = self.indexes.wants(watch, purpose, len) {
            let mut indexes = mem::take(&mut self.indexes);
            indexes.build(watch.view, by, self.iter(watch.view), len);
            self.indexes = indexes;
        }
    }

    /// Calls `each` for all rows, or at least for those that are looked for.
    pub(crate) fn scan(&self, watch: &Watch, each: &mut dyn FnMut(&Arc<Entry>)) {
        if self.by_key(watch, each) || self.indexes.scan(watch, each) {
            return;
        }
        match watch.spans.iter().find(|span| span.column == Probe::Key) {
            Some(span) => {
                let bounds = span.bounds();
                bounds.into_iter().flat_map(|keys| self.between(watch.view, keys)).for_each(each);
            }
            None => self.iter(watch.view).for_each(each),
        }
    }

    fn by_key(&self, watch: &Watch, each: &mut dyn FnMut(&Arc<Entry>)) -> bool {
        let Some(lookup) = watch.lookups.iter().find(|lookup| lookup.is_by_key()) else {
            return false;
        };
        lookup.values.iter().filter_map(|key| self.get(key, watch.view)).for_each(each);
        true
    }

    /// Calls `each` for the rows in the order that is asked for, from the one after this value and
    /// key on, until it breaks off. Nothing if there is no index for that.
    pub(crate) fn ordered(
        &self,
        watch: &Watch,
        after: Option<(&Value, &Key)>,
        each: &mut dyn FnMut(&Arc<Entry>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        self.indexes.ordered(watch.view, watch.order.as_ref()?, after, each)
    }

    /// Keeps the index of an order for a running query, if there is one; true if there is.
    pub(crate) fn hold(&mut self, watch: &Watch) -> bool {
        watch.order.as_ref().is_some_and(|order| self.indexes.hold(watch.view, order))
    }

    /// The running query is gone.
    pub(crate) fn release(&mut self, watch: &Watch) {
        if let Some(order) = &watch.order {
            self.indexes.release(watch.view, order);
        }
    }

    /// Rows of the index of an order.
    pub(crate) fn index_rows(&self, watch: &Watch) -> usize {
        watch.order.as_ref().map_or(0, |order| self.indexes.len(watch.view, order))
    }

    /// The index by which rows are read, for people.
    pub(crate) fn explain(
        &self,
        watch: &Watch,
        columns: impl FnOnce() -> Vec<SmolStr>,
    ) -> Option<String> {
        self.indexes.used(watch).map(|by| by.explain(&columns()))
    }

    /// All indexes, for people.
    pub(crate) fn indexes(&self, columns: &[SmolStr]) -> Vec<String> {
        self.indexes.list(columns)
    }
}
