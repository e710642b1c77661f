//! What a session tells of an agent's past: the conversation, and what was left unfinished.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    sync::Arc,
};

use live::{DbError, Row, StreamDb, from};
use log::{Freshness, Log, ReadError};
use state::Operation;
use wire::{Address, Offset, ReadFrom};

use super::{core::History, error::AgentError};
use crate::{
    caps::SCAN_BYTES,
    conversation::{Calls, message_of},
    rows::{Chunk, Generation, Message, Runner, Step, ToolCall},
};

/// What the session tells of an agent, from where the conversation of its last generation begins.
#[derive(Default)]
pub(super) struct Past {
    /// What was said before the last generation, by the generation that read it.
    before: VecDeque<Exchange>,
    /// What the last generation has read.
    asked: Exchange,
    /// The last generation.
    pub(super) last: Option<Last>,
    /// The last generation is under way, and needs rows that are not there.
    pub(super) is_short: bool,
    /// How far the agent has read, also where what it said is passed over.
    pub(super) read_up_to: Option<u64>,
}

/// What a generation has read and said.
#[derive(Default)]
struct Exchange {
    /// The first position that it read.
    from: u64,
    messages: Vec<chat::Message>,
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

/// Who runs the agent.
pub(super) fn runner_of(db: &StreamDb, agent: &str) -> Result<Option<Runner>, DbError> {
    Ok(db.rows::<Runner>()?.get(agent).map(|row| (*row).clone()))
}

impl Past {
    /// Reads it from the rows, which must be there.
    ///
    /// Rows before `floor` are not all there: what began before it is passed over.
    pub(super) fn read(db: &StreamDb, agent: &str, floor: u64) -> Result<Self, DbError> {
        let own = from::<Generation>().filter(Generation::agent_name.eq(agent));
        let mut generations: Vec<_> = db.once(own)?.iter().map(|row| (**row).clone()).collect();
        generations.sort_by_key(|generation| generation.read_up_to);
        let history_from = generations.last().and_then(|last| last.history_from).unwrap_or(0);
        let under_way = generations.last().filter(|last| !last.status.is_terminal());
        let is_short = under_way.is_some() && history_from < floor;
        let read_up_to = generations.last().map(|last| last.read_up_to);
        generations.retain(|generation| generation.read_up_to >= history_from);
        let inbox = Inbox::of(db, agent)?;
        let mut past = Self { is_short, read_up_to, ..Self::default() };
        let rows = Rows::read(db)?;
        let mut unread = 0;
        for generation in generations {
            past.end_exchange();
            let turns = rows.turns_of(&generation.id);
            // Rows of earlier versions do not say where they began: behind the one before.
            let first = generation.read_after.map_or(unread, |after| after.saturating_add(1));
            // It was told nothing from before that, so it has read nothing from there.
            let first = first.max(generation.history_from.unwrap_or(0));
            unread = generation.read_up_to.saturating_add(1);
            if first < floor {
                continue;
            }
            let read = || inbox.read(first..unread);
            past.asked.from = first.max(history_from);
            past.asked.messages = read().flat_map(|row| message_of(row, &Calls::new())).collect();
            let request = request_in(read());
            let said = turns.iter().rev().find_map(|turn| rows.messages.get(&turn.step.id));
            let said = said.cloned();
            past.last = Some(Last { generation, request, said, turns });
        }
        Ok(past)
    }

    /// Where the conversation begins.
    pub(super) fn history_from(&self) -> u64 {
        self.before.front().unwrap_or(&self.asked).from
    }

    /// Lets go of the oldest exchanges of a conversation that is longer than it may be, so that the
    /// next generation is told half of that at the most. Whole exchanges go, so that no call is
    /// left without its answer.
    pub(super) fn cut(&mut self, limit: History) {
        let mut size = size_of(self.messages());
        if !limit.is_over(size.0, size.1) {
            return;
        }
        let half = limit.half();
        while half.is_over(size.0, size.1) {
            let Some(oldest) = self.before.pop_front() else { return };
            let gone = size_of(&oldest.messages);
            size = (size.0 - gone.0, size.1 - gone.1);
        }
    }

    /// The conversation up to the last generation, without what that one said.
    pub(super) fn into_parts(self) -> (Vec<chat::Message>, Option<Last>) {
        let before = self.before.into_iter().flat_map(|exchange| exchange.messages);
        (before.chain(self.asked.messages).collect(), self.last)
    }

    fn messages(&self) -> impl Iterator<Item = &chat::Message> {
        let turns = self.last.iter().flat_map(|last| &last.turns);
        let before = self.before.iter().flat_map(|exchange| &exchange.messages);
        before.chain(&self.asked.messages).chain(turns.flat_map(|turn| &turn.said))
    }

    fn end_exchange(&mut self) {
        let Some(last) = self.last.take() else { return };
        let mut exchange = std::mem::take(&mut self.asked);
        exchange.messages.extend(last.turns.into_iter().flat_map(|turn| turn.said));
        self.before.push_back(exchange);
    }
}

/// How many messages there are, and what they take of a model's context, more or less.
fn size_of<'a>(messages: impl IntoIterator<Item = &'a chat::Message>) -> (usize, usize) {
    let weights = messages.into_iter().map(weight);
    weights.fold((0, 0), |(count, bytes), weight| (count + 1, bytes + weight))
}

/// What a message takes of a model's context, more or less.
pub(super) fn weight(message: &chat::Message) -> usize {
    serde_json::to_vec(message).map_or(0, |text| text.len())
}

/// Messages for the agent, by position.
struct Inbox(BTreeMap<u64, Message>);

impl Inbox {
    fn of(db: &StreamDb, agent: &str) -> Result<Self, DbError> {
        let rows = db.once(from::<Message>().filter(Message::target_agent.eq(agent)).synced())?;
        let placed = rows.iter().filter_map(|row| Some((row.meta().position?, (**row).clone())));
        Ok(Self(placed.collect()))
    }

    fn read(&self, positions: Range<u64>) -> impl Iterator<Item = &Message> {
        // A foreign row may say that it read up to before it began.
        let end = positions.end.max(positions.start);
        self.0.range(positions.start..end).map(|(_, row)| row)
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
    (generation, since): (&str, Option<Offset>),
    first: u64,
) -> Result<Chunks, AgentError> {
    let (mut alive, mut next) = (BTreeSet::new(), 0);
    let mut from = since.map_or(ReadFrom::Start, ReadFrom::At);
    loop {
        let read = match log.read(address, from, SCAN_BYTES).await {
            // A compaction has passed the place: what is kept is in what the stream holds.
            Err(ReadError::Trimmed(_)) => log.read(address, ReadFrom::Start, SCAN_BYTES).await,
            read => read,
        };
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
