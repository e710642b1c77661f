//! Scenarios d: ten thousand messages of twenty chunks, joined, and as texts that grow.

use anyhow::{Context as _, Result};
use query::{CollectionId, Database, Key, Query, Record, Schema};

use super::{
    figure::{Calls, Heap, Outcome, resident_bytes, spread, whole},
    sample::{CHUNKS_EACH, Chance, Size, chunk, fill, insert, key_of, message, update},
};

const TOLD: &str = r#"{"from":{"col":"messages","as":"m"},"select":{
    "id":{"ref":["m","id"]},"role":{"ref":["m","role"]},
    "text":{"include":{"from":{"col":"chunks","as":"k"},
        "where":[{"fn":"eq","args":[{"ref":["k","messageId"]},{"ref":["m","id"]}]}],
        "orderBy":[{"expr":{"ref":["k","seq"]}}],
        "select":{"text":{"ref":["k","text"]}}},"as":"text"}}}"#;

struct Chat {
    db: Database,
    messages: CollectionId,
    chunks: CollectionId,
}

impl Chat {
    fn new(count: usize) -> Result<Self> {
        let mut db = Database::new();
        let messages = db.collection("messages", Schema::open("id"))?;
        let chunks = db.collection("chunks", Schema::open("id"))?;
        fill(&mut db, messages, (0..count).map(message))?;
        let text = |number| chunk(number, number / CHUNKS_EACH, number % CHUNKS_EACH);
        fill(&mut db, chunks, (0..count * CHUNKS_EACH).map(text))?;
        Ok(Self { db, messages, chunks })
    }

    fn chunk(&mut self, json: &str) -> Result<Record> {
        Ok(self.db.record(self.chunks, json)?)
    }

    fn insert_chunk(&mut self, record: Record) -> Result<()> {
        insert(&mut self.db, self.chunks, record)
    }
}

/// Chunks beside their messages.
pub(super) fn joined(size: Size, kind: &str) -> Result<Outcome> {
    let before = resident_bytes()?;
    let mut chat = Chat::new(size.messages())?;
    let query = Query::from_json(&format!(
        r#"{{"from":{{"col":"chunks","as":"k"}},
        "join":[{{"type":"{kind}","col":"messages","as":"m",
            "on":[[{{"ref":["k","messageId"]}},{{"ref":["m","id"]}}]]}}],
        "select":{{"id":{{"ref":["k","id"]}},"messageId":{{"ref":["k","messageId"]}},
            "seq":{{"ref":["k","seq"]}},"text":{{"ref":["k","text"]}},
            "role":{{"ref":["m","role"]}}}}}}"#
    ))?;
    let (hydrate, query) = whole("hydrate", || Ok(chat.db.live(&query)?))?;
    let rows = size.messages() * CHUNKS_EACH;
    let is_whole = chat.db.result_len(query) == rows;
    let heap = Heap { bytes: resident_bytes()? - before, rows };

    let mut chance = Chance::new(11);
    let mut any = || chance.below(size.messages() as u32);
    let count = size.of(5_500);
    let calls = Calls { name: "insert of a chunk", count, warm: count / 11 };
    let next = |chat: &mut Chat, number| chat.chunk(&chunk(rows + number, any(), 1_000 + number));
    let chunks = calls.measure(&mut chat, next, Chat::insert_chunk)?;

    let updates = size.of(1_100);
    let calls = Calls { name: "update of a message of 20", count: updates, warm: updates / 11 };
    let next = |chat: &mut Chat, number| {
        let row = format!(r#"{{"id":"{}","role":"r{number}","thread":"t"}}"#, key_of(any()));
        Ok(chat.db.record(chat.messages, &row)?)
    };
    let write = |chat: &mut Chat, record| update(&mut chat.db, chat.messages, record);
    let messages = calls.measure(&mut chat, next, write)?;

    let role = format!("r{}", updates - 1);
    let is_told = chat.db.result(query).any(|entry| *entry.record.get("role") == role[..].into());
    let ok = is_whole && is_told && chat.db.result_len(query) == rows + count;
    Ok(Outcome { ok, figures: vec![chunks, messages, hydrate], heap: Some(heap) })
}

/// Every message with its text.
pub(super) fn included(size: Size) -> Result<Outcome> {
    let mut chat = Chat::new(size.messages())?;
    let query = Query::from_json(TOLD)?;
    let (hydrate, query) = whole("hydrate", || Ok(chat.db.live(&query)?))?;
    let mut chance = Chance::new(11);
    let (rows, count) = (size.messages() * CHUNKS_EACH, size.of(2_200));
    let calls = Calls { name: "insert of a chunk", count, warm: count / 11 };
    let next = |chat: &mut Chat, number| {
        let message = chance.below(size.messages() as u32);
        chat.chunk(&chunk(rows + number, message, 1_000 + number))
    };
    let insert = calls.measure(&mut chat, next, Chat::insert_chunk)?;
    let text: String = (0..CHUNKS_EACH).map(|number| format!("tok{number} ")).collect();
    let first = chat.db.result_get(query, &Key::text(key_of(0))).context("the first message")?;
    let is_told = first.record.get("text").as_text().is_some_and(|told| told.starts_with(&text));
    let ok = is_told && chat.db.result_len(query) == size.messages();
    Ok(Outcome { ok, figures: vec![insert, hydrate], heap: None })
}

/// One message, token after token.
pub(super) fn streamed(size: Size) -> Result<Outcome> {
    let mut chat = Chat::new(0)?;
    fill(&mut chat.db, chat.messages, [r#"{"id":"m","role":"assistant"}"#.into()].into_iter())?;
    let query = chat.db.live(&Query::from_json(TOLD)?)?;
    let count = size.of(10_000);
    let mut times = Vec::with_capacity(count);
    for seq in 0..count {
        let id = key_of(seq);
        let row = format!(r#"{{"id":"{id}","messageId":"m","seq":{seq},"text":"tok "}}"#);
        let record = chat.chunk(&row)?;
        let began = std::time::Instant::now();
        chat.insert_chunk(record)?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let tenth = count / 10;
    let first = spread("token, the first tenth", times[tenth / 10..tenth].to_vec())?;
    let last = spread("token, the last tenth", times[count - tenth..].to_vec())?;
    let row = chat.db.result_get(query, &Key::text("m")).context("the message")?;
    let ok = row.record.get("text").as_text().as_deref() == Some(&"tok ".repeat(count));
    Ok(Outcome { ok, figures: vec![first, last], heap: None })
}
