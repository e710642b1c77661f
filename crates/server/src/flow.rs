//! Flows: whether readers take what they are sent.
//!
//! HTTP/1.1 writes to a socket, and sees when nothing more goes in. HTTP/2 hands answers to a
//! connection that many share, where one may wait for ever because its client never opens the
//! window. So each answer notes when something of it was taken last, and the connection is ended
//! when one of them has waited too long.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use sys::Clock;

use crate::caps::HTTP2_STREAMS_MAX;

/// One answer under way.
#[derive(Debug)]
pub(crate) struct Flow {
    clock: Clock,
    /// When its reader took something last, or had taken everything and got more; in microseconds.
    moved_at: AtomicU64,
    /// Pieces that were made and not sent.
    unsent: AtomicUsize,
    /// Whether there is nothing to make a piece of.
    waits_for_us: AtomicBool,
}

/// All answers under way on one connection.
#[derive(Debug, Default)]
pub(crate) struct Flows(Mutex<Vec<Weak<Flow>>>);

impl Flow {
    /// There is another piece to send.
    pub(crate) fn made(&self) {
        self.waits_for_us.store(false, Ordering::Relaxed);
        if self.unsent.fetch_add(1, Ordering::Relaxed) == 0 {
            self.moved();
        }
    }

    /// Something of a piece was sent.
    pub(crate) fn moved(&self) {
        self.moved_at.store(micros(self.clock.elapsed()), Ordering::Relaxed);
    }

    /// A piece was sent whole, or never will be.
    pub(crate) fn gone(&self) {
        self.unsent.fetch_sub(1, Ordering::Relaxed);
        self.moved();
    }

    /// Nothing is there to be sent.
    pub(crate) fn waits_for_us(&self) {
        self.waits_for_us.store(true, Ordering::Relaxed);
    }

    fn stall(&self, now: Duration) -> Duration {
        let is_idle = self.waits_for_us.load(Ordering::Relaxed);
        if is_idle && self.unsent.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        now.saturating_sub(Duration::from_micros(self.moved_at.load(Ordering::Relaxed)))
    }
}

impl Flows {
    pub(crate) fn begin(&self, clock: &Clock) -> Arc<Flow> {
        let moved_at = AtomicU64::new(micros(clock.elapsed()));
        let (unsent, waits_for_us) = Default::default();
        let flow = Arc::new(Flow { clock: clock.clone(), moved_at, unsent, waits_for_us });
        let mut flows = self.0.lock();
        if flows.len() >= 2 * HTTP2_STREAMS_MAX as usize {
            flows.retain(|flow| flow.strong_count() > 0);
        }
        flows.push(Arc::downgrade(&flow));
        flow
    }

    /// How long the slowest of them has waited for its reader.
    pub(crate) fn longest_stall(&self, now: Duration) -> Duration {
        let mut flows = self.0.lock();
        flows.retain(|flow| flow.strong_count() > 0);
        let stalls = flows.iter().filter_map(Weak::upgrade).map(|flow| flow.stall(now));
        stalls.max().unwrap_or_default()
    }
}

fn micros(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}
