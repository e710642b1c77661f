//! Ledgers: one for each session, with the pen that writes what people do. One action at a time
//! has it, so that looking and writing are one.

use std::{collections::HashMap, sync::Arc};

use log::{Append, Freshness, Incarnation, Log, ReadError};
use parking_lot::Mutex;
use tokio::sync::Mutex as Pen;
use wire::{Address, Offset, ReadFrom};

use super::{book::Book, error::ActionError};
use crate::{
    SessionId,
    caps::{LEDGERS_MAX, READ_BYTES},
};

/// The ledgers of one process.
#[derive(Debug)]
pub(crate) struct Ledgers {
    log: Arc<dyn Log>,
    /// Held for moments, never across an await.
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    ledgers: HashMap<SessionId, (u64, Arc<Pen<Ledger>>)>,
    /// Counts uses, so that the oldest is known.
    uses: u64,
}

/// What is known of one session, up to where it was read.
#[derive(Debug)]
pub(crate) struct Ledger {
    log: Arc<dyn Log>,
    session: SessionId,
    address: Address,
    /// Where to go on, and in which life of the stream.
    next: Option<(Offset, Incarnation)>,
    book: Book,
}

impl Ledgers {
    pub(crate) fn new(log: Arc<dyn Log>) -> Self {
        Self { log, open: Mutex::default() }
    }

    /// The ledger of a session; the one that nobody has used for longest makes room for it.
    pub(crate) fn of(&self, session: &SessionId) -> Arc<Pen<Ledger>> {
        let mut open = self.open.lock();
        open.uses += 1;
        let uses = open.uses;
        if let Some((used, ledger)) = open.ledgers.get_mut(session) {
            *used = uses;
            return ledger.clone();
        }
        if open.ledgers.len() >= LEDGERS_MAX {
            // One that is in use stays: two of a session would not wait for each other.
            let idle = open.ledgers.iter().filter(|(_, (_, pen))| Arc::strong_count(pen) == 1);
            let oldest = idle.min_by_key(|(_, (used, _))| *used).map(|(id, _)| id.clone());
            oldest.and_then(|id| open.ledgers.remove(&id));
        }
        let ledger = Ledger::new(self.log.clone(), session.clone());
        let pen = Arc::new(Pen::new(ledger));
        open.ledgers.insert(session.clone(), (uses, pen.clone()));
        pen
    }
}

impl Ledger {
    pub(crate) fn new(log: Arc<dyn Log>, session: SessionId) -> Self {
        let address = Address::from(session.path().clone());
        Self { log, session, address, next: None, book: Book::default() }
    }

    /// Reads up to the tail, and tells where that is.
    pub(crate) async fn catch_up(&mut self) -> Result<(&Book, Offset), ActionError> {
        loop {
            let from = self.next.map_or(ReadFrom::Start, |(next, _)| ReadFrom::At(next));
            let chunk = match self.log.read(&self.address, from, READ_BYTES).await {
                Ok(chunk) => chunk,
                // Somebody made the stream shorter, or made it anew: read it again.
                Err(ReadError::Trimmed(_) | ReadError::OffsetUnknown(_)) if self.next.is_some() => {
                    self.forget();
                    continue;
                }
                Err(error) => {
                    self.forget();
                    return Err(ActionError::reading(&self.session, &error));
                }
            };
            if self.next.is_some_and(|(_, life)| life != chunk.incarnation) {
                self.forget();
                continue;
            }
            let mut at = chunk.start;
            for message in chunk.messages() {
                let after = at.after(1, message.len() as u64);
                self.book.read(at.position, message, after);
                at = after;
            }
            self.next = Some((chunk.next, chunk.incarnation));
            if chunk.freshness != Freshness::Behind {
                self.book.up_to_date();
                return Ok((&self.book, chunk.next));
            }
        }
    }

    /// What was read.
    pub(crate) const fn book(&self) -> &Book {
        &self.book
    }

    /// How far it was read, and in which life of the stream.
    pub(crate) const fn place(&self) -> Option<(Offset, Incarnation)> {
        self.next
    }

    pub(super) async fn append(&self, append: Append) -> Result<Offset, ActionError> {
        let appended = self.log.append(&self.address, append).await;
        let appended = appended.map_err(|error| ActionError::appending(&self.session, &error))?;
        Ok(appended.tail)
    }

    fn forget(&mut self) {
        self.next = None;
        self.book = Book::default();
    }
}
