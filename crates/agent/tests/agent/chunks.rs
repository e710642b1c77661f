//! Chunks: how many a generation has, and how those of a dead attempt are taken back.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use agent::{
    caps::{CHUNKS_PER_GENERATION_MAX, CHUNKS_SMALL_MAX},
    rows::{Chunk, ChunkType, GenerationStatus},
};
use log::{Append, Freshness};
use providers::scripted::{Pace, Turn};
use serde_json::Value;
use state::{Draft, Json};
use wire::{ReadFrom, caps::APPEND_MESSAGES_MAX};

use crate::support::Session;

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
