//! The engine in memory: the contract without a disk, for tests and throw-away servers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use sys::{Sys, UnixMs};
use tokio::sync::Notify;
use wire::{Address, Glob, Messages, Offset, ReadFrom};

use crate::{
    Answer, Append, AppendError, Appended, Capabilities, Chunk, Create, CreateError, Created,
    Delete, DeleteError, Fork, ForkError, Head, HeadError, Incarnation, List, ListError, Listed,
    Log, OffsetUnknown, Page, ReadError, StreamNotFound, TrimError, Watch, WatchError,
    reading::{self, Appetite, Collector, Direction},
    table::{Change, Changes, Decided, Forking, Stretch, Table},
    watch::Watchers,
};

/// How often streams past their time are dropped.
const REAP_EVERY: Duration = Duration::from_millis(500);
/// How many at once, so that nobody waits long.
const REAP_MAX: usize = 1000;

/// Streams in memory. A clone is the same log.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sys: Sys,
    // Held for one operation; never across an await.
    state: Mutex<State>,
    watchers: Watchers,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    runs: HashMap<Incarnation, Vec<Run>>,
    waiting: HashMap<Incarnation, Arc<Notify>>,
}

#[derive(Debug)]
struct Run {
    start: Offset,
    messages: Messages,
}

impl MemoryLog {
    /// An empty log. Must be called within a runtime: a task drops streams past their time.
    #[must_use]
    pub fn new(sys: &Sys) -> Self {
        let inner = Arc::new(Inner {
            sys: sys.clone(),
            state: Mutex::default(),
            watchers: Watchers::default(),
        });
        sys.spawn.task("reaper", reap(sys.clone(), Arc::downgrade(&inner)));
        Self { inner }
    }
}

async fn reap(sys: Sys, log: Weak<Inner>) {
    loop {
        sys.clock.sleep(REAP_EVERY).await;
        let Some(log) = log.upgrade() else { return };
        let now = log.now();
        let mut state = log.state();
        for id in state.table.due(now, REAP_MAX) {
            let changes = state.table.decide_expire(id, now);
            log.apply(&mut state, &changes);
        }
    }
}

impl Inner {
    fn now(&self) -> UnixMs {
        self.sys.clock.unix_ms()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    /// In memory a change is durable at once.
    fn commit<T>(&self, state: &mut State, decided: Decided<T>) -> T {
        self.apply(state, &decided.changes);
        decided.answer
    }

    fn apply(&self, state: &mut State, changes: &Changes) {
        for change in changes {
            let id = change.id();
            let address = state.table.get(id).map(|meta| meta.address.clone());
            state.table.apply(change);
            if let Some((start, messages)) = change.messages() {
                state.runs.entry(id).or_default().push(Run { start, messages: messages.clone() });
            }
            let tail = match state.table.get(id) {
                Some(meta) => meta.tail,
                None => {
                    state.runs.remove(&id);
                    Offset::START
                }
            };
            if let Some(waiting) = state.waiting.remove(&id) {
                waiting.notify_waiters();
            }
            let address = address.or_else(|| state.table.get(id).map(|m| m.address.clone()));
            if let Some(address) = address {
                self.watchers.moved(&address, tail, id);
            }
        }
    }

    fn read(
        &self,
        address: &Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Result<Chunk, ReadError> {
        let now = self.now();
        let mut state = self.state();
        let (id, meta) = state.table.find(address, now)?;
        let head = meta.head(id);
        let direction = reading::locate(&head, from)?;
        let (start, runs, next) = match direction {
            Direction::Forward(start) => {
                let (runs, next) = state.collect(id, start, head.tail, bytes_max)?;
                (start, runs, next)
            }
            Direction::Back(end) => {
                let start = state.back_from(id, end, bytes_max).max(head.earliest);
                let (runs, next) = state.collect(id, start, end, usize::MAX)?;
                let (start, runs) = reading::newest((start, runs, next), end, bytes_max)?;
                (start, runs, end)
            }
        };
        state.table.apply(&Change::Touch { id, at: now });
        Ok(head.chunk(start, next, runs))
    }

    fn trim(&self, address: &Address, before: Offset) -> Result<Head, TrimError> {
        let mut state = self.state();
        let now = self.now();
        let (id, meta) = state.table.find(address, now)?;
        if before > meta.earliest && before < meta.tail {
            state.collect(id, before, meta.tail, 0)?;
        }
        let decided = state.table.decide_trim(address, id, before, now)?;
        let head = self.commit(&mut state, decided);
        state.forget_trimmed(head.incarnation);
        Ok(head)
    }

    fn list(&self, list: &List) -> Page {
        let now = self.now();
        let state = self.state();
        let from = list.first();
        let limit = list.page_size();
        let mut found = state
            .table
            .addresses()
            .range(from..)
            .filter_map(|(address, _)| address.stream())
            .take_while(|path| path.as_str().starts_with(&list.prefix))
            .filter(|path| list.after.as_ref() != Some(path))
            .filter_map(|path| {
                let (id, meta) = state.table.find(&path.clone().into(), now).ok()?;
                Some(Listed { path: path.clone(), head: meta.head(id) })
            });
        let streams: Vec<Listed> = found.by_ref().take(limit).collect();
        let next = found.next().and_then(|_| streams.last().map(|last| last.path.clone()));
        Page { streams, next }
    }
}

impl State {
    /// Where a run begins from which there are `bytes_max` bytes or more to `end`, through all that
    /// the stream inherited; its beginning if there is none.
    fn back_from(&self, id: Incarnation, end: Offset, bytes_max: usize) -> Offset {
        let byte = end.byte.get().saturating_sub(bytes_max.max(1) as u64);
        let mut found = Offset::START;
        for Stretch { id, end } in self.table.lineage(id) {
            let runs = self.runs.get(&id).map_or(&[][..], Vec::as_slice);
            let holds = |run: &Run| run.start < end && run.start.byte.get() <= byte;
            let after = runs.partition_point(holds);
            if let Some(run) = after.checked_sub(1).and_then(|index| runs.get(index)) {
                found = found.max(run.start);
            }
        }
        found
    }

    /// Whole messages of a stream from `start` to `until`, through all it inherited.
    fn collect(
        &self,
        id: Incarnation,
        start: Offset,
        until: Offset,
        bytes_max: usize,
    ) -> Result<(Vec<Messages>, Offset), OffsetUnknown> {
        let mut collector = Collector::new(start, bytes_max);
        for Stretch { id, end } in self.table.lineage(id) {
            let end = end.min(until);
            if end <= collector.next() {
                continue;
            }
            let runs = self.runs.get(&id).map_or(&[][..], Vec::as_slice);
            let first = runs.partition_point(|run| run.end() <= collector.next());
            for run in runs[first..].iter().take_while(|run| run.start < end) {
                if collector.take(run.start, &run.messages, end)? == Appetite::Full {
                    return collector.finish(until);
                }
            }
        }
        collector.finish(until)
    }

    /// Lets go of runs that neither the stream nor a fork can read any more.
    fn forget_trimmed(&mut self, id: Incarnation) {
        let meta = self.table.meta(id);
        if meta.forks == 0 {
            let earliest = meta.earliest;
            if let Some(runs) = self.runs.get_mut(&id) {
                runs.retain(|run| run.end() > earliest);
            }
        }
    }
}

impl Run {
    fn end(&self) -> Offset {
        self.start.after(self.messages.len() as u64, self.messages.data().len() as u64)
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Log for MemoryLog {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn create<'a>(
        &'a self,
        address: &'a Address,
        create: Create,
    ) -> Answer<'a, Result<Created, CreateError>> {
        let log = &self.inner;
        let mut state = log.state();
        let decided = state.table.decide_create(address, create, log.now());
        ready(decided.map(|decided| log.commit(&mut state, decided)))
    }

    fn fork<'a>(
        &'a self,
        address: &'a Address,
        fork: Fork,
    ) -> Answer<'a, Result<Created, ForkError>> {
        Box::pin(async move {
            let point = reading::fork_point(self, &fork).await;
            let log = &self.inner;
            let mut state = log.state();
            let decided = state.table.decide_fork(address, Forking { fork, point }, log.now());
            decided.map(|decided| log.commit(&mut state, decided))
        })
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        let log = &self.inner;
        let mut state = log.state();
        let decided = state.table.decide_append(address, append, log.now());
        ready(decided.map(|decided| log.commit(&mut state, decided)))
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        ready(self.inner.read(address, from, bytes_max))
    }

    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        Box::pin(async move {
            let mut waited_for = None;
            loop {
                let waiting = {
                    let mut state = self.inner.state();
                    let (id, meta) = state.table.find(address, self.inner.now())?;
                    if *waited_for.get_or_insert(id) != id {
                        // Deleted, and its name used again.
                        return Err(StreamNotFound.into());
                    }
                    if meta.tail > after || meta.closed {
                        return Ok(meta.head(id));
                    }
                    // Registered before the lock is let go, so that no change is missed.
                    state.waiting.entry(id).or_default().clone().notified_owned()
                };
                waiting.await;
            }
        })
    }

    fn watch(&self, glob: Glob) -> Result<Watch, WatchError> {
        self.inner.watchers.add(glob)
    }

    fn head<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Head, HeadError>> {
        let state = self.inner.state();
        let head = state.table.find(address, self.inner.now()).map(|(id, meta)| meta.head(id));
        ready(head.map_err(HeadError::from))
    }

    fn trim<'a>(
        &'a self,
        address: &'a Address,
        before: Offset,
    ) -> Answer<'a, Result<Head, TrimError>> {
        ready(self.inner.trim(address, before))
    }

    fn delete<'a>(
        &'a self,
        address: &'a Address,
        delete: Delete,
    ) -> Answer<'a, Result<(), DeleteError>> {
        let log = &self.inner;
        let mut state = log.state();
        let decided = state.table.decide_delete(address, delete, log.now());
        ready(decided.map(|decided| log.commit(&mut state, decided)))
    }

    fn erase_within<'a>(
        &'a self,
        address: &'a Address,
        within: Arc<[Glob]>,
    ) -> Answer<'a, Result<(), DeleteError>> {
        let log = &self.inner;
        let mut state = log.state();
        let decided = state.table.decide_erase_within(address, &within, log.now());
        ready(decided.map(|decided| log.commit(&mut state, decided)))
    }

    fn list<'a>(&'a self, list: List) -> Answer<'a, Result<Page, ListError>> {
        ready(Ok(self.inner.list(&list)))
    }
}
