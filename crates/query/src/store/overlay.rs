//! Writes that are not confirmed yet, on the row they were made to.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    record::{Entry, Key, Meta, Origin, Record, Shape},
    transaction::TransactionId,
    value::Value,
};

/// What a write does to a row.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    /// The row is this.
    Insert(Record),
    /// These columns are other values; all else stays what it is, whoever changes it meanwhile.
    Update(Box<[(usize, Value)]>, Arc<Shape>),
    /// There is no row.
    Delete,
}

/// All writes on one row, in the order of their transactions, and what they come to.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    patches: SmallVec<[(TransactionId, Patch); 1]>,
    shown: Option<Arc<Entry>>,
    /// The synced row that is shown with the writes on it; none if they have changed since.
    shown_on: Option<Option<Arc<Entry>>>,
}

impl Overlay {
    pub(super) fn shown(&self) -> Option<&Arc<Entry>> {
        self.shown.as_ref()
    }

    pub(super) fn lay(&mut self, transaction: TransactionId, patch: Patch) {
        let at = self.patches.partition_point(|(own, _)| *own <= transaction);
        self.patches.insert(at, (transaction, patch));
        self.shown_on = None;
    }

    pub(super) fn laid(&self, transaction: TransactionId) -> usize {
        self.patches.iter().filter(|(own, _)| *own == transaction).count()
    }

    /// Takes off all but the first `keep` writes of a transaction; true if nothing is left.
    pub(super) fn lift(&mut self, transaction: TransactionId, keep: usize) -> bool {
        let mut seen = 0;
        self.shown_on = None;
        self.patches.retain(|(own, _)| {
            seen += usize::from(*own == transaction);
            *own != transaction || seen <= keep
        });
        self.patches.is_empty()
    }

    /// Whether it must be refreshed to show all writes on this synced row.
    pub(super) fn is_stale(&self, base: Option<&Arc<Entry>>) -> bool {
        match (&self.shown_on, base) {
            (Some(Some(own)), Some(base)) => !Arc::ptr_eq(own, base),
            (Some(None), None) => false,
            _ => true,
        }
    }

    /// The synced row with all writes on it.
    pub(super) fn refresh(&mut self, key: &Key, base: Option<&Arc<Entry>>) {
        let mut record = base.map(|entry| entry.record.clone());
        for (_, patch) in &self.patches {
            record = match (patch, record) {
                (Patch::Insert(inserted), _) => Some(inserted.clone()),
                // A patch that does not fit the row any more changes nothing.
                (Patch::Update(columns, shape), Some(record)) => {
                    Some(record.with(columns, shape).unwrap_or(record))
                }
                (Patch::Update(..), None) | (Patch::Delete, _) => None,
            };
        }
        let position = base.and_then(|entry| entry.meta.position);
        let meta = Meta { position, is_pending: true, origin: Origin::Local };
        self.shown_on = Some(base.cloned());
        self.shown = record.map(|record| Arc::new(Entry { key: key.clone(), record, meta }));
    }
}
