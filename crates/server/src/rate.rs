//! Rates: how often one client may ask.

use std::sync::atomic::{AtomicU64, Ordering};

use governor::{DefaultKeyedRateLimiter, Quota};
use http::header;

use crate::{
    names,
    problem::{Kind, Problem},
    settings::Rate,
    shares::ClientKey,
};

/// Requests between two looks for clients who have been quiet and can be forgotten.
const FORGET_EVERY: u64 = 10_000;

/// The requests of each client, as far as they still count.
#[derive(Debug)]
pub(crate) struct RateLimit {
    clients: DefaultKeyedRateLimiter<ClientKey>,
    asked: AtomicU64,
}

impl RateLimit {
    pub(crate) fn new(rate: Rate) -> Self {
        let Rate { per_second, burst } = rate;
        let quota = Quota::per_second(per_second).allow_burst(burst);
        Self { clients: DefaultKeyedRateLimiter::keyed(quota), asked: AtomicU64::new(0) }
    }

    pub(crate) fn admit(&self, key: &ClientKey) -> Result<(), Problem> {
        if self.asked.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            self.clients.retain_recent();
        }
        self.clients.check_key(key).map_err(|_| {
            Problem::new(Kind::TooManyRequests, "too many requests; retry after a second")
                .with(&header::RETRY_AFTER, names::ONE_SECOND.clone())
        })
    }
}
