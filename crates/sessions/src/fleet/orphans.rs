//! Orphans: index streams of sessions that are gone.
//!
//! A supervisor that hears of the end of a session removes its index stream. If the process ends
//! before that, nothing tells of it any more, for system streams are on no list. So a ledger names
//! each session that rests and has an index, and each supervisor goes through it once, some at a
//! time. It is a hint: lines may stand in it twice, and all of it can be deleted.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use agent::session::Sessions;
use log::{
    Append, AppendError, Create, Delete, DeleteError, Freshness, HeadError, Log, ReadError,
    TrimError, Unavailable,
};
use parking_lot::Mutex;
use thiserror::Error;
use wire::{Address, ContentType, Messages, Offset, ReadFrom, StreamPath, SystemPath};

use super::Yard;
use crate::{
    SessionId,
    caps::{LEDGER_LINES_MIN, LEDGER_PAGE_BYTES, LEDGER_PAUSE, NAMED_MAX},
};

/// Where the ledger is.
const LEDGER: &str = "sessions/indexed";

/// The ledger of sessions that have an index.
#[derive(Debug)]
pub(crate) struct Orphans {
    log: Arc<dyn Log>,
    ledger: Address,
    /// Sessions that are known to stand in it, by the hashes of their paths. Two that share one
    /// may leave an index behind, and no more than that.
    named: Mutex<HashSet<u64>>,
}

/// Why a ledger was not gone through.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Trim(#[from] TrimError),
    #[error("the supervisor ends")]
    Ended,
}

/// What stands in a ledger.
#[derive(Debug, Default)]
struct Tally {
    lines: usize,
    /// Lines of sessions that are there, each counted once.
    alive: usize,
    end: Offset,
}

impl Orphans {
    pub(super) fn new(sessions: &Sessions) -> Self {
        let ledger = LEDGER.parse::<SystemPath>().expect("a plain path").into();
        Self { log: sessions.log().clone(), ledger, named: Mutex::default() }
    }

    /// Takes note of a session that rests, if it has an index.
    pub(super) async fn name(&self, session: &SessionId) {
        let hash = hash_of(session.path());
        if !self.log.capabilities().system_streams || self.named.lock().contains(&hash) {
            return;
        }
        let Some(index) = index_of(session.path()) else { return };
        if self.log.head(&index).await.is_err() {
            return;
        }
        match self.append(&[session.path().clone()]).await {
            Ok(()) => self.remember(hash),
            Err(error) => tracing::debug!(%session, %error, "a session is not in the ledger"),
        }
    }

    /// Removes what is left of a session, if it is gone.
    pub(super) async fn remove_if_gone(&self, session: &SessionId) {
        if matches!(self.is_there(session.path()).await, Ok(false)) {
            self.remove(session.path()).await;
        }
    }

    /// Goes through the ledger, once all sessions were gone through, and removes what is left of
    /// those that are gone.
    pub(super) async fn sweep(yard: Arc<Yard>) {
        let mut surveyed = yard.surveyed.subscribe();
        tokio::select! {
            () = yard.cancellation.cancelled() => return,
            surveyed = surveyed.wait_for(|is_surveyed| *is_surveyed) => {
                if surveyed.is_err() {
                    return;
                }
            }
        }
        match yard.orphans.go_through(&yard).await {
            Ok(()) | Err(Failure::Ended | Failure::Read(ReadError::NotFound(_))) => {}
            Err(error) => tracing::info!(%error, "the next start looks for orphaned indexes"),
        }
    }

    async fn go_through(&self, yard: &Yard) -> Result<(), Failure> {
        let (mut tally, mut seen) = (Tally::default(), HashSet::new());
        let mut from = ReadFrom::Start;
        loop {
            let (paths, next) = self.page(from).await?;
            for path in paths {
                tally.lines += 1;
                let hash = hash_of(&path);
                if self.is_there(&path).await? {
                    self.remember(hash);
                    tally.alive += usize::from(seen.insert(hash));
                } else {
                    self.remove(&path).await;
                }
            }
            match next {
                Next::Page(at) => from = ReadFrom::At(at),
                Next::End(at) => {
                    tally.end = at;
                    break;
                }
            }
            if !yard.cancellation.rest(LEDGER_PAUSE, &yard.sys).await {
                return Err(Failure::Ended);
            }
        }
        if tally.lines > LEDGER_LINES_MIN.max(2 * tally.alive) {
            self.rewrite(tally.end).await?;
        }
        Ok(())
    }

    /// Writes anew what stands before this place and counts, and drops it there. A crash in
    /// between leaves both.
    async fn rewrite(&self, end: Offset) -> Result<(), Failure> {
        let (mut kept, mut from) = (HashSet::new(), ReadFrom::Start);
        loop {
            let (mut paths, next) = self.page(from).await?;
            paths.retain(|path| kept.insert(hash_of(path)));
            let mut alive = Vec::with_capacity(paths.len());
            for path in paths {
                if self.is_there(&path).await? {
                    alive.push(path);
                }
            }
            if !alive.is_empty() {
                self.append(&alive).await?;
            }
            match next {
                Next::Page(at) if at < end => from = ReadFrom::At(at),
                _ => break,
            }
        }
        self.log.trim(&self.ledger, end).await?;
        Ok(())
    }

    /// Removes the index of a session that is gone. If one of that name is made meanwhile, it
    /// makes its index again.
    async fn remove(&self, path: &StreamPath) {
        let Some(index) = index_of(path) else { return };
        match self.log.delete(&index, Delete::Erase).await {
            Ok(()) => tracing::debug!(%path, "the index of a session that is gone is removed"),
            Err(DeleteError::NotFound(_) | DeleteError::Unsupported(_)) => {}
            Err(error) => tracing::debug!(%path, %error, "the index of a session stays"),
        }
    }

    async fn is_there(&self, path: &StreamPath) -> Result<bool, HeadError> {
        match self.log.head(&path.clone().into()).await {
            Ok(_) => Ok(true),
            Err(HeadError::NotFound(_) | HeadError::Gone(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn page(&self, from: ReadFrom) -> Result<(Vec<StreamPath>, Next), ReadError> {
        let chunk = self.log.read(&self.ledger, from, LEDGER_PAGE_BYTES).await?;
        let lines = chunk.messages().filter_map(|line| serde_json::from_slice::<String>(line).ok());
        let paths = lines.filter_map(|line| line.parse::<StreamPath>().ok());
        // What another wrote there is no business of ours.
        let paths = paths.filter(|path| SessionId::of(path).is_some()).collect();
        let next = match chunk.freshness {
            Freshness::Behind => Next::Page(chunk.next),
            Freshness::UpToDate | Freshness::Closed => Next::End(chunk.next),
        };
        Ok((paths, next))
    }

    async fn append(&self, paths: &[StreamPath]) -> Result<(), AppendError> {
        let lines = paths.iter().map(|path| serde_json::to_vec(path.as_str()));
        let lines: Vec<Vec<u8>> = lines.filter_map(Result::ok).collect();
        let messages = Messages::copied(lines.iter().map(Vec::as_slice))
            .map_err(|error| Unavailable::Unreadable(error.to_string()))?;
        let append = Append::messages(messages);
        match self.log.append(&self.ledger, append.clone()).await {
            Err(AppendError::NotFound(_)) => {
                let create =
                    Create { content_type: Some(ContentType::json()), ..Create::default() };
                // If it cannot be made, the append tells why.
                let _ = self.log.create(&self.ledger, create).await;
                self.log.append(&self.ledger, append).await.map(|_| ())
            }
            appended => appended.map(|_| ()),
        }
    }

    /// Remembers that a session is named, if there is room: else it may be named once more.
    fn remember(&self, hash: u64) {
        let mut named = self.named.lock();
        if named.len() < NAMED_MAX {
            named.insert(hash);
        }
    }
}

/// Where a page ends.
#[derive(Debug)]
enum Next {
    Page(Offset),
    End(Offset),
}

/// Where the index of a session is.
fn index_of(session: &StreamPath) -> Option<Address> {
    format!("session-index/{session}").parse::<SystemPath>().ok().map(Address::from)
}

fn hash_of(path: &StreamPath) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.as_str().hash(&mut hasher);
    hasher.finish()
}
