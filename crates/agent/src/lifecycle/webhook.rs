//! Wakes that come by a webhook.

use std::{sync::Arc, time::Duration};

use sys::Sys;
use wake::{Subscriptions, WakeNotice};

use super::{
    Answer, Checkpoint, ClaimRefused, Completed, Finish, Lease, ReportRefused, RunnerLifecycle,
    Setbacks,
    reports::{Ending, Reports},
};

/// One wake that came by a webhook. It is claimed by a first report, whether the request is kept
/// open or not, so that a wake that is over runs nothing.
///
/// Reports go to the subscriptions that this is made with and not to the notice's callback URL:
/// whom we talk to is decided here, not by what came in.
#[derive(Debug)]
pub struct WebhookLifecycle {
    reports: Reports,
    notice: WakeNotice,
    lease: Duration,
}

impl WebhookLifecycle {
    /// The life of a wake whose signature was verified. `lease` counts where the notice tells
    /// none; `setbacks` are shared by all wakes of one runner.
    #[must_use]
    pub fn new(
        subscriptions: Arc<dyn Subscriptions>,
        sys: &Sys,
        notice: WakeNotice,
        lease: Duration,
        setbacks: Setbacks,
    ) -> Self {
        let reports = Reports { subscriptions, clock: sys.clock.clone(), setbacks };
        let lease = notice.lease.unwrap_or(lease);
        Self { reports, notice, lease }
    }
}

impl RunnerLifecycle for WebhookLifecycle {
    fn claim(&self) -> Answer<'_, Result<Lease, ClaimRefused>> {
        Box::pin(async {
            let notice = self.notice.clone();
            let lease = Lease {
                subscription: notice.subscription,
                wake_id: notice.wake_id,
                generation: notice.generation,
                token: notice.callback_token,
                streams: notice.streams,
                ttl: self.lease,
            };
            match self.reports.report(&lease, &[], Ending::GoesOn).await {
                Ok(_) => Ok(lease),
                Err(ReportRefused::Unavailable(fact)) => Err(fact.into()),
                Err(refused) => Err(ClaimRefused::Stale(refused.to_string())),
            }
        })
    }

    fn heartbeat<'a>(&'a self, lease: &'a Lease) -> Answer<'a, Result<(), ReportRefused>> {
        self.checkpoint(lease, &[])
    }

    fn checkpoint<'a>(
        &'a self,
        lease: &'a Lease,
        checkpoints: &'a [Checkpoint],
    ) -> Answer<'a, Result<(), ReportRefused>> {
        Box::pin(async { self.reports.report(lease, checkpoints, Ending::GoesOn).await.map(drop) })
    }

    fn complete<'a>(
        &'a self,
        lease: &'a Lease,
        _: Finish,
        checkpoints: &'a [Checkpoint],
    ) -> Answer<'a, Result<Completed, ReportRefused>> {
        Box::pin(self.reports.complete(lease, checkpoints))
    }

    fn fail<'a>(&'a self, lease: &'a Lease, why: &'a str) -> Answer<'a, Result<(), ReportRefused>> {
        Box::pin(self.reports.fail(lease, why))
    }
}
