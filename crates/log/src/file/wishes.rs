//! What the regrouper is asked to do: a set of wishes, not a queue.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use tokio::sync::mpsc;

/// Why there may be something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// A segment is full.
    Rolled,
    /// Something was deleted or trimmed.
    Reclaim,
    /// Something must leave the disk now.
    Erase,
}

/// What there is to do; the same wish twice is one.
#[derive(Clone, Debug)]
pub(super) struct Wishes {
    jobs: Arc<AtomicU8>,
    wake: mpsc::Sender<()>,
}

/// Where the regrouper finds its wishes.
#[derive(Debug)]
pub(super) struct WishBox {
    jobs: Arc<AtomicU8>,
    woken: mpsc::Receiver<()>,
}

pub(super) fn wishes() -> (Wishes, WishBox) {
    let jobs = Arc::new(AtomicU8::new(0));
    let (wake, woken) = mpsc::channel(1);
    (Wishes { jobs: jobs.clone(), wake }, WishBox { jobs, woken })
}

impl Wishes {
    pub(super) fn add(&self, job: Job) {
        self.jobs.fetch_or(1 << job as u8, Ordering::AcqRel);
        // A full channel means that the regrouper is about to look anyway.
        let _ = self.wake.try_send(());
    }
}

impl WishBox {
    /// True if an erase is wished for and not taken up yet.
    pub(super) fn erase_is_wished(&self) -> bool {
        self.jobs.load(Ordering::Acquire) & 1 << Job::Erase as u8 != 0
    }

    /// All that was wished for since the last time; none when the log is gone.
    pub(super) async fn next(&mut self) -> Option<Vec<Job>> {
        self.woken.recv().await?;
        let jobs = self.jobs.swap(0, Ordering::AcqRel);
        let all = [Job::Rolled, Job::Reclaim, Job::Erase];
        Some(all.into_iter().filter(|job| jobs & 1 << *job as u8 != 0).collect())
    }
}
