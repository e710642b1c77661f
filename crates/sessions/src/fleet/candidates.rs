//! Which sessions may have work: asked for when a supervisor starts, and after hints were lost.

use std::sync::Arc;

use agent::rows::KeepChunks;
use log::{List, ListError, Log};
use wake::OpenWork;
use wire::{Glob, StreamPath};

use super::{Yard, facts::Place};
use crate::{SessionId, TENANT, caps::FAILURE_PAUSE_FIRST};

/// The names of the index. How sessions are judged is part of it: one whose chunks are kept for
/// ever rests with all of them, so it is looked at once more if they are to be dropped.
const INDEX_DROPPING: &str = "sessions-2-drop";
const INDEX_KEEPING: &str = "sessions-2-keep";

/// Sessions that may have work, by their heads alone. There may be too many among them, never too
/// few.
#[derive(Debug)]
pub(super) enum Candidates {
    /// Those that are not known to rest.
    Open(OpenWork),
    /// All, in a log that keeps no index, or none that can be read.
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
    /// The candidates of a supervisor; none if it ends before that is known.
    pub(super) async fn open(yard: &Yard) -> Option<Self> {
        let glob: Glob = format!("{TENANT}/sessions/*").parse().expect("the glob is a good one");
        let (sys, log) = (&yard.sys, yard.sessions.log());
        let index = match yard.settings.keep_chunks {
            KeepChunks::Forever => INDEX_KEEPING,
            _ => INDEX_DROPPING,
        };
        let name = format!("{index}-{}", yard.agent);
        loop {
            match OpenWork::open(sys, log.clone(), &name, glob.clone()).await {
                Ok(open) => return Some(Self::Open(open)),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "the index of open work cannot be read; trying again");
                }
                Err(error) => {
                    tracing::warn!(%error, "no index of open work: every session is looked at");
                    return Some(Self::All(log.clone()));
                }
            }
            if !yard.cancellation.rest(FAILURE_PAUSE_FIRST, sys).await {
                return None;
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
