//! The engine on one disk.
//!
//! ```text
//!  requests ──► committer ──► frame ──► segment of the write-ahead log (fdatasync)
//!                  │                        │
//!                  ▼                        ▼
//!            shown to readers ◄── newest frames in memory
//!
//!  regrouper ──► full segments ──► packs, by stream ──► checkpoint ──► segments used again
//! ```
//!
//! The `committer` owns every stream: it decides requests one by one, puts the changes of many
//! into one frame, makes the frame durable, and only then shows the changes and answers. The
//! write-ahead log *is* the store: messages are written once on their way in, and read back from
//! where they stand. The regrouper later moves them next to their stream's other messages, and
//! leaves out what was deleted. `recovery` brings back what was acknowledged, no more, no less.
//!
//! Start reading at `committer.rs`.

mod backup;
mod checkpoint;
mod codec;
mod committer;
pub mod doctor;
mod files;
mod format;
mod frames;
#[cfg(fuzzing)]
pub mod fuzzing;
mod hot;
mod open_error;
mod pack;
mod place;
mod reader;
mod record;
mod records;
mod recovery;
mod regroup;
mod scan;
mod segment;
mod settings;
mod state;
mod stream;
mod wal;
mod wishes;

use std::{path::Path, sync::Arc};

use sys::{Sys, Task, disk::Lock};
use tokio::sync::{mpsc, oneshot};
use wire::{Address, Glob, Offset, ReadFrom};

pub use self::{
    backup::{Backup, backup},
    open_error::OpenError,
    settings::Settings,
};
use self::{
    committer::{Command, Committer, REAP_EVERY},
    hot::Hot,
    reader::{Reader, Warm},
    recovery::Recovered,
    regroup::Regrouper,
    state::Registry,
    stream::{Stream, Wait},
    wishes::Job,
};
use crate::{
    Answer, Append, AppendError, Appended, Capabilities, Chunk, Create, CreateError, Created,
    Delete, DeleteError, Fork, ForkError, Head, HeadError, Incarnation, List, ListError, Log,
    OffsetBeyondTail, Page, ReadError, TrimError, Unavailable, Watch, WatchError,
    reading::{self, Direction},
    table::Forking,
};

/// Streams in a directory. A clone is the same log; it closes when the last one is dropped.
#[derive(Clone, Debug)]
pub struct FileLog {
    sys: Sys,
    committer: mpsc::Sender<Command>,
    registry: Arc<Registry>,
    reader: Reader,
    owners: Arc<Owners>,
}

/// What must end before the directory may be opened again.
#[derive(Debug)]
struct Owners {
    // Held to take them out.
    tasks: std::sync::Mutex<Vec<Task>>,
    reaper: Task,
    _lock: Arc<Lock>,
}

impl FileLog {
    /// Opens the log in `dir`, or makes one. Must be called within a runtime.
    ///
    /// # Errors
    /// If the directory is in use, damaged, of another version, or cannot be read or written.
    pub async fn open(sys: &Sys, dir: &Path, settings: Settings) -> Result<Self, OpenError> {
        let settings = settings.fitting();
        let (owned_sys, dir, chosen) = (sys.clone(), dir.to_owned(), settings.clone());
        let recovered =
            sys.spawn.blocking(move || recovery::open(&owned_sys, &dir, &chosen)).await?;
        Ok(Self::start(sys, recovered, settings))
    }

    fn start(sys: &Sys, recovered: Recovered, settings: Settings) -> Self {
        let (committer, inbox) = mpsc::channel(settings.requests_max);
        let (wishes, wish_box) = wishes::wishes();
        wishes.add(Job::Rolled);
        recovered.unfinished.into_iter().for_each(|job| wishes.add(job));
        let hot = Arc::new(Hot::new(settings.hot_bytes_max));
        let registry = Arc::new(recovered.registry);
        let (files, salt) = (recovered.files, recovered.salt);
        let reader = Reader { files: files.clone(), hot: hot.clone(), salt };
        let owner = Committer {
            clock: sys.clock.clone(),
            settings: settings.clone(),
            salt,
            state: recovered.state,
            registry: registry.clone(),
            hot,
            wal: recovered.wal,
            wishes,
            frame: committer::Frame::default(),
            is_full: false,
            lacks_file: false,
        };
        let regrouper = Regrouper {
            clock: sys.clock.clone(),
            settings,
            files,
            reader: reader.clone(),
            committer: committer.downgrade(),
            packs: recovered.packs,
            next_pack: recovered.next_pack,
            next_checkpoint: recovered.next_checkpoint,
            wishes: wish_box,
            erase_owed: recovered.unfinished == Some(Job::Erase),
            unread_passes: 0,
            last_pass: std::time::Duration::ZERO,
            is_full: false,
            reserve_is_lent: false,
            live_in_segments: 0,
        };
        let lock = Arc::new(recovered.lock);
        let tasks = vec![
            sys.spawn.owner("committer", holding(lock.clone(), owner.run(inbox))),
            sys.spawn.owner("regrouper", holding(lock.clone(), regrouper.run())),
        ];
        let reaper = sys.spawn.task("reaper", reap(sys.clone(), committer.downgrade()));
        let owners = Arc::new(Owners { tasks: std::sync::Mutex::new(tasks), reaper, _lock: lock });
        Self { sys: sys.clone(), committer, registry, reader, owners }
    }

    /// Makes everything that was accepted durable, then ends. Later calls fail.
    pub async fn close(self) {
        let (reply, closed) = oneshot::channel();
        if self.committer.send(Command::Close(reply)).await.is_ok() {
            let _ = closed.await;
        }
        self.owners.reaper.abort();
        let tasks = std::mem::take(&mut *self.owners.tasks.lock().expect("no panic while held"));
        for task in tasks {
            task.join().await;
        }
    }

    /// Sends a request; too many waiting ones are refused, not queued.
    async fn ask<T, E: From<Unavailable>>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, E>>) -> Command,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        self.committer.try_send(command(reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unavailable::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Unavailable::Closing,
        })?;
        answer.await.unwrap_or_else(|_| Err(Unavailable::Closing.into()))
    }

    async fn read_chunk(
        &self,
        address: &Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Result<Chunk, ReadError> {
        let stream = self.registry.find(address)?;
        let now = self.sys.clock.unix_ms();
        let head = stream.head(now)?;
        let direction = reading::locate(&head, from)?;
        if stream.touch(now) {
            self.keep_alive(stream.id).await?;
        }
        match direction {
            Direction::Forward(start) => {
                let (runs, next) = self.read_span(stream, start, head.tail, bytes_max).await?;
                Ok(head.chunk(start, next, runs))
            }
            Direction::Back(end) => {
                let start = reader::back_from(&stream, end, bytes_max).max(head.earliest);
                let span_bytes = (end.byte.get() - start.byte.get().min(end.byte.get())) as usize;
                let (runs, next) = self.read_span(stream, start, end, span_bytes).await?;
                let (start, runs) = reading::newest((start, runs, next), end, bytes_max)?;
                Ok(head.chunk(start, end, runs))
            }
        }
    }

    /// Messages from `start`, and none at `end` or after it.
    async fn read_span(
        &self,
        stream: Arc<Stream>,
        start: Offset,
        end: Offset,
        bytes_max: usize,
    ) -> Result<(Vec<wire::Messages>, Offset), ReadError> {
        match self.reader.read_warm(&stream, start, end, bytes_max) {
            Warm::Whole(found) => found,
            Warm::NeedsDisk => self.read_cold(stream, start, end, bytes_max).await,
        }
    }

    /// Makes a read outlast a crash. A log that cannot write any more still serves its readers.
    async fn keep_alive(&self, id: Incarnation) -> Result<(), HeadError> {
        match self.ask(|reply| Command::Touch(id, reply)).await {
            Err(HeadError::Unavailable(
                Unavailable::Poisoned(_) | Unavailable::DiskFull(_) | Unavailable::NoFile(_),
            )) => Ok(()),
            touched => touched,
        }
    }

    async fn read_cold(
        &self,
        stream: Arc<Stream>,
        start: Offset,
        tail: Offset,
        bytes_max: usize,
    ) -> Result<(Vec<wire::Messages>, Offset), ReadError> {
        let reader = self.reader.clone();
        let read = move || reader.read_cold(&stream, start, tail, bytes_max);
        self.sys.spawn.blocking(read).await
    }

    async fn wait(&self, address: &Address, after: Offset) -> Result<Head, HeadError> {
        let stream = self.registry.find(address)?;
        loop {
            match stream.wait(after, self.sys.clock.unix_ms())? {
                Wait::Ready(head) => return Ok(head),
                Wait::Until(changed) => changed.await,
            }
        }
    }

    /// A trim must leave whole messages; the stream in which that was made sure.
    async fn check_boundary(
        &self,
        address: &Address,
        before: Offset,
    ) -> Result<Incarnation, TrimError> {
        let head = self.head(address).await?;
        if before > head.tail {
            return Err(OffsetBeyondTail { tail: head.tail }.into());
        }
        if before <= head.earliest || before == head.tail {
            return Ok(head.incarnation);
        }
        let chunk = self.read_chunk(address, ReadFrom::At(before), 0).await?;
        Ok(chunk.incarnation)
    }
}

async fn holding(_lock: Arc<Lock>, owner: impl Future<Output = ()>) {
    owner.await;
}

async fn reap(sys: Sys, committer: mpsc::WeakSender<Command>) {
    loop {
        sys.clock.sleep(REAP_EVERY).await;
        let Some(committer) = committer.upgrade() else { return };
        if committer.is_closed() {
            return;
        }
        // With a full queue there is more urgent work.
        let _ = committer.try_send(Command::Reap);
    }
}

impl Log for FileLog {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn create<'a>(
        &'a self,
        address: &'a Address,
        create: Create,
    ) -> Answer<'a, Result<Created, CreateError>> {
        let address = address.clone();
        Box::pin(self.ask(move |reply| Command::Create(address, create, reply)))
    }

    fn fork<'a>(
        &'a self,
        address: &'a Address,
        fork: Fork,
    ) -> Answer<'a, Result<Created, ForkError>> {
        Box::pin(async move {
            let point = reading::fork_point(self, &fork).await;
            let forking = Box::new(Forking { fork, point });
            self.ask(|reply| Command::Fork(address.clone(), forking, reply)).await
        })
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        let address = address.clone();
        Box::pin(self.ask(move |reply| Command::Append(address, append, reply)))
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(self.read_chunk(address, from, bytes_max))
    }

    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        Box::pin(self.wait(address, after))
    }

    fn watch(&self, glob: Glob) -> Result<Watch, WatchError> {
        self.registry.watchers.add(glob)
    }

    fn head<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Head, HeadError>> {
        let head = self.registry.find(address);
        let now = self.sys.clock.unix_ms();
        Box::pin(std::future::ready(head.and_then(|stream| stream.head(now))))
    }

    fn trim<'a>(
        &'a self,
        address: &'a Address,
        before: Offset,
    ) -> Answer<'a, Result<Head, TrimError>> {
        Box::pin(async move {
            let stream = self.check_boundary(address, before).await?;
            self.ask(|reply| Command::Trim(address.clone(), stream, before, reply)).await
        })
    }

    fn delete<'a>(
        &'a self,
        address: &'a Address,
        delete: Delete,
    ) -> Answer<'a, Result<(), DeleteError>> {
        let address = address.clone();
        Box::pin(self.ask(move |reply| Command::Delete(address, delete, reply)))
    }

    fn erase_within<'a>(
        &'a self,
        address: &'a Address,
        within: Arc<[Glob]>,
    ) -> Answer<'a, Result<(), DeleteError>> {
        let address = address.clone();
        Box::pin(self.ask(move |reply| Command::EraseWithin(address, within, reply)))
    }

    fn list<'a>(&'a self, list: List) -> Answer<'a, Result<Page, ListError>> {
        let now = self.sys.clock.unix_ms();
        Box::pin(std::future::ready(Ok(self.registry.list(&list, now))))
    }
}
