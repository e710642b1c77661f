//! The feed of an index: streams that are open, from a pass over all heads and from hints.

use std::collections::VecDeque;

use futures_util::FutureExt as _;
use log::{Incarnation, List, ListError, Log, Moved, Watch};
use wire::{Glob, Offset, StreamPath};

use super::OpenWork;

/// Hints that are heard after each page of a pass.
const HINTS_PER_PAGE_MAX: usize = 1_024;

/// What the feed found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// A stream that may owe something. It may be told again while it does.
    Open {
        /// The stream.
        path: StreamPath,
        /// Which life of it.
        incarnation: Incarnation,
        /// Where it ends, at least.
        tail: Offset,
    },
    /// This life of a stream holds nothing: it was just made, or deleted.
    Empty {
        /// The stream.
        path: StreamPath,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// Every stream that was open when the pass began has been told.
    Passed,
}

/// Streams that open. It holds no more than a page of them: a supervisor that cannot take one
/// asks for another pass later, and is told again.
#[derive(Debug)]
pub struct Feed {
    work: OpenWork,
    watch: Watch,
    pass: Option<Pass>,
    /// Whether another pass follows the one under way.
    is_pass_due: bool,
    found: VecDeque<Found>,
}

/// A pass over all heads.
#[derive(Debug)]
pub(crate) struct Pass {
    glob: Glob,
    list: List,
}

impl Feed {
    pub(super) fn new(work: OpenWork, watch: Watch) -> Self {
        Self { work, watch, pass: None, is_pass_due: true, found: VecDeque::new() }
    }

    /// Has all open streams told once more.
    pub fn pass_again(&mut self) {
        self.is_pass_due = true;
    }

    /// The next find; none once the log closes. Nothing is lost if it is dropped.
    ///
    /// # Errors
    /// [`ListError`] if the log could not be listed; the next call goes on from there.
    pub async fn next(&mut self) -> Result<Option<Found>, ListError> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(Some(found));
            }
            if self.pass.is_none() && std::mem::take(&mut self.is_pass_due) {
                self.work.marks().begin_pass();
                self.pass = Some(Pass::new(self.work.inner.glob.clone()));
            }
            let Some(pass) = &self.pass else {
                match self.watch.next().await {
                    Some(hint) => self.hear(hint),
                    None => return Ok(None),
                }
                continue;
            };
            let page = pass.page(&*self.work.inner.log).await?;
            self.take(page);
            // Hints that came meanwhile are heard between pages, lest too many wait.
            for _ in 0..HINTS_PER_PAGE_MAX {
                match self.watch.next().now_or_never() {
                    Some(Some(hint)) => self.hear(hint),
                    Some(None) | None => break,
                }
            }
        }
    }

    fn hear(&mut self, hint: Moved) {
        match hint {
            Moved::Stream(path, Offset::START, incarnation) => {
                self.work.marks().forget(incarnation);
                self.found.push_back(Found::Empty { path, incarnation });
            }
            Moved::Stream(path, tail, incarnation) => self.tell(path, incarnation, tail),
            Moved::Resync => self.is_pass_due = true,
        }
    }

    fn take(&mut self, page: log::Page) {
        for listed in page.streams {
            self.work.marks().met(listed.head.incarnation);
            self.tell(listed.path, listed.head.incarnation, listed.head.tail);
        }
        let is_over = self.pass.as_mut().is_none_or(|pass| !pass.go_on(page.next));
        if is_over {
            self.pass = None;
            self.work.marks().end_pass();
            self.found.push_back(Found::Passed);
        }
    }

    fn tell(&mut self, path: StreamPath, incarnation: Incarnation, tail: Offset) {
        if self.work.is_open(incarnation, tail) {
            self.found.push_back(Found::Open { path, incarnation, tail });
        }
    }
}

impl Pass {
    pub(crate) fn new(glob: Glob) -> Self {
        // What every stream that the glob covers begins with.
        let prefix = glob.as_str().split('*').next().unwrap_or_default().to_owned();
        Self { glob, list: List { prefix, ..List::default() } }
    }

    /// The next page, of what the glob covers.
    pub(crate) async fn page(&self, log: &dyn Log) -> Result<log::Page, ListError> {
        let mut page = log.list(self.list.clone()).await?;
        page.streams.retain(|listed| self.glob.matches(&listed.path));
        Ok(page)
    }

    /// Goes on after a page; false if that was all.
    pub(crate) fn go_on(&mut self, next: Option<StreamPath>) -> bool {
        self.list.after = next;
        self.list.after.is_some()
    }
}
