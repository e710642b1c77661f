//! Effects: code that runs when rows enter, change in or leave a query.

mod acker;
mod cursor;
mod driver;
mod durable;
mod event;
mod mark;
mod memory;
mod pen;
mod progress;
mod rows;

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use query::{ChangeKind, Query};
use sys::{Cancellation, Canceller, Task};

pub(crate) use self::cursor::{
    CLAIM_TYPE, TYPE as CURSOR_TYPE, forgotten, is_claim, position as cursor_position, seen_at,
    stamped,
};
pub use self::{
    event::{Context, Event, EventId, HandlerError},
    rows::{CommitError, Rows},
};
use crate::{
    caps::CONCURRENCY_MAX,
    db::Db,
    error::DbError,
    retry::Retry,
    stream::{Stream, Types},
};

/// What a handler comes to.
type Handled = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>>;
type Handler<R> = Arc<dyn Fn(Event<R>, Context) -> Handled + Send + Sync>;
type BatchHandler<R> = Arc<dyn Fn(Vec<Event<R>>, Context) -> Handled + Send + Sync>;
type DeadLetter<R> = Arc<dyn Fn(Event<R>, HandlerError) + Send + Sync>;

/// What an effect does.
struct Handlers<R> {
    enter: Option<Handler<R>>,
    update: Option<Handler<R>>,
    exit: Option<Handler<R>>,
    batch: Option<BatchHandler<R>>,
    dead_letter: Option<DeadLetter<R>>,
}

impl<R> Clone for Handlers<R> {
    fn clone(&self) -> Self {
        Self {
            enter: self.enter.clone(),
            update: self.update.clone(),
            exit: self.exit.clone(),
            batch: self.batch.clone(),
            dead_letter: self.dead_letter.clone(),
        }
    }
}

impl<R> Handlers<R> {
    /// True if somebody is called for such events.
    fn handle(&self, kind: ChangeKind) -> bool {
        self.batch.is_some() || self.of(kind).is_some()
    }

    fn of(&self, kind: ChangeKind) -> Option<&Handler<R>> {
        match kind {
            ChangeKind::Enter => self.enter.as_ref(),
            ChangeKind::Update => self.update.as_ref(),
            ChangeKind::Exit => self.exit.as_ref(),
        }
    }
}

/// How an effect works.
#[derive(Clone, Copy, Debug)]
struct Settings {
    concurrency: usize,
    retry: Retry,
    skips_initial: bool,
}

impl Settings {
    fn new() -> Self {
        Self { concurrency: 1, retry: Retry::default(), skips_initial: false }
    }
}

/// An effect on its way.
#[must_use = "an effect does nothing before it is started"]
pub struct EffectBuilder<R> {
    db: Db,
    query: Query,
    handlers: Handlers<R>,
    settings: Settings,
    /// Whatever the user chose.
    retry: Option<Retry>,
    durable: Option<Durable>,
}

/// What makes an effect durable.
struct Durable {
    name: String,
    stream: Stream,
    types: Types,
}

impl<R: Send + 'static> EffectBuilder<R> {
    pub(crate) fn new(db: Db, query: Query) -> Self {
        let handlers =
            Handlers { enter: None, update: None, exit: None, batch: None, dead_letter: None };
        Self { db, query, handlers, settings: Settings::new(), retry: None, durable: None }
    }

    pub(crate) fn durable(
        db: Db,
        query: Query,
        name: &str,
        (stream, types): (Stream, Types),
    ) -> Self {
        let durable = Some(Durable { name: name.into(), stream, types });
        Self { durable, ..Self::new(db, query) }
    }

    /// When a row is there that was not there before.
    pub fn on_enter<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(Event<R>, Context) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.handlers.enter = Some(boxed(handler));
        self
    }

    /// When a row is another than before.
    pub fn on_update<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(Event<R>, Context) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.handlers.update = Some(boxed(handler));
        self
    }

    /// When a row is not there any more.
    pub fn on_exit<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(Event<R>, Context) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.handlers.exit = Some(boxed(handler));
        self
    }

    /// Everything that has happened since the last batch, all at once. A batch is handled before
    /// the next begins, whatever the concurrency; other handlers are not called.
    pub fn on_batch<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(Vec<Event<R>>, Context) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.handlers.batch =
            Some(Arc::new(move |events, context| Box::pin(handler(events, context))));
        self
    }

    /// What becomes of events whose handler has failed too often. They count as done. Without it,
    /// and without a [`retry`](Self::retry) that ends, a durable effect gives no event up.
    pub fn on_dead_letter(
        mut self,
        dead_letter: impl Fn(Event<R>, HandlerError) + Send + Sync + 'static,
    ) -> Self {
        self.handlers.dead_letter = Some(Arc::new(dead_letter));
        self
    }

    /// Handles so many events at the same time; events of one row keep their order. Default: one.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers.clamp(1, CONCURRENCY_MAX);
        self
    }

    /// How often a failed handler is tried. Default: [`Retry::default`], but for ever if the effect
    /// is durable and nobody takes its dead letters; a handler that goes on failing holds back
    /// what comes after it, and is reported in the log of the process.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Passes over the rows that are there when the effect is started for the first time.
    pub fn skip_initial(mut self) -> Self {
        self.settings.skips_initial = true;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If the query cannot be run, or needs more than the stream of a durable effect: collections
    /// that live elsewhere, or queries by their names.
    pub fn start(self) -> Result<Effect, DbError> {
        let Self { db, query, handlers, mut settings, retry, durable } = self;
        settings.retry = retry.unwrap_or_else(|| match durable.is_some() {
            true if handlers.dead_letter.is_none() => Retry::for_ever(),
            _ => Retry::default(),
        });
        db.look(|database| database.check_rows::<R>(&query))?;
        let (canceller, cancellation) = Cancellation::new();
        let sys = db.sys().clone();
        let task = match durable {
            None => {
                let feed = memory::Memory::new(db, &query, settings.skips_initial)?;
                let work = driver::run(feed, handlers, settings, sys.clone(), cancellation);
                sys.spawn.task("effect", work)
            }
            Some(Durable { name, stream, types }) => {
                // A query that cannot be run is refused here, not in the background.
                db.once(query::Find::<R>::from(query.clone()))?;
                let plan = durable::Start { name, stream, types, query, db, settings };
                plan.check()?;
                let work = durable::run(plan, handlers, sys.clone(), cancellation);
                sys.spawn.task("durable effect", work)
            }
        };
        Ok(Effect { canceller, task })
    }
}

fn boxed<R, F, A>(handler: F) -> Handler<R>
where
    F: Fn(Event<R>, Context) -> A + Send + Sync + 'static,
    A: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    Arc::new(move |event, context| Box::pin(handler(event, context)))
}

impl<R> fmt::Debug for EffectBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EffectBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A running effect. Dropping it ends it; [`dispose`](Self::dispose) also waits for its handlers.
#[derive(Debug)]
#[must_use = "an effect ends when it is dropped"]
pub struct Effect {
    canceller: Canceller,
    task: Task,
}

impl Effect {
    /// Ends the effect: handlers under way are told by their context and waited for, no further
    /// one begins.
    pub async fn dispose(self) {
        self.canceller.cancel();
        self.task.join().await;
    }

    /// Waits until the effect has ended by itself: its database is gone, its stream is closed,
    /// another runner has taken a durable one over, or its query has come to its bound.
    pub async fn ended(self) {
        self.task.join().await;
    }
}
