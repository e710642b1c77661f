//! The one owner of the log: decides every request, makes the changes of many durable in one
//! write, then shows them, then answers.
//!
//! An answer waits for the frame that was being built when it was decided. A refusal waits, too:
//! it was judged on changes that are in the same frame.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use sys::{Clock, UnixMs};
use tokio::sync::{mpsc, oneshot};
use wire::{Address, Glob, Offset};

use super::{
    checkpoint,
    hot::Hot,
    place::Place,
    record::{self, Salt},
    regroup,
    segment::{self, FRAME_HEADER_BYTES},
    settings::Settings,
    state::{Registry, State},
    stream::Stream,
    wal::{NoSegment, Purpose, Slot, Wal},
    wishes::{Job, Wishes},
};
use crate::{
    Append, AppendError, Appended, Create, CreateError, Created, Delete, DeleteError, ForkError,
    Head, HeadError, Incarnation, TrimError, Unavailable,
    table::{Change, Changes, Decided, Forking},
};

/// Requests taken from the queue at a time.
const BATCH_MAX: usize = 1024;
/// Room kept for the next frame, at most.
const FRAME_BYTES_USUAL: usize = 1024 * 1024;
/// Streams past their time dropped at a time.
const REAP_MAX: usize = 1000;
/// Streams of one snapshot, so that nobody waits long for it.
const SNAPSHOT_STREAMS: usize = 512;
/// Bytes a request may need in a frame beyond its messages: names, numbers, boundaries.
const OVERHEAD_BYTES: usize = 4096;
/// Bytes of a frame with one request that lets something go.
const FREEING_BYTES: usize = 256;
/// Bytes of a record without messages, at most.
const SMALL_RECORD_BYTES: usize = 64;
/// How often the owner of the streams looks for those past their time.
pub(super) const REAP_EVERY: Duration = Duration::from_millis(500);

type Reply<T, E> = oneshot::Sender<Result<T, E>>;

/// All that is asked of the committer.
#[derive(Debug)]
pub(super) enum Command {
    Create(Address, Create, Reply<Created, CreateError>),
    Fork(Address, Box<Forking>, Reply<Created, ForkError>),
    Append(Address, Append, Reply<Appended, AppendError>),
    Trim(Address, Incarnation, Offset, Reply<Head, TrimError>),
    Delete(Address, Delete, Reply<(), DeleteError>),
    EraseWithin(Address, Arc<[Glob]>, Reply<(), DeleteError>),
    /// A read that must outlast a crash.
    Touch(Incarnation, Reply<(), HeadError>),
    Reap,
    /// For the regrouper.
    Inspect(oneshot::Sender<Inspection>),
    Snapshot {
        after: Option<Incarnation>,
        detail: Detail,
        reply: oneshot::Sender<Snapshot>,
    },
    /// Begin another segment, so that the present one can be regrouped.
    Roll {
        when: Roll,
        purpose: Purpose,
        reply: oneshot::Sender<Inspection>,
    },
    Release {
        through: u32,
        reply: oneshot::Sender<Vec<Slot>>,
    },
    ReserveSlot(oneshot::Sender<u32>),
    TakeSpares(oneshot::Sender<Vec<Slot>>),
    /// The disk is full, and what room there is is for regrouping; or it is no longer.
    ReserveIsLent(bool),
    Spare(Slot),
    Close(oneshot::Sender<()>),
}

/// How the write-ahead log stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inspection {
    /// Segments before this one are full.
    pub(super) active: u32,
    /// Bytes of the present one.
    pub(super) active_bytes: u32,
    pub(super) sealed: usize,
    pub(super) spares: usize,
    /// There was no room for the last request, or for another segment.
    pub(super) is_full: bool,
}

/// When to begin another segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Roll {
    /// If there is something in the present one.
    IfUsed,
    /// In any case: its file may hold what must go.
    Always,
}

/// What a snapshot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Only what is needed of each stream's messages.
    Needs,
    /// The streams themselves, too.
    Whole,
}

/// Some streams as they are durable now, in order of their ids.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) streams: Vec<SnapshotStream>,
    /// The newest id there is.
    pub(super) last_id: Incarnation,
}

#[derive(Debug)]
pub(super) struct SnapshotStream {
    pub(super) stream: Arc<Stream>,
    /// Encoded for a checkpoint, in a whole snapshot.
    pub(super) meta: Vec<u8>,
    /// The part of its own messages that somebody can still read.
    pub(super) needed: std::ops::Range<Offset>,
}

/// The owner.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    pub(super) salt: Salt,
    pub(super) state: State,
    pub(super) registry: Arc<Registry>,
    pub(super) hot: Arc<Hot>,
    pub(super) wal: Wal,
    pub(super) wishes: Wishes,
    pub(super) frame: Frame,
    /// The last request found no room on the disk: told once, not for each request.
    pub(super) is_full: bool,
    /// The last request could not have a file, for another reason: told once, too.
    pub(super) lacks_file: bool,
}

/// What a request takes of the disk.
#[derive(Clone, Copy, Debug)]
struct Need {
    bytes: usize,
    purpose: Purpose,
}

/// What a request needs that lets something go.
const FREE: Need = Need { bytes: FREEING_BYTES, purpose: Purpose::Free };

/// What a request with so many bytes of messages needs.
fn store(bytes: usize) -> Need {
    Need { bytes: bytes + OVERHEAD_BYTES, purpose: Purpose::Store }
}

/// The frame that is being built: its bytes, its changes, and who waits for it.
#[derive(Default)]
pub(super) struct Frame {
    bytes: Vec<u8>,
    place: Option<Place>,
    /// Bytes that its place has room for.
    capacity: usize,
    changes: Vec<(Change, Place, u32)>,
    answers: Vec<Answer>,
    /// Bytes that went to the disk.
    written: usize,
}

impl Frame {
    /// An empty frame with room for another like this one.
    fn emptied(mut self) -> Self {
        self.changes.clear();
        let bytes = Vec::with_capacity(self.written.min(FRAME_BYTES_USUAL));
        let (changes, answers) = (self.changes, self.answers);
        Self { bytes, place: None, capacity: 0, changes, answers, written: 0 }
    }
}

type Answer = Box<dyn FnOnce(Result<(), Unavailable>) + Send>;

impl Committer {
    /// Serves until it is told to close, or nobody is left to ask.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while inbox.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let mut closed = None;
            for command in batch.drain(..) {
                match command {
                    Command::Close(reply) => closed = Some(reply),
                    command => self.handle(command),
                }
            }
            self.commit();
            if let Some(reply) = closed {
                // A sender that was let in puts its request into the queue even after the queue is
                // dropped, and would wait there for ever: the queue ends when the last one has.
                inbox.close();
                while inbox.recv().await.is_some() {}
                drop(self);
                let _ = reply.send(());
                return;
            }
        }
    }

    fn handle(&mut self, command: Command) {
        let now = self.clock.unix_ms();
        match command {
            Command::Create(address, create, reply) => {
                let bytes = create.messages.data().len() + 5 * create.messages.len();
                self.decide(store(bytes), reply, |state| {
                    state.table.decide_create(&address, create, now)
                });
            }
            Command::Fork(address, forking, reply) => {
                let own = &forking.fork.messages;
                let partial = forking.point.as_ref().map_or(0, |point| point.partial.data().len());
                let bytes = own.data().len() + 5 * own.len() + partial;
                self.decide(store(bytes), reply, |state| {
                    state.table.decide_fork(&address, *forking, now)
                });
            }
            Command::Append(address, append, reply) => {
                let bytes = append.messages.data().len() + 5 * append.messages.len();
                self.decide(store(bytes), reply, |state| {
                    state.table.decide_append(&address, append, now)
                });
            }
            Command::Trim(address, id, before, reply) => {
                self.decide(FREE, reply, |state| {
                    state.table.decide_trim(&address, id, before, now)
                });
                self.hint(Job::Reclaim);
            }
            Command::Delete(address, delete, reply) => {
                self.decide(FREE, reply, |state| state.table.decide_delete(&address, delete, now));
                self.hint(if delete == Delete::Erase { Job::Erase } else { Job::Reclaim });
            }
            Command::EraseWithin(address, within, reply) => {
                let decide =
                    |state: &State| state.table.decide_erase_within(&address, &within, now);
                self.decide(FREE, reply, decide);
                self.hint(Job::Erase);
            }
            Command::Touch(id, reply) => {
                self.decide(store(0), reply, |state| Ok(touch(state, id, now)))
            }
            Command::Reap => self.reap(now),
            other => self.serve_regrouper(other),
        }
    }

    /// What the regrouper asks concerns only what is durable.
    fn serve_regrouper(&mut self, command: Command) {
        self.commit();
        if self.check_writable().is_err() {
            // What is staged will never be durable: the regrouper must not see it.
            return;
        }
        match command {
            Command::Inspect(reply) => drop(reply.send(self.inspect())),
            Command::Snapshot { after, detail, reply } => {
                let _ = reply.send(self.snapshot(after, detail));
            }
            Command::Roll { when, purpose, reply } => {
                if (when == Roll::Always || self.wal.active_has_frames())
                    && let Err(why) = self.wal.roll(purpose)
                {
                    let _ = self.no_segment(why);
                }
                let _ = reply.send(self.inspect());
            }
            Command::Release { through, reply } => drop(reply.send(self.wal.release(through))),
            Command::TakeSpares(reply) => drop(reply.send(self.wal.take_spares())),
            Command::ReserveIsLent(lent) => self.wal.reserve_is_lent = lent,
            Command::ReserveSlot(reply) => drop(reply.send(self.wal.reserve_slot())),
            Command::Spare(slot) => self.wal.add_spare(slot),
            _ => unreachable!("handled before"),
        }
    }

    /// Judges a request and puts its changes into the frame; the answer waits for the frame.
    fn decide<T, E, D>(&mut self, need: Need, reply: Reply<T, E>, decide: D)
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        D: FnOnce(&State) -> Result<Decided<T>, E>,
    {
        if let Err(why) = self.check_writable().and_then(|()| self.make_room(need)) {
            let _ = reply.send(Err(why.into()));
            return;
        }
        let decided = decide(&self.state);
        if let Ok(decided) = &decided
            && let Err(why) = self.make_room_for_many(&decided.changes)
        {
            let _ = reply.send(Err(why.into()));
            return;
        }
        let answer = decided.map(|decided| {
            self.stage(decided.changes);
            decided.answer
        });
        self.frame.answers.push(Box::new(move |durable| {
            let _ = reply.send(durable.map_err(E::from).and(answer));
        }));
        if self.frame.bytes.len() >= self.settings.commit_bytes_max {
            self.commit();
        }
    }

    /// The end of a stream may be the end of all that were forked from it.
    fn make_room_for_many(&mut self, changes: &Changes) -> Result<(), Unavailable> {
        let bytes = self.frame.bytes.len() + changes.len() * SMALL_RECORD_BYTES;
        if changes.len() > 1 && bytes > self.frame.capacity {
            let reserved = self.wal.reserve(bytes + OVERHEAD_BYTES).map_err(NoSegment::NoFile);
            reserved.map_err(|why| self.no_segment(why))?;
            self.frame.capacity = bytes;
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<(), Unavailable> {
        match self.registry.poisoned.get() {
            Some(why) => Err(Unavailable::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    /// Makes sure that the frame has a place where it still fits with what is needed.
    fn make_room(&mut self, need: Need) -> Result<(), Unavailable> {
        if self.frame.place.is_some() && self.frame.bytes.len() + need.bytes > self.frame.capacity {
            self.commit();
            self.check_writable()?;
        }
        match (self.frame.place, need.purpose) {
            (Some(_), _) => Ok(()),
            (None, Purpose::Store) => self.begin_frame(need),
            (None, Purpose::Free) => {
                let usual = self.begin_frame(Need { purpose: Purpose::Store, ..need });
                usual.or_else(|_| {
                    self.check_writable()?;
                    self.begin_frame(need)
                })
            }
        }
    }

    fn begin_frame(&mut self, need: Need) -> Result<(), Unavailable> {
        if self.wal.sealed() >= self.settings.segments_max {
            return Err(Unavailable::Overloaded);
        }
        // A usual frame takes further requests until it is this large.
        let (capacity, overhead) = match need.purpose {
            Purpose::Store => (need.bytes.max(self.settings.commit_bytes_max), OVERHEAD_BYTES),
            Purpose::Free => (need.bytes, 0),
        };
        let most = FRAME_HEADER_BYTES + capacity + overhead;
        let segment = self.wal.active_number();
        let place = self.wal.make_room(most, need.purpose).map_err(|why| self.no_segment(why))?;
        if self.wal.active_number() != segment {
            self.hint(Job::Rolled);
        }
        self.is_full &= need.purpose == Purpose::Free;
        self.lacks_file &= need.purpose == Purpose::Free;
        self.frame.place = Some(place);
        self.frame.capacity = capacity;
        segment::begin_frame(&mut self.frame.bytes);
        Ok(())
    }

    fn stage(&mut self, changes: Changes) {
        let frame_place = self.frame.place.expect("room was made");
        for change in changes {
            let at = self.frame.bytes.len();
            record::write_change(&mut self.frame.bytes, self.salt, &change);
            let length = (self.frame.bytes.len() - at) as u32;
            let place = Place { offset: frame_place.offset + at as u32, ..frame_place };
            self.state.stage(&change, place);
            self.frame.changes.push((change, place, length));
        }
    }

    /// Durable, then visible, then acknowledged.
    fn commit(&mut self) {
        let mut frame = std::mem::take(&mut self.frame);
        let durable = match frame.place {
            Some(place) if !frame.changes.is_empty() => self.write(&mut frame, place),
            _ => Ok(()),
        };
        if durable.is_ok() {
            for (change, place, length) in &frame.changes {
                self.state.publish(&self.registry, change, *place, *length);
            }
        }
        for answer in frame.answers.drain(..) {
            answer(durable.clone());
        }
        self.frame = frame.emptied();
    }

    fn write(&mut self, frame: &mut Frame, place: Place) -> Result<(), Unavailable> {
        let records = u32::try_from(frame.changes.len()).expect("a frame is bounded");
        segment::finish_frame(&mut frame.bytes, self.salt, place, records);
        if let Err(error) = self.wal.commit(&frame.bytes) {
            return Err(self.poison(&error));
        }
        frame.written = frame.bytes.len();
        self.hot.push(place, Bytes::from(std::mem::take(&mut frame.bytes)));
        Ok(())
    }

    fn no_segment(&mut self, why: NoSegment) -> Unavailable {
        match why {
            NoSegment::BadFile(error) => self.poison(&error),
            NoSegment::NoFile(error) if regroup::is_full(&error) => {
                if !self.is_full {
                    tracing::error!(%error, "no room for another segment of the write-ahead log");
                    self.hint(Job::Reclaim);
                }
                self.is_full = true;
                Unavailable::DiskFull(error.to_string())
            }
            NoSegment::NoFile(error) => {
                // Neither regrouping nor freeing room would help.
                if !self.lacks_file {
                    tracing::error!(%error, "no file for another segment of the write-ahead log");
                }
                self.lacks_file = true;
                Unavailable::NoFile(error.to_string())
            }
        }
    }

    fn poison(&self, error: &io::Error) -> Unavailable {
        tracing::error!(%error, "a write failed: the log accepts no more until it is reopened");
        let why = self.registry.poisoned.get_or_init(|| error.to_string());
        Unavailable::Poisoned(why.clone())
    }

    fn reap(&mut self, now: UnixMs) {
        let due = self.state.table.due(now, REAP_MAX);
        if due.is_empty() {
            return;
        }
        self.hint(Job::Reclaim);
        for id in due {
            let (reply, _) = oneshot::channel::<Result<(), DeleteError>>();
            self.decide(FREE, reply, |state| {
                Ok(Decided { answer: (), changes: state.table.decide_expire(id, now) })
            });
            // Without room on the disk it is still there, and due again.
            self.state.table.watch_deadline(id);
        }
    }

    fn inspect(&self) -> Inspection {
        Inspection {
            active: self.wal.active_number(),
            active_bytes: self.wal.active_bytes(),
            sealed: self.wal.sealed(),
            spares: self.wal.spares(),
            is_full: self.is_full,
        }
    }

    fn snapshot(&self, after: Option<Incarnation>, detail: Detail) -> Snapshot {
        let from = after.map_or(Incarnation(0), |id| Incarnation(id.0 + 1));
        let streams = self.state.streams.range(from..).take(SNAPSHOT_STREAMS);
        let streams = streams.map(|(id, stream)| SnapshotStream {
            stream: stream.clone(),
            meta: match detail {
                Detail::Whole => checkpoint::encode_meta(*id, self.state.table.meta(*id)),
                Detail::Needs => Vec::new(),
            },
            needed: self.state.table.needed(*id),
        });
        Snapshot { streams: streams.collect(), last_id: self.state.table.last_id() }
    }

    fn hint(&self, job: Job) {
        self.wishes.add(job);
    }
}

fn touch(state: &State, id: Incarnation, now: UnixMs) -> Decided<()> {
    let changes = match state.table.get(id) {
        Some(_) => Changes::from_iter([Change::Touch { id, at: now }]),
        None => Changes::new(),
    };
    Decided { answer: (), changes }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frame").field("changes", &self.changes.len()).finish_non_exhaustive()
    }
}
