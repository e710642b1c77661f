//! What effects are told, and what they may do.

use std::{fmt, marker::PhantomData};

use query::{Change, ChangeKind, Key, Row};
use smol_str::SmolStr;

use super::acker::{AckerHandle, CommitError, Rows};
use sys::Cancellation;

use crate::row_ref::RowRef;

/// A row entered, changed in or left a query.
pub struct Event<R> {
    id: EventId,
    change: Change,
    row: PhantomData<fn() -> R>,
}

/// What names an event for ever: delivered again, it has the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// Which effect; empty for those without a name.
    pub effect: SmolStr,
    /// Where in the stream the tick began, or a count for effects that are not durable.
    pub position: u64,
    /// Which row.
    pub key: Key,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}/{}", self.effect, self.position, self.key)
    }
}

impl<R> Event<R> {
    pub(super) fn new(effect: &SmolStr, position: u64, change: Change) -> Self {
        let id = EventId { effect: effect.clone(), position, key: change.key.clone() };
        Self { id, change, row: PhantomData }
    }

    /// What names it.
    #[must_use]
    pub fn id(&self) -> &EventId {
        &self.id
    }

    /// What happened.
    #[must_use]
    pub fn kind(&self) -> ChangeKind {
        self.change.kind()
    }

    /// Which row.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.change.key
    }

    /// The row as it is, or as it was before it left.
    ///
    /// # Panics
    /// Never: an event is of a row that is or was there.
    #[must_use]
    pub fn row(&self) -> RowRef<R> {
        let entry = self.change.new.as_ref().or(self.change.old.as_ref());
        RowRef::new(entry.expect("a change is of a row that is or was there").clone())
    }

    /// The row as it was before, unless it has just entered.
    #[must_use]
    pub fn previous(&self) -> Option<RowRef<R>> {
        self.change.old.clone().map(RowRef::new)
    }

    /// The change itself.
    #[must_use]
    pub fn change(&self) -> &Change {
        &self.change
    }
}

impl<R> Clone for Event<R> {
    fn clone(&self) -> Self {
        Self { id: self.id.clone(), change: self.change.clone(), row: PhantomData }
    }
}

impl<R> fmt::Debug for Event<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("id", &self.id).field("kind", &self.kind()).finish()
    }
}

/// A handler that has failed. Any error becomes one by `?`; [`HandlerError::new`] makes one of a
/// sentence.
pub struct HandlerError(Box<dyn std::error::Error + Send + Sync>);

impl HandlerError {
    /// A failure that says why.
    #[must_use]
    pub fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string().into())
    }

    /// What went wrong.
    #[must_use]
    pub fn source(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

// It is no error itself, so that every error can become one.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What a handler may know and do.
#[derive(Clone, Debug)]
pub struct Context {
    pub(super) cancellation: Cancellation,
    pub(super) attempt: u32,
    pub(super) events: Vec<EventId>,
    pub(super) acker: Option<AckerHandle>,
}

impl Context {
    /// Tells when the effect is being ended.
    #[must_use]
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// Which attempt this is, from 1 on. After a restart it begins anew.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Writes rows to the stream together with the acknowledgement of the event: both last, or
    /// none does. Whatever happens, the rows are written once.
    ///
    /// # Errors
    /// If the effect is not durable, another runner has taken it over, or the rows cannot be
    /// written.
    pub async fn commit(&self, write: impl FnOnce(&mut Rows)) -> Result<(), CommitError> {
        let Some(acker) = &self.acker else { return Err(CommitError::NotDurable) };
        let mut rows = Rows::default();
        write(&mut rows);
        acker.commit(self.events.clone(), rows).await
    }
}

impl Rows {
    /// A row, new or in place of another.
    pub fn put<R: Row>(&mut self, row: &R) {
        self.push_put(R::NAME, &Row::key(row), serde_json::to_string(row));
    }

    /// One row less.
    pub fn delete<R: Row>(&mut self, key: impl Into<Key>) {
        self.push_delete(R::NAME, &key.into());
    }
}
