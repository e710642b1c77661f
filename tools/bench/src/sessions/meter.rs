//! A log that counts what is read of one session, and tells when that session rests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use log::{Answer, Append, AppendError, Appended, Chunk, Layer, Log, ReadError};
use sessions::SessionId;
use sys::Sys;
use tokio::sync::watch;
use wake::OpenWork;
use wire::{Address, ReadFrom};

use super::history::AGENT;

/// The index of open work in which the supervisor of [`AGENT`] notes that a session rests.
const INDEX: &str = "sessions-1";
/// How long a session may take to rest.
const REST_MAX: Duration = Duration::from_secs(90);

/// A log before the real one.
#[derive(Debug)]
pub(super) struct Meter {
    inner: Arc<dyn Log>,
    /// The session; its snapshot is in a system stream whose path ends with this.
    session: SessionId,
    bytes: AtomicU64,
    /// How often the index of open work was written.
    marks: watch::Sender<u64>,
}

impl Meter {
    pub(super) fn new(inner: Arc<dyn Log>, session: &SessionId) -> Arc<Self> {
        let (marks, _) = watch::channel(0);
        Arc::new(Self { inner, session: session.clone(), bytes: AtomicU64::new(0), marks })
    }

    /// Bytes read of the session so far: of its stream, its snapshot, and the ids of its actions.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Waits until the index says that the session rests where it ends: what a supervisor does for
    /// a session that rests, it has done by then.
    pub(super) async fn rested(&self, sys: &Sys) -> Result<()> {
        let mut marks = self.marks.subscribe();
        let rested = async {
            loop {
                marks.borrow_and_update();
                if self.is_at_rest(sys).await? {
                    return Ok(());
                }
                marks.changed().await.context("the meter lives")?;
            }
        };
        tokio::time::timeout(REST_MAX, rested).await.context("the session does not rest")?
    }

    async fn is_at_rest(&self, sys: &Sys) -> Result<bool> {
        let glob = self.session.path().as_str().parse()?;
        let name = format!("{INDEX}-{AGENT}");
        let index = OpenWork::open(sys, self.inner.clone(), &name, glob).await?;
        let head = self.inner.head(&Address::from(self.session.path().clone())).await?;
        let is_open = index.is_open(head.incarnation, head.tail);
        index.close().await;
        Ok(!is_open)
    }

    fn is_of_session(&self, address: &Address) -> bool {
        let path = self.session.path().as_str();
        match address {
            Address::Stream(stream) => stream.as_str() == path,
            Address::System(system) => system.to_string().ends_with(path),
        }
    }
}

impl Layer for Meter {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            let appended = self.inner.append(address, append).await?;
            if matches!(address, Address::System(path) if path.to_string().contains(INDEX)) {
                self.marks.send_modify(|marks| *marks += 1);
            }
            Ok(appended)
        })
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async move {
            let chunk = self.inner.read(address, from, bytes_max).await?;
            if self.is_of_session(address) {
                let bytes: usize = chunk.runs.iter().map(|run| run.data().len()).sum();
                self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Ok(chunk)
        })
    }
}
