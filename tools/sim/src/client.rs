//! A client of the log that tells the oracle of everything it asks and is answered.

use std::{fmt::Display, sync::Arc, time::Duration};

use futures_util::FutureExt;
use log::{
    Answer, AppendError, Appended, Chunk, CreateError, Created, Delete, DeleteError, ForkError,
    Head, HeadError, List, ListError, Log, Page, ReadError, TrimError, Unavailable, file::FileLog,
};
use sys::UnixMs;
use wire::{Address, Expiry, Offset, ReadFrom, StreamPath};

use crate::{
    coverage::Event,
    dice::Dice,
    oracle::{Make, Try, Verdict, Violation, demand},
    witness::Witness,
    world::World,
};

/// No request takes longer, in simulated time.
const PATIENCE: Duration = Duration::from_secs(600);

/// Somebody who uses the log.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) log: FileLog,
    pub(crate) witness: Witness,
    pub(crate) dice: Dice,
    pub(crate) name: String,
}

/// Whether a caller waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    /// Asks, and leaves at once.
    Leaves,
}

/// An error that may say that the log cannot serve.
pub(crate) trait Refusal: Display {
    fn unavailable(&self) -> Option<&Unavailable>;
}

macro_rules! refusals {
    ($($error:ty),*) => {$(
        impl Refusal for $error {
            fn unavailable(&self) -> Option<&Unavailable> {
                match self {
                    Self::Unavailable(why) => Some(why),
                    _ => None,
                }
            }
        }
    )*};
}

refusals!(
    AppendError,
    CreateError,
    ForkError,
    ReadError,
    HeadError,
    TrimError,
    DeleteError,
    ListError
);

impl Client {
    pub(crate) fn now(&self) -> UnixMs {
        self.world.now()
    }

    /// True if there is no point in asking more.
    pub(crate) fn is_over(&self) -> bool {
        self.witness.is_off() || self.world.has_failed()
    }

    pub(crate) async fn pause(&self) {
        match self.dice.pause() {
            Duration::ZERO => tokio::task::yield_now().await,
            pause => self.world.sys.clock.sleep(pause).await,
        }
    }

    /// Sends what was submitted. No answer if the caller leaves, or the name has another life.
    pub(crate) async fn append(
        &self,
        attempt: Try,
        patience: Patience,
    ) -> Verdict<Option<Result<Appended, AppendError>>> {
        let begun = self.begin_write();
        let (address, what) = (attempt.address.clone(), describe(&attempt));
        let begin = self.world.oracle().begin_append(attempt, self.now());
        let Some((appending, append)) = begin else { return Ok(None) };
        let answer = self.ask(self.log.append(&address, append), patience).await?;
        let Some(answer) = answer else {
            self.note(&format!("{what}: left"));
            self.world.met(Event::Cancelled);
            self.world.oracle().append_unanswered(&appending, self.now());
            return Ok(None);
        };
        self.note(&format!(
            "{what}: {}",
            told(&answer, |done: &Appended| {
                format!("{:?}, tail {}, closed {}", done.outcome, short(done.tail), done.closed)
            })
        ));
        self.world.oracle().end_append(&appending, &answer, self.now())?;
        self.end_write(begun, &answer)?;
        Ok(Some(answer))
    }

    pub(crate) async fn create(
        &self,
        make: Make,
        sizes: &[usize],
        closes: bool,
    ) -> Verdict<Result<Created, CreateError>> {
        let begun = self.begin_write();
        let address = make.address.clone();
        let (creating, create) = {
            let mut oracle = self.world.oracle();
            let creating = oracle.begin_make(make, sizes, closes, self.now());
            let create = oracle.create_request(&creating);
            (creating, create)
        };
        let asked = format!("create {address} x{} {:?}", sizes.len(), create.expiry);
        let answer = self.answer(self.log.create(&address, create)).await?;
        self.note(&format!("{asked}: {}", told(&answer, created)));
        self.world.oracle().end_create(&creating, &answer, self.now())?;
        self.end_write(begun, &answer)?;
        Ok(answer)
    }

    pub(crate) async fn fork(
        &self,
        make: Make,
        sizes: &[usize],
        closes: bool,
    ) -> Verdict<Result<Created, ForkError>> {
        let begun = self.begin_write();
        let address = make.address.clone();
        let (creating, fork) = {
            let mut oracle = self.world.oracle();
            let creating = oracle.begin_make(make, sizes, closes, self.now());
            let fork = oracle.fork_request(&creating);
            (creating, fork)
        };
        let at = (fork.offset.map(short), fork.sub_offset.get());
        let asked = format!("fork {} of {} at {at:?} x{}", address, fork.source, sizes.len());
        let answer = self.answer(self.log.fork(&address, fork)).await?;
        self.note(&format!("{asked}: {}", told(&answer, created)));
        self.world.oracle().end_fork(&creating, &answer, self.now())?;
        self.end_write(begun, &answer)?;
        Ok(answer)
    }

    pub(crate) async fn trim(&self, address: &Address, trim: Offset) -> Verdict {
        let begun = self.begin_write();
        let before = self.world.oracle().begin_trim(address, trim, self.now());
        let answer = self.answer(self.log.trim(address, trim)).await?;
        let told = told(&answer, |head: &Head| format!("begins at {}", short(head.earliest)));
        self.note(&format!("trim {address} to {}: {told}", short(trim)));
        self.world.oracle().end_trim(address, trim, &before, &answer, self.now())?;
        if answer.is_ok() {
            self.world.met(Event::Trimmed);
        }
        self.end_write(begun, &answer)
    }

    /// True if it is known to be done.
    pub(crate) async fn delete(
        &self,
        address: &Address,
        delete: Delete,
        patience: Patience,
    ) -> Verdict<bool> {
        let begun = self.begin_write();
        let deleting = self.world.oracle().begin_delete(address, delete, self.now());
        let Some(deleting) = deleting else { return Ok(false) };
        let Some(answer) = self.ask(self.log.delete(address, delete), patience).await? else {
            self.note(&format!("delete {address} ({delete:?}): left"));
            self.world.oracle().delete_unanswered(address);
            return Ok(false);
        };
        let told = told(&answer, |()| "done".to_owned());
        self.note(&format!("delete {address} ({delete:?}): {told}"));
        self.world.oracle().end_delete(address, &deleting, &answer, self.now())?;
        self.end_write(begun, &answer)?;
        Ok(answer.is_ok())
    }

    pub(crate) async fn read(
        &self,
        address: &Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Verdict<Result<Chunk, ReadError>> {
        let poisoned = self.world.trouble().poisoned;
        let before = self.world.oracle().begin_read(address, self.now());
        let answer = self.answer(self.log.read(address, from, bytes_max)).await?;
        let told = told(&answer, |chunk: &Chunk| {
            let (count, start) = (chunk.messages().count(), short(chunk.start));
            format!("{count} from {start} to {}, {:?}", short(chunk.next), chunk.freshness)
        });
        self.note(&format!("read {address} {} max {bytes_max}: {told}", from_words(from)));
        self.world.oracle().end_read(address, from, &before, &answer, self.now())?;
        match &answer {
            Ok(_) if poisoned => self.world.met(Event::ReadWhilePoisoned),
            // A log that may not be able to write cannot remember reads.
            Ok(_) if self.world.trouble().is_any() || self.is_over() => {}
            Ok(chunk) => self.world.oracle().read_counts(chunk, &before, self.now()),
            Err(error) => self.read_failed(address, error)?,
        }
        Ok(answer)
    }

    /// Reads need nobody's permission, unless they must be remembered to keep the stream alive and
    /// there is a queue.
    fn read_failed(&self, address: &Address, error: &ReadError) -> Verdict {
        let Some(why) = error.unavailable() else { return Ok(()) };
        self.world.unavailable(why, &self.witness)?;
        let oracle = self.world.oracle();
        let expiry = oracle.current(address).map(|id| oracle.stream(id).expiry);
        let is_sliding = matches!(expiry, None | Some(Expiry::Sliding(_)));
        let must_wait = is_sliding && matches!(why, Unavailable::Overloaded);
        demand(must_wait || self.witness.is_off(), || format!("reading {address}: {why}"))
    }

    pub(crate) async fn head(&self, address: &Address) -> Verdict<Result<Head, HeadError>> {
        let before = self.world.oracle().known(address, self.now());
        let answer = self.answer(self.log.head(address)).await?;
        self.note(&format!("head {address}: {}", told(&answer, headed)));
        self.world.oracle().end_head(address, &before, &answer, self.now())?;
        Ok(answer)
    }

    /// Waits for more, for a while.
    pub(crate) async fn tail(
        &self,
        address: &Address,
        after: Offset,
        patience: Duration,
    ) -> Verdict<Option<Result<Head, HeadError>>> {
        let before = self.world.oracle().known(address, self.now());
        let wait = self.log.tail(address, after);
        let Ok(answer) = self.world.sys.clock.timeout(patience, wait).await else {
            return Ok(None);
        };
        self.note(&format!("tail {address} after {}: {}", short(after), told(&answer, headed)));
        self.world.oracle().end_head(address, &before, &answer, self.now())?;
        if let Ok(head) = &answer {
            demand(head.tail > after || head.closed, || {
                format!("waiting for {address} past {after} ended at {}", head.tail)
            })?;
        }
        Ok(Some(answer))
    }

    /// All pages.
    pub(crate) async fn list(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Verdict<Vec<(StreamPath, Head)>> {
        let listing = self.world.oracle().begin_list(prefix, self.now());
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let list = List { prefix: prefix.to_owned(), after, limit };
            let page: Result<Page, ListError> = self.answer(self.log.list(list)).await?;
            let page = page.map_err(|error| Violation(format!("listing {prefix:?}: {error}")))?;
            demand(page.streams.len() <= limit.max(1), || "a page is too long".to_owned())?;
            found.extend(page.streams.into_iter().map(|listed| (listed.path, listed.head)));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.note(&format!("list {prefix:?} by {limit}: {} streams", found.len()));
        self.world.oracle().end_list(&listing, &found, self.now())?;
        Ok(found)
    }

    pub(crate) fn note(&self, line: &str) {
        self.world.note(&format!("{}: {line}", self.name));
    }

    async fn answer<T>(&self, answer: Answer<'_, T>) -> Verdict<T> {
        let answer = self.ask(answer, Patience::Waits).await?;
        Ok(answer.expect("who waits is answered"))
    }

    async fn ask<T>(&self, answer: Answer<'_, T>, patience: Patience) -> Verdict<Option<T>> {
        if patience == Patience::Leaves {
            return Ok(answer.now_or_never());
        }
        let answer = self.world.sys.clock.timeout(PATIENCE, answer).await;
        answer.map(Some).map_err(|_| Violation(format!("{} was never answered", self.name)))
    }

    /// Whether the log was known to be poisoned when a write began.
    fn begin_write(&self) -> bool {
        self.world.trouble().poisoned
    }

    fn end_write<T, E: Refusal>(&self, poisoned: bool, answer: &Result<T, E>) -> Verdict {
        match answer {
            Ok(_) => demand(!poisoned, || "a poisoned log took a write".to_owned()),
            Err(error) => match error.unavailable() {
                Some(why) => self.world.unavailable(why, &self.witness),
                None => Ok(()),
            },
        }
    }
}

/// An offset as people write it.
pub(crate) fn short(offset: Offset) -> String {
    format!("{}/{}", offset.position.get(), offset.byte.get())
}

fn from_words(from: ReadFrom) -> String {
    match from {
        ReadFrom::At(offset) => format!("at {}", short(offset)),
        ReadFrom::Start => "from the start".to_owned(),
        ReadFrom::Now => "from now".to_owned(),
        ReadFrom::Last => "the last".to_owned(),
        ReadFrom::Before(offset) => format!("before {}", short(offset)),
    }
}

fn describe(attempt: &Try) -> String {
    let mut text = format!("append #{} to {}", attempt.number, attempt.address);
    if let Some(producer) = &attempt.producer {
        let (epoch, seq) = (producer.epoch.get(), producer.seq.get());
        text += &format!(" by {} {epoch}.{seq}", producer.id.as_str());
    }
    if let Some(expected) = attempt.expected {
        text += &format!(" expecting {}", short(expected));
    }
    text
}

fn created(created: &Created) -> String {
    format!("{:?} {}", created.outcome, headed(&created.head))
}

fn headed(head: &Head) -> String {
    let (life, earliest, tail) = (head.incarnation.get(), short(head.earliest), short(head.tail));
    format!("life {life} from {earliest} to {tail}, closed {}", head.closed)
}

fn told<T, E: Display>(answer: &Result<T, E>, describe: impl FnOnce(&T) -> String) -> String {
    match answer {
        Ok(done) => describe(done),
        Err(error) => format!("refused: {error}"),
    }
}
