//! Wakes that are pulled: workers race to claim them.

use std::{sync::Arc, time::Duration};

use thiserror::Error;
use wake::{ClaimError, SubscriptionId, Subscriptions, caps::WORKER_BYTES_MAX};

use super::{
    Answer, ClaimRefused, Lease, Setbacks,
    reports::{Reports, Way},
};

/// The wakes of one pulled subscription, for one worker. Each claim takes the next one, if there
/// is one and nobody else has it.
#[derive(Debug)]
pub struct PullWakeLifecycle {
    reports: Reports,
    subscription: SubscriptionId,
    worker: String,
}

/// Text that is no name of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the name of a worker has 1 to {WORKER_BYTES_MAX} bytes")]
pub struct BadWorker;

impl PullWakeLifecycle {
    /// The wakes of `subscription`, claimed in the name of `worker`.
    ///
    /// # Errors
    /// [`BadWorker`] if the name is none.
    pub fn new(
        subscriptions: Arc<dyn Subscriptions>,
        subscription: SubscriptionId,
        worker: &str,
    ) -> Result<Self, BadWorker> {
        if !(1..=WORKER_BYTES_MAX).contains(&worker.len()) {
            return Err(BadWorker);
        }
        let reports = Reports { subscriptions, setbacks: Setbacks::default() };
        Ok(Self { reports, subscription, worker: worker.to_owned() })
    }
}

impl Way for PullWakeLifecycle {
    fn take(&self) -> Answer<'_, Result<Lease, ClaimRefused>> {
        Box::pin(async {
            let id = &self.subscription;
            let claimed = self.reports.subscriptions.claim(id, self.worker.clone()).await;
            let claim = claimed.map_err(|error| match error {
                ClaimError::NotFound(fact) => fact.into(),
                ClaimError::AlreadyClaimed(fact) => fact.into(),
                ClaimError::NoPendingWork(fact) => fact.into(),
                ClaimError::Unavailable(fact) => fact.into(),
                other => ClaimRefused::Stale(other.to_string()),
            })?;
            Ok(Lease {
                subscription: id.clone(),
                wake_id: claim.wake_id,
                generation: claim.generation,
                token: claim.token,
                streams: claim.streams,
                ttl: Duration::from_millis(claim.lease_ttl_ms),
            })
        })
    }

    fn reports(&self) -> &Reports {
        &self.reports
    }
}
