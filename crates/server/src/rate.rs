//! Rates: how often one client may ask.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use governor::{DefaultKeyedRateLimiter, Quota};
use http::header;

use crate::{
    names,
    problem::{Kind, Problem},
    settings::Rate,
};

/// Requests between two looks for clients who have been quiet and can be forgotten.
const FORGET_EVERY: u64 = 10_000;

/// The requests of each client, as far as they still count.
#[derive(Debug)]
pub(crate) struct RateLimit {
    clients: DefaultKeyedRateLimiter<Key>,
    asked: AtomicU64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Name(Box<str>),
    Ip(IpAddr),
}

impl RateLimit {
    pub(crate) fn new(rate: Rate) -> Self {
        let Rate { per_second, burst } = rate;
        let quota = Quota::per_second(per_second).allow_burst(burst);
        Self { clients: DefaultKeyedRateLimiter::keyed(quota), asked: AtomicU64::new(0) }
    }

    pub(crate) fn admit_name(&self, name: &str) -> Result<(), Problem> {
        self.admit(&Key::Name(name.into()))
    }

    pub(crate) fn admit_ip(&self, ip: IpAddr) -> Result<(), Problem> {
        self.admit(&Key::Ip(whole_network(ip)))
    }

    fn admit(&self, key: &Key) -> Result<(), Problem> {
        if self.asked.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            self.clients.retain_recent();
        }
        self.clients.check_key(key).map_err(|_| {
            Problem::new(Kind::TooManyRequests, "too many requests; retry after a second")
                .with(&header::RETRY_AFTER, names::ONE_SECOND.clone())
        })
    }
}

/// One household has a whole /64 of IPv6 addresses to ask from.
fn whole_network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}
