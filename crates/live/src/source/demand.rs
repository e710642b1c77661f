//! What is wanted of a collection whose source brings only what is asked for.

use std::{collections::VecDeque, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use query::Subset;
use tokio::sync::{Notify, watch};

use super::SourceError;
use crate::{caps::SUBSETS_MAX, status::Status};

/// How much a source brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loading {
    /// All rows there are.
    #[default]
    Everything,
    /// The rows that queries ask for.
    OnDemand,
}

/// What a source that loads on demand is asked to do.
#[derive(Debug)]
pub enum Demand {
    /// Rows are wanted, and from now on what changes in them.
    Load(Load),
    /// Rows are not wanted any more, unless another subset has them, too.
    Unload(Subset),
}

/// Rows that are wanted. Dropped without a word, it counts as failed.
#[derive(Debug)]
#[must_use = "somebody waits for it to be done"]
pub struct Load {
    subset: Subset,
    status: watch::Sender<Status>,
    is_answered: bool,
}

impl Load {
    /// Which rows are wanted.
    #[must_use]
    pub fn subset(&self) -> &Subset {
        &self.subset
    }

    /// Says that they have all been committed.
    pub fn done(mut self) {
        self.answer(Status::Ready);
    }

    /// Says that they cannot be brought, and why.
    pub fn failed(mut self, error: &SourceError) {
        self.answer(Status::Error(error.0.as_str().into()));
    }

    fn answer(&mut self, status: Status) {
        self.is_answered = true;
        self.status.send_replace(status);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer(Status::Error("the source did not bring the rows".into()));
        }
    }
}

/// The subsets of one collection that somebody holds, and what its source was not told yet.
#[derive(Debug, Default)]
pub(crate) struct Demands {
    wanted: HashMap<Arc<str>, Wanted, FixedState>,
    asks: VecDeque<Ask>,
    news: Arc<Notify>,
    /// Whoever asks for something asks for everything.
    is_whole: bool,
    /// Why nothing will ever be loaded.
    ended: Option<Status>,
}

#[derive(Debug)]
struct Wanted {
    subset: Subset,
    holders: usize,
    status: watch::Sender<Status>,
    /// Whether the source was told.
    is_told: bool,
}

#[derive(Debug)]
enum Ask {
    Load(Arc<str>),
    Unload(Subset),
}

/// More subsets of one collection than may be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooMany;

impl Demands {
    /// Of a source that brings everything, once it is asked for something.
    pub(crate) fn whole() -> Self {
        Self { is_whole: true, ..Self::default() }
    }

    /// Holds a subset; who holds it first has it loaded. Answers its name.
    pub(crate) fn hold(&mut self, collection: &str, subset: Subset) -> Result<Arc<str>, TooMany> {
        let subset = if self.is_whole { Subset::everything() } else { subset };
        let name: Arc<str> = subset.query(collection).to_json().into();
        if let Some(wanted) = self.wanted.get_mut(&name) {
            wanted.holders += 1;
            if self.is_whole {
                self.again(&name);
            }
            return Ok(name);
        }
        if self.wanted.len() >= SUBSETS_MAX {
            return Err(TooMany);
        }
        let status = watch::Sender::new(self.ended.clone().unwrap_or(Status::Loading));
        self.wanted.insert(name.clone(), Wanted { subset, holders: 1, status, is_told: false });
        self.ask(Ask::Load(name.clone()));
        Ok(name)
    }

    /// Whether whoever asks for something asks for everything.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Holds everything there is of a lazy source.
    pub(crate) fn hold_whole(&mut self, collection: &str) -> Option<Arc<str>> {
        if !self.is_whole {
            return None;
        }
        self.hold(collection, Subset::everything()).ok()
    }

    /// Loads a subset that is held once more.
    pub(crate) fn again(&mut self, name: &Arc<str>) {
        let is_asked = self.asks.iter().any(|ask| matches!(ask, Ask::Load(own) if own == name));
        if self.wanted.contains_key(name) && !is_asked {
            self.ask(Ask::Load(name.clone()));
        }
    }

    /// Lets a subset go; with its last holder it is unloaded.
    pub(crate) fn release(&mut self, name: &str) {
        let Some(wanted) = self.wanted.get_mut(name) else { return };
        wanted.holders -= 1;
        if wanted.holders > 0 {
            return;
        }
        let Some(wanted) = self.wanted.remove(name) else { return };
        self.asks.retain(|ask| !matches!(ask, Ask::Load(own) if **own == *name));
        if wanted.is_told {
            self.ask(Ask::Unload(wanted.subset));
        }
    }

    /// The source is gone, so nobody waits for what it will never load.
    pub(crate) fn end(&mut self, status: &Status) {
        self.ended = Some(status.clone());
        self.fail(status);
    }

    /// Something went wrong, so nobody waits for what was to be loaded.
    pub(crate) fn fail(&self, status: &Status) {
        let loading = self.wanted.values().filter(|own| *own.status.borrow() == Status::Loading);
        loading.for_each(|wanted| drop(wanted.status.send_replace(status.clone())));
    }

    /// How a subset is doing.
    pub(crate) fn status(&self, name: &str) -> Option<watch::Receiver<Status>> {
        Some(self.wanted.get(name)?.status.subscribe())
    }

    pub(crate) fn next(&mut self) -> Option<Demand> {
        loop {
            match self.asks.pop_front()? {
                Ask::Unload(subset) => return Some(Demand::Unload(subset)),
                Ask::Load(name) => {
                    let Some(wanted) = self.wanted.get_mut(&name) else { continue };
                    wanted.is_told = true;
                    let (subset, status) = (wanted.subset.clone(), wanted.status.clone());
                    return Some(Demand::Load(Load { subset, status, is_answered: false }));
                }
            }
        }
    }

    pub(crate) fn news(&self) -> Arc<Notify> {
        self.news.clone()
    }

    fn ask(&mut self, ask: Ask) {
        self.asks.push_back(ask);
        self.news.notify_one();
    }
}
