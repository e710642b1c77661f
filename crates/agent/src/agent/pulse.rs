//! The pulse of a runner: by what it writes others see that it is alive.
//!
//! Whatever it appends renews its lease. If it has appended nothing for a third of the lease, it
//! writes its `runner` row again. One that only waits for others says so once, and how far it has
//! read; from then on there is nothing to renew, since there is nothing to take over.

use std::{future::pending, time::Duration};

use futures_util::FutureExt as _;
use live::StreamDb;
use sys::{Cancellation, Canceller, Clock, Sys};
use tokio::sync::watch;
use wire::Timestamp;

use super::{
    Activity,
    news::{News, Signal},
};
use crate::{
    caps::{HEARTBEATS_PER_LEASE, LEASE_DEFAULT},
    journal::{Journal, Writes},
    lease::Lease,
    rows::{Runner, now},
};

/// The pulse of a runner.
pub(super) struct Pulse {
    runner: Runner,
    period: Duration,
    /// How much was appended when it said that it only waits.
    waits_at: Option<u64>,
    /// Whether its supervisor lets nothing else work, until it is asked to share or has made
    /// progress.
    is_alone: bool,
    share: Cancellation,
    shared: watch::Sender<bool>,
}

/// The other end of a pulse.
#[derive(Debug)]
pub(super) struct PulseHandle {
    share: Canceller,
    shared: watch::Receiver<bool>,
}

impl PulseHandle {
    /// Others work beside it from here on.
    pub(super) fn share(&self) {
        self.share.cancel();
    }

    /// Waits until its row says that it is not alone.
    pub(super) async fn shared(&self) {
        if self.shared.clone().wait_for(|is_shared| *is_shared).await.is_err() {
            // It has ended, which is told elsewhere.
            pending::<()>().await;
        }
    }
}

impl Pulse {
    pub(super) fn new(runner: Runner, lease: Option<&Lease>) -> (Self, PulseHandle) {
        let is_alone = lease.is_some_and(|lease| lease.is_alone);
        let period = lease.map_or(LEASE_DEFAULT, |lease| lease.duration) / HEARTBEATS_PER_LEASE;
        let (canceller, share) = Cancellation::new();
        let (told, shared) = watch::channel(!is_alone);
        let pulse = Self { runner, period, waits_at: None, is_alone, share, shared: told };
        (pulse, PulseHandle { share: canceller, shared })
    }

    /// Waits until a heartbeat is due.
    pub(super) async fn due(&self, journal: &Journal, clock: &Clock) {
        let beat = async {
            match self.waits_at == Some(journal.appends()) {
                true => pending().await,
                false => clock.sleep(self.due_in(journal, clock)).await,
            }
        };
        tokio::select! {
            biased;
            () = self.share.cancelled(), if self.is_alone => {}
            () = beat => {}
        }
    }

    /// How long there is to the next heartbeat.
    fn due_in(&self, journal: &Journal, clock: &Clock) -> Duration {
        (journal.appended_at() + self.period).saturating_sub(clock.elapsed())
    }

    /// Whether a heartbeat is due.
    pub(super) fn is_due(&self, journal: &Journal, clock: &Clock) -> bool {
        let is_asked = self.is_alone && self.share.is_cancelled();
        is_asked || self.due_in(journal, clock).is_zero()
    }

    /// Renews the lease, and says whether it only waits. This is the next append.
    pub(super) fn beat(&mut self, journal: &Journal, writes: &mut Writes) {
        if self.is_alone && self.share.is_cancelled() {
            (self.is_alone, self.runner.is_shared) = (false, true);
        }
        self.waits_at = self.runner.read_up_to.map(|_| journal.appends() + 1);
        writes.update(&self.runner);
    }

    /// Takes note of whether the agent only waits, and of how far it has read then; tells of what
    /// it has not taken into account.
    pub(super) fn note_waiting(
        &mut self,
        activity: &watch::Sender<Activity>,
        db: &StreamDb,
        news: &mut News,
    ) -> Option<Signal> {
        self.clear_waiting();
        let Activity::Waiting { until } = *activity.borrow() else { return None };
        // First how far it was read: what is read from now on is not taken into account.
        let reached = db.reached()?;
        if let Some(signal) = news.next().now_or_never() {
            return Some(signal);
        }
        self.runner.read_up_to = Some(reached.position.get());
        self.runner.waits_until = until.map(|at| Timestamp::from_unix_ms(at.get()).to_string());
        let now = db.sys().clock.unix_ms();
        self.runner.waits_ms = until.map(|at| at.get().saturating_sub(now.get()));
        None
    }

    fn clear_waiting(&mut self) {
        let runner = &mut self.runner;
        (runner.read_up_to, runner.waits_until, runner.waits_ms) = (None, None, None);
    }

    /// Something has come that it has not read when it said that it only waits.
    pub(super) const fn stirred(&mut self) {
        self.waits_at = None;
    }

    /// A step or a call has come to its end: whatever ends the process later, it is not this.
    pub(super) fn progress(&mut self, writes: &mut Writes) {
        if self.is_alone {
            (self.is_alone, self.runner.is_shared) = (false, true);
            self.clear_waiting();
            writes.update(&self.runner);
        }
    }

    /// What was to be written has been.
    pub(super) fn written(&self) {
        if !self.is_alone {
            self.shared.send_if_modified(|shared| !std::mem::replace(shared, true));
        }
    }

    /// The runner ends in peace.
    pub(super) fn release(&mut self, sys: &Sys, writes: &mut Writes) {
        self.runner.released_at = Some(now(sys));
        writes.update(&self.runner);
    }
}
