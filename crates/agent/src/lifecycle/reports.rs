//! Reports: a lease's progress, as subscriptions take it.

use std::{fmt, sync::Arc, time::Duration};

use wake::{Progress, ProgressError, Reported, Subscriptions};

use super::{
    Answer, Checkpoint, ClaimRefused, Completed, Finish, Lease, Lost, ReportRefused,
    RunnerLifecycle, Setbacks,
};

/// A way of being woken: it has a claim of its own, and reports like any other.
pub(super) trait Way: fmt::Debug + Send + Sync {
    fn take(&self) -> Answer<'_, Result<Lease, ClaimRefused>>;
    fn reports(&self) -> &Reports;
}

/// What all ways of being woken have in common.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    pub(super) subscriptions: Arc<dyn Subscriptions>,
    pub(super) setbacks: Setbacks,
}

/// Whether a report ends its wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    GoesOn,
    Ends,
}

impl<T: Way> RunnerLifecycle for T {
    fn claim(&self) -> Answer<'_, Result<Lease, ClaimRefused>> {
        self.take()
    }

    fn heartbeat<'a>(&'a self, lease: &'a Lease) -> Answer<'a, Result<(), ReportRefused>> {
        self.checkpoint(lease, &[])
    }

    fn checkpoint<'a>(
        &'a self,
        lease: &'a Lease,
        checkpoints: &'a [Checkpoint],
    ) -> Answer<'a, Result<(), ReportRefused>> {
        let reported = self.reports().report(lease, checkpoints, Ending::GoesOn);
        Box::pin(async { reported.await.map(drop) })
    }

    fn complete<'a>(
        &'a self,
        lease: &'a Lease,
        _: Finish,
        checkpoints: &'a [Checkpoint],
    ) -> Answer<'a, Result<Completed, ReportRefused>> {
        Box::pin(async {
            let reported = self.reports().report(lease, checkpoints, Ending::Ends).await;
            let Reported { next_wake } = reported?;
            self.reports().setbacks.over(lease);
            Ok(Completed { next_wake })
        })
    }

    fn setback(&self, lease: &Lease) -> Duration {
        self.reports().setbacks.failed(lease)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, Result<(), ReportRefused>> {
        Box::pin(async {
            let Lease { subscription, wake_id, generation, token, .. } = lease;
            let subscriptions = &self.reports().subscriptions;
            let released =
                subscriptions.release(subscription, token, wake_id.clone(), *generation).await;
            released.map_err(refused)
        })
    }
}

impl Reports {
    pub(super) async fn report(
        &self,
        lease: &Lease,
        checkpoints: &[Checkpoint],
        ending: Ending,
    ) -> Result<Reported, ReportRefused> {
        let progress = Progress {
            wake_id: lease.wake_id.clone(),
            generation: lease.generation,
            acks: checkpoints.iter().map(Into::into).collect(),
            done: ending == Ending::Ends,
        };
        let asked = self.subscriptions.report(&lease.subscription, &lease.token, progress).await;
        asked.map_err(refused)
    }
}

fn refused(error: ProgressError) -> ReportRefused {
    match error {
        ProgressError::InvalidAck(fact) => fact.into(),
        ProgressError::Unavailable(fact) => fact.into(),
        // Whatever else it says, this lease is worth nothing.
        _ => Lost.into(),
    }
}
