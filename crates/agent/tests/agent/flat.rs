//! What a turn costs does not grow with the turns before it.

use std::{sync::Arc, time::Duration};

use agent::rows::GenerationStatus;
use chat::{Strategy, Tool, ToolContext};
use log::Freshness;
use providers::scripted::{Pace, Turn};
use serde_json::{Value, json};
use wire::ReadFrom;

use crate::{
    counted::{Counted, Sample, Sampler, is_chunk},
    support::Session,
};

const TURNS: usize = 1_000;

/// A tool that says as much as it is asked to.
fn echo(bytes: usize) -> Tool {
    Tool::builder("echo", "Says something.")
        .effect(chat::Effect::Pure)
        .run(move |_: Value, _: ToolContext| async move { Ok("x".repeat(bytes)) })
        .unwrap()
}

/// What each turn costs.
struct Cost {
    /// Bytes of the stream, without chunks.
    bytes: Vec<usize>,
    /// Rows of the stream, without chunks.
    rows: Vec<usize>,
    /// Chunks.
    chunks: Vec<usize>,
    /// Bytes of chunks.
    chunk_bytes: Vec<usize>,
    /// Messages that the agent has read from the log, without chunks.
    read: Vec<usize>,
    /// Bytes of these.
    read_bytes: Vec<usize>,
    /// Chunks that it has read.
    chunks_read: Vec<usize>,
    /// Messages that were made for its request.
    made: Vec<usize>,
}

async fn cost(session: &Session, samples: &[Sample]) -> Cost {
    let steps = |of: fn(&Sample) -> usize| {
        samples.windows(2).map(|pair| of(&pair[1]) - of(&pair[0])).collect()
    };
    let mut cost = Cost {
        bytes: Vec::new(),
        rows: Vec::new(),
        chunks: Vec::new(),
        chunk_bytes: Vec::new(),
        chunks_read: steps(|sample| sample.chunks),
        read: steps(|sample| sample.messages),
        read_bytes: steps(|sample| sample.bytes),
        made: samples.iter().map(|sample| sample.made).collect(),
    };
    let (mut bytes, mut rows, mut chunks, mut chunk_bytes) = (0, 0, 0, 0);
    let mut from = ReadFrom::Start;
    loop {
        let chunk = session.log.read(&session.address, from, 1 << 20).await.unwrap();
        for message in chunk.messages() {
            let text = std::str::from_utf8(message).unwrap();
            if is_chunk(message) {
                chunks += 1;
                chunk_bytes += message.len();
            } else {
                rows += 1;
                bytes += message.len();
            }
            if text.starts_with(r#"{"type":"step""#) && text.contains(r#""status":"completed""#) {
                cost.bytes.push(std::mem::take(&mut bytes));
                cost.rows.push(std::mem::take(&mut rows));
                cost.chunks.push(std::mem::take(&mut chunks));
                cost.chunk_bytes.push(std::mem::take(&mut chunk_bytes));
            }
        }
        if chunk.freshness != Freshness::Behind {
            return cost;
        }
        from = ReadFrom::At(chunk.next);
    }
}

async fn run(turns: usize, text: &str, answered: usize, pace: Pace) -> (Session, Cost) {
    let session = Session::new().await;
    let calls = (1..turns).map(|_| Turn::new().text(text).call("echo", json!({})));
    let model = session.model(calls.chain([Turn::new().text(text)])).pace(pace);
    let limit = Strategy::TurnsMax(u32::try_from(turns).unwrap());
    let log = Counted::new(Arc::clone(&session.log));
    let sampler = Sampler::new(model.clone(), Arc::clone(&log));
    let agent = session.agent(&model).model(sampler.clone()).tool(echo(answered)).strategy(limit);
    let agent = agent.session(log, session.address.clone()).start(&session.sys).await.unwrap();
    session.say("m1", "go").await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    agent.stop().await.unwrap();
    let samples = std::mem::take(&mut *sampler.samples.lock());
    let cost = cost(&session, &samples).await;
    (session, cost)
}

/// Each turn says this; tells what chunks cost in a hundred turns, at the begin and at the end.
#[expect(clippy::print_stdout, reason = "figures that whoever asks for them should see")]
async fn costs_the_same_each(text: &str) -> [(f64, f64); 3] {
    // So that the agent reads what it has written while it goes on.
    let pace = Pace::per_word(Duration::from_millis(1));
    let (_session, cost) = run(TURNS, text, 100, pace).await;
    assert_eq!((cost.bytes.len(), cost.made.len()), (TURNS, TURNS));
    let sums = |what: &str, all: &[usize]| {
        let sum = |all: &[usize]| all.iter().sum::<usize>() as f64;
        // The first turn also pays for the begin.
        let (first, last) = (sum(&all[1..101]), sum(&all[all.len() - 100..]));
        println!("{what}: {first} in a hundred turns at the begin, {last} at the end");
        (first, last)
    };
    let touched = [
        ("bytes written, without chunks", &cost.bytes),
        ("rows written, without chunks", &cost.rows),
        ("bytes read, without chunks", &cost.read_bytes),
        ("rows read, without chunks", &cost.read),
        ("messages made for the request", &cost.made),
    ];
    for (what, all) in touched {
        let (first, last) = sums(what, all);
        let ratio = last / first;
        assert!((0.9..=1.1).contains(&ratio), "{what}: the last hundred cost {ratio} of the first");
    }
    [
        sums("bytes of chunks", &cost.chunk_bytes),
        sums("chunks written", &cost.chunks),
        sums("chunks read", &cost.chunks_read),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_thousand_turns_cost_the_same_each() {
    // One piece each, so that even a thousand turns have few.
    for (first, last) in costs_the_same_each(&"word".repeat(25)).await {
        let ratio = last / first;
        assert!((0.9..=1.1).contains(&ratio), "chunks: the last hundred cost {ratio} of the first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_turns_of_many_pieces_cost_no_more_each() {
    for (first, last) in costs_the_same_each(&"word ".repeat(20)).await {
        let ratio = last / first;
        assert!(ratio <= 1.1, "chunks: the last hundred cost {ratio} of the first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_turns_of_six_kilobytes_stay_small() {
    // A hundred tokens each second.
    let pace = Pace::per_word(Duration::from_millis(10));
    let (_session, cost) = run(100, &"word ".repeat(600), 3_000, pace).await;
    let sum = |all: &[usize]| all.iter().sum::<usize>();
    let (bytes, chunk_bytes) = (sum(&cost.bytes), sum(&cost.chunk_bytes));
    println!("{bytes} bytes, and {chunk_bytes} of chunks");
    assert!(bytes <= 1_200_000, "{bytes} bytes, and {chunk_bytes} of chunks");
}
