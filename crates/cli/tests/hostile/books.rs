//! What the server says that it holds.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use sys::Sys;

use super::{
    attacks::Attack,
    others::{ask, request},
};

/// How long an attack gets to take all that it can.
const LOOKS_MAX: usize = 150;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// What is looked up in `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gauge {
    Connections,
    Requests,
    Incoming,
    Outgoing,
    LiveReaders,
    Shed,
}

/// All of them.
pub(crate) type Books = BTreeMap<Gauge, u64>;

impl Gauge {
    const ALL: [(Self, &str); 6] = [
        (Self::Connections, "headwater_http_connections "),
        (Self::Requests, "headwater_http_requests "),
        (Self::Incoming, "headwater_http_incoming_bytes "),
        (Self::Outgoing, "headwater_http_outgoing_bytes "),
        (Self::LiveReaders, "headwater_http_live_readers "),
        (Self::Shed, "headwater_http_shed_total "),
    ];

    /// What the look itself adds.
    fn of_the_look(self) -> u64 {
        u64::from(matches!(self, Self::Connections | Self::Requests))
    }
}

/// Asks the server, as one of the others.
pub(crate) async fn look(address: SocketAddr) -> Result<Books, String> {
    let text = ask(address, &request("GET", "/metrics", 0), b"").await?;
    let books = Gauge::ALL.into_iter().map(|(gauge, name)| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        let value: u64 = value.ok_or_else(|| format!("no {name} in {text}"))?;
        Ok((gauge, value.saturating_sub(gauge.of_the_look())))
    });
    books.collect()
}

/// Waits until the attack has taken what it must.
pub(crate) async fn look_until_taken(
    address: SocketAddr,
    attack: &Attack,
) -> Result<Books, String> {
    let clock = Sys::real().clock;
    let mut books = Books::default();
    for _ in 0..LOOKS_MAX {
        books = look(address).await?;
        if lacking(attack, &books).is_empty() {
            break;
        }
        clock.sleep(LOOK_PAUSE).await;
    }
    Ok(books)
}

/// What the attack has too little of.
pub(crate) fn lacking(attack: &Attack, books: &Books) -> Vec<String> {
    let value = |gauge| books.get(gauge).copied().unwrap_or_default();
    let short = attack.took.iter().filter(|(gauge, least)| value(gauge) < *least);
    short.map(|(gauge, least)| format!("{gauge:?}: {} of {least}", value(gauge))).collect()
}
