//! Metrics: counters that cost one atomic addition, and their text for Prometheus.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http::Response;
use http_body::Body as _;

use crate::{
    response::Body,
    shares::{Resource, Shares},
};

/// Upper bounds of the duration histogram, in microseconds.
const BUCKETS_US: [u64; 12] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 10_000_000, 60_000_000,
];
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "HEAD", "DELETE", "OTHER"];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What a server has done so far.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    answers: [[AtomicU64; CLASSES.len()]; METHODS.len()],
    durations: [AtomicU64; BUCKETS_US.len() + 1],
    duration_us_total: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    followers: AtomicU64,
    connections: AtomicU64,
    shed: AtomicU64,
}

impl Metrics {
    /// An answer is ready; for one that goes on, `took` is the time to its first byte.
    pub(crate) fn answered(&self, method: &str, response: &Response<Body>, took: Duration) {
        let class = usize::from(response.status().as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        add(&self.answers[method_index(method)][class], 1);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&self.durations[BUCKETS_US.partition_point(|bound| *bound < us)], 1);
        add(&self.duration_us_total, us);
        add(&self.bytes_out, response.body().size_hint().lower());
    }

    pub(crate) fn received(&self, bytes: usize) {
        add(&self.bytes_in, bytes as u64);
    }

    /// Bytes of an answer whose length was not known when it began.
    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
    }

    /// Something was refused because there is too much to do.
    pub(crate) fn shed(&self) {
        add(&self.shed, 1);
    }

    pub(crate) fn follower_came(&self) {
        add(&self.followers, 1);
    }

    pub(crate) fn follower_left(&self) {
        self.followers.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_came(&self) {
        add(&self.connections, 1);
    }

    pub(crate) fn connection_left(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// All of it, as Prometheus reads it.
    pub(crate) fn render(&self, shares: &Shares) -> String {
        let mut text = String::with_capacity(4096);
        self.render_answers(&mut text);
        self.render_durations(&mut text);
        let rows = [
            ("headwater_http_received_bytes_total", "counter", &self.bytes_in),
            ("headwater_http_sent_bytes_total", "counter", &self.bytes_out),
            ("headwater_http_shed_total", "counter", &self.shed),
            ("headwater_http_live_readers", "gauge", &self.followers),
            ("headwater_http_connections", "gauge", &self.connections),
        ];
        for (name, kind, value) in rows {
            line(&mut text, format_args!("# TYPE {name} {kind}\n{name} {}", get(value)));
        }
        let rows = [
            ("headwater_http_requests", Resource::Requests),
            ("headwater_http_incoming_bytes", Resource::Incoming),
            ("headwater_http_outgoing_bytes", Resource::Outgoing),
        ];
        for (name, resource) in rows {
            let held = shares.held(resource);
            line(&mut text, format_args!("# TYPE {name} gauge\n{name} {held}"));
        }
        text
    }

    fn render_answers(&self, text: &mut String) {
        let name = "headwater_http_requests_total";
        line(text, format_args!("# TYPE {name} counter"));
        for (method, classes) in METHODS.iter().zip(&self.answers) {
            for (class, count) in CLASSES.iter().zip(classes) {
                let count = get(count);
                if count > 0 {
                    let labels = format_args!("method=\"{method}\",status=\"{class}\"");
                    line(text, format_args!("{name}{{{labels}}} {count}"));
                }
            }
        }
    }

    fn render_durations(&self, text: &mut String) {
        let name = "headwater_http_request_duration_seconds";
        line(text, format_args!("# TYPE {name} histogram"));
        let mut total = 0;
        for (bound, count) in BUCKETS_US.iter().zip(&self.durations) {
            total += get(count);
            let seconds = *bound as f64 / 1e6;
            line(text, format_args!("{name}_bucket{{le=\"{seconds}\"}} {total}"));
        }
        total += get(&self.durations[BUCKETS_US.len()]);
        line(text, format_args!("{name}_bucket{{le=\"+Inf\"}} {total}"));
        let sum = get(&self.duration_us_total) as f64 / 1e6;
        line(text, format_args!("{name}_sum {sum}\n{name}_count {total}"));
    }
}

fn method_index(method: &str) -> usize {
    METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1)
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("writing to a string cannot fail");
}
