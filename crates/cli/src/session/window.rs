//! The newest part of a session, read backwards: what a reader of a long session loads instead of
//! all of it.

use std::collections::{HashMap, HashSet, VecDeque};

use agent::rows::{CallStatus, Chunk as ChunkRow, Generation, Message, Step, StepStatus, ToolCall};
use live::Row;
use log::{Chunk, Log, ReadError};
use serde::de::DeserializeOwned;
use state::{Body, Control, Event, Operation};
use wire::{Address, Offset, Position, ReadFrom, caps::CHUNK_BYTES_DEFAULT};

/// Bytes that a window begins with.
pub(crate) const WINDOW_BYTES: usize = 256 * 1024;
/// Bytes of messages that are held to tell of a part of a session.
pub(crate) const WINDOW_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes that are read to find where an answer began that is under way.
const OPEN_WORK_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A part of a session without gaps, up to its tail.
#[derive(Debug)]
pub(crate) struct Window {
    pages: VecDeque<Chunk>,
    bytes: usize,
    is_whole: bool,
}

/// A message of the window that counts.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// Where it was written first.
    pub(crate) stands: u64,
    /// Where its row was made, as far as this message tells.
    pub(crate) made: Option<u64>,
    pub(crate) body: Body<'a>,
}

impl Window {
    /// Reads the newest messages.
    pub(crate) async fn open(log: &dyn Log, address: &Address) -> Result<Self, ReadError> {
        let mut window = Self { pages: VecDeque::new(), bytes: 0, is_whole: false };
        window.read(log, address, ReadFrom::Last, WINDOW_BYTES).await?;
        Ok(window)
    }

    /// Reads the newest messages, and as far back as what is under way began.
    pub(crate) async fn open_with_work(
        log: &dyn Log,
        address: &Address,
    ) -> Result<Self, ReadError> {
        let mut window = Self::open(log, address).await?;
        while !window.is_whole && window.bytes < OPEN_WORK_BYTES_MAX && window.has_loose_ends() {
            window.widen(log, address).await?;
        }
        Ok(window)
    }

    /// Reads as much again, before what is there.
    pub(crate) async fn widen(
        &mut self,
        log: &dyn Log,
        address: &Address,
    ) -> Result<(), ReadError> {
        let wanted = 2 * self.bytes.max(WINDOW_BYTES);
        while !self.is_whole && self.bytes < wanted {
            let Some(first) = self.pages.front() else { return Ok(()) };
            let missing = (wanted - self.bytes).min(CHUNK_BYTES_DEFAULT);
            self.read(log, address, ReadFrom::Before(first.start), missing).await?;
        }
        Ok(())
    }

    async fn read(
        &mut self,
        log: &dyn Log,
        address: &Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Result<(), ReadError> {
        let page = log.read(address, from, bytes_max).await?;
        self.is_whole = page.start == page.next || page.start.position.get() == 0;
        self.bytes += page.runs.iter().map(|run| run.data().len()).sum::<usize>();
        self.pages.push_front(page);
        Ok(())
    }

    /// Whether all of the session is in it.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it goes on.
    pub(crate) fn next(&self) -> Offset {
        self.pages.back().map_or(Offset::START, |page| page.next)
    }

    /// The messages that count, each once, by where they stand. What a compaction wrote again
    /// counts if its snapshot is whole, or if nothing is known to stand before it: a fork that was
    /// made inside of a snapshot begins with that, and has all that was before only there.
    pub(crate) fn entries(&self) -> Vec<Entry<'_>> {
        let (mut counted, mut snapshot) = (Vec::new(), Vec::new());
        let mut is_cut = false;
        for page in &self.pages {
            for (lies, message) in (page.start.position.get()..).zip(page.messages()) {
                let event = state::decode(message);
                let is_start = matches!(event.body, Body::Control(Control::SnapshotStart));
                let is_end = matches!(event.body, Body::Control(Control::SnapshotEnd));
                let stood = event.headers.position.map(Position::get);
                match stood.filter(|stood| *stood < lies && !is_start) {
                    Some(stands) => snapshot.push(entry(stands, event)),
                    None => {
                        if is_end || is_cut {
                            counted.append(&mut snapshot);
                        }
                        is_cut = is_start && counted.is_empty();
                        snapshot.clear();
                        counted.push(entry(lies, event));
                    }
                }
            }
        }
        if is_cut {
            counted.append(&mut snapshot);
        }
        // Of a message and the row that a snapshot made of it, the row knows more.
        counted.sort_by_key(|entry: &Entry<'_>| (entry.stands, entry.made.is_none()));
        counted.dedup_by_key(|entry| entry.stands);
        counted
    }

    /// Whether something is under way of which the beginning is not in the window.
    fn has_loose_ends(&self) -> bool {
        let entries = self.entries();
        let keys = |name: &str| -> HashSet<&str> {
            let changes = entries.iter().filter_map(|entry| change(entry, name));
            changes.map(|(key, _)| key).collect()
        };
        let (generations, messages) = (keys(Generation::NAME), keys(Message::NAME));
        let is_known = |id: &str| generations.contains(id);
        let is_loose = |entry: &Entry<'_>| -> Option<(String, bool)> {
            if let Some((key, value)) = change(entry, Step::NAME) {
                let is_loose = row::<Step>(value).is_some_and(|step| {
                    step.status == StepStatus::Started && !is_known(&step.generation_id)
                });
                return Some((key.to_owned(), is_loose));
            }
            if let Some((key, value)) = change(entry, ToolCall::NAME) {
                let is_loose = row::<ToolCall>(value).is_some_and(|call| {
                    use CallStatus::{Cancelled, Completed, Failed};
                    let is_over = matches!(call.status, Completed | Failed | Cancelled);
                    !is_over && !call.generation_id.as_deref().is_none_or(is_known)
                });
                return Some((key.to_owned(), is_loose));
            }
            let (key, value) = change(entry, ChunkRow::NAME)?;
            let is_loose = row::<ChunkRow>(value).is_some_and(|chunk| {
                let is_said = chunk.message_id.as_deref().is_none_or(|id| messages.contains(id));
                !is_said && !is_known(&chunk.generation_id)
            });
            Some((key.to_owned(), is_loose))
        };
        // Of a row only its last state counts.
        let states: HashMap<String, bool> = entries.iter().filter_map(is_loose).collect();
        states.into_values().any(|is_loose| is_loose)
    }
}

fn entry(stands: u64, event: Event<'_>) -> Entry<'_> {
    let is_insert = match &event.body {
        Body::Change(change) => match change.operation {
            Operation::Insert => true,
            // A snapshot says where a row was made unless that is where it was written.
            Operation::Upsert => event.headers.position.is_some(),
            Operation::Update | Operation::Delete => false,
        },
        Body::Control(_) | Body::Skipped(_) => false,
    };
    let made = event.headers.inserted.map(Position::get).or(is_insert.then_some(stands));
    Entry { stands, made, body: event.body }
}

/// The key of a change of a row of this type, and what it says now.
pub(crate) fn change<'a>(entry: &'a Entry<'_>, name: &str) -> Option<(&'a str, Option<&'a str>)> {
    match &entry.body {
        Body::Change(change) if change.type_name == name => {
            Some((&change.key, change.value.map(|value| value.get())))
        }
        _ => None,
    }
}

fn row<R: DeserializeOwned>(value: Option<&str>) -> Option<R> {
    serde_json::from_str(value?).ok()
}

#[cfg(test)]
mod tests {
    use log::{Append, Create, MemoryLog};
    use serde_json::{Value, json};
    use sys::Sys;
    use wire::{ContentType, Messages};

    use super::*;

    fn change_of(name: &str, key: &str, value: &Value, headers: &Value) -> Value {
        json!({ "type": name, "key": key, "value": value, "headers": headers })
    }

    fn said(key: &str, headers: &Value) -> Value {
        change_of("message", key, &json!({ "id": key }), headers)
    }

    fn insert() -> Value {
        json!({ "operation": "insert" })
    }

    fn again(stood: u64, made: u64) -> Value {
        let (stood, made) = (stood.to_string(), made.to_string());
        json!({ "operation": "upsert", "headwater.position": stood, "headwater.inserted": made })
    }

    fn control(name: &str) -> Value {
        json!({ "headers": { "control": name } })
    }

    /// A session of these messages.
    async fn session(messages: &[Value]) -> (MemoryLog, Address) {
        let log = MemoryLog::new(&Sys::real());
        let address: Address = "main/sessions/s".parse::<wire::StreamPath>().unwrap().into();
        let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = log.create(&address, create).await.unwrap();
        for message in messages {
            let message = Messages::one(message.to_string()).unwrap();
            let _ = log.append(&address, Append::messages(message)).await.unwrap();
        }
        (log, address)
    }

    /// The messages that count, as `key@stands<made`.
    async fn check(messages: &[Value], expected: &str) {
        let (log, address) = session(messages).await;
        let window = Window::open(&log, &address).await.unwrap();
        assert!(window.is_whole());
        let entries = window.entries();
        let shown = entries.iter().filter_map(|entry| {
            let (key, _) = change(entry, Message::NAME)?;
            let made = entry.made.map(|made| format!("<{made}")).unwrap_or_default();
            Some(format!("{key}@{}{made}", entry.stands))
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{messages:#?}");
    }

    #[tokio::test]
    async fn a_message_counts_once_and_stands_where_it_was_written() {
        check(&[said("a", &insert()), said("b", &json!({"operation": "update"}))], "a@0<0 b@1")
            .await;
        let start = control("snapshot-start");
        let end = control("snapshot-end");
        let again = said("b", &again(1, 0));
        let update = said("b", &json!({"operation": "update"}));
        let messages = [said("a", &insert()), update, start, again, end, said("c", &insert())];
        check(&messages, "a@0<0 b@1<0 c@5<5").await;
    }

    #[tokio::test]
    async fn a_snapshot_without_its_end_counts_for_nothing() {
        let (start, end) = (control("snapshot-start"), control("snapshot-end"));
        let (filler, again) = (control("none"), said("old", &again(0, 0)));
        check(&[filler.clone(), start.clone(), again.clone()], "").await;
        let messages = [&filler, &start, &again, &said("new", &insert()), &end].map(Clone::clone);
        check(&messages, "new@3<3").await;
        check(&[filler, start, again, end], "old@0<0").await;
    }

    #[tokio::test]
    async fn a_fork_that_was_made_inside_of_a_snapshot_has_what_it_copied() {
        let start =
            json!({ "headers": { "control": "snapshot-start", "headwater.position": "9" } });
        let (old, new) = (said("old", &again(0, 0)), said("new", &insert()));
        let (log, source) = session(&[control("none"), start, old, control("snapshot-end")]).await;
        let head = log.read(&source, ReadFrom::Start, 1 << 20).await.unwrap();
        let sizes: Vec<u64> = head.messages().map(|message| message.len() as u64).collect();
        let at = |n: usize| Offset::START.after(n as u64, sizes[..n].iter().sum());
        let _ = log.trim(&source, at(1)).await.unwrap();
        let path: wire::StreamPath = "main/sessions/fork".parse().unwrap();
        let fork = log::Fork { offset: Some(at(3)), ..log::Fork::of(source) };
        let fork_address: Address = path.into();
        let _ = log.fork(&fork_address, fork).await.unwrap();
        let append = Append::messages(Messages::one(new.to_string()).unwrap());
        let _ = log.append(&fork_address, append).await.unwrap();
        let window = Window::open(&log, &fork_address).await.unwrap();
        let keys = |entry: &Entry<'_>| change(entry, Message::NAME).map(|(key, _)| key.to_owned());
        let keys: Vec<_> = window.entries().iter().filter_map(keys).collect();
        assert_eq!(keys, ["old", "new"]);
    }

    #[tokio::test]
    async fn what_is_under_way_is_read_from_its_beginning_on() {
        let generation = json!({
            "id": "a-0", "agentName": "a", "status": "generating", "model": "m", "readUpTo": 0,
            "createdAt": "t", "updatedAt": "t",
        });
        let mut messages = vec![change_of("generation", "a-0", &generation, &insert())];
        let content = "x".repeat(4000);
        for index in 0..200 {
            let chunk = json!({
                "id": format!("a-0:c{index}"), "generationId": "a-0", "messageId": "a-0:1",
                "index": index, "type": "text", "content": content,
            });
            messages.push(change_of("chunk", &format!("a-0:c{index}"), &chunk, &insert()));
        }
        let (log, address) = session(&messages).await;
        assert!(!Window::open(&log, &address).await.unwrap().is_whole());
        let window = Window::open_with_work(&log, &address).await.unwrap();
        assert!(window.is_whole(), "{} bytes were read", window.bytes());
        assert_eq!(window.entries().len(), messages.len());
        // Once it is said, its pieces are of no use.
        let answer = json!({
            "id": "a-0:1", "role": "assistant", "content": "x", "actorId": "a", "createdAt": "t",
        });
        messages.push(change_of("message", "a-0:1", &answer, &insert()));
        let (log, address) = session(&messages).await;
        assert!(!Window::open_with_work(&log, &address).await.unwrap().is_whole());
    }
}
