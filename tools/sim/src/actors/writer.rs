//! Writers without producers: they never send an append twice.

use wire::ContentType;

use crate::{
    client::{Client, Patience},
    coverage::Event,
    oracle::{Try, Verdict},
};

pub(super) async fn work(client: Client, operations: u64) -> Verdict {
    for _ in 0..operations {
        client.pause().await;
        if client.is_over() {
            break;
        }
        write(&client).await?;
    }
    Ok(())
}

async fn write(client: &Client) -> Verdict {
    let Some((address, id)) = client.some_stream() else { return Ok(()) };
    let dice = &client.dice;
    let closes = dice.percent(3);
    let sizes = if closes && dice.percent(50) { Vec::new() } else { client.some_sizes(6) };
    let mut attempt = {
        let mut oracle = client.world.oracle();
        let number = oracle.compose(id, &sizes, closes);
        let mut attempt = Try::plain(&address, number);
        if dice.percent(15) {
            attempt.expected = Some(oracle.stream(id).tail);
        }
        if dice.percent(20) {
            attempt.seq = oracle.draw_seq(id, dice);
        }
        attempt
    };
    if dice.percent(2) && !sizes.is_empty() {
        attempt.content_type = "text/wrong".parse::<ContentType>().ok();
    }
    let patience = if dice.percent(8) { Patience::Leaves } else { Patience::Waits };
    let answer = client.append(attempt, patience).await?;
    if closes && matches!(answer, Some(Ok(_))) {
        client.world.met(Event::Closed);
    }
    Ok(())
}
