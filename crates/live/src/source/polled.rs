//! Rows that are fetched again and again.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc, time::Duration};

use query::Row;
use sys::Sys;
use tokio::sync::Notify;

use super::{Batch, Sink, Source, SourceError};

/// A source that asks a function for all rows: at once, every interval, and on demand. Rows that
/// it does not mention any more are gone.
pub struct Polled<R, F> {
    fetch: F,
    interval: Option<Duration>,
    sys: Sys,
    demand: Arc<Notify>,
    row: PhantomData<fn() -> R>,
}

/// Asks a source that fetches to do so now.
#[derive(Clone, Debug)]
pub struct PolledHandle(Arc<Notify>);

impl PolledHandle {
    pub(super) fn new(demand: Arc<Notify>) -> Self {
        Self(demand)
    }

    /// Fetches again, as soon as the fetch under way is done.
    pub fn refetch(&self) {
        self.0.notify_one();
    }
}

impl<R, F, A, E> Polled<R, F>
where
    R: Row,
    F: FnMut() -> A + Send + 'static,
    A: Future<Output = Result<Vec<R>, E>> + Send,
    E: fmt::Display,
{
    /// A source that fetches once, and on demand.
    pub fn new(sys: &Sys, fetch: F) -> Self {
        let demand = Arc::default();
        Self { fetch, interval: None, sys: sys.clone(), demand, row: PhantomData }
    }

    /// Fetches also whenever this time has passed since the last fetch.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = Some(interval);
        self
    }

    /// What asks it to fetch now.
    #[must_use]
    pub fn handle(&self) -> PolledHandle {
        PolledHandle(self.demand.clone())
    }

    async fn wait(&self) {
        match self.interval {
            Some(interval) => {
                // Either is a reason to fetch, so it does not matter which one it was.
                let _ = self.sys.clock.timeout(interval, self.demand.notified()).await;
            }
            None => self.demand.notified().await,
        }
    }
}

impl<R, F, A, E> Source for Polled<R, F>
where
    R: Row,
    F: FnMut() -> A + Send + Sync + 'static,
    A: Future<Output = Result<Vec<R>, E>> + Send,
    E: fmt::Display,
{
    async fn run(mut self, sink: Sink) -> Result<(), SourceError> {
        loop {
            match (self.fetch)().await {
                Ok(rows) => {
                    let batch = rows.into_iter().fold(Batch::begin().truncate(), Batch::put);
                    sink.commit(batch).map_err(|error| SourceError(error.to_string()))?;
                    sink.ready();
                }
                // What was fetched before is still shown, and the next fetch may go better.
                Err(error) => sink.error(&SourceError(error.to_string())),
            }
            self.wait().await;
        }
    }
}

impl<R, F> fmt::Debug for Polled<R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polled").field("interval", &self.interval).finish_non_exhaustive()
    }
}
