//! Patience: one timer for all the waits of a connection.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use sys::Clock;

/// How long is still waited. A wait that ends in time costs no timer of its own: the one that runs
/// finds out when it fires that the time is not over.
pub(super) struct Patience {
    clock: Clock,
    over_at: Duration,
    timer: Option<Timer>,
}

struct Timer {
    fires_at: Duration,
    sleep: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

impl Patience {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, over_at: Duration::MAX, timer: None }
    }

    /// A wait begins.
    pub(super) fn begin(&mut self, patience: Duration) {
        self.over_at = self.clock.elapsed() + patience;
    }

    /// Ready when the wait has taken too long.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let timer = match &mut self.timer {
                Some(timer) if timer.fires_at <= self.over_at => timer,
                _ => self.timer.insert(Timer::until(&self.clock, self.over_at)),
            };
            ready!(timer.sleep.as_mut().poll(context));
            self.timer = None;
            if self.clock.elapsed() >= self.over_at {
                return Poll::Ready(());
            }
        }
    }
}

impl Timer {
    fn until(clock: &Clock, fires_at: Duration) -> Self {
        let nap = fires_at.saturating_sub(clock.elapsed());
        let clock = clock.clone();
        Self { fires_at, sleep: Box::pin(async move { clock.sleep(nap).await }) }
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("over_at", &self.over_at).finish_non_exhaustive()
    }
}
