//! What a session tells of an agent's past: the conversation, and what was left unfinished.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use live::{DbError, Row, StreamDb, from};
use log::{Freshness, Log};
use state::Operation;
use wire::{Address, ReadFrom};

use super::error::AgentError;
use crate::{
    caps::SCAN_BYTES,
    conversation::{Calls, message_of},
    rows::{Chunk, Generation, Message, Runner, Step, ToolCall},
};

/// What the session tells of an agent.
pub(super) struct Past {
    /// The conversation up to the last generation, without what that one said.
    pub(super) messages: Vec<chat::Message>,
    /// The last generation.
    pub(super) last: Option<Last>,
}

/// The last generation, with what it has written.
pub(super) struct Last {
    pub(super) generation: Generation,
    /// The request that it answers.
    pub(super) request: Option<String>,
    /// The last message that it wrote.
    pub(super) said: Option<Message>,
    /// What each turn said, first to last.
    pub(super) turns: Vec<Turn>,
}

/// One turn of a generation.
pub(super) struct Turn {
    pub(super) step: Step,
    /// What the model said; the answers that are there follow.
    pub(super) said: Vec<chat::Message>,
    /// The rows of its calls, in order.
    pub(super) calls: Vec<ToolCall>,
}

/// Who ran the agent before.
pub(super) fn runner_of(db: &StreamDb, agent: &str) -> Result<Option<Runner>, DbError> {
    Ok(db.rows::<Runner>()?.get(agent).map(|row| (*row).clone()))
}

impl Past {
    /// Reads it from the rows, which must be there.
    pub(super) fn read(db: &StreamDb, agent: &str) -> Result<Self, DbError> {
        let own = from::<Generation>().filter(Generation::agent_name.eq(agent));
        let mut generations: Vec<_> = db.once(own)?.iter().map(|row| (**row).clone()).collect();
        generations.sort_by_key(|generation| generation.read_up_to);
        let inbox = Inbox::read(db, agent)?;
        let mut past = Self { messages: Vec::new(), last: None };
        let rows = Rows::read(db)?;
        for generation in generations {
            let turns = rows.turns_of(&generation.id);
            if let Some(before) = past.last.take() {
                past.messages.extend(before.turns.into_iter().flat_map(|turn| turn.said));
            }
            let read = || inbox.read_by(&generation);
            past.messages.extend(read().flat_map(|row| message_of(row, &Calls::new())));
            let request = request_in(read());
            let said = turns.iter().rev().find_map(|turn| rows.messages.get(&turn.step.id));
            let said = said.cloned();
            past.last = Some(Last { generation, request, said, turns });
        }
        Ok(past)
    }
}

/// Messages for the agent, by position.
struct Inbox(BTreeMap<u64, Message>);

impl Inbox {
    fn read(db: &StreamDb, agent: &str) -> Result<Self, DbError> {
        let rows = db.once(from::<Message>().filter(Message::target_agent.eq(agent)).synced())?;
        let placed = rows.iter().filter_map(|row| Some((row.meta().position?, (**row).clone())));
        Ok(Self(placed.collect()))
    }

    fn read_by(&self, generation: &Generation) -> impl Iterator<Item = &Message> {
        let first = generation.read_after.map_or(0, |after| after.saturating_add(1));
        let read = self.0.range(first..=generation.read_up_to.max(first));
        read.map(|(_, row)| row)
    }
}

/// The request among messages that a generation answers. There is one at most, but where an
/// earlier version answered several at once.
pub(super) fn request_in<'a>(read: impl IntoIterator<Item = &'a Message>) -> Option<String> {
    read.into_iter().find_map(|row| row.request_id.clone())
}

/// What generations have written.
struct Rows {
    steps: BTreeMap<String, Step>,
    messages: BTreeMap<String, Message>,
    calls: Calls,
}

impl Rows {
    fn read(db: &StreamDb) -> Result<Self, DbError> {
        fn all<R: Row>(
            db: &StreamDb,
            id: fn(&R) -> String,
        ) -> Result<BTreeMap<String, R>, DbError> {
            let rows = db.rows::<R>()?.rows();
            Ok(rows.iter().map(|row| (id(row), (**row).clone())).collect())
        }
        Ok(Self {
            steps: all(db, |row: &Step| row.id.clone())?,
            messages: all(db, |row: &Message| row.id.clone())?,
            calls: all(db, |row: &ToolCall| row.id.clone())?,
        })
    }

    fn turns_of(&self, generation: &str) -> Vec<Turn> {
        let steps = (1_u32..).map_while(|turn| self.steps.get(&format!("{generation}:{turn}")));
        let turns = steps.map(|step| {
            let said = self.messages.get(&step.id);
            let said = said.map(|row| message_of(row, &self.calls)).unwrap_or_default();
            let calls = (0..).map_while(|index| self.calls.get(&format!("{}:{index}", step.id)));
            Turn { step: step.clone(), said, calls: calls.cloned().collect() }
        });
        turns.collect()
    }
}

/// The chunks of a generation that a stream holds.
pub(super) struct Chunks {
    /// How many there are.
    pub(super) count: u64,
    /// Those of the last attempt, first to last.
    pub(super) last: Vec<u64>,
    /// The first place that never had one.
    pub(super) next: u64,
}

/// The chunks of a generation that the stream holds; the last attempt has those from `first` on.
pub(super) async fn chunks_of(
    log: &Arc<dyn Log>,
    address: &Address,
    generation: &str,
    first: u64,
) -> Result<Chunks, AgentError> {
    let (mut alive, mut next) = (BTreeSet::new(), 0);
    let mut from = ReadFrom::Start;
    loop {
        let read = log.read(address, from, SCAN_BYTES).await;
        let chunk = read.map_err(|error| AgentError::Unreadable(error.to_string()))?;
        for message in chunk.messages() {
            let Some((operation, index)) = chunk_in(message, generation) else { continue };
            next = next.max(index.saturating_add(1));
            match operation {
                Operation::Delete => alive.remove(&index),
                _ => alive.insert(index),
            };
        }
        if chunk.freshness != Freshness::Behind {
            let last = alive.range(first..).copied().collect();
            return Ok(Chunks { count: alive.len() as u64, last, next });
        }
        from = ReadFrom::At(chunk.next);
    }
}

/// What a message of the stream does to which chunk of the generation.
fn chunk_in(message: &[u8], generation: &str) -> Option<(Operation, u64)> {
    let state::Body::Change(change) = state::decode(message).body else { return None };
    if change.type_name != Chunk::NAME {
        return None;
    }
    Some((change.operation, Chunk::index_of(generation, &change.key)?))
}
