//! The keeper: sends the reports of one wake, one at a time, and knows how long the lease lasts.
//!
//! It is a task of its own, so that work which is busy for a while does not lose its wake. It
//! counts the lease from when a report was sent, not from when it was answered: whoever took it
//! counts from later, so the work here has ended before anybody else may begin.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sys::{Canceller, Sys};
use tokio::sync::{mpsc, oneshot};
use wake::caps::LEASE_MAX;
use wire::{Offset, StreamPath};

use super::{
    Answer, Cancellation, Checkpoint, CheckpointError, Completed, Finish, Lease, Lost, Regression,
    ReportRefused, RunnerLifecycle, Session,
};
use crate::caps::{HEARTBEATS_PER_LEASE, REPORTS_WAITING_MAX, RETRIES_PER_LEASE};

/// What a keeper may be asked.
#[derive(Debug)]
pub(super) enum Message {
    Heartbeat { reply: Reply<(), Lost> },
    Checkpoint { checkpoints: Vec<Checkpoint>, reply: Reply<(), CheckpointError> },
    Complete { finish: Finish, reply: Reply<Completed, Unkept> },
    Fail { why: String, reply: oneshot::Sender<()> },
    Release { reply: oneshot::Sender<()> },
}

/// What a keeper acts on.
enum Heard {
    Message(Message),
    /// A heartbeat is due.
    Time,
    /// The runner is gone.
    Nobody,
}

type Reply<T, E> = oneshot::Sender<Result<T, E>>;

/// Why a report was given up.
#[derive(Clone, Debug)]
pub(super) enum Unkept {
    /// The lease is over, and nothing was reported.
    Lost,
    /// The lease is over, and an attempt before may have been the end of the wake.
    Unconfirmed,
    /// The report itself was refused.
    Refused(wake::InvalidAck),
}

/// The runner's end. The wake is kept while this is alive, and given up when it is gone.
#[derive(Debug)]
pub(super) struct Hold {
    keeper: mpsc::Sender<Message>,
}

struct Keeper {
    sys: Sys,
    lifecycle: Arc<dyn RunnerLifecycle>,
    lease: Arc<Lease>,
    /// Up to where each stream is done.
    cursors: BTreeMap<StreamPath, Offset>,
    /// When the last report that was taken was sent, by the monotonic clock.
    renewed_at: Duration,
    canceller: Canceller,
}

impl Hold {
    /// Keeps a lease that was claimed at `claimed_at`, until it is over.
    pub(super) fn start(
        sys: &Sys,
        lifecycle: Arc<dyn RunnerLifecycle>,
        mut lease: Lease,
        claimed_at: Duration,
    ) -> (Self, Session) {
        // Whatever others say, nobody's lease is longer, and times that are added stay times.
        lease.ttl = lease.ttl.min(LEASE_MAX);
        let (sender, inbox) = mpsc::channel(REPORTS_WAITING_MAX);
        let (canceller, cancellation) = Cancellation::new();
        let lease = Arc::new(lease);
        let known = |work: &wake::Work| Some((work.link.path.clone(), work.link.acked?));
        let keeper = Keeper {
            sys: sys.clone(),
            lifecycle,
            cursors: lease.streams.iter().filter_map(known).collect(),
            lease: lease.clone(),
            renewed_at: claimed_at,
            canceller,
        };
        let session = Session { lease, keeper: sender.downgrade(), cancellation };
        sys.spawn.task("lease keeper", keeper.run(inbox));
        (Self { keeper: sender }, session)
    }

    /// Ends the wake.
    pub(super) async fn complete(self, finish: Finish) -> Result<Completed, Unkept> {
        let (reply, answer) = oneshot::channel();
        let asked = self.keeper.send(Message::Complete { finish, reply }).await;
        asked.map_err(|_| Unkept::Lost)?;
        answer.await.unwrap_or(Err(Unkept::Lost))
    }

    /// Gives the wake up, for its work failed.
    pub(super) async fn fail(self, why: String) {
        self.end(|reply| Message::Fail { why, reply }).await;
    }

    /// Gives the wake up at once: nobody is to blame.
    pub(super) async fn release(self) {
        self.end(|reply| Message::Release { reply }).await;
    }

    async fn end(self, message: impl FnOnce(oneshot::Sender<()>) -> Message) {
        let (reply, answer) = oneshot::channel();
        if self.keeper.send(message(reply)).await.is_ok() {
            // A keeper that is gone has lost the lease; there is nothing to give up.
            let _ = answer.await;
        }
    }
}

impl Keeper {
    async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        loop {
            let kept = match self.listen(&mut inbox).await {
                Heard::Time => self.heartbeat().await,
                Heard::Nobody => return self.fail("the runner was dropped").await,
                Heard::Message(Message::Heartbeat { reply }) => {
                    let kept = self.heartbeat().await;
                    let _ = reply.send(kept);
                    kept
                }
                Heard::Message(Message::Checkpoint { checkpoints, reply }) => {
                    let made = self.checkpoint(&checkpoints).await;
                    let is_lost = matches!(made, Err(CheckpointError::Lost(_)));
                    if is_lost {
                        self.canceller.cancel();
                    }
                    let _ = reply.send(made);
                    if is_lost { Err(Lost) } else { Ok(()) }
                }
                Heard::Message(Message::Complete { finish, reply }) => {
                    let _ = reply.send(self.complete(finish).await);
                    return;
                }
                Heard::Message(Message::Fail { why, reply }) => {
                    self.fail(&why).await;
                    let _ = reply.send(());
                    return;
                }
                Heard::Message(Message::Release { reply }) => {
                    self.canceller.cancel();
                    self.release().await;
                    let _ = reply.send(());
                    return;
                }
            };
            if kept.is_err() {
                let Lease { subscription, wake_id, .. } = &*self.lease;
                tracing::warn!(%subscription, wake_id, "a lease was lost; its work is cancelled");
                return;
            }
        }
    }

    /// Waits for a message until a heartbeat is due. That comes first, for messages that need no
    /// report would put it off for ever.
    async fn listen(&self, inbox: &mut mpsc::Receiver<Message>) -> Heard {
        let beat_at = self.renewed_at + self.lease.ttl / HEARTBEATS_PER_LEASE;
        let pause = beat_at.saturating_sub(self.sys.clock.elapsed());
        if pause.is_zero() {
            return Heard::Time;
        }
        match self.sys.clock.timeout(pause, inbox.recv()).await {
            Ok(Some(message)) => Heard::Message(message),
            Ok(None) => Heard::Nobody,
            Err(_) => Heard::Time,
        }
    }

    async fn heartbeat(&mut self) -> Result<(), Lost> {
        let (lifecycle, lease) = (self.lifecycle.clone(), self.lease.clone());
        let kept = self.insist(|| lifecycle.heartbeat(&lease)).await;
        kept.map_err(|_| {
            self.canceller.cancel();
            Lost
        })
    }

    async fn checkpoint(&mut self, checkpoints: &[Checkpoint]) -> Result<(), CheckpointError> {
        let ahead = self.ahead(checkpoints)?;
        if ahead.is_empty() {
            return Ok(());
        }
        let (lifecycle, lease) = (self.lifecycle.clone(), self.lease.clone());
        match self.insist(|| lifecycle.checkpoint(&lease, &ahead)).await {
            Ok(()) => {
                self.cursors.extend(ahead.into_iter().map(|done| (done.stream, done.offset)));
                Ok(())
            }
            Err(Unkept::Refused(fact)) => Err(fact.into()),
            Err(Unkept::Lost | Unkept::Unconfirmed) => Err(Lost.into()),
        }
    }

    /// One checkpoint per stream, without those that say nothing new.
    fn ahead(&self, checkpoints: &[Checkpoint]) -> Result<Vec<Checkpoint>, Regression> {
        let mut ahead = BTreeMap::new();
        for Checkpoint { stream, offset } in checkpoints {
            let last = ahead.get(stream).or_else(|| self.cursors.get(stream)).copied();
            match last {
                Some(last) if *offset < last => {
                    return Err(Regression { stream: stream.clone(), last, given: *offset });
                }
                Some(last) if *offset == last => {}
                Some(_) | None => {
                    ahead.insert(stream.clone(), *offset);
                }
            }
        }
        Ok(ahead.into_iter().map(|(stream, offset)| Checkpoint { stream, offset }).collect())
    }

    async fn complete(&mut self, finish: Finish) -> Result<Completed, Unkept> {
        let (lifecycle, lease) = (self.lifecycle.clone(), self.lease.clone());
        let mut last = self.left_to_say(finish);
        loop {
            match self.insist(|| lifecycle.complete(&lease, finish, &last)).await {
                // The stream is not followed any more, or not the one it was: nobody asks for
                // it, and the others are still done.
                Err(Unkept::Refused(fact)) => {
                    let before = last.len();
                    last.retain(|checkpoint| checkpoint.stream != fact.path);
                    if last.len() == before {
                        return Err(Unkept::Refused(fact));
                    }
                }
                answer => return answer,
            }
        }
    }

    /// What the end of the work says beyond its checkpoints.
    fn left_to_say(&self, finish: Finish) -> Vec<Checkpoint> {
        if finish == Finish::More {
            return Vec::new();
        }
        let is_left =
            |work: &&wake::Work| self.cursors.get(&work.link.path).is_none_or(|at| *at < work.tail);
        let left = self.lease.streams.iter().filter(is_left);
        left.map(|work| Checkpoint { stream: work.link.path.clone(), offset: work.tail }).collect()
    }

    async fn fail(&mut self, why: &str) {
        // Whoever still works on it must not take the next wake's place.
        self.canceller.cancel();
        let (lifecycle, lease) = (self.lifecycle.clone(), self.lease.clone());
        let Lease { subscription, wake_id, .. } = &*lease;
        tracing::warn!(%subscription, wake_id, why, "the work of a wake failed; it comes again");
        // However often the report is sent, the work failed once.
        self.sys.clock.sleep(lifecycle.setback(&lease)).await;
        self.release().await;
    }

    async fn release(&mut self) {
        let (lifecycle, lease) = (self.lifecycle.clone(), self.lease.clone());
        if self.insist(|| lifecycle.release(&lease)).await.is_err() {
            let Lease { subscription, wake_id, .. } = &*lease;
            tracing::warn!(%subscription, wake_id, "a wake was not given back; it lapses");
        }
    }

    /// Asks until there is an answer, or the lease may be over.
    async fn insist<'a, T>(
        &mut self,
        ask: impl Fn() -> Answer<'a, Result<T, ReportRefused>> + Send,
    ) -> Result<T, Unkept> {
        let ttl = self.lease.ttl;
        let mut is_unsure = false;
        loop {
            let sent_at = self.sys.clock.elapsed();
            let left = (self.renewed_at + ttl).saturating_sub(sent_at);
            if left.is_zero() {
                return Err(if is_unsure { Unkept::Unconfirmed } else { Unkept::Lost });
            }
            // One that hangs must leave time for another.
            let patience = left.min(ttl / HEARTBEATS_PER_LEASE);
            match self.sys.clock.timeout(patience, ask()).await {
                Ok(Ok(answer)) => {
                    self.renewed_at = sent_at;
                    return Ok(answer);
                }
                Ok(Err(ReportRefused::Checkpoint(fact))) => return Err(Unkept::Refused(fact)),
                Ok(Err(ReportRefused::Lost(_))) if is_unsure => return Err(Unkept::Unconfirmed),
                Ok(Err(ReportRefused::Lost(_))) => {
                    self.complain_if_punctual(sent_at);
                    return Err(Unkept::Lost);
                }
                Ok(Err(ReportRefused::Unavailable(why))) => {
                    tracing::debug!(%why, "a report was not taken; it is sent again");
                    is_unsure = true;
                    let left = (self.renewed_at + ttl).saturating_sub(self.sys.clock.elapsed());
                    self.sys.clock.sleep(self.retry_pause().min(left)).await;
                }
                Err(_) => is_unsure = true,
            }
        }
    }

    /// A lease that is lost although no heartbeat was missed was ended on purpose, or is counted
    /// otherwise than here. The latter runs everything twice, so somebody should look.
    fn complain_if_punctual(&self, sent_at: Duration) {
        let missed_at = self.renewed_at + self.lease.ttl * 2 / HEARTBEATS_PER_LEASE;
        if sent_at < missed_at {
            let Lease { subscription, wake_id, ttl, .. } = &*self.lease;
            tracing::error!(
                %subscription, wake_id, ?ttl,
                "a lease was lost before a heartbeat was missed: unless the subscription was \
                 deleted, its lease is shorter than this runner was told"
            );
        }
    }

    /// Half to one and a half of the usual pause, so that runners do not come back all at once.
    fn retry_pause(&self) -> Duration {
        let usual_ms = (self.lease.ttl / RETRIES_PER_LEASE).as_millis() as u64;
        Duration::from_millis(usual_ms / 2 + self.sys.chance.below(usual_ms.max(1)) + 1)
    }
}
