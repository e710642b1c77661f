//! Cancellation: how work that runs elsewhere hears that its wake is over.

use tokio::sync::watch;

/// Tells when a wake is over, for whatever reason. Cheap to clone; give one to everything that
/// the work spawns.
#[derive(Clone, Debug)]
pub struct Cancellation(watch::Receiver<bool>);

/// The other end. A wake is also over when this is gone.
#[derive(Debug)]
pub(super) struct Canceller(watch::Sender<bool>);

impl Cancellation {
    pub(super) fn new() -> (Canceller, Self) {
        let (sender, receiver) = watch::channel(false);
        (Canceller(sender), Self(receiver))
    }

    /// Whether the wake is over.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until the wake is over.
    pub async fn cancelled(&self) {
        // An error says that nobody is left to cancel, which is an end, too.
        let _ = self.0.clone().wait_for(|is_over| *is_over).await;
    }
}

impl Canceller {
    pub(super) fn cancel(&self) {
        let _ = self.0.send(true);
    }
}

/// How a runner hears that it should stop, in two steps.
#[derive(Debug)]
pub(super) struct Stop {
    /// It takes no further wake.
    pub(super) closing: Cancellation,
    /// It gives back those it has.
    pub(super) leaving: Cancellation,
}

/// The other end; keep it, for without it the runner stops.
#[derive(Debug)]
pub(super) struct Stopper {
    closing: Canceller,
    leaving: Canceller,
}

impl Stop {
    pub(super) fn new() -> (Stopper, Self) {
        let ((close, closing), (leave, leaving)) = (Cancellation::new(), Cancellation::new());
        (Stopper { closing: close, leaving: leave }, Self { closing, leaving })
    }
}

impl Stopper {
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    pub(super) fn leave(&self) {
        self.leaving.cancel();
    }
}
