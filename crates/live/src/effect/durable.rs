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

use std::ops::Range;

use query::{Change, ChangeKind, Database, Query, QueryId};
use smol_str::SmolStr;
use state::{Entry, Start as TickStart};
use sys::{Cancellation, Sys};
use wire::caps::INTEGER_MAX;

use super::{
    Event, Handlers, Settings,
    acker::{Acker, AckerHandle},
    cursor::{self, Claim, Cursor},
    driver::{self, Feed},
    mark::Mark,
    pen::Pen,
};
use crate::{
    caps::CURSOR_LAG_MAX,
    db::Db,
    error::DbError,
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

impl Start {
    /// Whether the query can be run on the rows of the stream alone, since that is all the effect
    /// reads.
    pub(super) fn check(&self) -> Result<(), DbError> {
        let mut database = empty_like(&self.db, &self.types);
        let watched = database.watch(&self.query);
        watched.map_err(|error| DbError::NotOfTheStream { why: error.to_string() })?;
        Ok(())
    }
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
        opened = Replay::open(start, kinds(&handlers), &sys, &cancellation) => opened,
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
    /// Events that are to be delivered before the stream goes on, and the ticks they are of.
    ready: Vec<(Range<u64>, Vec<Change>)>,
    /// All ticks before this were applied.
    position: u64,
    /// What the acker was told of that, without having to write it.
    looked: u64,
    /// Messages since the acker was told so; cursors do not count, or they would call for others.
    passed: usize,
    /// Its query has come to its bound.
    is_stopped: bool,
    /// What the effect has handlers for.
    kinds: Vec<ChangeKind>,
    sys: Sys,
}

impl Replay {
    async fn open(
        start: Start,
        kinds: Vec<ChangeKind>,
        sys: &Sys,
        cancellation: &Cancellation,
    ) -> Result<(Self, Acker), String> {
        let Start { name, stream, types, query, db, settings } = start;
        let effect = SmolStr::new(&name);
        let text = |error: super::CommitError| error.to_string();
        let mut pen = Pen::new(&effect, &stream, sys, cancellation.clone()).map_err(text)?;
        let found = take_over(&mut pen, &stream, &types, sys).await?;
        let is_new = found.cursor.is_none();
        let cursor = found.cursor.unwrap_or_else(|| Cursor {
            start: found.start,
            skips_initial: settings.skips_initial,
            // The rows that match then stand right before the start.
            position: found.start.saturating_sub(1),
            by_message: true,
            ..Cursor::default()
        });
        let (mut acker, handle) = Acker::new(pen, cursor.clone());
        if is_new {
            acker.begin().await.map_err(text)?;
        }
        let mut view = View::of(&db, stream, types, &cursor);
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
                let moved = acker.begin_at(start).await.map_err(text)?;
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
            ready.push((cursor.initial()..cursor.start, rows));
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
            looked: 0,
            passed: 0,
            is_stopped: false,
            kinds,
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
                self.is_stopped |= !published.stopped.is_empty();
                for (_, error) in published.stopped {
                    tracing::error!(effect = %self.effect, %error, "a durable effect ends");
                }
                let own = published.queries.into_iter().filter(|(query, _)| *query == self.query);
                let place = tick.first.get()..tick.last.get() + 1;
                self.ready.extend(own.map(|(_, changes)| (place.clone(), changes)));
            }
            Err(error) => {
                left_out(tick, &error);
            }
        }
    }

    /// The events that are held, in the order of their marks, and the marks of those that were
    /// done before.
    fn events<R>(&mut self) -> (Vec<Event<R>>, Vec<Mark>) {
        let (mut events, mut known) = (Vec::new(), Vec::new());
        for (tick, changes) in self.ready.drain(..) {
            let changes = changes.into_iter().filter(|change| self.kinds.contains(&change.kind()));
            let mut own: Vec<Event<R>> =
                changes.map(|change| Event::new(&self.effect, tick.clone(), change)).collect();
            own.sort_by_cached_key(Event::mark);
            for event in own {
                let mark = event.mark();
                match self.cursor.is_done(&mark) {
                    true => known.push(mark),
                    false => events.push(event),
                }
            }
        }
        (events, known)
    }
}

impl<R: Send + 'static> Feed<R> for Replay {
    async fn next(&mut self) -> Option<Vec<Event<R>>> {
        let mut failures = 0;
        loop {
            if !self.ready.is_empty() {
                // Whoever waits may be dropped, and nothing may be lost by that.
                let room = self.acker.room().await?;
                let (events, known) = self.events();
                if !events.is_empty() || !known.is_empty() {
                    room.delivered(events.iter().map(Event::mark).collect(), known);
                }
                if !events.is_empty() {
                    return Some(events);
                }
            }
            if self.is_stopped {
                return None;
            }
            if self.passed > CURSOR_LAG_MAX {
                self.acker.room().await?.passed(self.position);
                self.passed = 0;
            }
            if self.position > self.looked && self.reader.is_up_to_date() {
                // An effect that idles needs no history, but says so only when it writes.
                self.looked = if self.acker.looked(self.position) { self.position } else { 0 };
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

/// What an effect is found to be when it is taken over.
struct Found {
    cursor: Option<Cursor>,
    /// Where an effect without one begins.
    start: u64,
}

/// Takes an effect over, and then finds out how far it is: what is read before the claim may be
/// out of date, since the runner before goes on until then.
async fn take_over(
    pen: &mut Pen,
    stream: &Stream,
    types: &Types,
    sys: &Sys,
) -> Result<Found, String> {
    let text = |error: super::CommitError| error.to_string();
    let mut search = Search::new(pen.effect(), Reader::private(stream.clone(), types.clone()));
    let mut after = 0;
    loop {
        let (claim, end) = pen.claim(after).await.map_err(text)?;
        let claimed = search.find(&claim, end, sys).await?;
        // A fork knows rows of runners whose epochs it has forgotten.
        if search.epoch < pen.epoch() {
            let start = search.start(claimed);
            let cursor = search.cursor.filter(|cursor| cursor.is_possible(claimed));
            return Ok(Found { cursor, start });
        }
        after = search.epoch;
    }
}

/// What is known of an effect from its rows, as far as the stream was read.
struct Search {
    effect: SmolStr,
    reader: Reader,
    cursor: Option<Cursor>,
    /// The first claim of the effect, which began with it.
    first: Option<u64>,
    /// The latest runner, but for the one that searches.
    epoch: u64,
}

impl Search {
    fn new(effect: &SmolStr, reader: Reader) -> Self {
        Self { effect: effect.clone(), reader, cursor: None, first: None, epoch: 0 }
    }

    /// Where the effect begins if it has no cursor that is any good: with its first claim, also if
    /// that runner came no further; but with this one if somebody wrote nonsense.
    fn start(&self, claimed: u64) -> u64 {
        match self.cursor {
            None => self.first.unwrap_or(claimed),
            Some(_) => claimed,
        }
    }

    /// Reads on to a claim that was appended when the stream ended at `end`; tells where it stands.
    async fn find(&mut self, claim: &Claim, end: u64, sys: &Sys) -> Result<u64, String> {
        let mut failures = 0;
        loop {
            match self.reader.next().await {
                Ok(Read::Tick(tick)) => {
                    let found = self.note(&tick, claim);
                    // A compaction may have left nothing of it.
                    let is_past = tick.start == TickStart::Snapshot && tick.last.get() + 1 >= end;
                    if let Some(found) = found.or(is_past.then(|| tick.last.get())) {
                        return Ok(found);
                    }
                }
                Ok(Read::UpToDate | Read::StartOver) => {}
                Ok(Read::Closed) => return Err("the stream is closed".into()),
                Err(error) => pause(error, &mut failures, sys).await?,
            }
        }
    }

    /// Takes note of a tick; tells where the claim stands, if it is in there.
    fn note(&mut self, tick: &state::Tick, claim: &Claim) -> Option<u64> {
        let mut found = None;
        for (position, entry) in tick.entries() {
            let Entry::Write(write) = entry else { continue };
            if write.key.as_str() != self.effect {
                continue;
            }
            match write.type_name.as_str() {
                cursor::TYPE => {
                    if write.value.is_none() {
                        self.first = None;
                    }
                    self.cursor = write.value.as_ref().and_then(|value| value.read().ok());
                    let possible = self.cursor.iter().filter(|cursor| cursor.epoch < INTEGER_MAX);
                    self.epoch = possible.map(|cursor| cursor.epoch).fold(self.epoch, u64::max);
                }
                cursor::CLAIM_TYPE => {
                    let made = write.past.as_ref().map_or(*position, |past| past.inserted);
                    self.first = write.value.as_ref().map(|_| self.first.unwrap_or(made.get()));
                    match write.value.as_ref().and_then(|value| value.read::<Claim>().ok()) {
                        Some(own) if own.is(claim) => found = Some(position.get()),
                        Some(other) if other.epoch < INTEGER_MAX => {
                            self.epoch = self.epoch.max(other.epoch);
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        found
    }
}

/// What there are handlers for.
fn kinds<R>(handlers: &Handlers<R>) -> Vec<ChangeKind> {
    let all = [ChangeKind::Enter, ChangeKind::Update, ChangeKind::Exit];
    all.into_iter().filter(|kind| handlers.handle(*kind)).collect()
}

/// The rows of a stream, as far as it was read.
struct View {
    reader: Reader,
    database: Database,
}

impl View {
    /// No rows yet, and ticks as the cursor knows them.
    fn of(db: &Db, stream: Stream, types: Types, cursor: &Cursor) -> Self {
        let database = empty_like(db, &types);
        Self { database, reader: Reader::private(stream, types).cut_at(cursor.cuts()) }
    }

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
    let is_reserved = |name: &str| name == cursor::TYPE || name == cursor::CLAIM_TYPE;
    matches!(entry, Entry::Write(write) if is_reserved(write.type_name.as_str()))
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
