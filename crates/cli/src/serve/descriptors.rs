//! Descriptors: as many as the system grants, and how many connections they leave room for.
//!
//! Each connection takes one. Whoever only waits on a connection must not take those that a write
//! needs, so the log has its own set aside before connections are counted.

use std::num::NonZeroUsize;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::Settings;

/// For the log: segments that are written, packs that are read, the checkpoint under way.
const LOG_DESCRIPTORS: u64 = 192;
/// For what else there is: the listener, signals, calls to webhooks and models, and connections
/// that are being turned away.
const OTHER_DESCRIPTORS: u64 = 160;
/// For what each thread waits with.
const THREAD_DESCRIPTORS: u64 = 4;
/// Connections that are taken however few descriptors there are.
const CONNECTIONS_MIN: u64 = 16;

/// Raises the limit of this process as far as it may, and takes no more connections than fit.
pub(crate) fn fit(settings: &mut Settings) {
    let Some(descriptors) = raise() else { return };
    let threads = settings.threads.map_or(1, NonZeroUsize::get);
    let left = connections(descriptors, threads as u64);
    let limits = &mut settings.limits;
    if left < limits.connections_max {
        let (wanted, taken) = (limits.connections_max, left);
        tracing::info!(wanted, taken, descriptors, "fewer connections: raise `ulimit -n` for more");
        limits.connections_max = left;
    }
}

/// How many descriptors the process may have; none if there is no limit.
fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of descriptors stays as it is");
            limit.current
        }
    }
}

fn connections(descriptors: u64, threads: u64) -> usize {
    let others = OTHER_DESCRIPTORS + threads.saturating_mul(THREAD_DESCRIPTORS);
    let left = descriptors.saturating_sub(LOG_DESCRIPTORS).saturating_sub(others);
    usize::try_from(left.max(CONNECTIONS_MIN)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_needs_is_set_aside() {
        assert_eq!(connections(1024, 8), 640);
        assert_eq!(connections(20_000, 2), 19_640);
        assert_eq!(connections(100, 1024), 16);
    }
}
