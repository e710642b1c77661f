//! The log as one process reaches it: slowly now and then, not at all while the process is cut off,
//! and never again once it is dead. Hints of it get lost.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use log::{
    Answer, Append, AppendError, Appended, Chunk, Create, CreateError, Created, Head, HeadError,
    Hints, Layer, Log, Moved, ReadError, Unavailable, Watch, WatchError,
};
use parking_lot::Mutex;
use sys::Sys;
use wire::{Address, Glob, Offset, ReadFrom};

use crate::dice::Dice;

/// The log as a process reaches it.
#[derive(Debug)]
pub(crate) struct Line {
    sys: Sys,
    behind: Arc<dyn Log>,
    dice: Dice,
    /// Of so many requests in a hundred the answer takes its time.
    slow_percent: u64,
    // Each is held for one step, never across an await.
    reach: Mutex<Reach>,
    feeds: Mutex<Vec<Arc<Feed>>>,
    /// Hints that will not arrive.
    to_lose: Arc<AtomicU64>,
    tally: Arc<Tally>,
}

/// What all lines of a run have met.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    hints_lost: AtomicU64,
    resyncs_owed: AtomicU64,
}

/// Whether a process reaches the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Well,
    CutOff,
    Dead,
}

/// The hints of one watch.
#[derive(Debug)]
struct Feed {
    hints: Hints,
    /// Whether hints were lost and the watcher does not know.
    owes_resync: AtomicBool,
}

impl Tally {
    /// Hints that did not arrive.
    pub(crate) fn hints_lost(&self) -> u64 {
        self.hints_lost.load(Ordering::Relaxed)
    }

    /// Watches that had lost hints when faults stopped, and were told only then.
    pub(crate) fn resyncs_owed(&self) -> u64 {
        self.resyncs_owed.load(Ordering::Relaxed)
    }
}

impl Line {
    /// A line on which nothing is wrong, but that it is slow for so many requests in a hundred.
    pub(crate) fn new(
        sys: &Sys,
        behind: Arc<dyn Log>,
        dice: &Dice,
        slow_percent: u64,
        tally: &Arc<Tally>,
    ) -> Arc<Self> {
        Arc::new(Self {
            sys: sys.clone(),
            behind,
            dice: dice.split(),
            slow_percent,
            reach: Mutex::new(Reach::Well),
            feeds: Mutex::default(),
            to_lose: Arc::default(),
            tally: tally.clone(),
        })
    }

    /// The process reaches the log.
    pub(crate) fn connect(&self) {
        *self.reach.lock() = Reach::Well;
    }

    /// The process reaches the log no more, for a while.
    pub(crate) fn cut_off(&self) {
        *self.reach.lock() = Reach::CutOff;
    }

    /// The process is dead: nothing it has asked is ever answered.
    pub(crate) fn kill(&self) {
        *self.reach.lock() = Reach::Dead;
    }

    /// Whether it is cut off.
    pub(crate) fn is_cut_off(&self) -> bool {
        *self.reach.lock() == Reach::CutOff
    }

    /// So many further hints do not arrive.
    pub(crate) fn lose_hints(&self, count: u64) {
        self.to_lose.store(count, Ordering::Relaxed);
    }

    /// Faults stop: it reaches the log. Only a watch that lost hints is told to resync: any other
    /// resync would make up for a wake-up that the watcher itself has missed.
    pub(crate) fn recover(&self) {
        self.connect();
        self.to_lose.store(0, Ordering::Relaxed);
        for feed in self.feeds.lock().iter() {
            if feed.owes_resync.swap(false, Ordering::Relaxed) {
                self.tally.resyncs_owed.fetch_add(1, Ordering::Relaxed);
                feed.hints.tell(Moved::Resync);
            }
        }
    }

    /// Waits as long as a request is on its way; tells whether it gets through.
    async fn passes(&self) -> Result<(), Unavailable> {
        if self.slow_percent > 0 && self.dice.percent(self.slow_percent) {
            self.sys.clock.sleep(self.dice.pause()).await;
        }
        let reach = *self.reach.lock();
        match reach {
            Reach::Well => Ok(()),
            Reach::CutOff => Err(Unavailable::Unreachable("cut off".into())),
            Reach::Dead => pending().await,
        }
    }
}

impl Layer for Line {
    fn behind(&self) -> &dyn Log {
        &*self.behind
    }

    fn create<'a>(
        &'a self,
        address: &'a Address,
        create: Create,
    ) -> Answer<'a, Result<Created, CreateError>> {
        Box::pin(async move {
            self.passes().await?;
            let created = self.behind.create(address, create).await;
            // The answer may be lost, too.
            self.passes().await?;
            created
        })
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            self.passes().await?;
            let appended = self.behind.append(address, append).await;
            self.passes().await?;
            appended
        })
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async move {
            self.passes().await?;
            let read = self.behind.read(address, from, bytes_max).await;
            self.passes().await?;
            read
        })
    }

    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        Box::pin(async move {
            self.passes().await?;
            let tail = self.behind.tail(address, after).await;
            // It may have waited for long.
            self.passes().await?;
            tail
        })
    }

    fn head<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Head, HeadError>> {
        Box::pin(async move {
            self.passes().await?;
            self.behind.head(address).await
        })
    }

    fn watch(&self, glob: Glob) -> Result<Watch, WatchError> {
        let mut inner = self.behind.watch(glob)?;
        let (hints, watch) = Watch::fed();
        let feed = Arc::new(Feed { hints, owes_resync: AtomicBool::new(false) });
        self.feeds.lock().push(feed.clone());
        let (to_lose, tally) = (self.to_lose.clone(), self.tally.clone());
        self.sys.spawn.task("hints", async move {
            while let Some(hint) = inner.next().await {
                let lost = to_lose.load(Ordering::Relaxed);
                let hint = match lost {
                    0 => hint,
                    _ => {
                        to_lose.store(lost - 1, Ordering::Relaxed);
                        tally.hints_lost.fetch_add(1, Ordering::Relaxed);
                        // That some were lost is told with the last of them.
                        feed.owes_resync.store(lost > 1, Ordering::Relaxed);
                        if lost > 1 {
                            continue;
                        }
                        Moved::Resync
                    }
                };
                if !feed.hints.tell(hint) {
                    return;
                }
            }
        });
        Ok(watch)
    }
}
