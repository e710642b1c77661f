//! Readers: what they were shown, the oracle remembers for them.

use std::time::Duration;

use log::{Freshness, Incarnation};
use wire::{Address, Offset, ReadFrom};

use crate::{client::Client, coverage::Event, oracle::Verdict};

/// Reads, looks and lists here and there.
pub(super) async fn work(client: Client, operations: u64) -> Verdict {
    for _ in 0..operations {
        client.pause().await;
        if client.is_over() {
            break;
        }
        match client.dice.between(0..=99) {
            0..70 => look_into_one(&client).await?,
            70..85 => {
                let addresses = client.world.oracle().addresses();
                let Some(address) = client.dice.pick(&addresses) else { continue };
                client.head(address).await?.ok();
            }
            _ => {
                let prefix = *client.dice.pick(&["", "a", "a/", "b/1", "z"]).expect("a list");
                let limit = client.dice.magnitude(1..=1_000) as usize;
                client.list(prefix, limit).await?;
            }
        }
    }
    Ok(())
}

async fn look_into_one(client: &Client) -> Verdict {
    // Also names that are gone.
    let addresses = client.world.oracle().addresses();
    let Some(address) = client.dice.pick(&addresses) else { return Ok(()) };
    let from = some_place(client, address);
    let bytes_max = client.dice.magnitude(1..=100_000) as usize;
    client.read(address, from, bytes_max).await?.ok();
    Ok(())
}

fn some_place(client: &Client, address: &Address) -> ReadFrom {
    let oracle = client.world.oracle();
    let Some(id) = oracle.current(address) else { return ReadFrom::Start };
    let tail = oracle.stream(id).tail;
    let position = client.dice.between(0..=tail.position.get());
    match client.dice.between(0..=99) {
        0..30 => ReadFrom::Start,
        30..40 => ReadFrom::Now,
        40..90 => oracle.offset_at(id, position).map_or(ReadFrom::Start, ReadFrom::At),
        // Made up.
        _ => ReadFrom::At(Offset::new(position, tail.byte.get() / 2)),
    }
}

/// Follows streams from wherever it is to their tails and on.
pub(super) async fn follow(client: Client, operations: u64) -> Verdict {
    let mut following: Option<(Address, Incarnation, Offset)> = None;
    for _ in 0..operations {
        client.pause().await;
        if client.is_over() {
            break;
        }
        following = match following {
            Some(place) if !client.dice.percent(8) => go_on(&client, place).await?,
            _ => client.some_stream().map(|(address, id)| {
                let tail = client.world.oracle().stream(id).tail;
                (address, id, tail)
            }),
        };
    }
    Ok(())
}

async fn go_on(
    client: &Client,
    (address, id, after): (Address, Incarnation, Offset),
) -> Verdict<Option<(Address, Incarnation, Offset)>> {
    let patience = Duration::from_millis(client.dice.between(1..=400));
    match client.tail(&address, after, patience).await? {
        None => return Ok(Some((address, id, after))),
        Some(Ok(head)) if head.incarnation == id => {}
        Some(_) => return Ok(None),
    }
    let bytes_max = client.dice.magnitude(1..=10_000) as usize;
    match client.read(&address, ReadFrom::At(after), bytes_max).await? {
        Ok(chunk) if chunk.incarnation == id => {
            if chunk.next > after {
                client.world.met(Event::Followed);
            }
            let is_done = chunk.freshness == Freshness::Closed;
            Ok((!is_done).then_some((address, id, chunk.next)))
        }
        _ => Ok(None),
    }
}
