//! Writes that wait, on disk, for a network that is not there.
//!
//! ```text
//! write ──► shown ──► written down: queued ──► sent, in order, each under its own number ──► over
//!                          │                              │ not now: tried again, and said why
//!                          └── after a crash: read, shown again, sent under the same numbers
//! ```
//!
//! One task owns the outbox. Whatever is in it is shown; nothing counts as queued that a crash
//! could take back; and since everything is sent under the number it was written down with, whoever
//! receives it can tell a repetition.

mod actions;
mod store;

use std::{collections::VecDeque, fmt, future::Future, pin::Pin, sync::Arc};

use smol_str::SmolStr;
use state::Json;
use sys::{Cancellation, Sys};
use tokio::sync::{
    Notify,
    mpsc::{self, error::TrySendError},
    watch,
};

pub use self::actions::{Delivery, Outbox, OutboxBuilder};
pub(crate) use self::store::Entry;
use self::store::Store;
use crate::{
    caps::{OUTBOX_BYTES_MAX, OUTBOX_ENTRIES_MAX, OUTGOING_MAX},
    error::PersistError,
    retry::Retry,
    stream::Stream,
    transaction::{Shown, TransactionState},
};

/// How an outbox is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxStatus {
    /// What it does.
    pub state: OutboxState,
    /// How many transactions wait in it.
    pub waiting: usize,
    /// How many were refused for good since it was opened.
    pub refused: u64,
}

/// What an outbox does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboxState {
    /// It reads what waits in it.
    Opening,
    /// Nothing waits.
    Idle,
    /// It sends what waits.
    Sending,
    /// It cannot send now, and tries again.
    Offline {
        /// Why it could not.
        why: Arc<str>,
        /// How often it has tried.
        failures: u32,
    },
    /// It does nothing any more. What waited in it waits until it is opened again.
    Closed {
        /// Why.
        why: Arc<str>,
    },
}

/// Carries entries to where they belong.
pub(crate) trait Courier: Send + Sync + 'static {
    /// Where that is. An outbox that was opened for something else is left alone.
    fn purpose(&self) -> String;

    /// Waits until entries of an earlier life can be shown and sent.
    fn ready(&self) -> Sending {
        Box::pin(std::future::ready(Sent::Ready))
    }

    /// Shows an entry of an earlier life, if that makes sense.
    fn show(&self, entry: &Entry) -> Option<Shown>;

    /// Takes note of an entry that is written down.
    fn expect(&self, _outbox: &str, _entry: &Entry, _shown: &Shown) {}

    /// Sends as many of these as it likes, beginning with the first. After [`Sent::NotNow`] it is
    /// given the same ones again; after a restart, the first alone.
    fn send(&self, outbox: &str, entries: Vec<Entry>) -> Sending;

    /// An entry was refused for good.
    fn refused(&self, _outbox: &str, _entry: &Entry) {}

    /// An entry has arrived.
    fn arrived(&self, outbox: &str, entry: &Entry, shown: Shown);
}

pub(crate) type Sending = Pin<Box<dyn Future<Output = Sent> + Send>>;

/// What became of entries.
pub(crate) enum Sent {
    /// Nothing was sent yet, and now it can be.
    Ready,
    /// All up to this number have arrived, now or before.
    Through(u64),
    /// The first one will never be taken.
    Refused(PersistError),
    /// Nothing is known to have arrived; it may go better later.
    NotNow {
        /// Why it cannot be.
        error: PersistError,
        /// The number of the last entry that may have arrived all the same.
        tried: Option<u64>,
    },
}

/// A transaction on its way into an outbox.
pub(crate) struct Post {
    pub(crate) action: SmolStr,
    pub(crate) body: Json,
    pub(crate) shown: Shown,
}

/// The way to an outbox.
#[derive(Clone)]
pub(crate) struct Letterbox {
    posts: mpsc::Sender<Post>,
    status: watch::Receiver<OutboxStatus>,
    hurry: Arc<Notify>,
}

impl Letterbox {
    /// Hands a transaction over; its place among others is the order of these calls.
    pub(crate) fn post(&self, post: Post) {
        match self.posts.try_send(post) {
            Ok(()) => {}
            Err(TrySendError::Full(post)) => post.shown.settle(Err(full())),
            Err(TrySendError::Closed(post)) => {
                let why = match &self.status.borrow().state {
                    OutboxState::Closed { why } => why.to_string(),
                    _ => "the database is closing".into(),
                };
                post.shown.settle(Err(PersistError::fatal(why)));
            }
        }
    }

    pub(crate) fn status(&self) -> watch::Receiver<OutboxStatus> {
        self.status.clone()
    }

    /// Tries at once what waits for its next attempt.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }
}

fn full() -> PersistError {
    PersistError {
        why: "the outbox is full; try again when it has sent some".into(),
        is_retryable: true,
    }
}

fn too_large(bytes: usize) -> PersistError {
    let why = format!(
        "a transaction of {bytes} bytes is more than an outbox holds, which is {OUTBOX_BYTES_MAX}"
    );
    PersistError::fatal(why)
}

/// Entries that are sent together at most, if the courier likes.
const BATCH_MAX: usize = 64;

/// The one owner of an outbox.
pub(crate) struct Owner {
    store: Store,
    courier: Arc<dyn Courier>,
    inbox: mpsc::Receiver<Post>,
    status: watch::Sender<OutboxStatus>,
    hurry: Arc<Notify>,
    sys: Sys,
    waiting: VecDeque<(Entry, Option<Shown>)>,
    /// What is being written down.
    posting: Vec<(Entry, Shown)>,
    bytes: usize,
    last_number: u64,
    /// How many are sent together next.
    batch: usize,
    /// How many were sent together last.
    sent: usize,
    failures: u32,
}

/// Starts the owner of an outbox.
pub(crate) fn start(
    stream: Stream,
    courier: Arc<dyn Courier>,
    sys: &Sys,
    cancellation: Cancellation,
) -> Letterbox {
    let (posts, inbox) = mpsc::channel(OUTGOING_MAX);
    let status = OutboxStatus { state: OutboxState::Opening, waiting: 0, refused: 0 };
    let (status, watched) = watch::channel(status);
    let hurry = Arc::new(Notify::new());
    let letterbox = Letterbox { posts, status: watched, hurry: hurry.clone() };
    let own = sys.clone();
    sys.spawn.task("outbox", async move {
        let work = async {
            let opened = Store::open(stream, courier.purpose(), &own, cancellation.clone()).await;
            let (store, entries) = match opened {
                Ok(opened) => opened,
                Err(error) => return close(&status, &error),
            };
            let mut owner = Owner::new(store, courier, inbox, status.clone(), hurry, &own);
            owner.show(entries);
            if let Err(error) = owner.run().await {
                close(&status, &error);
            }
        };
        tokio::select! {
            biased;
            () = cancellation.cancelled() => {}
            () = work => {}
        }
    });
    letterbox
}

fn close(status: &watch::Sender<OutboxStatus>, error: &PersistError) {
    tracing::error!(%error, "an outbox is closed");
    let why = error.why.as_str().into();
    status.send_modify(|status| status.state = OutboxState::Closed { why });
}

impl Owner {
    fn new(
        store: Store,
        courier: Arc<dyn Courier>,
        inbox: mpsc::Receiver<Post>,
        status: watch::Sender<OutboxStatus>,
        hurry: Arc<Notify>,
        sys: &Sys,
    ) -> Self {
        let last_number = store.last_number();
        Self {
            store,
            courier,
            inbox,
            status,
            hurry,
            sys: sys.clone(),
            waiting: VecDeque::new(),
            posting: Vec::new(),
            bytes: 0,
            last_number,
            batch: 1,
            sent: 0,
            failures: 0,
        }
    }

    /// Shows what waits since an earlier life.
    fn show(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            let shown = self.courier.show(&entry);
            self.add(entry, shown);
        }
    }

    /// Shows what lies on rows that were not there before.
    fn show_the_rest(&mut self) {
        for (entry, shown) in self.waiting.iter_mut().filter(|(_, shown)| shown.is_none()) {
            *shown = self.courier.show(entry);
            if let Some(shown) = shown {
                self.courier.expect(self.store.id(), entry, shown);
            }
        }
    }

    fn add(&mut self, entry: Entry, shown: Option<Shown>) {
        if let Some(shown) = &shown {
            self.courier.expect(self.store.id(), &entry, shown);
            shown.set(TransactionState::Queued);
        }
        self.bytes += entry.body.as_str().len();
        self.last_number = self.last_number.max(entry.number);
        self.waiting.push_back((entry, shown));
    }

    /// Works until nobody can post any more, or its stream is somebody else's.
    async fn run(&mut self) -> Result<(), PersistError> {
        let mut sending = Some(self.courier.ready());
        loop {
            if sending.is_none() {
                sending = self.next_batch();
            }
            self.tell();
            let sent = async {
                match &mut sending {
                    Some(sending) => sending.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                post = self.inbox.recv() => match post {
                    Some(post) => self.take(post).await?,
                    None => return Ok(()),
                },
                sent = sent => {
                    sending = None;
                    self.learn(sent).await?;
                }
            }
        }
    }

    /// Writes down what was posted, as much as there is.
    async fn take(&mut self, first: Post) -> Result<(), PersistError> {
        let (mut posts, mut bytes, mut next) = (Vec::new(), self.bytes, Some(first));
        while let Some(post) = next {
            let (count, own) = (self.waiting.len() + posts.len(), post.body.as_str().len());
            if own > OUTBOX_BYTES_MAX {
                post.shown.settle(Err(too_large(own)));
            } else if count >= OUTBOX_ENTRIES_MAX || bytes + own > OUTBOX_BYTES_MAX {
                post.shown.settle(Err(full()));
            } else {
                bytes += own;
                posts.push(self.number(post));
            }
            next = if posts.len() < BATCH_MAX { self.inbox.try_recv().ok() } else { None };
        }
        let entries: Vec<_> = posts.iter().map(|(entry, _)| entry.clone()).collect();
        if entries.is_empty() {
            return Ok(());
        }
        // Who is stopped here does not know whether they last.
        self.posting = posts;
        if let Err(error) = self.store.push(&entries).await {
            let refused = self.posting.drain(..);
            refused.for_each(|(_, shown)| shown.settle(Err(error.clone())));
            return Err(error);
        }
        for (entry, shown) in std::mem::take(&mut self.posting) {
            self.add(entry, Some(shown));
        }
        Ok(())
    }

    /// Gives a post the number it has for ever: above all before, also of lives that were trimmed.
    fn number(&mut self, Post { action, body, shown }: Post) -> (Entry, Shown) {
        let now = self.sys.clock.unix_ms().get().saturating_mul(1_000);
        self.last_number = now.max(self.last_number + 1);
        (Entry { number: self.last_number, action, body }, shown)
    }

    /// Begins to send, after a pause if it did not go well the last time.
    fn next_batch(&mut self) -> Option<Sending> {
        if self.waiting.is_empty() {
            return None;
        }
        let entries: Vec<_> =
            self.waiting.iter().take(self.batch).map(|(entry, _)| entry.clone()).collect();
        self.sent = entries.len();
        let (courier, id) = (self.courier.clone(), self.store.id().to_owned());
        let (sys, hurry, failures) = (self.sys.clone(), self.hurry.clone(), self.failures);
        Some(Box::pin(async move {
            if failures > 0 {
                let pause = Retry::default().pause(failures, &sys.chance);
                // Whichever comes first.
                let _ = sys.clock.timeout(pause, hurry.notified()).await;
            }
            courier.send(&id, entries).await
        }))
    }

    async fn learn(&mut self, sent: Sent) -> Result<(), PersistError> {
        match sent {
            Sent::Ready => self.show_the_rest(),
            Sent::Through(number) => {
                (self.failures, self.batch) = (0, BATCH_MAX);
                self.store.over(number).await?;
                while self.waiting.front().is_some_and(|(entry, _)| entry.number <= number) {
                    if let Some((entry, Some(shown))) = self.pop() {
                        self.courier.arrived(self.store.id(), &entry, shown);
                    }
                }
            }
            Sent::Refused(error) => {
                (self.failures, self.batch) = (0, 1);
                let Some((first, _)) = self.waiting.front() else { return Ok(()) };
                // Known before anything after it is sent.
                self.store.over(first.number).await?;
                self.status.send_modify(|status| status.refused += 1);
                if let Some((entry, shown)) = self.pop() {
                    tracing::warn!(number = entry.number, %error, "a queued write was refused");
                    self.courier.refused(self.store.id(), &entry);
                    shown.into_iter().for_each(|shown| shown.settle(Err(error.clone())));
                }
            }
            Sent::NotNow { error, tried } => {
                self.failures += 1;
                // They may have arrived, so exactly these are sent again.
                self.batch = match tried {
                    Some(last) => self.waiting.partition_point(|(entry, _)| entry.number <= last),
                    None => self.sent,
                };
                tracing::debug!(%error, failures = self.failures, "an outbox cannot send now");
                let (why, failures) = (error.why.as_str().into(), self.failures);
                let state = OutboxState::Offline { why, failures };
                self.status.send_modify(|status| status.state = state);
            }
        }
        if self.store.is_wasteful(self.waiting.len()) {
            let waiting: Vec<_> = self.waiting.iter().map(|(entry, _)| entry.clone()).collect();
            self.store.compact(&waiting).await?;
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<(Entry, Option<Shown>)> {
        let (entry, shown) = self.waiting.pop_front()?;
        self.bytes -= entry.body.as_str().len();
        Some((entry, shown))
    }

    fn tell(&self) {
        let waiting = self.waiting.len();
        let failures = self.failures;
        self.status.send_if_modified(|status| {
            let before = status.clone();
            status.waiting = waiting;
            if failures == 0 {
                status.state = if waiting == 0 { OutboxState::Idle } else { OutboxState::Sending };
            }
            *status != before
        });
    }
}

impl Drop for Owner {
    /// What is written down is not lost with its owner, so it is not taken back either.
    fn drop(&mut self) {
        self.waiting.drain(..).filter_map(|(_, shown)| shown).for_each(Shown::leave);
        self.posting.drain(..).for_each(|(_, shown)| shown.leave());
    }
}

impl fmt::Debug for Letterbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Letterbox").field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}
