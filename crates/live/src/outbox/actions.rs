//! Actions that survive having no network, and crashes.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use log::Log;
use serde::{Serialize, de::DeserializeOwned};
use smol_str::SmolStr;
use state::Json;
use tokio::sync::watch;
use wire::Address;

use super::{Courier, Entry, Letterbox, OutboxState, OutboxStatus, Post, Sending, Sent, start};
use sys::{Cancellation, Canceller};

use crate::{
    db::{Db, WeakDb},
    error::{DbError, PersistError},
    panic::{Panicked, caught, caught_now},
    stream::Stream,
    transaction::{OpenTransaction, Shown, Transaction, TransactionState, Writes},
};

/// Actions that are written down before they count, and carried out in order as soon as that can
/// be, also after a crash. Cheap to clone: all clones are one outbox; when the last one is gone,
/// what waits is left to the next life.
///
/// ```
/// use std::sync::Arc;
/// use live::{Db, Outbox, PersistError, Row};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Serialize, Deserialize, Row)]
/// struct Todo { id: String, text: String }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let sys = sys::Sys::real();
/// # let (db, disk) = (Db::new(&sys), Arc::new(log::MemoryLog::new(&sys)));
/// let todos = db.local::<Todo>()?;
/// let outbox = Outbox::builder(&db, disk, "outbox".parse::<wire::StreamPath>()?)
///     .action(
///         "add",
///         |todo: &Todo, writes| writes.insert(todo.clone()),
///         |todo: Todo, delivery| async move {
///             println!("POST /todos {} under the key {}", todo.text, delivery.key());
///             Ok::<_, PersistError>(())
///         },
///     )
///     .open();
/// let added = outbox.run("add", &Todo { id: "1".into(), text: "pack".into() })?;
/// assert_eq!(todos.len(), 1); // shown at once,
/// added.queued().await?; // then safe from a crash,
/// added.settled().await?; // and now done.
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Outbox {
    db: Db,
    letterbox: Letterbox,
    actions: Arc<Actions>,
    /// Dropped with the outbox, which tells its owner to stop.
    _canceller: Arc<Canceller>,
}

/// One attempt to carry an action out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    key: String,
}

impl Delivery {
    /// The idempotency key: the same for every attempt in every life, and for no other action.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

type Outcome = Pin<Box<dyn Future<Output = Result<(), PersistError>> + Send>>;
type Actions = HashMap<SmolStr, Action, FixedState>;

type Show = Box<dyn Fn(&Json, &mut Writes) -> Result<(), DbError> + Send + Sync>;
type CarryOut = Box<dyn Fn(&Json, Delivery) -> Result<Outcome, PersistError> + Send + Sync>;

struct Action {
    show: Show,
    send: CarryOut,
}

/// An outbox on its way.
#[must_use]
pub struct OutboxBuilder {
    db: Db,
    stream: Stream,
    actions: Actions,
}

impl OutboxBuilder {
    /// Knows this action. `on_mutate` shows what it will come to, also after a restart; `mutation`
    /// carries it out. A mutation that fails with [`PersistError::retryable`] is tried again for as
    /// long as it takes, and holds back those after it; any other failure takes the action back.
    pub fn action<V, F, A>(
        mut self,
        name: &str,
        on_mutate: impl Fn(&V, &mut Writes) -> Result<(), DbError> + Send + Sync + 'static,
        mutation: F,
    ) -> Self
    where
        V: Serialize + DeserializeOwned + 'static,
        F: Fn(V, Delivery) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), PersistError>> + Send + 'static,
    {
        let action: SmolStr = name.into();
        let called = action.clone();
        let bad = move |error: state::BadJson| DbError::BadVariables {
            action: called.to_string(),
            why: error.to_string(),
        };
        let show =
            move |body: &Json, writes: &mut Writes| on_mutate(&body.read().map_err(&bad)?, writes);
        let send = move |body: &Json, delivery| -> Result<Outcome, PersistError> {
            let variables = body.read().map_err(|error| PersistError::retryable(error.to_string()));
            Ok(Box::pin(mutation(variables?, delivery)))
        };
        self.actions.insert(action, Action { show: Box::new(show), send: Box::new(send) });
        self
    }

    /// Opens it: shows what waits in it, and begins to send.
    #[must_use = "when it is dropped, nothing is sent any more"]
    pub fn open(self) -> Outbox {
        let Self { db, stream, actions } = self;
        let actions = Arc::new(actions);
        let (canceller, cancellation) = Cancellation::new();
        let courier = Runner { db: db.downgrade(), actions: actions.clone() };
        let letterbox = start(stream, Arc::new(courier), db.sys(), cancellation);
        Outbox { db, letterbox, actions, _canceller: Arc::new(canceller) }
    }
}

impl Outbox {
    /// An outbox of a database, kept in a stream of its own. The log should be one on this machine:
    /// it is what makes the outbox last while there is no network.
    pub fn builder(db: &Db, log: Arc<dyn Log>, address: impl Into<Address>) -> OutboxBuilder {
        let stream = Stream { log, address: address.into() };
        OutboxBuilder { db: db.clone(), stream, actions: HashMap::default() }
    }

    /// Shows what an action will come to, writes it down, and has it carried out after those
    /// before it.
    ///
    /// # Errors
    /// If there is no such action, or what it will come to cannot be shown; then nothing is done.
    pub fn run<V: Serialize>(&self, action: &str, variables: &V) -> Result<Transaction, DbError> {
        let unknown = || DbError::UnknownAction { name: action.into() };
        let (name, known) = self.actions.get_key_value(action).ok_or_else(unknown)?;
        let body = Json::of(variables).map_err(|error| DbError::BadVariables {
            action: action.into(),
            why: error.to_string(),
        })?;
        let mut open = OpenTransaction::new(self.db.clone());
        open.write(|writes| (known.show)(&body, writes))?;
        let (shown, transaction) = open.show(TransactionState::Pending);
        self.letterbox.post(Post { action: name.clone(), body, shown });
        Ok(transaction)
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> OutboxStatus {
        self.letterbox.status().borrow().clone()
    }

    /// Tells how it is doing, again and again.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<OutboxStatus> {
        self.letterbox.status()
    }

    /// Tries at once what waits for its next attempt, for example since the network is back.
    pub fn hurry(&self) {
        self.letterbox.hurry();
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl fmt::Debug for OutboxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions: Vec<_> = self.actions.keys().collect();
        f.debug_struct("OutboxBuilder").field("actions", &actions).finish_non_exhaustive()
    }
}

/// Carries actions out, one after the other.
struct Runner {
    db: WeakDb,
    actions: Arc<Actions>,
}

impl Courier for Runner {
    fn purpose(&self) -> String {
        "actions".into()
    }

    fn show(&self, entry: &Entry) -> Option<Shown> {
        let (db, action) = (self.db.upgrade()?, self.actions.get(&entry.action)?);
        let mut open = OpenTransaction::new(db);
        let written = caught_now(|| open.write(|writes| (action.show)(&entry.body, writes)));
        let why = match written {
            Ok(Ok(())) => return Some(open.show(TransactionState::Queued).0),
            Ok(Err(error)) => error.to_string(),
            Err(panicked) => panicked.to_string(),
        };
        // It may have come to pass before the crash; it is carried out all the same.
        tracing::debug!(action = %entry.action, why, "a queued action is not shown");
        None
    }

    fn send(&self, outbox: &str, entries: Vec<Entry>) -> Sending {
        let Some(Entry { number, action, body }) = entries.into_iter().next() else {
            return Box::pin(std::future::pending());
        };
        let delivery = Delivery { key: format!("{outbox}.{number:x}") };
        let actions = self.actions.clone();
        Box::pin(async move {
            let outcome = caught(async {
                match actions.get(&action) {
                    Some(known) => (known.send)(&body, delivery)?.await,
                    // It was promised, so it is not thrown away.
                    None => Err(PersistError::retryable(format!(
                        "the outbox holds an action {action:?} that this program does not know; \
                         add it"
                    ))),
                }
            });
            // A program that panics may be a better one tomorrow.
            let panicked = |panic: Panicked| {
                Err(PersistError::retryable(format!("the action {action:?} failed: {panic}")))
            };
            match outcome.await.unwrap_or_else(panicked) {
                Ok(()) => Sent::Through(number),
                Err(error) if error.is_retryable => Sent::NotNow { error, tried: Some(number) },
                Err(error) => Sent::Refused(error),
            }
        })
    }

    fn arrived(&self, _: &str, _: &Entry, shown: Shown) {
        shown.settle(Ok(()));
    }
}

impl OutboxStatus {
    /// True if nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state == OutboxState::Idle && self.waiting == 0
    }
}
