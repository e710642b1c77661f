//! Rows that are fetched when a query asks for them.

use std::{fmt, future::Future, marker::PhantomData};

use foldhash::fast::FixedState;
use futures_util::{StreamExt, stream::FuturesUnordered};
use hashbrown::{HashMap, HashSet};
use query::{Key, Row, Subset};

use super::{Batch, Demand, Load, Loading, PolledHandle, Sink, Source, SourceError};
use crate::{caps::LOADS_MAX, error::DbError};

/// A source that asks a function for the rows of a [`Subset`] when a query wants them, and lets go
/// of those that no query wants any more.
pub struct OnDemand<R, F> {
    fetch: F,
    wishes: PolledHandle,
    row: PhantomData<fn() -> R>,
}

impl<R, F, A, E> OnDemand<R, F>
where
    R: Row,
    F: Fn(Subset) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Vec<R>, E>> + Send,
    E: fmt::Display,
{
    /// A source that fetches with this function. It may bring more rows than it is asked for.
    pub fn new(fetch: F) -> Self {
        Self { fetch, wishes: PolledHandle::default(), row: PhantomData }
    }

    /// What asks it to fetch again all that is wanted.
    #[must_use]
    pub fn handle(&self) -> PolledHandle {
        self.wishes.clone()
    }
}

impl<R, F, A, E> Source for OnDemand<R, F>
where
    R: Row,
    F: Fn(Subset) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Vec<R>, E>> + Send,
    E: fmt::Display,
{
    fn loading(&self) -> Loading {
        Loading::OnDemand
    }

    async fn run(self, mut sink: Sink) -> Result<(), SourceError> {
        sink.ready();
        let (mut held, mut running) = (Held::default(), FuturesUnordered::new());
        // What is to be fetched again, a few at a time.
        let mut again: Vec<Subset> = Vec::new();
        let fetch = |subset: Subset, load: Option<Load>| {
            let fetched = (self.fetch)(subset.clone());
            async move { (subset, load, fetched.await) }
        };
        loop {
            while running.len() < LOADS_MAX
                && let Some(subset) = again.pop()
            {
                running.push(fetch(subset, None));
            }
            tokio::select! {
                biased;
                Some((subset, load, fetched)) = running.next() => {
                    match fetched {
                        Ok(rows) => held.bring(&sink, &subset, rows).map_err(|e| fault(&e))?,
                        Err(error) => {
                            fail(&subset, load, &error);
                            continue;
                        }
                    }
                    load.into_iter().for_each(Load::done);
                }
                demand = sink.demand(), if running.len() < LOADS_MAX => match demand {
                    Demand::Load(load) => {
                        let subset = load.subset().clone();
                        held.begin(&subset);
                        running.push(fetch(subset, Some(load)));
                    }
                    Demand::Unload(subset) => {
                        held.end(&sink, &subset).map_err(|error| fault(&error))?;
                    }
                },
                () = self.wishes.asked(), if again.is_empty() => {
                    again.extend(held.subsets());
                }
            }
        }
    }
}

fn fault(error: &DbError) -> SourceError {
    SourceError(error.to_string())
}

fn fail(subset: &Subset, load: Option<Load>, error: &dyn fmt::Display) {
    match load {
        Some(load) => load.failed(&SourceError(error.to_string())),
        // What was fetched before is still shown, and the next fetch may go better.
        None => tracing::warn!(?subset, %error, "rows could not be fetched again"),
    }
}

/// Which rows each subset has brought.
#[derive(Default)]
struct Held {
    keys: HashMap<String, (Subset, HashSet<Key, FixedState>), FixedState>,
    /// How many subsets have a row.
    holders: HashMap<Key, usize, FixedState>,
}

/// Tells subsets apart.
fn name(subset: &Subset) -> String {
    subset.query("rows").to_json()
}

impl Held {
    fn begin(&mut self, subset: &Subset) {
        self.keys.entry(name(subset)).or_insert_with(|| (subset.clone(), HashSet::default()));
    }

    fn subsets(&self) -> impl Iterator<Item = Subset> {
        self.keys.values().map(|(subset, _)| subset.clone())
    }

    /// Shows the rows of a subset, unless nobody wants them any more.
    fn bring<R: Row>(&mut self, sink: &Sink, subset: &Subset, rows: Vec<R>) -> Result<(), DbError> {
        let Some((_, keys)) = self.keys.get_mut(&name(subset)) else { return Ok(()) };
        let (mut new, mut batch) = (HashSet::default(), Batch::begin());
        for row in rows {
            let key = row.key();
            if new.insert(key.clone()) && !keys.contains(&key) {
                *self.holders.entry(key).or_insert(0) += 1;
            }
            batch = batch.put(row);
        }
        let old = std::mem::replace(keys, new);
        let left: Vec<_> = old.into_iter().filter(|key| !keys.contains(key)).collect();
        sink.commit(self.let_go(left, batch))
    }

    fn end(&mut self, sink: &Sink, subset: &Subset) -> Result<(), DbError> {
        let Some((_, keys)) = self.keys.remove(&name(subset)) else { return Ok(()) };
        let batch = self.let_go(keys, Batch::begin());
        sink.commit(batch)
    }

    fn let_go(&mut self, keys: impl IntoIterator<Item = Key>, batch: Batch) -> Batch {
        keys.into_iter().fold(batch, |batch, key| {
            let holders = self.holders.get_mut(&key);
            match holders {
                Some(holders) if *holders > 1 => {
                    *holders -= 1;
                    batch
                }
                _ => {
                    self.holders.remove(&key);
                    batch.delete(key)
                }
            }
        })
    }
}

impl<R, F> fmt::Debug for OnDemand<R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDemand").finish_non_exhaustive()
    }
}
