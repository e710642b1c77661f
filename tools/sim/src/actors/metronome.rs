//! One writer of equal messages: all lives of a segment's file have their frames at the same places
//! then, and what is left of an old one could pass for part of a new one.

use wire::{Address, ContentType, Expiry, StreamPath};

use crate::{
    client::{Client, Patience},
    oracle::{Make, Try, Verdict},
};

pub(super) async fn work(client: Client, operations: u64) -> Verdict {
    let address: Address = "beat".parse::<StreamPath>().expect("a path").into();
    let make = Make::plain(&address, ContentType::json(), Expiry::Never);
    client.create(make, &[], false).await?.ok();
    for _ in 0..operations {
        if client.is_over() {
            break;
        }
        let size = client.world.sizes.draw(&client.dice);
        let number = {
            let mut oracle = client.world.oracle();
            let Some(id) = oracle.current(&address) else { return Ok(()) };
            oracle.compose(id, &[size], false)
        };
        client.append(Try::plain(&address, number), Patience::Waits).await?;
    }
    Ok(())
}
