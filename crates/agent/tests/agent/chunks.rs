//! Chunks: how many a generation has, and how those of a dead attempt are taken back.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use agent::{
    caps::{CHUNKS_PER_GENERATION_MAX, CHUNKS_SMALL_MAX},
    rows::{self, Chunk, ChunkType, GenerationStatus, KeepChunks, Message, Step},
};
use log::{Append, Freshness};
use providers::scripted::{Call, Pace, Turn};
use serde_json::{Value, json};
use state::{Draft, Json};
use wire::{ReadFrom, caps::APPEND_MESSAGES_MAX};

use crate::{support::Session, tools::noted};

/// Chunks as a runner would write them that does not care how many they are.
async fn write_chunks(session: &Session, generation: &str, indexes: Range<u64>) {
    let drafts = indexes.map(|index| {
        let chunk = Chunk {
            id: Chunk::id_of(generation, index),
            generation_id: generation.to_owned(),
            message_id: Some(format!("{generation}:1")),
            index,
            kind: ChunkType::Text,
            content: "x".to_owned(),
            call_id: None,
            is_final: false,
        };
        let value: Json = serde_json::to_string(&chunk).unwrap().parse().unwrap();
        Draft::insert("chunk".parse().unwrap(), chunk.id.parse().unwrap(), value)
    });
    let messages = state::transaction(&"by-hand".parse().unwrap(), drafts).unwrap();
    let _ = session.log.append(&session.address, Append::messages(messages)).await.unwrap();
}

/// Whoever reads shows a begin of what an attempt has said, at every message of the stream.
async fn readers_always_see_a_begin(session: &Session) {
    let (mut alive, mut from) = (BTreeSet::new(), ReadFrom::Start);
    loop {
        let read = session.log.read(&session.address, from, 1 << 20).await.unwrap();
        for message in read.messages() {
            let message: Value = serde_json::from_slice(message).unwrap();
            let key = message["key"].as_str().unwrap();
            let Some(index) = Chunk::index_of("assistant-1", key) else { continue };
            if message["headers"]["operation"] == "delete" {
                assert_eq!(alive.pop_last(), Some(index), "the last one goes first");
            } else {
                assert!(alive.last().is_none_or(|last| last + 1 == index), "{index} has a gap");
                alive.insert(index);
            }
        }
        if read.freshness != Freshness::Behind {
            return;
        }
        from = ReadFrom::At(read.next);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_attempt_of_more_chunks_than_one_append_holds_is_taken_back_from_its_end() {
    let session = Session::new().await;
    let text = "word ".repeat(20);
    let model = session.model([Turn::new().text(text.as_str())]);
    let model = model.pace(Pace::per_word(Duration::from_millis(100)));
    let first = session.start(session.agent(&model)).await;
    session.say("m1", "talk").await;
    session.until::<Chunk>(|chunks| chunks.len() > 3).await;
    first.abort();
    session.sys.clock.sleep(Duration::from_secs(1)).await;
    let said = session.rows::<Chunk>().len() as u64;
    let (half, all) = (said + 60_000, said + 120_000);
    assert!(all > APPEND_MESSAGES_MAX as u64);
    write_chunks(&session, "assistant-1", said..half).await;
    write_chunks(&session, "assistant-1", half..all).await;

    let second = session.start(session.agent(&model)).await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(session.chunk_text(), text);
    readers_always_see_a_begin(&session).await;
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_has_fewer_and_larger_chunks_and_no_word_is_lost() {
    let session = Session::new().await;
    let text = "word ".repeat(12_000);
    let model = session.model([Turn::new().text(text.as_str())]);
    let model = model.pace(Pace::per_word(Duration::from_millis(20)));
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "talk").await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(session.chunk_text(), text);
    let chunks = session.rows::<Chunk>().len() as u64;
    assert!((CHUNKS_SMALL_MAX..CHUNKS_PER_GENERATION_MAX).contains(&chunks), "{chunks} chunks");
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn how_many_chunks_a_turn_had_is_known_after_they_are_dropped() {
    let session = Session::new().await;
    let look = noted("look", chat::Effect::Pure, &Arc::default());
    let text = "word ".repeat(30);
    let model = session.model([
        Turn::new().text(text.as_str()).calls([Call::new("look", json!({}))]),
        Turn::new().text("A short one."),
        Turn::new().text("word ".repeat(50)),
    ]);
    let model = model.pace(Pace::per_word(Duration::from_millis(100)));
    let agent = session.start(session.agent(&model).tool(look)).await;
    session.say("m1", "look").await;
    session.over(1).await;
    // An attempt that dies takes its chunks along.
    let begun: Vec<_> = session.rows::<Step>().into_iter().map(|step| step.generation_id).collect();
    let is_third = |chunk: &Chunk| !begun.contains(&chunk.generation_id);
    session.say("m2", "talk").await;
    session
        .until::<Chunk>(|chunks| chunks.iter().filter(|chunk| is_third(chunk)).count() > 3)
        .await;
    agent.abort();
    let agent = session.start(session.agent(&model)).await;
    session.over(2).await;
    agent.stop().await.unwrap();

    let counted = counted(&session.rows(), &session.rows::<Chunk>());
    assert!(counted.len() == 3 && counted.values().all(|count| *count > 0), "{counted:?}");
    let compaction = live::compact(&session.log, session.address.clone(), &session.sys);
    let now = session.sys.clock.unix_ms();
    let compaction = rows::drop_chunks(rows::compaction(compaction), KeepChunks::UntilMessage, now);
    compaction.run().await.unwrap();
    let session = Session::open(session.sys, session.log, session.address).await;
    assert_eq!(session.rows::<Chunk>(), []);
    let derived = session.rows::<Step>().into_iter().map(|step| (step.id, step.chunks.unwrap()));
    assert_eq!(derived.collect::<BTreeMap<_, _>>(), counted);
    let messages = session.rows::<Message>();
    let said = messages.iter().filter(|row| row.generation_id.is_some());
    assert!(said.clone().count() == 3 && said.clone().all(|row| counted.contains_key(&row.id)));
}

/// The chunks of each step that there are.
fn counted(steps: &[Step], chunks: &[Chunk]) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<_, _> = steps.iter().map(|step| (step.id.clone(), 0)).collect();
    for chunk in chunks.iter().filter(|chunk| chunk.kind != ChunkType::End) {
        let first = |step: &&Step| {
            step.generation_id == chunk.generation_id && step.first_chunk <= chunk.index
        };
        let step = steps.iter().filter(first).max_by_key(|step| step.first_chunk).unwrap();
        *counts.get_mut(&step.id).unwrap() += 1;
    }
    counts
}
