//! Effects that go on after a crash where they were.
//!
//! ```text
//! stream ──► ticks before the cursor: applied ──► from the cursor on: applied one by one
//!                                                     │ what changed in the query
//!                                                     ▼
//!                     cursor row ◄── acker ◄── handlers
//! ```
//!
//! The effect reads the stream by itself, so it sees every tick, however far it is behind, and a
//! slow handler holds nobody else back.

use query::{Change, Database, Query, QueryId};
use smol_str::SmolStr;
use state::{Entry, Start as TickStart};
use sys::{Cancellation, Sys};

use super::{
    Event, Handlers, Settings,
    acker::{Acker, AckerHandle},
    cursor::{self, Cursor},
    driver::{self, Feed},
};
use crate::{
    caps::CURSOR_LAG_MAX,
    db::Db,
    retry::Retry,
    stream::{Read, Reader, Stream, Types, Unreadable, left_out},
};

/// What a durable effect begins with.
pub(super) struct Start {
    pub(super) name: String,
    pub(super) stream: Stream,
    pub(super) types: Types,
    pub(super) query: Query,
    pub(super) db: Db,
    pub(super) settings: Settings,
}

/// Works until it is disposed of, fenced, or the stream is at its end.
pub(super) async fn run<R: Send + 'static>(
    start: Start,
    handlers: Handlers<R>,
    sys: Sys,
    cancellation: Cancellation,
) {
    let name = start.name.clone();
    let settings = start.settings;
    let opened = tokio::select! {
        biased;
        () = cancellation.cancelled() => return,
        opened = Replay::open(start, &sys, &cancellation) => opened,
    };
    match opened {
        Ok((replay, acker)) => {
            let keeper = sys.spawn.task("acknowledgements", acker.run());
            driver::run(replay, handlers, settings, sys, cancellation).await;
            // The feed and the handlers are gone, so the acker writes what is left and ends.
            keeper.join().await;
        }
        Err(why) => tracing::error!(effect = name, why, "a durable effect cannot start"),
    }
}

/// A private view of the stream, at the place where the effect is.
struct Replay {
    effect: SmolStr,
    reader: Reader,
    database: Database,
    query: QueryId,
    cursor: Cursor,
    acker: AckerHandle,
    /// Events that are to be delivered before the stream goes on.
    ready: Vec<(u64, Vec<Change>)>,
    /// All ticks before this were applied.
    position: u64,
    /// Messages since the acker was told so; cursors do not count, or they would call for others.
    passed: usize,
    sys: Sys,
}

impl Replay {
    async fn open(
        start: Start,
        sys: &Sys,
        cancellation: &Cancellation,
    ) -> Result<(Self, Acker), String> {
        let Start { name, stream, types, query, db, settings } = start;
        let effect = SmolStr::new(&name);
        let found = find_cursor(&stream, &types, &name, sys).await?;
        let cursor = found.cursor.filter(|cursor| cursor.is_possible(found.end));
        let cursor = cursor.unwrap_or_else(|| Cursor {
            start: found.end,
            skips_initial: settings.skips_initial,
            // The rows that match now stand right before the start.
            position: found.end.saturating_sub(1),
            ..Cursor::default()
        });
        let (mut acker, handle) =
            Acker::claim(&effect, &stream, sys, cursor.clone(), cancellation.clone())
                .await
                .map_err(|error| error.to_string())?;
        let mut view =
            View { database: empty_like(&db, &types), reader: Reader::private(stream, types) };
        let stop = cursor.position.max(cursor.start.min(cursor.position + 1));
        let held = view.catch_up(stop, sys).await?;
        let (cursor, held) = match held {
            // Only what nobody needed is gone: an effect that was just being started.
            Some(tick) if tick.start == TickStart::Snapshot => {
                let start = tick.last.get() + 1;
                tracing::warn!(
                    effect = name,
                    start,
                    "the stream was compacted; an effect begins anew"
                );
                let moved = acker.begin_at(start).await.map_err(|error| error.to_string())?;
                view.apply(&tick);
                (moved, view.catch_up(start, sys).await?)
            }
            held => (cursor, held),
        };
        let View { mut database, reader } = view;
        let (query, rows) = database.watch(&query).map_err(|error| error.to_string())?;
        let is_initial = cursor.position <= cursor.initial() && !cursor.skips_initial;
        let mut ready = Vec::new();
        if is_initial && cursor.start > 0 {
            ready.push((cursor.initial(), rows));
        }
        let mut replay = Self {
            effect,
            reader,
            database,
            query,
            cursor,
            acker: handle,
            ready,
            position: 0,
            passed: 0,
            sys: sys.clone(),
        };
        if let Some(tick) = held {
            replay.apply(&tick);
        }
        Ok((replay, acker))
    }

    /// Applies a tick, and holds what it came to.
    fn apply(&mut self, tick: &state::Tick) {
        self.position = tick.last.get() + 1;
        self.passed += tick.entries().iter().filter(|(_, entry)| !is_cursor(entry)).count();
        let writes = self.reader.tick(tick, &mut self.database);
        match self.database.apply(writes) {
            Ok(published) => {
                let own = published.queries.into_iter().filter(|(query, _)| *query == self.query);
                self.ready.extend(own.map(|(_, changes)| (tick.first.get(), changes)));
            }
            Err(error) => {
                left_out(tick, &error);
            }
        }
    }

    /// The events that are held and were not done before.
    fn events<R>(&mut self) -> Vec<Event<R>> {
        let mut events = Vec::new();
        for (position, changes) in self.ready.drain(..) {
            let new =
                changes.into_iter().filter(|change| !self.cursor.is_done(position, &change.key));
            events.extend(new.map(|change| Event::new(&self.effect, position, change)));
        }
        events
    }
}

impl<R: Send + 'static> Feed<R> for Replay {
    async fn next(&mut self) -> Option<Vec<Event<R>>> {
        let mut failures = 0;
        loop {
            if !self.ready.is_empty() || self.passed > CURSOR_LAG_MAX {
                // Whoever waits may be dropped, and nothing may be lost by that.
                let room = self.acker.room().await?;
                let events = self.events();
                if !events.is_empty() {
                    room.delivered(events.iter().map(|event| event.id().clone()).collect());
                    return Some(events);
                }
                if self.passed > CURSOR_LAG_MAX {
                    room.passed(self.position);
                    self.passed = 0;
                }
            }
            let read = tokio::select! {
                biased;
                () = self.acker.gone() => return None,
                read = self.reader.next() => read,
            };
            match read {
                Ok(Read::Tick(tick)) => self.apply(&tick),
                Ok(Read::UpToDate | Read::StartOver) => {}
                Ok(Read::Closed) => return None,
                Err(error) => {
                    if let Err(why) = pause(error, &mut failures, &self.sys).await {
                        tracing::error!(effect = %self.effect, why, "a durable effect ends");
                        return None;
                    }
                }
            }
        }
    }

    fn acker(&self) -> Option<AckerHandle> {
        Some(self.acker.clone())
    }
}

/// What is found by reading a stream to its end.
struct Found {
    cursor: Option<Cursor>,
    end: u64,
}

async fn find_cursor(
    stream: &Stream,
    types: &Types,
    name: &str,
    sys: &Sys,
) -> Result<Found, String> {
    let mut reader = Reader::private(stream.clone(), types.clone());
    let (mut found, mut failures) = (Found { cursor: None, end: 0 }, 0);
    loop {
        match reader.next().await {
            Ok(Read::Tick(tick)) => {
                found.end = tick.last.get() + 1;
                for (_, entry) in tick.entries() {
                    if let Entry::Write(write) = entry
                        && write.type_name.as_str() == cursor::TYPE
                        && write.key.as_str() == name
                    {
                        found.cursor = write.value.as_ref().and_then(|value| value.read().ok());
                    }
                }
                if reader.is_up_to_date() {
                    return Ok(found);
                }
            }
            Ok(Read::UpToDate | Read::Closed | Read::StartOver) => return Ok(found),
            Err(error) => pause(error, &mut failures, sys).await?,
        }
    }
}

/// The rows of a stream, as far as it was read.
struct View {
    reader: Reader,
    database: Database,
}

impl View {
    /// Applies all ticks that began before `stop`; answers the first one that did not.
    async fn catch_up(&mut self, stop: u64, sys: &Sys) -> Result<Option<state::Tick>, String> {
        let mut failures = 0;
        loop {
            match self.reader.next().await {
                Ok(Read::Tick(tick)) if tick.first.get() >= stop => return Ok(Some(tick)),
                Ok(Read::Tick(tick)) => {
                    self.apply(&tick);
                    if tick.last.get() + 1 >= stop && self.reader.is_up_to_date() {
                        return Ok(None);
                    }
                }
                Ok(Read::UpToDate | Read::Closed | Read::StartOver) => return Ok(None),
                Err(error) => pause(error, &mut failures, sys).await?,
            }
        }
    }

    fn apply(&mut self, tick: &state::Tick) {
        let writes = self.reader.tick(tick, &mut self.database);
        if let Err(error) = self.database.apply(writes) {
            left_out(tick, &error);
        }
    }
}

fn is_cursor(entry: &Entry) -> bool {
    matches!(entry, Entry::Write(write) if write.type_name.as_str() == cursor::TYPE)
}

/// Waits before the next attempt, or gives up.
async fn pause(error: Unreadable, failures: &mut u32, sys: &Sys) -> Result<(), String> {
    if !error.is_retryable() {
        return Err(error.to_string());
    }
    *failures += 1;
    sys.clock.sleep(Retry::default().pause(*failures, &sys.chance)).await;
    Ok(())
}

/// A database of the same collections without any rows.
fn empty_like(db: &Db, types: &Types) -> Database {
    let mut known: Vec<_> = types.iter().map(|(name, (id, _))| (*id, name.clone())).collect();
    known.sort_unstable();
    let mut database = Database::new();
    for (id, name) in known {
        let schema = db.look(|database| database.schema(id).clone());
        // Made in the same order, collections have the same numbers.
        let made = database.collection(&name, schema);
        debug_assert_eq!(made.ok(), Some(id));
    }
    database
}
