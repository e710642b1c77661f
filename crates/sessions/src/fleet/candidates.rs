//! Which sessions may have work: asked for when a supervisor starts, and after hints were lost.

use std::sync::Arc;

use log::{List, ListError, Log};
use sys::Sys;
use wake::{OpenError, OpenWork};
use wire::{Glob, StreamPath};

use super::facts::Place;
use crate::{SessionId, TENANT, caps::FAILURE_PAUSE_FIRST};

/// The name of the index. How sessions are judged is part of it.
const INDEX: &str = "sessions-1";

/// Sessions that may have work, by their heads alone. There may be too many among them, never too
/// few.
#[derive(Debug)]
pub(super) enum Candidates {
    /// Those that are not known to rest.
    Open(OpenWork),
    /// All, in a log that keeps no index.
    All(Arc<dyn Log>),
}

/// Some candidates.
#[derive(Debug, Default)]
pub(super) struct CandidatePage {
    /// Each with how far it has come: one that was at rest there still is.
    pub(super) sessions: Vec<(SessionId, Place)>,
    /// Where to go on; none if these were the last.
    pub(super) next: Option<StreamPath>,
}

impl Candidates {
    /// The candidates of a log, for the supervisor of this agent.
    pub(super) async fn open(sys: &Sys, log: Arc<dyn Log>, agent: &str) -> Self {
        let glob: Glob = format!("{TENANT}/sessions/*").parse().expect("the glob is a good one");
        let name = format!("{INDEX}-{agent}");
        loop {
            match OpenWork::open(sys, log.clone(), &name, glob.clone()).await {
                Ok(open) => return Self::Open(open),
                Err(error @ (OpenError::Lacks(_) | OpenError::Damaged(_))) => {
                    tracing::info!(%error, "every session is looked at once");
                    return Self::All(log);
                }
                Err(error) => {
                    tracing::warn!(%error, "the index of open work cannot be read; trying again");
                    sys.clock.sleep(FAILURE_PAUSE_FIRST).await;
                }
            }
        }
    }

    /// The next ones after this stream, from the first if there is none.
    pub(super) async fn page(&self, after: Option<StreamPath>) -> Result<CandidatePage, ListError> {
        let list = List { prefix: format!("{TENANT}/sessions/"), after, limit: 0 };
        let page = match self {
            Self::Open(open) => open.page(list).await?,
            Self::All(log) => log.list(list).await?,
        };
        let placed = page.streams.iter().filter_map(|stream| {
            let place = (stream.head.tail, stream.head.incarnation);
            Some((SessionId::of(&stream.path)?, place))
        });
        Ok(CandidatePage { sessions: placed.collect(), next: page.next })
    }

    /// A session that has come this far has no work.
    pub(super) async fn rests(&self, (offset, incarnation): Place) {
        let Self::Open(open) = self else { return };
        if let Err(error) = open.leave(incarnation, offset).await {
            tracing::debug!(%error, "a session that rests will be looked at again");
        }
    }
}
