//! The index of open work: which streams may owe something, found after any crash without reading
//! one of them (ADR 29).
//!
//! What is stored is rest: a watermark per stream says up to where it was judged, and found to owe
//! nothing. A stream is open if it ends anywhere else, so an append opens it by that very
//! write. The index may name too much, never too little; losing it costs one look at each stream.
//!
//! ```text
//!   judged, nothing open      not judged yet
//!  ┌───────────────────────┬────────────────┐
//!  0                   watermark           tail      open: watermark != tail
//! ```

mod feed;
mod keeper;
pub(crate) mod marks;

use std::sync::{Arc, Mutex, MutexGuard};

use log::{Incarnation, List, ListError, Log, Page, Unavailable};
use sys::{Sys, Task};
use tokio::sync::{mpsc, oneshot};
use wire::{BadPath, Glob, Offset, SystemPath};

pub(crate) use self::feed::Pass;
pub use self::feed::{Feed, Found};
use self::{
    keeper::{Keeper, Leaving},
    marks::{Mark, Marks},
};
use crate::{OpenError, caps::LEAVING_MAX};

/// An index of open work, kept as a system stream. A clone is the same index.
///
/// Several processes may keep one index over one log: each sees its own watermarks at once and
/// those of others when it opens, and looks once more at what another has judged since.
#[derive(Clone, Debug)]
pub struct OpenWork {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    log: Arc<dyn Log>,
    glob: Glob,
    // Held for one look or change, never across an await.
    marks: Arc<Mutex<Marks>>,
    leaving: mpsc::Sender<Leaving>,
    keeper: Task,
}

impl OpenWork {
    /// Opens the index that is kept under this name, for the streams that the glob covers. There
    /// need not be one yet: then every stream is open that has a message. A change of how
    /// streams are judged takes another name.
    ///
    /// # Errors
    /// [`OpenError`] says what the log cannot do.
    ///
    /// # Panics
    /// If the name is no path segment: names are written in code.
    pub async fn open(
        sys: &Sys,
        log: Arc<dyn Log>,
        name: &str,
        glob: Glob,
    ) -> Result<Self, OpenError> {
        crate::engine::check_capabilities(&*log)?;
        let path: Result<SystemPath, BadPath> = format!("wake/open/{name}").parse();
        let address = path.expect("an index is named by a path segment").into();
        let (keeper, marks) = Keeper::open(log.clone(), address).await?;
        let marks = Arc::new(Mutex::new(marks));
        let (leaving, asked) = mpsc::channel(LEAVING_MAX);
        let keeper = sys.spawn.task("open work", keeper.run(marks.clone(), asked));
        Ok(Self { inner: Arc::new(Inner { log, glob, marks, leaving, keeper }) })
    }

    /// True unless this life of the stream was judged up to exactly where it ends.
    #[must_use]
    pub fn is_open(&self, incarnation: Incarnation, tail: Offset) -> bool {
        self.marks().is_open(incarnation, tail)
    }

    /// Says that this life of the stream, with everything before `up_to` looked at, owes nothing.
    /// Returns once that lasts. It stays open if more was appended meanwhile.
    ///
    /// # Errors
    /// [`Unavailable`] if it may not last: the stream stays open, and may be left again.
    pub async fn leave(&self, incarnation: Incarnation, up_to: Offset) -> Result<(), Unavailable> {
        if self.marks().get(incarnation).is_some_and(|at| at >= up_to) {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let leaving = Leaving { mark: Mark::new(incarnation, up_to), reply };
        self.inner.leaving.send(leaving).await.map_err(|_| Unavailable::Closing)?;
        answer.await.unwrap_or(Err(Unavailable::Closing))
    }

    /// Follows the log: first every stream that is open now, then those that open. Nothing falls
    /// between.
    ///
    /// # Errors
    /// If the log cannot be watched.
    pub fn follow(&self) -> Result<Feed, log::WatchError> {
        let watch = self.inner.log.watch(self.inner.glob.clone())?;
        Ok(Feed::new(self.clone(), watch))
    }

    /// One page of a pass over all streams that the index covers: those that are open. A pass
    /// begins with the page that is asked for after no stream; what it does not meet is forgotten
    /// when it ends. For those who watch the log by themselves; all others
    /// [follow](Self::follow).
    ///
    /// # Errors
    /// If the log cannot be listed.
    pub async fn page(&self, list: List) -> Result<Page, ListError> {
        if list.after.is_none() {
            self.marks().begin_pass();
        }
        let mut page = self.inner.log.list(list).await?;
        let mut marks = self.marks();
        page.streams.retain(|listed| {
            marks.met(listed.head.incarnation);
            self.inner.glob.matches(&listed.path)
                && marks.is_open(listed.head.incarnation, listed.head.tail)
        });
        if page.next.is_none() {
            marks.end_pass();
        }
        drop(marks);
        Ok(page)
    }

    /// How many streams have a watermark.
    #[must_use]
    pub fn marks_count(&self) -> usize {
        self.marks().len()
    }

    /// Stops, once everything under way is written. Clones that are left refuse to leave.
    pub async fn close(self) {
        if let Some(Inner { leaving, keeper, .. }) = Arc::into_inner(self.inner) {
            drop(leaving);
            keeper.join().await;
        }
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.inner.marks.lock().expect("no panic while held")
    }
}
