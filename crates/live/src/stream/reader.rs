//! Reading a stream, tick by tick.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use log::{Chunk, Freshness, HeadError, Incarnation, OffsetTrimmed, ReadError};
use query::{CollectionId, Database, Meta, Origin, Tick, Write, WriteError};
use state::{Body, Control, Entry, Past, Ticks, TxId};
use wire::{ContentType, Offset, Position, ReadFrom};

use super::{
    Stream, Types,
    admit::Ahead,
    copy::{Copy, Resume},
    seen::Seen,
    writer::StreamWriter,
};
use sys::Cancellation;

use crate::{
    caps::{COPY_IDLE, READ_BYTES},
    changes::Ticked,
    db::Db,
    retry::Retry,
    status::Status,
};

/// Reads a stream from its start, and then whatever comes.
pub(crate) struct Reader {
    stream: Stream,
    types: Types,
    client: String,
    seen: Arc<Seen>,
    next: Option<Offset>,
    /// The place where it was is not kept any more.
    lost: Option<OffsetTrimmed>,
    ticks: Ticks,
    ready: VecDeque<state::Tick>,
    is_up_to_date: bool,
    /// The life of the stream that it was told to go on in, until that is known to be right.
    resumed: Option<u64>,
    /// The life of the stream that it reads, once it has read some of it.
    life: Option<u64>,
}

/// What a reader brings.
pub(crate) enum Read {
    Tick(state::Tick),
    /// Everything that was in the stream has been brought.
    UpToDate,
    /// What is shown is of another stream; what follows is all there is.
    StartOver,
    /// Nothing will ever come.
    Closed,
}

/// What a row that is put comes to.
enum Put {
    Row((CollectionId, Write)),
    /// It comes too late for the row that is there.
    Late,
    /// It is none of a type that is known.
    Misfit,
}

/// The stream cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Tail(#[from] HeadError),
    #[error("it holds {0}, not application/json, so there are no rows in it")]
    NotJson(ContentType),
    #[error("it was deleted and made again; open it anew to read the new one")]
    MadeAgain,
    #[error(
        "it ends at {0}, before what was read of it: an older copy of it was restored; open it \
         anew to read that one"
    )]
    Restored(Offset),
}

impl Unreadable {
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            Self::Read(error) => error.is_retryable(),
            Self::Tail(error) => error.is_retryable(),
            Self::NotJson(_) | Self::MadeAgain | Self::Restored(_) => false,
        }
    }
}

impl Reader {
    pub(crate) fn new(stream: Stream, types: Types, client: String, seen: Arc<Seen>) -> Self {
        Self {
            stream,
            types,
            client,
            seen,
            next: None,
            lost: None,
            ticks: Ticks::new(),
            ready: VecDeque::new(),
            is_up_to_date: false,
            resumed: None,
            life: None,
        }
    }

    /// Begins where a copy of the rows ends.
    pub(super) fn resume(&mut self, Resume { life, offset, covered }: Resume) {
        (self.resumed, self.next) = (Some(life), Some(offset));
        self.ticks = Ticks::from(covered);
    }

    /// Begins at the start of a stream that is another than the copy is of.
    fn start_over(&mut self) -> Read {
        (self.resumed, self.next, self.lost) = (None, None, None);
        self.ticks = Ticks::new();
        Read::StartOver
    }

    /// Where to go on after what was brought.
    fn here(&self) -> Option<Resume> {
        let offset = self.next.filter(|_| self.is_up_to_date())?;
        Some(Resume { life: self.life?, offset, covered: self.ticks.covered() })
    }

    /// A reader for somebody else than the database of the stream.
    pub(crate) fn private(stream: Stream, types: Types) -> Self {
        Self::new(stream, types, String::new(), Arc::default())
    }

    /// Begins a tick at each of these positions, whatever the transaction is.
    pub(crate) fn cut_at(mut self, cuts: BTreeSet<Position>) -> Self {
        self.ticks = self.ticks.cut_at(cuts);
        self
    }

    /// The next tick, or that there is none for now. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Read, Unreadable> {
        loop {
            if let Some(tick) = self.ready.pop_front() {
                return Ok(Read::Tick(tick));
            }
            if let (true, Some(after)) = (self.is_up_to_date, self.next) {
                let told = self.stream.log.tail(&self.stream.address, after).await;
                // After a failure it may be another server: that one is asked for messages first.
                self.is_up_to_date = told.is_ok();
                let head = told?;
                self.check_life(head.incarnation)?;
                if head.closed && head.tail == after {
                    return Ok(Read::Closed);
                }
                self.is_up_to_date = false;
            }
            let from = self.next.map_or(ReadFrom::Start, ReadFrom::At);
            let chunk = match self.stream.log.read(&self.stream.address, from, READ_BYTES).await {
                // A compaction has passed it; what is kept may say all the same. Also the start of
                // a stream may be gone when it is read.
                Err(ReadError::Trimmed(fact)) => {
                    self.lost = self.next.take().map(|_| fact).or(self.lost);
                    continue;
                }
                Err(ReadError::OffsetUnknown(_)) if self.resumed.is_some() => {
                    return Ok(self.start_over());
                }
                Err(error) => return Err(self.why_unread(error).await),
                Ok(chunk) => chunk,
            };
            self.check_life(chunk.incarnation)?;
            if !chunk.content_type.is_json() {
                return Err(Unreadable::NotJson(chunk.content_type));
            }
            if let Some(fact) = chunk.overshoot(from) {
                return match self.resumed {
                    Some(_) => Ok(self.start_over()),
                    None => Err(Unreadable::Restored(fact.tail)),
                };
            }
            let life = chunk.incarnation.get();
            let is_lost = self.lost.is_some() && !self.ticks_go_on(&chunk);
            if self.resumed.take().is_some_and(|resumed| resumed != life || is_lost) {
                return Ok(self.start_over());
            }
            match self.lost.take() {
                Some(fact) if !self.ticks_go_on(&chunk) => {
                    return Err(ReadError::Trimmed(fact).into());
                }
                _ => self.take(&chunk),
            }
            if self.is_up_to_date && self.ready.is_empty() {
                return Ok(Read::UpToDate);
            }
        }
    }

    /// Whether what is there is the stream that was read so far: a name may be used again between
    /// any two questions.
    fn check_life(&self, found: Incarnation) -> Result<(), Unreadable> {
        match self.life {
            Some(life) if life != found.get() => Err(Unreadable::MadeAgain),
            _ => Ok(()),
        }
    }

    /// Why a read failed: a stream that was made again may not reach as far as the last one did.
    async fn why_unread(&self, error: ReadError) -> Unreadable {
        let is_retryable = error.is_retryable();
        match self.stream.log.head(&self.stream.address).await {
            Ok(head) if !is_retryable && self.check_life(head.incarnation).is_err() => {
                Unreadable::MadeAgain
            }
            _ => error.into(),
        }
    }

    /// True if nothing is missing before a chunk, or a snapshot stands for it.
    fn ticks_go_on(&self, chunk: &Chunk) -> bool {
        let is_snapshot = |message| {
            let event = state::decode(message);
            event.headers.position.is_some()
                && matches!(event.body, Body::Control(Control::SnapshotStart))
        };
        chunk.start.position <= self.ticks.covered()
            || chunk.messages().next().is_some_and(is_snapshot)
    }

    fn take(&mut self, chunk: &Chunk) {
        self.life = Some(chunk.incarnation.get());
        let first = chunk.start.position.get();
        for (position, message) in (first..).map(Position::new).zip(chunk.messages()) {
            self.ready.extend(self.ticks.push(position, message));
        }
        self.next = Some(chunk.next);
        if chunk.freshness != Freshness::Behind {
            self.ready.extend(self.ticks.up_to_date());
            self.is_up_to_date = true;
        }
    }

    /// True if nothing is known to come.
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.is_up_to_date && self.ready.is_empty()
    }

    /// What a tick of the stream is to the database.
    pub(crate) fn tick(&self, tick: &state::Tick, database: &mut Database) -> Tick {
        self.fold(tick, database).0
    }

    /// The same, and which of its writes come too late.
    fn fold(&self, tick: &state::Tick, database: &mut Database) -> (Tick, Vec<Position>) {
        let origin = self.origin(tick.txid.as_ref());
        let mut writes = Vec::with_capacity(tick.entries().len());
        let (mut ahead, mut late) = (Ahead::default(), Vec::new());
        for (position, entry) in tick.entries() {
            match entry {
                Entry::Write(write) => {
                    // A row stands where it was written first, whoever wrote it last.
                    let (stands, origin) = match &write.past {
                        Some(past) => (past.inserted, self.origin(past.txid.as_ref())),
                        None => (*position, origin),
                    };
                    match &write.value {
                        Some(_) => match self.put(write, (stands, origin), &mut ahead, database) {
                            Put::Row(row) => writes.push(row),
                            Put::Late => late.push(*position),
                            Put::Misfit => {}
                        },
                        None => self.delete(write, &mut ahead, &mut writes),
                    }
                }
                Entry::Control(Control::Reset, _) => {
                    ahead.reset();
                    writes.extend(self.types.values().map(|(id, _)| (*id, Write::Truncate)));
                }
                Entry::Control(..) | Entry::Skipped(_) => {}
            }
        }
        (Tick { writes, retires: Vec::new() }, late)
    }

    /// Who wrote a transaction.
    fn origin(&self, txid: Option<&TxId>) -> Origin {
        // The client's name may have dots, and what follows it has none.
        let is_own = txid.is_some_and(|txid| {
            txid.as_str().rsplitn(3, '.').nth(2).is_some_and(|name| name == self.client)
        });
        if is_own { Origin::Local } else { Origin::Remote }
    }

    fn delete(
        &self,
        write: &state::Write,
        ahead: &mut Ahead,
        writes: &mut Vec<(CollectionId, Write)>,
    ) {
        let Some((id, codec)) = self.types.get(write.type_name.as_str()) else { return };
        for key in codec.keys(write.key.as_str()).into_iter().flatten() {
            if codec.rule.is_some() {
                ahead.delete(*id, key.clone());
            }
            writes.push((*id, Write::Delete(key)));
        }
    }

    fn put(
        &self,
        write: &state::Write,
        (position, origin): (Position, Origin),
        ahead: &mut Ahead,
        database: &mut Database,
    ) -> Put {
        let known = self.types.get(write.type_name.as_str());
        let (Some((id, codec)), Some(value)) = (known, &write.value) else { return Put::Misfit };
        let (stream, kind, key) = (&self.stream.address, &write.type_name, write.key.as_str());
        let at = position.get();
        let record = match codec.decode(key, value, (*id, database)) {
            Ok(record) => record,
            Err(error) => {
                self.seen.left_out();
                tracing::warn!(%stream, %kind, key, at, %error, "a row does not fit its type");
                return Put::Misfit;
            }
        };
        if let Some(rule) = &codec.rule
            && !ahead.admits(rule, (*id, codec.key_of(&record)), &record, database)
        {
            self.seen.came_late();
            tracing::warn!(%stream, %kind, key, at, "a write comes too late and is not applied");
            return Put::Late;
        }
        let meta = Meta { position: Some(at), is_pending: false, origin };
        Put::Row((*id, Write::Put(record, meta)))
    }

    /// Feeds a database until it is gone.
    pub(super) async fn feed(
        mut self,
        db: Db,
        writer: Arc<StreamWriter>,
        mut copy: Option<Copy>,
        cancellation: Cancellation,
    ) {
        if let Some(copy) = &copy
            && let Some(resume) = copy.load(&db, &writer).await
        {
            self.resume(resume);
        }
        let (sys, mut failures) = (db.sys().clone(), 0);
        loop {
            let read = tokio::select! {
                biased;
                () = cancellation.cancelled() => break,
                read = self.next() => read,
                () = sys.clock.sleep(COPY_IDLE), if copy.as_ref().is_some_and(Copy::is_stale) => {
                    self.keep(&mut copy, &db, &writer, Copy::is_stale).await;
                    continue;
                }
            };
            match read {
                Ok(Read::Tick(tick)) => {
                    failures = 0;
                    self.bring(&db, &writer, &tick);
                    copy.iter_mut().for_each(Copy::ticked);
                    if self.is_up_to_date() {
                        self.caught_up(&db);
                    }
                }
                Ok(Read::UpToDate) => self.caught_up(&db),
                Ok(Read::StartOver) => self.forget(&db),
                Ok(Read::Closed) => break self.tell(&db, &Status::Ready),
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &sys.chance);
                    tokio::select! {
                        biased;
                        // A database that was dropped lets go of its log at once.
                        () = cancellation.cancelled() => break,
                        () = self.seen.rest(pause, &sys) => {}
                    }
                }
                Err(error) => {
                    let why = format!("stream {}: {error}", self.stream.address);
                    break self.tell(&db, &Status::Error(why.into()));
                }
            }
            self.keep(&mut copy, &db, &writer, Copy::is_due).await;
        }
        self.keep(&mut copy, &db, &writer, Copy::is_stale).await;
    }

    /// Keeps a copy of what was brought, if it is time.
    async fn keep(
        &self,
        copy: &mut Option<Copy>,
        db: &Db,
        writer: &StreamWriter,
        is_time: impl Fn(&Copy) -> bool,
    ) {
        let Some(copy) = copy.as_mut().filter(|copy| is_time(copy)) else { return };
        let Some(here) = self.here() else { return };
        if self.seen.misfits() > 0 {
            copy.left_out();
        }
        copy.save(db, writer, here).await;
    }

    /// Shows nothing any more.
    fn forget(&self, db: &Db) {
        let writes = self.types.values().map(|(id, _)| (*id, Write::Truncate)).collect();
        let applied = db.apply(Tick { writes, retires: Vec::new() });
        debug_assert!(applied.is_ok(), "{applied:?}");
    }

    fn bring(&self, db: &Db, writer: &StreamWriter, tick: &state::Tick) {
        let ticked = match tick.start {
            state::Start::Snapshot => Ticked::Snapshot(tick.first.get()),
            _ => Ticked::At(tick.first.get()),
        };
        let applied = db.change_by(ticked, |database| {
            let (mut writes, late) = self.fold(tick, database);
            writer.note(tick, &late);
            writes.retires.extend(txids(tick).filter_map(|txid| writer.retired(txid.as_str())));
            Ok::<_, WriteError>(((), database.apply(writes)?))
        });
        if let Err(error) = applied {
            self.seen.left_out();
            left_out(tick, &error);
        }
        txids(tick).for_each(|txid| self.seen.add(txid.as_str()));
    }

    fn caught_up(&self, db: &Db) {
        self.seen.reach(self.next);
        self.tell(db, &Status::Ready);
    }

    fn tell(&self, db: &Db, status: &Status) {
        self.types.values().for_each(|(id, _)| db.set_status(*id, status.clone()));
    }
}

/// The transactions that a tick shows: its own, or those that the rows of a snapshot come from.
fn txids(tick: &state::Tick) -> impl Iterator<Item = &TxId> {
    let pasts = tick.entries().iter().filter_map(|(_, entry)| match entry {
        Entry::Write(write) => write.past.as_deref().and_then(|Past { txid, .. }| txid.as_ref()),
        _ => None,
    });
    tick.txid.iter().chain(pasts)
}

/// Rows of a stream are put, never inserted, and their keys were read with them: this is a fault.
pub(crate) fn left_out(tick: &state::Tick, error: &dyn std::fmt::Display) {
    tracing::error!(position = tick.first.get(), %error, "a tick does not fit and is left out");
}
