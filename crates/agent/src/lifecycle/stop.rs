//! How a runner hears that it should stop.

use sys::{Cancellation, Canceller};

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
