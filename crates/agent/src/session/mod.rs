//! Sessions as every part of a process sees them: one fold each, shared, with a snapshot.
//!
//! ```text
//! session   … m m m m m m m m m m m m │ m m m m      what is read to open it: the tail
//! index     │ ids │ ids │ snapshot ───┘              what was folded before
//! ```
//!
//! [`SessionState`] is the fold. It holds open work, heads and counters, and nothing that grows
//! with what was said. [`Sessions`] keeps one [`Session`] for each that is in use; it is read up
//! to the tail when somebody asks, and kept as a snapshot in a system stream, so that the next
//! process reads the tail alone. Everything in that stream can be deleted, and is made anew.

mod chunks;
mod compaction;
mod ids;
mod index;
mod snapshot;
mod state;
mod window;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use ::state::Ticks;
use log::{Append, AppendError, Chunk, Freshness, Incarnation, Log, ReadError, Unavailable};
use parking_lot::Mutex;
use sys::Sys;
use tokio::sync::Mutex as Writer;
use wire::{Address, Offset, ReadFrom, StreamPath};

use self::{
    ids::Run,
    index::{Index, Miss},
};
#[cfg(fuzzing)]
pub use self::{ids::fuzz_page, snapshot::fuzz_snapshot};
pub use self::{
    ids::{Entered, IdKey, Print},
    state::{AgentHead, CallHead, LastGeneration, RunnerHead, SessionState},
    window::Window,
};
use crate::caps::{
    INDEX_LOSSES_MAX, SESSION_READ_BYTES, SESSIONS_OPEN_MAX, SNAPSHOT_EVERY_BYTES,
    SNAPSHOT_IDS_MAX, SNAPSHOT_TAIL_BYTES,
};

/// The sessions of a log that are in use in this process. Cheap to clone; all parts of a process
/// should share one, so that each session is folded once.
#[derive(Clone)]
pub struct Sessions(Arc<Shared>);

struct Shared {
    log: Arc<dyn Log>,
    sys: Sys,
    /// Held for moments, never across an await.
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    sessions: HashMap<StreamPath, (u64, SharedSession)>,
    /// Counts uses, so that the one that was not used for longest is known.
    uses: u64,
}

/// A session in use. Whoever holds the lock sees it alone, so that looking and writing are one.
pub type SharedSession = Arc<Writer<Session>>;

/// One session, as far as it was read.
pub struct Session {
    log: Arc<dyn Log>,
    address: Address,
    index: Index,
    /// Where to go on, and in which life of the stream.
    next: Option<(Offset, Incarnation)>,
    ticks: Ticks,
    state: SessionState,
    /// What was written under ids since the last snapshot.
    recent: HashMap<IdKey, Entered>,
    /// What was written under ids before that.
    runs: Vec<Run>,
    /// Where messages end whose transaction is not applied yet, by where they lie.
    ends: BTreeMap<u64, Offset>,
    /// How far the snapshot reaches that is kept.
    kept: Offset,
    /// Where reading began.
    opened_at: Offset,
    /// Where the stream began when its chunks were counted: another begin tells that a compaction
    /// has left some out since.
    counted_from: Option<Offset>,
    /// No compaction is worth it before the stream is as long as this.
    compact_at: u64,
}

impl Sessions {
    /// The sessions of a log.
    #[must_use]
    pub fn new(sys: &Sys, log: Arc<dyn Log>) -> Self {
        Self(Arc::new(Shared { log, sys: sys.clone(), open: Mutex::default() }))
    }

    /// The log they are in.
    #[must_use]
    pub fn log(&self) -> &Arc<dyn Log> {
        &self.0.log
    }

    /// A session; the one that was not used for longest makes room for it.
    #[must_use]
    pub fn of(&self, path: &StreamPath) -> SharedSession {
        let mut open = self.0.open.lock();
        open.uses += 1;
        let uses = open.uses;
        if let Some((used, session)) = open.sessions.get_mut(path) {
            *used = uses;
            return session.clone();
        }
        if open.sessions.len() >= SESSIONS_OPEN_MAX {
            // One that is in use stays: two of a session would not wait for each other.
            let idle = open.sessions.iter().filter(|(_, (_, held))| Arc::strong_count(held) == 1);
            let oldest = idle.min_by_key(|(_, (used, _))| *used).map(|(path, _)| path.clone());
            oldest.and_then(|path| open.sessions.remove(&path));
        }
        let session = Session::new(&self.0.sys, self.0.log.clone(), path);
        let session = Arc::new(Writer::new(session));
        open.sessions.insert(path.clone(), (uses, session.clone()));
        session
    }
}

impl Session {
    /// A session that was not read yet.
    #[must_use]
    pub fn new(sys: &Sys, log: Arc<dyn Log>, path: &StreamPath) -> Self {
        let index = Index::of(sys, log.clone(), path);
        let address = Address::from(path.clone());
        Self {
            log,
            address,
            index,
            next: None,
            ticks: Ticks::new(),
            state: SessionState::default(),
            recent: HashMap::new(),
            runs: Vec::new(),
            ends: BTreeMap::new(),
            kept: Offset::START,
            opened_at: Offset::START,
            counted_from: None,
            compact_at: 0,
        }
    }

    /// Where reading began: at the newest snapshot that was of use, or at the start of the stream.
    #[must_use]
    pub const fn opened_at(&self) -> Offset {
        self.opened_at
    }

    /// The session as far as it was read.
    #[must_use]
    pub const fn state(&self) -> &SessionState {
        &self.state
    }

    /// How far it was read, and in which life of the stream.
    #[must_use]
    pub const fn place(&self) -> Option<(Offset, Incarnation)> {
        self.next
    }

    /// Reads up to the tail, from the newest snapshot on if nothing was read yet.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn catch_up(&mut self) -> Result<&SessionState, ReadError> {
        loop {
            if self.next.is_none() {
                self.resume().await?;
            }
            let from = self.next.map_or(ReadFrom::Start, |(next, _)| ReadFrom::At(next));
            let chunk = match self.log.read(&self.address, from, SESSION_READ_BYTES).await {
                Ok(chunk) => chunk,
                // The stream is shorter than it was, or another: it is read again.
                Err(ReadError::Trimmed(_) | ReadError::OffsetUnknown(_)) if self.next.is_some() => {
                    self.forget();
                    continue;
                }
                Err(error) => {
                    self.forget();
                    if matches!(error, ReadError::NotFound(_) | ReadError::Gone(_)) {
                        self.index.remove().await;
                    }
                    return Err(error);
                }
            };
            if self.next.is_some_and(|(_, life)| life != chunk.incarnation) {
                self.forget();
                continue;
            }
            if chunk.overshoot(from).is_some() {
                // The stream was restored to an earlier state, without what was read here.
                self.forget();
                self.index.remove().await;
                continue;
            }
            self.take(&chunk);
            if self.unsaved_bytes() >= SNAPSHOT_EVERY_BYTES || self.recent.len() >= SNAPSHOT_IDS_MAX
            {
                self.keep().await;
            }
            if chunk.freshness != Freshness::Behind {
                return Ok(&self.state);
            }
        }
    }

    /// What was written under an id, if anything was.
    ///
    /// # Errors
    /// If the ids cannot be read.
    pub async fn entered(&mut self, key: IdKey) -> Result<Option<Entered>, ReadError> {
        let mut losses = 0;
        loop {
            if let Some(entered) = self.recent.get(&key) {
                return Ok(Some(*entered));
            }
            match self.index.find(&self.runs, key).await {
                Ok(found) => return Ok(found),
                Err(Miss::Failed(error)) => return Err(error),
                Err(Miss::Lost) => losses += 1,
            }
            match losses {
                // Another process has put other runs in their place.
                1 => self.forget(),
                // They are damaged: the stream itself tells all ids.
                2..INDEX_LOSSES_MAX => {
                    self.forget();
                    self.index.remove().await;
                }
                _ => return Err(Unavailable::Overloaded.into()),
            }
            self.catch_up().await?;
        }
    }

    /// Appends to the session. What was appended is seen at the next [`catch_up`](Self::catch_up).
    ///
    /// # Errors
    /// If the log refuses it.
    pub async fn append(&self, append: Append) -> Result<Offset, AppendError> {
        Ok(self.log.append(&self.address, append).await?.tail)
    }

    /// Keeps a snapshot, if so much was read since the last one that it is worth it.
    pub async fn rest(&mut self) {
        if self.unsaved_bytes() >= SNAPSHOT_TAIL_BYTES {
            self.keep().await;
        }
    }

    /// Bytes of the stream that the next process would read again.
    fn unsaved_bytes(&self) -> u64 {
        self.next.map_or(0, |(next, _)| next.byte.get().saturating_sub(self.kept.byte.get()))
    }

    fn take(&mut self, chunk: &Chunk) {
        if self.next.is_none() {
            self.counted_from = Some(chunk.start);
        }
        let mut at = chunk.start;
        let known_bytes = self.ticks.known_bytes();
        for message in chunk.messages() {
            let lies = at.position;
            at = at.after(1, message.len() as u64);
            if let Some(tick) = self.ticks.push(lies, message) {
                self.apply(&tick, at);
            }
            self.ends.insert(lies.get(), at);
        }
        self.state.chunks.doubled(self.ticks.known_bytes() - known_bytes);
        if chunk.freshness != Freshness::Behind
            && let Some(tick) = self.ticks.up_to_date()
        {
            self.apply(&tick, at);
        }
        self.next = Some((chunk.next, chunk.incarnation));
    }

    /// Applies a transaction that ends at this place or before it.
    fn apply(&mut self, tick: &::state::Tick, at: Offset) {
        for (key, print, position) in self.state.apply(tick) {
            let offset = self.ends.get(&position.get()).copied().unwrap_or(at);
            // The first of an id stays.
            self.recent.entry(key).or_insert(Entered { print, offset });
        }
        self.ends.clear();
    }

    /// Goes on from the newest snapshot, if there is one that is of use.
    async fn resume(&mut self) -> Result<(), ReadError> {
        let head = self.log.head(&self.address).await?;
        let Some(snapshot) = self.index.load(&head).await else { return Ok(()) };
        self.next = Some((snapshot.offset, head.incarnation));
        self.ticks = Ticks::from(snapshot.covered);
        (self.state, self.runs, self.kept) = (snapshot.state, snapshot.runs, snapshot.offset);
        (self.opened_at, self.counted_from) = (snapshot.offset, snapshot.counted_from);
        Ok(())
    }

    /// Keeps a snapshot of what was read. One that cannot be kept is no harm.
    async fn keep(&mut self) {
        let Some((offset, life)) = self.next else { return };
        // Half of a transaction would be lost with it.
        if self.ticks.is_open() {
            return;
        }
        let snapshot = snapshot::Snapshot {
            incarnation: life.get(),
            offset,
            covered: self.ticks.covered(),
            counted_from: self.counted_from,
            state: self.state.clone(),
            runs: self.runs.clone(),
        };
        if let Some(runs) = self.index.save(snapshot, &self.recent).await {
            (self.runs, self.kept) = (runs, offset);
            self.recent.clear();
        }
    }

    fn forget(&mut self) {
        self.next = None;
        self.ticks = Ticks::new();
        self.state = SessionState::default();
        self.recent.clear();
        self.runs.clear();
        self.ends.clear();
        (self.kept, self.opened_at) = (Offset::START, Offset::START);
        (self.counted_from, self.compact_at) = (None, 0);
        self.index.forget();
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("address", &self.address).finish_non_exhaustive()
    }
}
