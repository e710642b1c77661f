//! What is said in a session, as it comes by its stream.

use std::collections::{BTreeMap, HashSet, VecDeque};

use agent::rows::{
    CallStatus, Chunk, ChunkType, Generation, GenerationStatus, Message, Role, ToolCall,
};
use live::Row;
use serde::de::DeserializeOwned;

/// A conversation, and what is new in it.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// What is to be shown, in order.
    news: VecDeque<News>,
    /// Texts that grow, by their messages: chunks by their keys, and what was told of them.
    growing: BTreeMap<String, Growing>,
    /// Messages of ours whose places are not known yet.
    sent: HashSet<String>,
    /// The newest message that waits for an agent.
    heard: Option<u64>,
    read_up_to: Option<u64>,
    open: HashSet<String>,
    /// Answers that failed.
    failures: u64,
}

#[derive(Debug, Default)]
struct Growing {
    chunks: BTreeMap<u64, String>,
    is_told: bool,
}

/// Something to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A person said this.
    Said { text: String, is_ours: bool },
    /// A piece of an answer.
    More(String),
    /// What was told of the answer is void: it begins again.
    Again,
    /// The answer is whole; whether it was told piece by piece.
    Whole { text: String, is_told: bool },
    /// A tool is called.
    Calls(String),
    /// A tool has answered.
    Answers(String),
    /// The generation ended, and not by itself.
    Ended(String),
}

impl Talk {
    /// Takes the next message of the stream.
    pub(super) fn take(&mut self, position: u64, body: state::Body<'_>) {
        let state::Body::Change(change) = body else { return };
        let value = change.value.map(|value| value.get());
        match &*change.type_name {
            name if name == Message::NAME => self.message(position, row(value)),
            name if name == Chunk::NAME => self.chunk(&change.key, row(value)),
            name if name == ToolCall::NAME => self.call(row(value)),
            name if name == Generation::NAME => self.generation(row(value)),
            _ => {}
        }
    }

    /// We have sent this.
    pub(super) fn said(&mut self, id: String) {
        self.sent.insert(id);
    }

    /// Whether something waits for an answer, or is being answered.
    pub(super) fn is_busy(&self) -> bool {
        !self.sent.is_empty() || !self.open.is_empty() || self.heard > self.read_up_to
    }

    /// How many answers have failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    pub(super) fn news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    fn message(&mut self, position: u64, row: Option<Message>) {
        let Some(row) = row else { return };
        if row.target_agent.is_some() {
            self.heard = self.heard.max(Some(position));
        }
        let is_ours = self.sent.remove(&row.id);
        if row.role == Role::User {
            self.news.push_back(News::Said { text: row.content, is_ours });
            return;
        }
        let is_told = self.growing.remove(&row.id).is_some_and(|growing| growing.is_told);
        self.news.push_back(News::Whole { text: row.content, is_told });
    }

    fn chunk(&mut self, key: &str, row: Option<Chunk>) {
        let Some(row) = row else { return self.void(key) };
        let (Some(message), ChunkType::Text) = (row.message_id, row.kind) else { return };
        let growing = self.growing.entry(message).or_default();
        growing.chunks.insert(row.index, row.content.clone());
        growing.is_told = true;
        self.news.push_back(News::More(row.content));
    }

    /// A chunk is gone: the attempt that wrote it died, or its message is whole.
    fn void(&mut self, key: &str) {
        let Some(index) = key.rsplit_once(":c").and_then(|(_, index)| index.parse().ok()) else {
            return;
        };
        for growing in self.growing.values_mut() {
            if growing.chunks.remove(&index).is_some() && growing.chunks.is_empty() {
                growing.is_told = false;
                self.news.push_back(News::Again);
            }
        }
    }

    fn call(&mut self, row: Option<ToolCall>) {
        let Some(row) = row else { return };
        let asked = format!("{} {}", row.name, row.args);
        match row.status {
            CallStatus::Pending | CallStatus::Executing => {
                self.news.push_back(News::Calls(asked));
            }
            CallStatus::Parked => {
                let how = "may have run, and must not run twice; decide with the page or the API";
                self.news.push_back(News::Ended(format!("{asked} {how}")));
            }
            CallStatus::Completed | CallStatus::Failed | CallStatus::Cancelled => {
                let result = row.result.map(|result| match result {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                });
                let answer = result.or(row.error).unwrap_or_default();
                self.news.push_back(News::Answers(format!("{asked}: {answer}")));
            }
        }
    }

    fn generation(&mut self, row: Option<Generation>) {
        let Some(row) = row else { return };
        self.read_up_to = self.read_up_to.max(Some(row.read_up_to));
        let why = row.error.unwrap_or_default();
        let ended = match row.status {
            GenerationStatus::Pending | GenerationStatus::Generating => {
                self.open.insert(row.id);
                return;
            }
            GenerationStatus::Completed => None,
            GenerationStatus::Cancelled => Some("stopped".to_owned()),
            GenerationStatus::Failed => {
                self.failures += 1;
                Some(format!("the answer failed: {why}"))
            }
        };
        self.open.remove(&row.id);
        self.growing.clear();
        self.news.extend(ended.map(News::Ended));
    }
}

fn row<R: DeserializeOwned>(value: Option<&str>) -> Option<R> {
    serde_json::from_str(value?).ok()
}
