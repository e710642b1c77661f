//! The look at a log at rest: every name, every stream, every message.

use std::collections::BTreeMap;

use bytes::Bytes;
use log::{Freshness, Head, HeadError};
use wire::{Address, Offset, ReadFrom};

use crate::{
    client::Client,
    oracle::{Absence, Sighting, Verdict, Violation, demand},
};

/// Compares all that the log shows with all that the oracle knows. Nobody else may use the log.
pub(crate) async fn inspect(client: &Client) -> Verdict {
    let sighting = look(client).await?;
    client.world.oracle().settle(&sighting, client.now())?;
    for (address, found) in &sighting {
        if let Ok(head) = found {
            let content = read_all(client, address, head).await?;
            client.world.oracle().settle_content(head.incarnation, &content, head)?;
        }
    }
    let limit = client.dice.magnitude(1..=1_000) as usize;
    let listed = client.list("", limit).await?;
    let listed: BTreeMap<Address, Head> =
        listed.into_iter().map(|(path, head)| (path.into(), head)).collect();
    for (address, head) in &listed {
        let found = sighting.get(address).and_then(|found| found.as_ref().ok());
        demand(found == Some(head), || format!("{address} is listed as {head:?}, not {found:?}"))?;
    }
    client.world.collect_events();
    Ok(())
}

/// The head of every name that was ever used, as the log tells it.
async fn look(client: &Client) -> Verdict<Sighting> {
    let mut sighting = Sighting::new();
    let addresses = client.world.oracle().addresses();
    for address in addresses {
        let found = match log::Log::head(&client.log, &address).await {
            Ok(head) => Ok(head),
            Err(HeadError::NotFound(_)) => Err(Absence::NotFound),
            Err(HeadError::Gone(_)) => Err(Absence::Gone),
            Err(error) => return Err(Violation(format!("head of {address}: {error}"))),
        };
        sighting.insert(address, found);
    }
    Ok(sighting)
}

/// Everything a stream holds, in chunks of any size.
async fn read_all(
    client: &Client,
    address: &Address,
    head: &Head,
) -> Verdict<Vec<(Offset, Bytes)>> {
    let mut content = Vec::new();
    let mut from = ReadFrom::Start;
    let mut next = head.earliest;
    loop {
        let bytes_max = client.dice.magnitude(1_000..=100_000) as usize;
        let chunk = client.read(address, from, bytes_max).await?;
        let chunk = chunk.map_err(|error| Violation(format!("reading {address}: {error}")))?;
        demand(chunk.start == next && chunk.incarnation == head.incarnation, || {
            format!("{address} reads on at {}, not {next}", chunk.start)
        })?;
        for message in chunk.messages() {
            content.push((next, Bytes::copy_from_slice(message)));
            next = next.after(1, message.len() as u64);
        }
        if chunk.freshness != Freshness::Behind {
            return Ok(content);
        }
        demand(chunk.next > chunk.start, || format!("{address}: no progress at {next}"))?;
        from = ReadFrom::At(chunk.next);
    }
}
