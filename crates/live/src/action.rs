//! Actions: what the user sees at once, and what makes it true.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use crate::{
    db::Db,
    error::{DbError, PersistError},
    transaction::{OpenTransaction, Transaction, TransactionState, Writes},
};

type Show<V> = Arc<dyn Fn(&V, &mut Writes) -> Result<(), DbError> + Send + Sync>;
type Perform<V> =
    Arc<dyn Fn(V) -> Pin<Box<dyn Future<Output = Result<(), PersistError>> + Send>> + Send + Sync>;

/// Something a user does that somebody else must carry out, such as a server.
///
/// `on_mutate` shows what it will come to; `mutation` asks for it, and returns when it has come
/// back, for example by [`StreamDb::await_txid`](crate::StreamDb::await_txid). What was shown is
/// then what is synced; if the mutation fails, it is not shown any more.
pub struct Action<V> {
    db: Db,
    on_mutate: Show<V>,
    mutation: Perform<V>,
}

impl<V: Clone + Send + 'static> Action<V> {
    /// An action of a database.
    pub fn new<F, A>(
        db: &Db,
        on_mutate: impl Fn(&V, &mut Writes) -> Result<(), DbError> + Send + Sync + 'static,
        mutation: F,
    ) -> Self
    where
        F: Fn(V) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), PersistError>> + Send + 'static,
    {
        let mutation: Perform<V> = Arc::new(move |variables| Box::pin(mutation(variables)));
        Self { db: db.clone(), on_mutate: Arc::new(on_mutate), mutation }
    }

    /// Shows what it will come to, and asks for it.
    ///
    /// # Errors
    /// If what it will come to cannot be shown; then nothing is asked for.
    pub fn run(&self, variables: V) -> Result<Transaction, DbError> {
        let mut open = OpenTransaction::new(self.db.clone());
        open.write(|writes| (self.on_mutate)(&variables, writes))?;
        let (shown, transaction) = open.show(TransactionState::Persisting);
        let work = (self.mutation)(variables);
        self.db.sys().spawn.task("action", async move { shown.settle(work.await) });
        Ok(transaction)
    }
}

impl<V> Clone for Action<V> {
    fn clone(&self) -> Self {
        let (on_mutate, mutation) = (self.on_mutate.clone(), self.mutation.clone());
        Self { db: self.db.clone(), on_mutate, mutation }
    }
}

impl<V> fmt::Debug for Action<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Action").finish_non_exhaustive()
    }
}
