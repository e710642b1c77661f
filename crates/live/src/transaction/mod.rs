//! Writes that are shown before they last.

mod open;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use query::{CollectionId, Key, Record, TransactionId};
use smol_str::SmolStr;
use tokio::sync::watch;

pub use self::open::{OpenTransaction, Writes};
use crate::{db::Db, error::PersistError};

/// Makes writes last. Every source that can be written to has one.
pub(crate) trait Writer: Send + Sync + 'static {
    /// Makes the writes of a transaction last, and tells it how that goes.
    fn persist(&self, shown: Shown, writes: Vec<Written>);
}

/// One write, as it was shown.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) collection: CollectionId,
    pub(crate) key: Key,
    /// The row as it is after the whole transaction; none if it is deleted.
    pub(crate) row: Option<Record>,
    pub(crate) kind: WrittenKind,
}

/// What a transaction did to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrittenKind {
    /// The row is new.
    Insert,
    /// The row has other values in these columns.
    Update(Vec<SmolStr>),
    /// Another row is in its place.
    Replace,
    /// The row is gone.
    Delete,
}

/// How far a transaction has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// It is shown, and waits for its time.
    Pending,
    /// It lasts in the outbox, and is sent as soon as that can be. A crash does not lose it.
    Queued,
    /// It is shown, and on its way.
    Persisting,
    /// It lasts, and came back from its source.
    Completed,
    /// It could not be made to last, or was taken back. It is not shown any more.
    Failed(PersistError),
}

impl TransactionState {
    /// True if nothing will change any more.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed(_))
    }
}

/// A transaction that is shown, and how it fares.
#[derive(Clone, Debug)]
#[must_use = "a write may fail later; look at it, or say with `let _` that nobody will"]
pub struct Transaction {
    state: watch::Receiver<TransactionState>,
    txid: Arc<OnceLock<SmolStr>>,
}

impl Transaction {
    /// What it is called in its stream, as soon as that is known; none if it does not go to one.
    /// Others wait for it by [`StreamDb::await_txid`](crate::StreamDb::await_txid).
    #[must_use]
    pub fn txid(&self) -> Option<&str> {
        self.txid.get().map(SmolStr::as_str)
    }

    /// How far it has come.
    #[must_use]
    pub fn state(&self) -> TransactionState {
        self.state.borrow().clone()
    }

    /// Waits until it has come to its end.
    ///
    /// # Errors
    /// If it could not be made to last.
    pub async fn settled(&self) -> Result<(), PersistError> {
        self.reached(TransactionState::is_settled).await
    }

    /// Waits until a crash cannot lose it: it is in the outbox, or further.
    ///
    /// # Errors
    /// If it could not be made to last.
    pub async fn queued(&self) -> Result<(), PersistError> {
        let lasts =
            |state: &TransactionState| state.is_settled() || *state == TransactionState::Queued;
        self.reached(lasts).await
    }

    async fn reached(
        &self,
        is_there: impl FnMut(&TransactionState) -> bool,
    ) -> Result<(), PersistError> {
        let mut state = self.state.clone();
        match state.wait_for(is_there).await.as_deref() {
            Ok(TransactionState::Failed(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(PersistError::fatal("the database is gone")),
        }
    }
}

/// A transaction that is shown until this is told how it ended. Dropping it takes it back.
pub(crate) struct Shown {
    db: Db,
    id: TransactionId,
    state: watch::Sender<TransactionState>,
    txid: Arc<OnceLock<SmolStr>>,
    is_over: bool,
}

impl Shown {
    fn new(db: Db, id: TransactionId, state: TransactionState) -> (Self, Transaction) {
        let (sender, receiver) = watch::channel(state);
        let txid = Arc::<OnceLock<SmolStr>>::default();
        let transaction = Transaction { state: receiver, txid: txid.clone() };
        (Self { db, id, state: sender, txid, is_over: false }, transaction)
    }

    /// Says what it is called in its stream.
    pub(crate) fn name(&self, txid: &str) {
        // Sent again, it has the same name.
        let _ = self.txid.set(txid.into());
    }

    pub(crate) fn id(&self) -> TransactionId {
        self.id
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn set(&self, state: TransactionState) {
        self.state.send_replace(state);
    }

    /// Ends it: its writes are synced now, or could not be.
    pub(crate) fn settle(mut self, outcome: Result<(), PersistError>) {
        self.end(outcome);
    }

    /// Says that it lasts. The source retires its writes together with the rows.
    pub(crate) fn completed(mut self) {
        self.is_over = true;
        self.set(TransactionState::Completed);
    }

    /// Leaves it as it is, for another life.
    pub(crate) fn leave(mut self) {
        self.is_over = true;
    }

    fn end(&mut self, outcome: Result<(), PersistError>) {
        self.is_over = true;
        open::end(&self.db, self.id);
        self.set(match outcome {
            Ok(()) => TransactionState::Completed,
            Err(error) => TransactionState::Failed(error),
        });
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(Err(PersistError::fatal("nobody is left to make it last")));
        }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("id", &self.id).finish_non_exhaustive()
    }
}
