//! What effects are told, and what they may do.

use std::{fmt, marker::PhantomData, ops::Range};

use query::{Change, ChangeKind, Key};
use smol_str::SmolStr;

use super::{CommitError, Rows, acker::AckerHandle, mark::Mark};
use sys::Cancellation;

use crate::row_ref::RowRef;

/// A row entered, changed in or left a query.
pub struct Event<R> {
    id: EventId,
    /// Where its tick ended.
    end: u64,
    change: Change,
    row: PhantomData<fn() -> R>,
}

/// What names an event.
///
/// Events of a durable effect are named for ever: delivered again, they have the same id, and no
/// other event has it. Other effects do not know what happened before they were started: there, a
/// row that enters with its first write, or matches when the effect is started, is named by where
/// it was written first, the same in every life of the effect; everything else that a stream
/// brings, by the tick that brings it. What is made here, such as local rows and writes that are
/// not confirmed yet, has names that are good for one life of the effect alone, and never come
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// Which effect; empty for those without a name, and drawn anew whenever such an effect is
    /// started for events that no stream has brought.
    pub effect: SmolStr,
    /// Where in the stream the tick began, or a count for events that no stream has brought.
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
    /// An event of a tick that began and ended there.
    pub(super) fn new(effect: &SmolStr, tick: Range<u64>, change: Change) -> Self {
        let (effect, position) = (effect.clone(), tick.start);
        let id = EventId { effect, position, key: change.key.clone() };
        Self { id, end: tick.end, change, row: PhantomData }
    }

    /// What names it.
    #[must_use]
    pub fn id(&self) -> &EventId {
        &self.id
    }

    /// Where it stands among the events of its effect.
    pub(super) fn mark(&self) -> Mark {
        Mark::new(&self.id, self.end, &self.change)
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
        let (id, change) = (self.id.clone(), self.change.clone());
        Self { id, end: self.end, change, row: PhantomData }
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
    pub(super) marks: Vec<Mark>,
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
    /// none does. Whatever happens, the rows are written once: a handler that fails after its
    /// commit, or does not wait for it, is not called again for what was committed.
    ///
    /// # Errors
    /// If the effect is not durable, another runner has taken it over, the rows cannot be written,
    /// or the event is acknowledged already: one commit is all there is.
    pub async fn commit(&self, write: impl FnOnce(&mut Rows)) -> Result<(), CommitError> {
        let Some(acker) = &self.acker else { return Err(CommitError::NotDurable) };
        let mut rows = Rows::default();
        write(&mut rows);
        acker.commit(self.marks.clone(), rows).await
    }
}
