//! Which rows are wanted of a shape that is loaded on demand.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use live::{Key, Row};
use query::{CollectionId, Database, QueryError, QueryId, Record, Subset, Tick, Write};

/// The subsets that queries hold, and the rows that are shown for them.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Holds one row at a time, to see which subsets it is in.
    scratch: Database,
    collection: Option<CollectionId>,
    subsets: Vec<(Subset, QueryId)>,
    shown: HashSet<Key, FixedState>,
}

impl Wanted {
    pub(crate) fn new<R: Row>() -> Self {
        let mut scratch = Database::new();
        // A database without collections has none of this name.
        let collection = scratch.collection(R::NAME, R::schema()).ok();
        Self { scratch, collection, subsets: Vec::new(), shown: HashSet::default() }
    }

    /// From here on a subset is wanted.
    pub(crate) fn add<R: Row>(&mut self, subset: &Subset) -> Result<(), QueryError> {
        if self.subsets.iter().any(|(own, _)| own == subset) {
            return Ok(());
        }
        // A window is known to the server alone: here, whatever might be in it is wanted.
        let mut whole = subset.clone();
        whole.limit = None;
        whole.order_by.clear();
        let query = self.scratch.live(&whole.query(R::NAME))?;
        self.subsets.push((subset.clone(), query));
        Ok(())
    }

    pub(crate) fn remove(&mut self, subset: &Subset) {
        if let Some(place) = self.subsets.iter().position(|(own, _)| own == subset) {
            self.scratch.drop_query(self.subsets.swap_remove(place).1);
        }
    }

    pub(crate) fn subsets(&self) -> impl Iterator<Item = Subset> {
        self.subsets.iter().map(|(subset, _)| subset.clone())
    }

    /// Whether a row is in one of the subsets.
    pub(crate) fn wants<R: Row>(&mut self, row: &R) -> bool {
        let Some(collection) = self.collection.filter(|_| !self.subsets.is_empty()) else {
            return false;
        };
        let mut write = |write| {
            self.scratch.apply(Tick { writes: vec![(collection, write)], retires: Vec::new() })
        };
        let put = write(Write::Put(Record::typed(row.clone()), query::Meta::default()));
        let gone = write(Write::Delete(row.key()));
        debug_assert!(gone.is_ok(), "{gone:?}");
        put.is_ok_and(|published| !published.queries.is_empty())
    }

    /// Which rows are shown.
    pub(crate) fn shown(&self) -> Vec<Key> {
        self.shown.iter().cloned().collect()
    }

    pub(crate) fn note(&mut self, key: &Key, is_shown: bool) {
        match is_shown {
            true => drop(self.shown.insert(key.clone())),
            false => drop(self.shown.remove(key)),
        }
    }

    pub(crate) fn forget_shown(&mut self) {
        self.shown.clear();
    }
}
