//! The index of a session: a system stream of ids and snapshots, which can be deleted at any time.

use std::{collections::HashMap, sync::Arc};

use log::{Append, AppendError, Create, Delete, Head, HeadError, Log, ReadError, Unavailable};
use sys::Sys;
use wire::{Address, Messages, Offset, ReadFrom, StreamPath};

use super::{
    ids::{self, Entered, Entries, IdKey, Run},
    snapshot::{Snapshot, Useless},
};
use crate::caps::SNAPSHOT_BYTES_MAX;

/// The index stream of one session.
pub(super) struct Index {
    log: Arc<dyn Log>,
    /// None if the log keeps no system streams: then nothing is kept.
    address: Option<Address>,
    /// Where it ends, as far as is known; none if that is to be found out.
    tail: Option<Offset>,
}

/// Why a page of ids could not be read.
#[derive(Debug)]
pub(super) enum Miss {
    /// It is not there any more, or damaged: it will not come back.
    Lost,
    /// The log could not be read this time.
    Failed(ReadError),
}

impl Index {
    pub(super) fn of(_: &Sys, log: Arc<dyn Log>, path: &StreamPath) -> Self {
        let able = log.capabilities();
        let address = format!("session-index/{path}").parse().ok().map(Address::System);
        let address = address.filter(|_| able.system_streams && able.read_back && able.trim);
        Self { log, address, tail: None }
    }

    pub(super) fn forget(&mut self) {
        self.tail = None;
    }

    /// The newest snapshot, if it is of use for a session that is like this.
    pub(super) async fn load(&mut self, session: &Head) -> Option<Snapshot> {
        let address = self.address.clone()?;
        let chunk = self.log.read(&address, ReadFrom::Last, 1).await.ok()?;
        self.tail = Some(chunk.next);
        let last = chunk.messages().last()?;
        let snapshot = Snapshot::decode(last).and_then(|snapshot| {
            snapshot.check(session)?;
            Ok(snapshot)
        });
        match snapshot {
            Ok(snapshot) => Some(snapshot),
            Err(useless) => {
                tracing::debug!(%address, %useless, "a session is read from its beginning");
                if useless == Useless::OtherLife {
                    self.remove().await;
                }
                None
            }
        }
    }

    /// Deletes it, since its session is gone.
    pub(super) async fn remove(&mut self) {
        let Some(address) = &self.address else { return };
        self.tail = None;
        match self.log.delete(address, Delete::Erase).await {
            Ok(()) | Err(log::DeleteError::NotFound(_)) => {}
            Err(error) => tracing::debug!(%address, %error, "an index stream stays"),
        }
    }

    /// Looks an id up.
    pub(super) async fn find(&self, runs: &[Run], key: IdKey) -> Result<Option<Entered>, Miss> {
        for run in runs.iter().rev() {
            if let Some(entered) = self.find_in(run, key).await? {
                return Ok(Some(entered));
            }
        }
        Ok(None)
    }

    async fn find_in(&self, run: &Run, key: IdKey) -> Result<Option<Entered>, Miss> {
        let (mut low, mut high) = (0, run.pages());
        let mut number = run.guess(key);
        while low < high {
            number = number.clamp(low, high - 1);
            let page = self.page(run.page(number)).await?;
            match page.binary_search_by_key(&key, |(key, _)| *key) {
                Ok(index) => return Ok(page.get(index).map(|(_, entered)| *entered)),
                Err(0) => (high, number) = (number, number.saturating_sub(1)),
                Err(end) if end == page.len() => (low, number) = (number + 1, number + 1),
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn page(&self, at: Offset) -> Result<Entries, Miss> {
        let address = self.address.as_ref().ok_or(Miss::Lost)?;
        let read = self.log.read(address, ReadFrom::At(at), 1).await?;
        read.messages().next().and_then(ids::read_page).ok_or(Miss::Lost)
    }

    /// Writes a snapshot, with a run of the ids since the last one; tells the runs there are then.
    /// None if it could not be written: then nothing has changed.
    pub(super) async fn save(
        &mut self,
        mut snapshot: Snapshot,
        recent: &HashMap<IdKey, Entered>,
    ) -> Option<Vec<Run>> {
        let address = self.address.clone()?;
        let tail = match self.tail {
            Some(tail) => tail,
            None => self.open(&address).await?,
        };
        let pages = self.merge(&mut snapshot.runs, recent, tail).await.ok()?;
        let bytes = snapshot.encode().filter(|bytes| bytes.len() <= SNAPSHOT_BYTES_MAX)?;
        let mut end = tail;
        let mut messages = pages.into_iter().chain([bytes]).peekable();
        while messages.peek().is_some() {
            let batch: Vec<_> = messages.by_ref().take(PAGES_PER_APPEND).collect();
            end = self.append(&address, end, batch).await?;
        }
        self.tail = Some(end);
        // What no run and no snapshot needs any more.
        let first = snapshot.runs.iter().map(|run| run.start).min().unwrap_or(tail);
        if let Err(error) = self.log.trim(&address, first).await {
            tracing::debug!(%address, %error, "an index stream is not trimmed");
        }
        Some(snapshot.runs)
    }

    /// Takes recent ids and small runs together, as the last run; its pages.
    async fn merge(
        &self,
        runs: &mut Vec<Run>,
        recent: &HashMap<IdKey, Entered>,
        tail: Offset,
    ) -> Result<Vec<Vec<u8>>, Miss> {
        if recent.is_empty() {
            return Ok(Vec::new());
        }
        let mut older = Entries::new();
        for run in runs.drain(ids::merged_from(runs, recent.len())..) {
            for number in 0..run.pages() {
                older.extend(self.page(run.page(number)).await?);
            }
        }
        let entries = ids::sorted(recent, older);
        runs.push(Run { start: tail, entries: entries.len() as u64 });
        Ok(ids::pages(&entries).collect())
    }

    async fn append(
        &mut self,
        address: &Address,
        at: Offset,
        batch: Vec<Vec<u8>>,
    ) -> Option<Offset> {
        let messages = Messages::copied(batch.iter().map(Vec::as_slice)).ok()?;
        let append = Append { expected: Some(at), ..Append::messages(messages) };
        match self.log.append(address, append).await {
            Ok(appended) => Some(appended.tail),
            // Another process keeps this session, too; or the log cannot.
            Err(error) => {
                let is_rival = matches!(error, AppendError::ExpectedOffset(_));
                tracing::debug!(%address, %error, is_rival, "a session gets no snapshot");
                self.tail = None;
                None
            }
        }
    }

    /// Where the index ends; it is made if there is none.
    async fn open(&self, address: &Address) -> Option<Offset> {
        match self.log.head(address).await {
            Ok(head) => Some(head.tail),
            Err(HeadError::NotFound(_)) => {
                let created = self.log.create(address, Create::default()).await.ok()?;
                Some(created.head.tail)
            }
            Err(_) => None,
        }
    }
}

/// Pages that go into one append.
const PAGES_PER_APPEND: usize = 64;

const _: () = assert!(PAGES_PER_APPEND * ids::PAGE_BYTES <= 1 << 20);

impl From<ReadError> for Miss {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unavailable(Unavailable::Damaged(_)) => Self::Lost,
            ReadError::Unavailable(_) => Self::Failed(error),
            _ => Self::Lost,
        }
    }
}
