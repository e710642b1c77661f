//! Watching a glob of streams: hints, bounded, never in the way of a write.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::sync::mpsc;
use wire::{Address, Glob, Offset, StreamPath};

use crate::{Incarnation, WatchError};

/// Hints that one watcher may lag behind before it must resync.
const HINTS_MAX: usize = 1024;
/// Watchers of one log. Who serves it to others keeps some of them for itself.
pub const WATCHERS_MAX: usize = 4096;

/// A hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// This life of the stream has its tail at or past this offset, or was just made, closed or
    /// deleted.
    Stream(StreamPath, Offset, Incarnation),
    /// Hints were lost: look at every stream you care for.
    Resync,
}

/// Hints for one watcher, as an endless stream; it ends when the log closes.
#[derive(Debug)]
pub struct Watch {
    hints: mpsc::Receiver<Moved>,
    lost: Arc<AtomicBool>,
}

/// Where the hints for one watcher come from, if the log is elsewhere.
#[derive(Debug)]
pub struct Hints {
    hints: mpsc::Sender<Moved>,
    lost: Arc<AtomicBool>,
}

/// All watchers of one log.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    // Held for a walk over the watchers only.
    list: Mutex<Vec<Watcher>>,
    count: AtomicUsize,
}

#[derive(Debug)]
struct Watcher {
    glob: Glob,
    hints: Hints,
}

impl Watch {
    /// A watch that hears what is told to the other half.
    #[must_use]
    pub fn fed() -> (Hints, Self) {
        let (sender, hints) = mpsc::channel(HINTS_MAX);
        let lost = Arc::new(AtomicBool::new(false));
        (Hints { hints: sender, lost: lost.clone() }, Self { hints, lost })
    }

    /// The next hint, or none when the log closes.
    pub async fn next(&mut self) -> Option<Moved> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Moved>> {
        let hint = self.hints.poll_recv(cx);
        if self.lost.swap(false, Ordering::AcqRel) {
            return Poll::Ready(Some(Moved::Resync));
        }
        hint
    }
}

impl Hints {
    /// Passes a hint on, or remembers that one was lost. False if the watcher has left.
    pub fn tell(&self, hint: Moved) -> bool {
        match self.hints.try_send(hint) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.lost.store(true, Ordering::Release);
                // If the watcher has emptied its queue meanwhile, this wakes it to see the flag.
                let _ = self.hints.try_send(Moved::Resync);
                true
            }
        }
    }

    /// True once the watcher has left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.hints.is_closed()
    }

    /// Waits until the watcher has left.
    pub async fn over(&self) {
        self.hints.closed().await;
    }
}

impl Stream for Watch {
    type Item = Moved;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Moved>> {
        self.poll(cx)
    }
}

impl Watchers {
    pub(crate) fn add(&self, glob: Glob) -> Result<Watch, WatchError> {
        let (hints, watch) = Watch::fed();
        let mut list = self.list.lock().expect("no panic while held");
        list.retain(|watcher| !watcher.hints.is_over());
        if list.len() == WATCHERS_MAX {
            return Err(WatchError::TooMany);
        }
        list.push(Watcher { glob, hints });
        self.count.store(list.len(), Ordering::Release);
        Ok(watch)
    }

    pub(crate) fn moved(&self, address: &Address, tail: Offset, life: Incarnation) {
        let Some(path) = address.stream() else { return };
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut list = self.list.lock().expect("no panic while held");
        list.retain(|watcher| watcher.tell(path, tail, life));
        self.count.store(list.len(), Ordering::Release);
    }
}

impl Watcher {
    /// False if the watcher has left.
    fn tell(&self, path: &StreamPath, tail: Offset, life: Incarnation) -> bool {
        if !self.glob.matches(path) {
            return !self.hints.is_over();
        }
        self.hints.tell(Moved::Stream(path.clone(), tail, life))
    }
}
