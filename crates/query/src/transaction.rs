//! Transactions: writes that are shown before they are confirmed.

use crate::{
    catalog::CollectionId,
    record::{Key, Record},
    value::Value,
};
use smol_str::SmolStr;

/// A transaction of a database. Later ones lie on earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub(crate) u64);

impl TransactionId {
    /// Its number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// One write of a transaction.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// Where.
    pub collection: CollectionId,
    /// What.
    pub write: MutationKind,
}

/// What a mutation does.
#[derive(Clone, Debug)]
pub enum MutationKind {
    /// A new row.
    Insert(Record),
    /// Other values in some columns of a row.
    Update(Key, Vec<(SmolStr, Value)>),
    /// One row less.
    Delete(Key),
}

/// What a transaction has touched, row by row.
#[derive(Debug, Default)]
pub(crate) struct Open {
    pub(crate) rows: Vec<(CollectionId, Key)>,
}
