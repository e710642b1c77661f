//! Which sessions may have work: asked for when a supervisor starts, and after hints were lost.

use std::{fmt, sync::Arc};

use log::{Answer, List, ListError, Log};
use wire::StreamPath;

use super::facts::Place;
use crate::{SessionId, TENANT};

/// Sessions that may have work. There may be too many among them, never too few.
pub(crate) trait Candidates: fmt::Debug + Send + Sync {
    /// The next ones after this stream, from the first if there is none.
    fn page(&self, after: Option<StreamPath>) -> Answer<'_, Result<CandidatePage, ListError>>;
}

/// Some candidates.
#[derive(Debug, Default)]
pub(crate) struct CandidatePage {
    /// Each with how far it has come: one that was at rest there still is.
    pub(crate) sessions: Vec<(SessionId, Place)>,
    /// Where to go on; none if these were the last.
    pub(crate) next: Option<StreamPath>,
}

/// Every session is a candidate, by its head alone.
#[derive(Debug)]
pub(crate) struct AllSessions(pub(crate) Arc<dyn Log>);

impl Candidates for AllSessions {
    fn page(&self, after: Option<StreamPath>) -> Answer<'_, Result<CandidatePage, ListError>> {
        Box::pin(async move {
            let prefix = format!("{TENANT}/sessions/");
            let page = self.0.list(List { prefix, after, limit: 0 }).await?;
            let placed = page.streams.iter().filter_map(|stream| {
                let place = (stream.head.tail, stream.head.incarnation);
                Some((SessionId::of(&stream.path)?, place))
            });
            Ok(CandidatePage { sessions: placed.collect(), next: page.next })
        })
    }
}
