//! Cancellation: how work that runs elsewhere hears that it is over.

use std::time::Duration;

use sys::Sys;
use tokio::sync::watch;

/// Tells when something is over, for whatever reason. Cheap to clone; give one to everything that
/// the work spawns.
#[derive(Clone, Debug)]
pub struct Cancellation(watch::Receiver<bool>);

/// The other end. It is also over when this is gone.
#[derive(Debug)]
pub(crate) struct Canceller(watch::Sender<bool>);

impl Cancellation {
    pub(crate) fn new() -> (Canceller, Self) {
        let (sender, receiver) = watch::channel(false);
        (Canceller(sender), Self(receiver))
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until it is over.
    pub async fn cancelled(&self) {
        // An error says that nobody is left to cancel, which is an end, too.
        let _ = self.0.clone().wait_for(|is_over| *is_over).await;
    }
}

impl Cancellation {
    /// Rests for a while; false if it was over before that.
    pub(crate) async fn rest(&self, pause: Duration, sys: &Sys) -> bool {
        tokio::select! {
            biased;
            () = self.cancelled() => false,
            () = sys.clock.sleep(pause) => true,
        }
    }
}

impl Canceller {
    pub(crate) fn cancellation(&self) -> Cancellation {
        Cancellation(self.0.subscribe())
    }

    pub(crate) fn cancel(&self) {
        let _ = self.0.send(true);
    }
}
