//! Actions that are called often, and carried out less often.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use sys::Sys;
use tokio::sync::mpsc;

use crate::{
    caps::PACED_MAX,
    db::Db,
    error::{DbError, PersistError},
    panic::caught,
    transaction::{OpenTransaction, Shown, Transaction, TransactionState, Writes},
};

/// When calls of an action are carried out. Every call is shown at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// When there was none for this long; then all together. For text that is being typed.
    Debounce(Duration),
    /// The first at once, and then at most once in this time those that came meanwhile. For
    /// sliders.
    Throttle(Duration),
    /// Each by itself, one after the other. For uploads.
    Queue,
}

type Show<V> = Arc<dyn Fn(&V, &mut Writes) -> Result<(), DbError> + Send + Sync>;
type Outcome = Pin<Box<dyn Future<Output = Result<(), PersistError>> + Send>>;

/// An [`Action`](crate::Action) with a [`Pace`]. Cheap to clone: all clones have one pace.
pub struct PacedAction<V> {
    db: Db,
    on_mutate: Show<V>,
    calls: mpsc::Sender<Call<V>>,
}

struct Call<V> {
    variables: V,
    shown: Shown,
}

impl<V: Send + 'static> PacedAction<V> {
    /// An action of a database. `mutation` gets all calls that are carried out together, in their
    /// order; what it comes to holds for all of them.
    pub fn new<F, A>(
        db: &Db,
        pace: Pace,
        on_mutate: impl Fn(&V, &mut Writes) -> Result<(), DbError> + Send + Sync + 'static,
        mutation: F,
    ) -> Self
    where
        F: Fn(Vec<V>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), PersistError>> + Send + 'static,
    {
        let (calls, inbox) = mpsc::channel(PACED_MAX);
        let mutation = Box::new(move |all| -> Outcome { Box::pin(mutation(all)) });
        let pacer = Pacer { pace, inbox, mutation, sys: db.sys().clone() };
        db.sys().spawn.task("paced action", pacer.run());
        Self { db: db.clone(), on_mutate: Arc::new(on_mutate), calls }
    }

    /// Shows what it will come to, and has it carried out when its time has come.
    ///
    /// # Errors
    /// If what it will come to cannot be shown, or too many calls wait; then nothing is done.
    pub fn run(&self, variables: V) -> Result<Transaction, DbError> {
        let place = self.calls.try_reserve().map_err(|_| DbError::TooManyCalls)?;
        let mut open = OpenTransaction::new(self.db.clone());
        open.write(|writes| (self.on_mutate)(&variables, writes))?;
        let (shown, transaction) = open.show(TransactionState::Pending);
        place.send(Call { variables, shown });
        Ok(transaction)
    }
}

impl<V> Clone for PacedAction<V> {
    fn clone(&self) -> Self {
        let (on_mutate, calls) = (self.on_mutate.clone(), self.calls.clone());
        Self { db: self.db.clone(), on_mutate, calls }
    }
}

impl<V> fmt::Debug for PacedAction<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedAction").finish_non_exhaustive()
    }
}

/// The one owner of the calls of an action.
struct Pacer<V> {
    pace: Pace,
    inbox: mpsc::Receiver<Call<V>>,
    mutation: Box<dyn Fn(Vec<V>) -> Outcome + Send + Sync>,
    sys: Sys,
}

impl<V: Send + 'static> Pacer<V> {
    /// Works until nobody can call any more, and everything was carried out.
    async fn run(mut self) {
        while let Some(first) = self.inbox.recv().await {
            match self.pace {
                Pace::Queue => self.carry_out(vec![first]).await,
                Pace::Debounce(quiet) => {
                    let calls = self.until_quiet(first, quiet).await;
                    self.carry_out(calls).await;
                }
                Pace::Throttle(interval) => {
                    let calls = self.waiting(first);
                    let rest = self.sys.clock.sleep(interval);
                    tokio::join!(self.carry_out(calls), rest);
                }
            }
        }
    }

    /// All calls until there is none for a while. Somebody who never pauses is served, too.
    async fn until_quiet(&mut self, first: Call<V>, quiet: Duration) -> Vec<Call<V>> {
        let mut calls = vec![first];
        while calls.len() < PACED_MAX {
            tokio::select! {
                biased;
                next = self.inbox.recv() => match next {
                    Some(call) => calls.push(call),
                    None => break,
                },
                () = self.sys.clock.sleep(quiet) => break,
            }
        }
        calls
    }

    /// All calls that wait.
    fn waiting(&mut self, first: Call<V>) -> Vec<Call<V>> {
        let mut calls = vec![first];
        while let Ok(call) = self.inbox.try_recv() {
            calls.push(call);
        }
        calls
    }

    async fn carry_out(&self, calls: Vec<Call<V>>) {
        let (mut all, mut shown) = (Vec::new(), Vec::new());
        for call in calls {
            call.shown.set(TransactionState::Persisting);
            all.push(call.variables);
            shown.push(call.shown);
        }
        let outcome = caught(async { (self.mutation)(all).await }).await;
        let outcome = outcome.unwrap_or_else(|panic| Err(PersistError::fatal(panic.to_string())));
        shown.into_iter().for_each(|shown| shown.settle(outcome.clone()));
    }
}
