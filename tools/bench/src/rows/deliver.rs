//! How soon an append reaches those who follow the stream by server-sent events.
//!
//! A writer appends numbered messages at a steady pace. The latency of a delivery runs from just
//! before the append is sent until the poller reports its bytes at a follower's socket: one clock
//! reading per batch of ready sockets, so that the time this thread needs to read a thousand
//! sockets is not charged to the server that filled them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::setup::{create_streams, stream_name};
use super::{Row, Work};
use crate::load::connection::{Connection, scratch};
use crate::load::poller::{Poller, Token};
use crate::load::response::Progress;
use crate::load::{Histogram, Request, Timing};
use crate::report::{Goal, Latency, Measurement, Unit};
use crate::server::Running;

/// Text, so that no server has to encode it for the event stream.
const TEXT: &str = "text/plain";
const MESSAGE_BYTES: usize = 100;
/// Starts a message; it occurs nowhere else in an event stream.
const MARK: u8 = b'#';
const NUMBER_DIGITS: u32 = 12;

const SUBSCRIBE_TIME_MAX: Duration = Duration::from_secs(30);
const DRAIN: Duration = Duration::from_secs(5);
const POLL_MAX: Duration = Duration::from_millis(100);

pub(crate) struct Deliver {
    followers: usize,
    interval: Duration,
}

pub(super) fn rows() -> Vec<Row> {
    [(1, "1", 20), (100, "100", 20), (1_000, "1,000", 100)]
        .map(|(followers, label, interval_ms)| Row {
            name: format!("deliver to {label} SSE, every {interval_ms} ms"),
            unit: Unit::MillisecondsP50,
            goal: Goal::SOONER,
            work: Work::Deliver(Deliver {
                followers,
                interval: Duration::from_millis(interval_ms),
            }),
        })
        .into()
}

impl Deliver {
    pub(super) fn measure(&self, server: &Running, timing: Timing) -> Result<Measurement> {
        create_streams(server.address(), 1, TEXT)?;
        let mut delivery = Delivery::subscribe(server.address(), self.followers)?;
        delivery.write(self.interval, timing)?;
        let latency = Latency::of(&delivery.latency)?;
        Ok(Measurement {
            value: latency.ms_p50,
            latency: Some(latency),
            generator_load: None,
            open_files: None,
        })
    }
}

struct Delivery {
    poller: Poller,
    ready: Vec<Token>,
    scratch: Vec<u8>,
    followers: Vec<Follower>,
    writer: Connection,
    writer_is_busy: bool,
    /// When each message was sent, by its number.
    sent: Vec<Instant>,
    received: usize,
    /// Deliveries of messages sent earlier warm up and are not counted.
    open: Instant,
    latency: Histogram,
}

struct Follower {
    connection: Connection,
    scanner: Scanner,
    /// The first event, which says where the tail is, has arrived.
    is_live: bool,
}

impl Delivery {
    /// Opens all followers and waits until each has heard from the server.
    fn subscribe(address: SocketAddr, followers: usize) -> Result<Self> {
        let poller = Poller::new()?;
        let mut slots = Vec::with_capacity(followers);
        for token in 0..followers {
            let mut connection = Connection::open(address, &poller, token)?;
            connection.send(Request::subscribe(stream_name(0)), &poller)?;
            slots.push(Follower { connection, scanner: Scanner::default(), is_live: false });
        }
        let writer = Connection::open(address, &poller, followers)?;
        let mut delivery = Self {
            poller,
            ready: Vec::new(),
            scratch: scratch(),
            followers: slots,
            writer,
            writer_is_busy: false,
            sent: Vec::new(),
            received: 0,
            open: Instant::now(),
            latency: Histogram::default(),
        };
        let give_up = Instant::now() + SUBSCRIBE_TIME_MAX;
        while !delivery.followers.iter().all(|follower| follower.is_live) {
            ensure!(Instant::now() < give_up, "not all followers were answered");
            delivery.poll(POLL_MAX)?;
        }
        Ok(delivery)
    }

    /// Writes at the pace given, then waits for what is still on its way.
    fn write(&mut self, interval: Duration, timing: Timing) -> Result<()> {
        let mut next = Instant::now();
        self.open = next + timing.warm_up;
        let close = self.open + timing.measured;
        while next < close {
            let pause = next.saturating_duration_since(Instant::now());
            if pause.is_zero() && !self.writer_is_busy {
                self.send_message()?;
                next += interval;
            } else {
                self.poll(pause.clamp(Duration::from_millis(1), POLL_MAX))?;
            }
            ensure!(Instant::now() < close + DRAIN, "the writer fell behind its pace");
        }
        let give_up = Instant::now() + DRAIN;
        let expected = self.sent.len() * self.followers.len();
        while self.received < expected && Instant::now() < give_up {
            self.poll(POLL_MAX)?;
        }
        let received = self.received;
        ensure!(received == expected, "{received} of {expected} messages were delivered");
        Ok(())
    }

    fn send_message(&mut self) -> Result<()> {
        let request = Request::append(stream_name(0), TEXT, &message(self.sent.len()));
        self.sent.push(Instant::now());
        self.writer_is_busy = true;
        self.writer.send(request, &self.poller)
    }

    fn poll(&mut self, timeout: Duration) -> Result<()> {
        self.poller.wait(timeout, &mut self.ready)?;
        let now = Instant::now();
        for index in 0..self.ready.len() {
            let token = self.ready[index];
            if token == self.followers.len() {
                self.hear_writer()?;
            } else {
                self.hear_follower(token, now)?;
            }
        }
        Ok(())
    }

    fn hear_writer(&mut self) -> Result<()> {
        let progress = self.writer.advance(&self.poller, &mut self.scratch, |_| ())?;
        if progress == Progress::Complete {
            let status = self.writer.response().status;
            ensure!(matches!(status, 200 | 204), "append answered {status}");
            self.writer_is_busy = false;
        }
        Ok(())
    }

    fn hear_follower(&mut self, token: Token, now: Instant) -> Result<()> {
        let Self { poller, scratch, followers, sent, received, open, latency, .. } = self;
        let Follower { connection, scanner, is_live } = &mut followers[token];
        connection
            .advance(poller, scratch, |body| {
                *is_live = true;
                scanner.scan(body, |number| {
                    *received += 1;
                    // A number that was never sent shows up in the count of deliveries.
                    let start = sent.get(number).copied().filter(|start| *start >= *open);
                    if let Some(start) = start {
                        latency.record(now.saturating_duration_since(start));
                    }
                });
            })
            .context("a follower")?;
        let status = connection.response().status;
        ensure!(status == 0 || status == 200, "subscription answered {status}");
        Ok(())
    }
}

fn message(number: usize) -> Vec<u8> {
    let mut message = vec![MARK];
    message.extend(format!("{number:0width$}", width = NUMBER_DIGITS as usize).bytes());
    message.resize(MESSAGE_BYTES, b'.');
    message
}

/// Finds message numbers in an event stream, however the stream is cut and framed.
#[derive(Debug, Default)]
struct Scanner {
    digits_left: u32,
    number: usize,
}

impl Scanner {
    fn scan(&mut self, bytes: &[u8], mut on_number: impl FnMut(usize)) {
        for byte in bytes {
            if *byte == MARK {
                self.digits_left = NUMBER_DIGITS;
                self.number = 0;
            } else if self.digits_left > 0 {
                self.number = self.number * 10 + usize::from(byte.wrapping_sub(b'0'));
                self.digits_left -= 1;
                if self.digits_left == 0 {
                    on_number(self.number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[usize]) {
        for piece_bytes in 1..=text.len() {
            let mut scanner = Scanner::default();
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(piece_bytes) {
                scanner.scan(piece, |number| found.push(number));
            }
            assert_eq!(found, expected, "pieces of {piece_bytes}");
        }
    }

    #[test]
    fn numbers_are_found_between_other_events() {
        check("event: control\ndata:{\"streamNextOffset\":\"0000000000001\"}\n\n", &[]);
        check("event: data\ndata:#000000000042....\n\nevent: control\ndata:{}\n\n", &[42]);
    }

    #[test]
    fn messages_delivered_as_one_event_count_one_by_one() {
        check("event: data\ndata:#000000000007...#000000000008...\n\n", &[7, 8]);
    }

    #[test]
    fn a_message_has_its_size_and_its_number() {
        let bytes = message(1_234);
        assert_eq!(bytes.len(), MESSAGE_BYTES);
        check(std::str::from_utf8(&bytes).unwrap(), &[1_234]);
    }
}
