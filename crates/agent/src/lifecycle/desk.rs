//! The desk: takes wakes that came by a webhook, and runs each of them once.

use std::{collections::BTreeSet, error::Error, fmt, future::Future, sync::Arc, time::Duration};

use parking_lot::Mutex;
use sys::Sys;
use tokio::sync::{Notify, oneshot};
use wake::{SubscriptionId, Subscriptions, WakeNotice};

use super::{
    Answer, ClaimRefused, Finish, Ran, RunError, Session, Setbacks, WebhookLifecycle,
    run::run_until,
    stop::{Stop, Stopper},
};
use crate::caps::{
    RELEASE_PATIENCE, REQUEST_PATIENCE_DEFAULT, RETRIES_PER_LEASE, WAKES_UNDER_WAY_DEFAULT,
};

/// How work fails.
pub type WorkError = Box<dyn Error + Send + Sync>;

/// Runs the work of wakes. In both modes it runs on a task of its own: a connection that closes
/// says nothing about the work.
pub struct WebhookDesk {
    sys: Sys,
    subscriptions: Arc<dyn Subscriptions>,
    settings: DeskSettings,
    work: Box<Work>,
    setbacks: Setbacks,
    /// At most `wakes_max`; held for a look only.
    under_way: Mutex<BTreeSet<WakeKey>>,
    /// Told when the last of them ends.
    idle: Notify,
    stopper: Stopper,
    stop: Stop,
}

/// How a desk works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskSettings {
    /// When wakes are answered; request-bound.
    pub mode: Mode,
    /// The lease of wakes that do not tell theirs; 30 s. Servers of ours tell it, for those of
    /// others take the shortest that their subscriptions have.
    pub lease: Duration,
    /// Wakes that are worked on at a time; 256. More are refused, and come again.
    pub wakes_max: usize,
}

/// When a wake is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When its work is done, or at the latest after `patience`; then the work goes on, and its
    /// end is reported.
    RequestBound {
        /// How long the request may stay open.
        patience: Duration,
    },
    /// At once; the end of the work is reported.
    AckImmediate,
}

/// What the caller of a webhook is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeAnswer {
    /// Everything that the wake listed is done.
    Done,
    /// The wake is in good hands; its end will be, or was, reported.
    Accepted,
    /// The wake is over; nothing ran.
    Stale(String),
    /// The work failed; the wake was given back and comes again.
    Failed(String),
    /// There is too much to do, nobody to report to, or the desk is closed; the wake may come
    /// again.
    Busy,
}

type Work = dyn Fn(Session) -> Answer<'static, Result<Finish, WorkError>> + Send + Sync;
type WakeKey = (SubscriptionId, String, u64);

/// A wake's place among those under way; given back wherever the work ends.
struct Place {
    desk: Arc<WebhookDesk>,
    key: WakeKey,
}

impl WebhookDesk {
    /// A desk whose wakes run `work`. `subscriptions` takes the reports.
    pub fn new<W, F, E>(
        sys: &Sys,
        subscriptions: Arc<dyn Subscriptions>,
        settings: DeskSettings,
        work: W,
    ) -> Arc<Self>
    where
        W: Fn(Session) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Finish, E>> + Send + 'static,
        E: Into<WorkError>,
    {
        let work = move |session| -> Answer<'static, _> {
            let working = work(session);
            Box::pin(async { working.await.map_err(Into::into) })
        };
        let (stopper, stop) = Stop::new();
        Arc::new(Self {
            sys: sys.clone(),
            subscriptions,
            settings,
            work: Box::new(work),
            setbacks: Setbacks::default(),
            under_way: Mutex::default(),
            idle: Notify::new(),
            stopper,
            stop,
        })
    }

    /// Takes a wake whose signature was verified. The same one again, while it is worked on, is
    /// accepted and does not run twice.
    pub async fn receive(self: &Arc<Self>, notice: WakeNotice) -> WakeAnswer {
        let place = match self.take_place(&notice) {
            Ok(place) => place,
            Err(answer) => return answer,
        };
        let lease = self.lease_of(&notice);
        let (tell, told) = oneshot::channel();
        let desk = self.clone();
        self.sys.spawn.task("wake", async move {
            let answer = desk.run(&notice).await;
            drop(place);
            // In the other mode, or after the patience, nobody listens.
            let _ = tell.send(answer);
        });
        let Mode::RequestBound { patience } = self.settings.mode else {
            return WakeAnswer::Accepted;
        };
        let patience = patience.min(request_part(lease));
        match self.sys.clock.timeout(patience, told).await {
            Ok(Ok(answer)) => answer,
            // The work panicked; its keeper has given the wake back.
            Ok(Err(_)) => WakeAnswer::Failed("the work panicked".to_owned()),
            Err(_) => WakeAnswer::Accepted,
        }
    }

    /// Refuses further wakes, waits up to `grace` for the work under way, then drops what is left
    /// of it and gives its wakes back. It returns when the server has heard so, or ten seconds
    /// later. Call it before the process ends; wakes that nobody gives back lapse with their
    /// leases.
    pub async fn close(&self, grace: Duration) {
        self.stopper.close();
        if self.sys.clock.timeout(grace, self.idle()).await.is_ok() {
            return;
        }
        self.stopper.leave();
        if self.sys.clock.timeout(RELEASE_PATIENCE, self.idle()).await.is_err() {
            let wakes = self.under_way();
            tracing::warn!(wakes, "a desk closed before its wakes were given back; they lapse");
        }
    }

    async fn idle(&self) {
        loop {
            // Made before the look, so that an end in between is heard.
            let ended = self.idle.notified();
            if self.under_way() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Wakes that are worked on now.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.lock().len()
    }

    /// Runs the wake. If it was accepted already and cannot be claimed now, nobody calls again
    /// before its lease is over, so it is tried again until then.
    async fn run(&self, notice: &WakeNotice) -> WakeAnswer {
        let (begun_at, lease) = (self.sys.clock.elapsed(), self.lease_of(notice));
        loop {
            let answer = self.run_once(notice.clone()).await;
            let age = self.sys.clock.elapsed().saturating_sub(begun_at);
            let is_accepted = self.settings.mode == Mode::AckImmediate;
            if answer != WakeAnswer::Busy || !is_accepted || age >= lease {
                return answer;
            }
            let leaving = self.stop.leaving.cancelled();
            if self.sys.clock.timeout(lease / RETRIES_PER_LEASE, leaving).await.is_ok() {
                return answer;
            }
        }
    }

    async fn run_once(&self, notice: WakeNotice) -> WakeAnswer {
        let (subscriptions, lease) = (self.subscriptions.clone(), self.settings.lease);
        let setbacks = self.setbacks.clone();
        let life = WebhookLifecycle::new(subscriptions, notice, lease, setbacks);
        match run_until(&self.sys, Arc::new(life), &self.work, &self.stop.leaving).await {
            Ok(Ran { finish: Finish::Done, .. }) => WakeAnswer::Done,
            // It was reported, and the next wake is on its way.
            Ok(Ran { finish: Finish::More, .. }) => WakeAnswer::Accepted,
            Err(RunError::NotClaimed(ClaimRefused::Unavailable(_)) | RunError::Stopped) => {
                WakeAnswer::Busy
            }
            Err(RunError::NotClaimed(refused)) => WakeAnswer::Stale(refused.to_string()),
            Err(error) => WakeAnswer::Failed(error.to_string()),
        }
    }

    fn lease_of(&self, notice: &WakeNotice) -> Duration {
        notice.lease.unwrap_or(self.settings.lease)
    }

    fn take_place(self: &Arc<Self>, notice: &WakeNotice) -> Result<Place, WakeAnswer> {
        let WakeNotice { subscription, wake_id, generation, .. } = notice;
        let key = (subscription.clone(), wake_id.clone(), *generation);
        let mut under_way = self.under_way.lock();
        if under_way.contains(&key) {
            return Err(WakeAnswer::Accepted);
        }
        if under_way.len() >= self.settings.wakes_max || self.stop.closing.is_cancelled() {
            return Err(WakeAnswer::Busy);
        }
        under_way.insert(key.clone());
        Ok(Place { desk: self.clone(), key })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.desk.under_way.lock();
        under_way.remove(&self.key);
        if under_way.is_empty() {
            self.desk.idle.notify_waiters();
        }
    }
}

impl DeskSettings {
    /// Requests stay open until the work is done, as long as a server of ours waits for that.
    #[must_use]
    pub fn request_bound(lease: Duration) -> Self {
        let patience = REQUEST_PATIENCE_DEFAULT.min(request_part(lease));
        let mode = Mode::RequestBound { patience };
        Self { mode, lease, wakes_max: WAKES_UNDER_WAY_DEFAULT }
    }

    /// Requests are answered at once.
    #[must_use]
    pub fn ack_immediate(lease: Duration) -> Self {
        Self { mode: Mode::AckImmediate, ..Self::request_bound(lease) }
    }
}

/// How long a request may stay open. Callers do not wait for longer than the lease: the answer
/// must be there before.
fn request_part(lease: Duration) -> Duration {
    lease / 6 * 5
}

impl Default for DeskSettings {
    fn default() -> Self {
        Self::request_bound(wake::caps::LEASE_DEFAULT)
    }
}

impl fmt::Debug for WebhookDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookDesk")
            .field("settings", &self.settings)
            .field("under_way", &self.under_way())
            .finish_non_exhaustive()
    }
}
