//! Phases of a server's life, and waiting for the next one.

use tokio::sync::watch;

/// Where a server stands between its start and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It serves.
    Serving,
    /// It takes no new connections, and live readers are asked to leave.
    Draining,
    /// Whoever is still here is cut off.
    Closed,
}

/// What tells the phase, and moves it.
#[derive(Debug)]
pub(crate) struct Phases(watch::Sender<Phase>);

impl Phases {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Phase::Serving))
    }

    pub(crate) fn now(&self) -> Phase {
        *self.0.borrow()
    }

    /// Moves on; a phase never comes back.
    pub(crate) fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let moves = phase > *now;
            *now = phase.max(*now);
            moves
        });
    }

    /// Waits until the server is in `phase` or past it.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut now = self.0.subscribe();
        // The sender lives in self, so the wait cannot fail.
        let _ = now.wait_for(|now| *now >= phase).await;
    }
}
