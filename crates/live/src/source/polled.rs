//! Rows that are fetched again and again.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use query::Row;
use sys::Sys;
use tokio::sync::Notify;

use super::{Batch, Demand, Load, Sink, Source, SourceError};

/// A source that asks a function for all rows: at once, every interval, and on demand. Rows that
/// it does not mention any more are gone.
pub struct Polled<R, F> {
    fetch: F,
    interval: Option<Duration>,
    is_lazy: bool,
    sys: Sys,
    wishes: PolledHandle,
    row: PhantomData<fn() -> R>,
}

/// Asks a source that fetches to do so.
#[derive(Clone, Debug, Default)]
pub struct PolledHandle(Arc<Wishes>);

#[derive(Debug, Default)]
struct Wishes {
    is_refetch: AtomicBool,
    is_stale: AtomicBool,
    news: Notify,
}

impl PolledHandle {
    /// Fetches again, as soon as the fetch under way is done.
    pub fn refetch(&self) {
        self.0.is_refetch.store(true, Ordering::Release);
        self.0.news.notify_one();
    }

    /// Says that what was fetched is out of date. It is fetched again at once if a query watches
    /// it, otherwise when one does.
    pub fn invalidate(&self) {
        self.0.is_stale.store(true, Ordering::Release);
        self.0.news.notify_one();
    }

    /// Waits until somebody has asked.
    pub(super) async fn asked(&self) {
        self.0.news.notified().await;
    }

    fn take_refetch(&self) -> bool {
        self.0.is_refetch.swap(false, Ordering::AcqRel)
    }

    fn take_stale(&self) -> bool {
        self.0.is_stale.swap(false, Ordering::AcqRel)
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
        let (sys, wishes) = (sys.clone(), PolledHandle::default());
        Self { fetch, interval: None, is_lazy: false, sys, wishes, row: PhantomData }
    }

    /// Fetches also whenever this time has passed since the last fetch.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = Some(interval);
        self
    }

    /// Fetches nothing while no query watches the collection: it is idle until the first does.
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.is_lazy = true;
        self
    }

    /// What asks it to fetch.
    #[must_use]
    pub fn handle(&self) -> PolledHandle {
        self.wishes.clone()
    }

    /// Waits for a reason to look whether to fetch.
    async fn wait(&self, watch: &mut Watch, sink: &mut Sink) {
        let due = async {
            match watch.due {
                Some(due) if watch.is_watched => {
                    self.sys.clock.sleep(due.saturating_sub(self.sys.clock.elapsed())).await;
                }
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            demand = sink.demand() => watch.hear(demand),
            () = self.wishes.asked() => {}
            () = due => {}
        }
    }

    /// Whether to fetch now.
    fn is_wanted(&self, watch: &mut Watch) -> bool {
        watch.is_stale |= self.wishes.take_stale();
        watch.is_stale |= watch.due.is_some_and(|due| self.sys.clock.elapsed() >= due);
        self.wishes.take_refetch() || (watch.is_watched && watch.is_stale)
    }

    /// Fetches; true if there were rows to show.
    async fn fetch(&mut self, sink: &Sink) -> Result<bool, SourceError> {
        let rows = match (self.fetch)().await {
            Ok(rows) => rows,
            Err(error) => {
                // What was fetched before is still shown, and the next fetch may go better.
                sink.error(&SourceError(error.to_string()));
                return Ok(false);
            }
        };
        let batch = rows.into_iter().fold(Batch::begin().truncate(), Batch::put);
        sink.commit(batch).map_err(|error| SourceError(error.to_string()))?;
        sink.ready();
        Ok(true)
    }
}

/// Who watches, and how old what they see is.
struct Watch {
    is_watched: bool,
    is_stale: bool,
    has_failed: bool,
    /// When the rows are out of date, on the clock that only goes forward.
    due: Option<Duration>,
    /// Somebody waits for the rows.
    load: Option<Load>,
}

impl Watch {
    fn hear(&mut self, demand: Demand) {
        match demand {
            Demand::Load(load) => {
                (self.is_watched, self.load) = (true, Some(load));
                // Whoever comes anew may fare better.
                self.is_stale |= self.has_failed;
            }
            Demand::Unload(_) => self.is_watched = false,
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
    fn is_lazy(&self) -> bool {
        self.is_lazy
    }

    async fn run(mut self, mut sink: Sink) -> Result<(), SourceError> {
        let is_watched = !self.is_lazy;
        let mut watch =
            Watch { is_watched, is_stale: true, has_failed: false, due: None, load: None };
        loop {
            if self.is_wanted(&mut watch) {
                watch.has_failed = !self.fetch(&sink).await?;
                watch.is_stale = false;
                let since = self.sys.clock.elapsed();
                watch.due = self.interval.and_then(|interval| since.checked_add(interval));
            }
            // How the fetch went is said of the collection as a whole.
            watch.load.take().into_iter().for_each(Load::done);
            self.wait(&mut watch, &mut sink).await;
        }
    }
}

impl<R, F> fmt::Debug for Polled<R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polled").field("interval", &self.interval).finish_non_exhaustive()
    }
}
