//! Stewards: they make, fork, trim and delete streams.

use log::{Delete, Incarnation, Outcome};
use wire::{
    Address, ContentType, Expiry, Offset, StreamPath, SubOffset, SystemPath, Timestamp, Ttl,
};

use super::NAMES;
use crate::{
    client::{Client, Patience},
    coverage::Event,
    oracle::{ForkFrom, Make, Standing, Verdict},
};

/// With fewer streams than this, one is made.
const STREAMS_WANTED: usize = 4;

pub(super) async fn work(client: Client, operations: u64) -> Verdict {
    for _ in 0..operations {
        client.pause().await;
        if client.is_over() {
            break;
        }
        step(&client).await?;
    }
    Ok(())
}

async fn step(client: &Client) -> Verdict {
    let live = client.world.oracle().live(client.now()).len();
    if live < STREAMS_WANTED {
        return make(client).await;
    }
    match client.dice.between(0..=99) {
        0..22 => make(client).await,
        22..27 => confirm(client).await,
        27..55 => fork(client).await,
        55..75 => trim(client).await,
        75..80 => trim_anywhere(client).await,
        80..93 => delete(client).await,
        _ => erase(client).await,
    }
}

/// A name that nobody uses now.
fn free_name(client: &Client) -> Option<Address> {
    let address = name(client.dice.between(0..=NAMES - 1));
    let mut oracle = client.world.oracle();
    let known = oracle.known(&address, client.now());
    (known.standing != Standing::Live && oracle.is_idle(&address)).then_some(address)
}

fn name(number: u64) -> Address {
    match number {
        0 => "keys".parse::<SystemPath>().expect("a path").into(),
        _ => {
            let folder = ["a", "b"][number as usize % 2];
            let path = format!("{folder}/{number}").parse::<StreamPath>().expect("a path");
            path.into()
        }
    }
}

async fn make(client: &Client) -> Verdict {
    let Some(address) = free_name(client) else { return Ok(()) };
    let dice = &client.dice;
    let content_type = match dice.percent(50) {
        true => ContentType::json(),
        false => ContentType::octet_stream(),
    };
    let make = Make::plain(&address, content_type, some_expiry(client));
    let sizes = if dice.percent(60) { Vec::new() } else { client.some_sizes(4) };
    let before = client.world.oracle().current(&address);
    let answer = client.create(make, &sizes, dice.percent(2)).await?;
    if answer.is_ok() && before.is_some() {
        client.world.met(Event::MadeAnew);
    }
    Ok(())
}

fn some_expiry(client: &Client) -> Expiry {
    match client.dice.between(0..=99) {
        0..75 => Expiry::Never,
        75..93 => Expiry::Sliding(Ttl::from_seconds(client.dice.between(1..=4))),
        _ => {
            let time = client.now().get() + client.dice.between(200..=4_000);
            Expiry::At(Timestamp::from_unix_ms(time))
        }
    }
}

/// Asks for a stream that is there.
async fn confirm(client: &Client) -> Verdict {
    let Some((address, id)) = client.some_stream() else { return Ok(()) };
    let make = {
        let oracle = client.world.oracle();
        let stream = oracle.stream(id);
        if stream.origin.is_some() || !oracle.is_idle(&address) {
            return Ok(());
        }
        Make::plain(&address, stream.content_type.clone(), stream.expiry)
    };
    client.create(make, &[], false).await?.ok();
    Ok(())
}

async fn fork(client: &Client) -> Verdict {
    let Some((source, parent)) = client.some_stream() else { return Ok(()) };
    let Some(address) = free_name(client).filter(|address| *address != source) else {
        return Ok(());
    };
    let dice = &client.dice;
    let from = fork_from(client, source, parent);
    let make = {
        let oracle = client.world.oracle();
        let stream = oracle.stream(parent);
        let own = if from.inherits_lifetime { stream.expiry } else { some_expiry(client) };
        Make::plain(&address, stream.content_type.clone(), own).forked(from.clone())
    };
    let is_second = client.world.oracle().stream(parent).origin.is_some();
    let sizes = if dice.percent(70) { Vec::new() } else { client.some_sizes(3) };
    let answer = client.fork(make, &sizes, dice.percent(2)).await?;
    if matches!(&answer, Ok(created) if created.outcome == Outcome::New) {
        client.world.met(if is_second { Event::ForkedFork } else { Event::Forked });
        if from.sub_offset.get() > 0 {
            client.world.met(Event::ForkedInside);
        }
    }
    Ok(())
}

/// Somewhere in the source, or at its tail.
fn fork_from(client: &Client, source: Address, parent: Incarnation) -> ForkFrom {
    let dice = &client.dice;
    let oracle = client.world.oracle();
    let stream = oracle.stream(parent);
    let mut from = ForkFrom {
        source,
        parent,
        offset: None,
        sub_offset: SubOffset::default(),
        end: None,
        partial: None,
        inherits_lifetime: dice.percent(50),
    };
    let (earliest, tail) = (stream.earliest.position.get(), stream.tail.position.get());
    if dice.percent(30) || earliest >= tail {
        return from;
    }
    let position = dice.between(earliest..=tail - 1);
    let Some(offset) = oracle.offset_at(parent, position) else { return from };
    (from.offset, from.end) = (Some(offset), Some(offset));
    let Some(message) = oracle.message_at(parent, position) else { return from };
    if dice.percent(40) {
        return from;
    }
    if stream.content_type.is_json() {
        let count = dice.between(1..=tail - position);
        from.sub_offset = SubOffset::new(count);
        let end = oracle.offset_at(parent, position + count);
        from.end = if position + count == tail { Some(stream.tail) } else { end };
    } else {
        let length = message.len() as u64;
        let count = dice.between(1..=length);
        from.sub_offset = SubOffset::new(count);
        from.partial = (count < length).then(|| message.slice(..count as usize));
        if count == length {
            from.end = Some(offset.after(1, length));
        }
    }
    from
}

/// Forgets some of what is there.
async fn trim(client: &Client) -> Verdict {
    let Some((address, id)) = client.some_stream() else { return Ok(()) };
    let offset = {
        let oracle = client.world.oracle();
        let tail = oracle.stream(id).tail;
        let position = client.dice.between(0..=tail.position.get());
        if position == tail.position.get() { Some(tail) } else { oracle.offset_at(id, position) }
    };
    match offset {
        Some(offset) => client.trim(&address, offset).await,
        None => Ok(()),
    }
}

/// Trims where there may be no boundary, and whatever else happens to the name.
async fn trim_anywhere(client: &Client) -> Verdict {
    let addresses = client.world.oracle().addresses();
    let Some(address) = client.dice.pick(&addresses) else { return Ok(()) };
    let tail = {
        let oracle = client.world.oracle();
        oracle.current(address).map_or(Offset::START, |id| oracle.stream(id).tail)
    };
    let position = client.dice.between(0..=tail.position.get() + 3);
    let byte = client.dice.between(0..=tail.byte.get() + 50);
    client.trim(address, Offset::new(position, byte)).await
}

async fn delete(client: &Client) -> Verdict {
    let Some((address, _)) = client.some_stream() else { return Ok(()) };
    if client.delete(&address, Delete::Stream, some_patience(client)).await? {
        client.world.met(Event::Deleted);
    }
    Ok(())
}

fn some_patience(client: &Client) -> Patience {
    if client.dice.percent(6) { Patience::Leaves } else { Patience::Waits }
}

/// Takes a stream and its forks, also one that was deleted before.
async fn erase(client: &Client) -> Verdict {
    let address = match client.dice.percent(70) {
        true => client.some_stream().map(|(address, _)| address),
        false => {
            let addresses = client.world.oracle().addresses();
            client.dice.pick(&addresses).cloned()
        }
    };
    let Some(address) = address else { return Ok(()) };
    let usable = client.world.oracle().is_usable(&address);
    if usable && client.delete(&address, Delete::Erase, some_patience(client)).await? {
        client.world.met(Event::Erased);
    }
    Ok(())
}
