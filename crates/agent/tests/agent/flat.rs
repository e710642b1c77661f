//! What a turn costs does not grow with the turns before it.

use std::time::Duration;

use agent::rows::GenerationStatus;
use chat::{Strategy, Tool, ToolContext};
use log::Freshness;
use providers::scripted::{Pace, Turn};
use serde_json::{Value, json};
use wire::ReadFrom;

use crate::support::Session;

const TURNS: usize = 1_000;

/// A tool that says as much as it is asked to.
fn echo(bytes: usize) -> Tool {
    Tool::builder("echo", "Says something.")
        .effect(chat::Effect::Pure)
        .run(move |_: Value, _: ToolContext| async move { Ok("x".repeat(bytes)) })
        .unwrap()
}

/// Bytes and rows of the stream, apart for chunks, up to each end of a step.
struct Cost {
    bytes: Vec<usize>,
    rows: Vec<usize>,
    chunk_bytes: usize,
}

async fn cost(session: &Session) -> Cost {
    let mut cost = Cost { bytes: Vec::new(), rows: Vec::new(), chunk_bytes: 0 };
    let (mut bytes, mut rows, mut from) = (0, 0, ReadFrom::Start);
    loop {
        let chunk = session.log.read(&session.address, from, 1 << 20).await.unwrap();
        for message in chunk.messages() {
            let text = std::str::from_utf8(message).unwrap();
            rows += 1;
            match text.starts_with(r#"{"type":"chunk""#) {
                true => cost.chunk_bytes += message.len(),
                false => bytes += message.len(),
            }
            if text.starts_with(r#"{"type":"step""#) && text.contains(r#""status":"completed""#) {
                cost.bytes.push(std::mem::take(&mut bytes));
                cost.rows.push(std::mem::take(&mut rows));
            }
        }
        if chunk.freshness != Freshness::Behind {
            return cost;
        }
        from = ReadFrom::At(chunk.next);
    }
}

async fn run(turns: usize, said: usize, answered: usize, pace: Pace) -> (Session, Cost) {
    let session = Session::new().await;
    let text = "word ".repeat(said / 5);
    let calls = (1..turns).map(|_| Turn::new().text(text.as_str()).call("echo", json!({})));
    let model = session.model(calls.chain([Turn::new().text(text.as_str())])).pace(pace);
    let limit = Strategy::TurnsMax(u32::try_from(turns).unwrap());
    let agent = session.agent(&model).tool(echo(answered)).strategy(limit);
    let agent = session.start(agent).await;
    session.say("m1", "go").await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    agent.stop().await.unwrap();
    let cost = cost(&session).await;
    (session, cost)
}

#[tokio::test(start_paused = true)]
async fn a_thousand_turns_cost_the_same_each() {
    let (_session, cost) = run(TURNS, 100, 100, Pace::default()).await;
    assert_eq!(cost.bytes.len(), TURNS);
    let sum = |all: &[usize]| all.iter().sum::<usize>() as f64;
    for (what, all) in [("bytes", &cost.bytes), ("rows", &cost.rows)] {
        // The first turn also pays for the begin.
        let ratio = sum(&all[TURNS - 100..]) / sum(&all[1..101]);
        assert!((0.9..=1.1).contains(&ratio), "{what}: the last hundred cost {ratio} of the first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_turns_of_six_kilobytes_stay_small() {
    // A hundred tokens each second.
    let pace = Pace::per_word(Duration::from_millis(10));
    let (_session, cost) = run(100, 3_000, 3_000, pace).await;
    let bytes = cost.bytes.iter().sum::<usize>();
    assert!(bytes <= 1_200_000, "{bytes} bytes, and {} of chunks", cost.chunk_bytes);
}
