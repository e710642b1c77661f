//! Cancellation: how work that runs elsewhere hears that it is over.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use tokio::sync::watch;

use crate::Sys;

/// Tells when something is over, for whatever reason. Cheap to clone; give one to everything that
/// the work spawns.
#[derive(Clone, Debug)]
pub struct Cancellation(watch::Receiver<bool>);

/// The other end. It is also over when this is gone.
#[derive(Debug)]
pub struct Canceller(watch::Sender<bool>);

impl Cancellation {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Canceller, Self) {
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

    /// Rests for a while; false if it was over before that.
    pub async fn rest(&self, pause: Duration, sys: &Sys) -> bool {
        let (over, rested) = (pin!(self.cancelled()), pin!(sys.clock.sleep(pause)));
        matches!(select(over, rested).await, Either::Right(_))
    }
}

impl Canceller {
    /// One more that hears of the end.
    #[must_use]
    pub fn cancellation(&self) -> Cancellation {
        Cancellation(self.0.subscribe())
    }

    /// It is over.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_is_heard_by_all() {
        let (canceller, first) = Cancellation::new();
        let second = canceller.cancellation();
        assert!(!first.is_cancelled());
        canceller.cancel();
        first.cancelled().await;
        assert!(second.is_cancelled() && canceller.cancellation().is_cancelled());
        assert!(!second.rest(Duration::from_secs(3600), &Sys::real()).await);
    }

    #[tokio::test]
    async fn it_is_over_when_nobody_is_left_to_say_so() {
        let (canceller, cancellation) = Cancellation::new();
        drop(canceller);
        cancellation.cancelled().await;
        assert!(cancellation.is_cancelled());
    }
}
