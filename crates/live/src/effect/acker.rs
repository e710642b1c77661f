//! Acknowledgements: one owner of a cursor, which writes it together with what handlers commit.

use std::{collections::BTreeSet, time::Duration};

use log::Outcome;
use state::Draft;
use tokio::sync::{mpsc, oneshot};

use super::{
    CommitError, Rows,
    cursor::Cursor,
    mark::Mark,
    pen::{Pen, Refused, Sent},
    progress::Progress,
};
use crate::caps::{ACKS_WAITING_MAX, COMMITS_BYTES_MAX, EFFECT_BEAT};

/// What an acker is asked to do.
enum Ack {
    /// All events of some ticks: the first are with their handlers, the others were done before.
    Delivered(Vec<Mark>, Vec<Mark>),
    /// All ticks before this position were looked at, and had no other events.
    Passed(u64),
    /// The same, but that is no reason to write: it is told with whatever is written next.
    Looked(u64),
    /// These events are done.
    Done(Vec<Mark>),
    /// These rows are to be written, and with them the events are done.
    Commit(Commit),
    /// Whether these events are done, once everything before this is written.
    Ask(Vec<Mark>, oneshot::Sender<bool>),
}

/// Rows that last together with the acknowledgement of some events.
struct Commit {
    marks: Vec<Mark>,
    drafts: Vec<Draft>,
    bytes: usize,
    reply: oneshot::Sender<Result<(), CommitError>>,
}

/// The way to an acker.
#[derive(Clone, Debug)]
pub(super) struct AckerHandle(mpsc::Sender<Ack>);

impl AckerHandle {
    /// Waits until something can be told at once; none if the acker is gone, which has said why.
    pub(super) async fn room(&self) -> Option<Room> {
        self.0.clone().reserve_owned().await.ok().map(Room)
    }

    pub(super) async fn done(&self, marks: Vec<Mark>) {
        let _ = self.0.send(Ack::Done(marks)).await;
    }

    pub(super) async fn commit(&self, marks: Vec<Mark>, rows: Rows) -> Result<(), CommitError> {
        let (drafts, bytes) = rows.drafts()?;
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send(Ack::Commit(Commit { marks, drafts, bytes, reply })).await;
        sent.map_err(|_| CommitError::Fenced)?;
        answer.await.map_err(|_| CommitError::Fenced)?
    }

    /// Whether events are done, also by a commit that nobody waits for any more; none if the acker
    /// is gone.
    pub(super) async fn are_done(&self, marks: Vec<Mark>) -> Option<bool> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Ack::Ask(marks, reply)).await.ok()?;
        answer.await.ok()
    }

    /// Nothing else happened before this position, which need not be written; true if it was told.
    pub(super) fn looked(&self, position: u64) -> bool {
        self.0.try_send(Ack::Looked(position)).is_ok()
    }

    /// Waits until the acker is gone.
    pub(super) async fn gone(&self) {
        self.0.closed().await;
    }
}

/// Room to tell an acker something without waiting.
pub(super) struct Room(mpsc::OwnedPermit<Ack>);

impl Room {
    /// These are all events of some ticks; the new ones go to their handlers.
    pub(super) fn delivered(self, new: Vec<Mark>, known: Vec<Mark>) {
        self.0.send(Ack::Delivered(new, known));
    }

    /// Nothing else happened before this position.
    pub(super) fn passed(self, position: u64) {
        self.0.send(Ack::Passed(position));
    }
}

/// The owner of a cursor.
pub(super) struct Acker {
    pen: Pen,
    progress: Progress,
    inbox: mpsc::Receiver<Ack>,
    /// When the cursor was written last, since the start of the process.
    written_at: Duration,
}

impl Acker {
    /// Goes on from a cursor, with the pen of whoever claimed it.
    pub(super) fn new(pen: Pen, mut cursor: Cursor) -> (Self, AckerHandle) {
        cursor.epoch = pen.epoch();
        let (sender, inbox) = mpsc::channel(ACKS_WAITING_MAX);
        let written_at = pen.sys().clock.elapsed();
        (Self { pen, progress: Progress::new(cursor), inbox, written_at }, AckerHandle(sender))
    }

    /// Works until everybody who may acknowledge is gone, or another runner has taken over.
    pub(super) async fn run(mut self) {
        let clock = self.pen.sys().clock.clone();
        loop {
            let beat = (self.written_at + EFFECT_BEAT).saturating_sub(clock.elapsed());
            let mut acks = match clock.timeout(beat, self.inbox.recv()).await {
                Ok(Some(first)) => vec![first],
                Ok(None) => return,
                Err(_) => Vec::new(),
            };
            while let Ok(next) = self.inbox.try_recv() {
                acks.push(next);
            }
            let mut taken = self.take(acks).await;
            // Nothing happens that it writes of, and it is still there.
            if taken.is_ok() && clock.elapsed() >= self.written_at + EFFECT_BEAT {
                taken = self.begin().await.map(|_| ());
            }
            if let Err(why) = taken {
                tracing::warn!(effect = %self.pen.effect(), %why, "a durable effect stops");
                return;
            }
        }
    }

    /// Begins where the stream begins now, since what the cursor needs is not kept any more.
    pub(super) async fn begin_at(&mut self, start: u64) -> Result<Cursor, CommitError> {
        self.progress.begin_at(start);
        self.begin().await
    }

    /// Writes where it is.
    pub(super) async fn begin(&mut self) -> Result<Cursor, CommitError> {
        self.write(Vec::new()).await?;
        Ok(self.progress.cursor())
    }

    /// Takes acknowledgements, and writes as many at once as may be.
    async fn take(&mut self, acks: Vec<Ack>) -> Result<(), CommitError> {
        let (mut commits, mut asks, mut done) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_changed = false;
        for ack in acks {
            match ack {
                Ack::Delivered(new, known) => self.progress.deliver(new, known),
                Ack::Passed(position) => is_changed |= self.progress.pass(position),
                Ack::Looked(position) => drop(self.progress.pass(position)),
                Ack::Done(marks) => done.extend(marks),
                Ack::Commit(commit) => commits.push(commit),
                Ack::Ask(marks, reply) => asks.push((marks, reply)),
            }
        }
        // A handler that did not wait for its commit is done with it, not without it.
        let committed: BTreeSet<_> = commits.iter().flat_map(|commit| &commit.marks).collect();
        let (late, done): (Vec<_>, Vec<_>) =
            done.into_iter().partition(|mark| committed.contains(mark));
        is_changed |= self.progress.finish(&done);
        let mut group: Vec<Commit> = Vec::new();
        for commit in commits {
            let bytes: usize = group.iter().map(|commit| commit.bytes).sum();
            if !group.is_empty() && bytes + commit.bytes > COMMITS_BYTES_MAX {
                is_changed &= !self.commit(std::mem::take(&mut group)).await?;
            }
            group.push(commit);
        }
        is_changed &= !self.commit(group).await?;
        is_changed |= self.progress.finish(&late);
        if is_changed {
            self.write(Vec::new()).await?;
        }
        for (marks, reply) in asks {
            let _ = reply.send(self.progress.are_done(&marks));
        }
        Ok(())
    }

    /// Writes commits in one append; true if something was written. Those of events that are done
    /// are refused, and so are those that the stream does not take; an error ends the effect.
    async fn commit(&mut self, group: Vec<Commit>) -> Result<bool, CommitError> {
        let mut fresh: Vec<Commit> = Vec::new();
        for commit in group {
            if self.progress.finish(&commit.marks) {
                fresh.push(commit);
            } else {
                answer(commit, &Err(CommitError::AlreadyDone));
            }
        }
        if fresh.is_empty() {
            return Ok(false);
        }
        let drafts = fresh.iter().flat_map(|commit| commit.drafts.iter().cloned()).collect();
        let outcome = match self.write(drafts).await {
            Ok(_) => Ok(()),
            Err(Refused::Rejected(why, sent)) => return self.part(fresh, why, sent).await,
            Err(refused) => Err(CommitError::from(refused)),
        };
        fresh.into_iter().for_each(|commit| answer(commit, &outcome));
        outcome.map(|()| true)
    }

    /// What becomes of commits that the stream did not take together: each is tried alone, and one
    /// that it does not take even so is refused.
    async fn part(
        &mut self,
        group: Vec<Commit>,
        why: String,
        sent: Sent,
    ) -> Result<bool, CommitError> {
        group.iter().for_each(|commit| self.progress.take_back(&commit.marks));
        if sent == Sent::Yes && self.is_stored(&group).await? {
            group.into_iter().for_each(|commit| answer(commit, &Ok(())));
            return Ok(true);
        }
        if group.len() == 1 {
            let refused = Err(CommitError::Refused(why));
            group.into_iter().for_each(|commit| answer(commit, &refused));
            return Ok(sent == Sent::Yes);
        }
        let mut is_written = sent == Sent::Yes;
        for commit in group {
            is_written |= Box::pin(self.commit(vec![commit])).await?;
        }
        Ok(is_written)
    }

    /// Finds out whether commits were stored although the stream said no: the same number cannot be
    /// used twice. If it was used, the stream tells by whom: by the commits, or by this question,
    /// whose answer was lost.
    async fn is_stored(&mut self, group: &[Commit]) -> Result<bool, CommitError> {
        let (txid, before) = (self.pen.next_txid()?, self.pen.end());
        let is_used = self.write(Vec::new()).await? == Outcome::Duplicate;
        let is_stored = is_used && self.pen.has_rows(&txid, before).await?;
        if is_stored {
            for commit in group {
                self.progress.finish(&commit.marks);
            }
            let cursor = self.progress.cursor();
            self.progress.written(&cursor);
        }
        Ok(is_stored)
    }

    /// Appends rows and the cursor.
    async fn write(&mut self, mut drafts: Vec<Draft>) -> Result<Outcome, Refused> {
        let seen_at = Some(self.pen.sys().clock.unix_ms().get());
        let cursor = Cursor { seen_at, ..self.progress.cursor() };
        let no_key = || Refused::Stream("the effect's name cannot be a key".into());
        drafts.push(cursor.draft(self.pen.effect()).ok_or_else(no_key)?);
        let (outcome, _) = self.pen.append(drafts).await?;
        self.written_at = self.pen.sys().clock.elapsed();
        self.progress.written(&cursor);
        Ok(outcome)
    }
}

fn answer(commit: Commit, outcome: &Result<(), CommitError>) {
    // Nobody may wait any more.
    let _ = commit.reply.send(outcome.clone());
}
