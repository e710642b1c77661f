//! Wakes that come by a webhook.

use std::{sync::Arc, time::Duration};

use wake::{Subscriptions, WakeNotice};

use super::{
    Answer, ClaimRefused, Lease, ReportRefused, Setbacks,
    reports::{Ending, Reports, Way},
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
        notice: WakeNotice,
        lease: Duration,
        setbacks: Setbacks,
    ) -> Self {
        let reports = Reports { subscriptions, setbacks };
        let lease = notice.lease.unwrap_or(lease);
        Self { reports, notice, lease }
    }
}

impl Way for WebhookLifecycle {
    fn take(&self) -> Answer<'_, Result<Lease, ClaimRefused>> {
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

    fn reports(&self) -> &Reports {
        &self.reports
    }
}
