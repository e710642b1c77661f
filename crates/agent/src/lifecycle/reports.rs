//! Reports: a lease's progress, as subscriptions take it.

use std::sync::Arc;

use sys::Clock;
use wake::{Progress, ProgressError, Reported, Subscriptions};

use super::{Checkpoint, Completed, Lease, Lost, ReportRefused, Setbacks};

/// What both ways of being woken have in common.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    pub(super) subscriptions: Arc<dyn Subscriptions>,
    pub(super) clock: Clock,
    pub(super) setbacks: Setbacks,
}

/// Whether a report ends its wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    GoesOn,
    Ends,
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

    pub(super) async fn complete(
        &self,
        lease: &Lease,
        checkpoints: &[Checkpoint],
    ) -> Result<Completed, ReportRefused> {
        let Reported { next_wake } = self.report(lease, checkpoints, Ending::Ends).await?;
        self.setbacks.over(lease);
        Ok(Completed { next_wake })
    }

    pub(super) async fn fail(&self, lease: &Lease, why: &str) -> Result<(), ReportRefused> {
        let Lease { subscription, wake_id, generation, token, .. } = lease;
        tracing::warn!(%subscription, wake_id, why, "the work of a wake failed; it comes again");
        self.clock.sleep(self.setbacks.failed(lease)).await;
        let released =
            self.subscriptions.release(subscription, token, wake_id.clone(), *generation).await;
        released.map_err(refused)
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
