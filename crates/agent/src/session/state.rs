//! The fold of a session: what is open in it, who runs its agents, and how far each has read.
//!
//! It holds nothing that grows with what was said: messages that were read, generations and calls
//! that have ended leave it. What was said is paged from the log.

use std::collections::{BTreeMap, VecDeque};

use live::Row;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use state::{Entry, Json, Operation, Start, Tick, Write};
use wire::Position;

use super::{
    chunks::ChunkCount,
    ids::{IdKey, Print},
};
use crate::{
    caps::{
        SESSION_AGENTS_MAX, SESSION_CALLS_ENDED_MAX, SESSION_CALLS_MAX,
        SESSION_GENERATIONS_OPEN_MAX, SESSION_UNREAD_MAX,
    },
    rows::{CallStatus, Generation, Message, Resolution, Runner, Step, StepStatus, Stop, ToolCall},
};

/// What is open in a session, up to where it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    /// Agents by their names, with what each has to do.
    agents: BTreeMap<String, AgentHead>,
    /// Calls that have not ended.
    calls: BTreeMap<String, OpenCall>,
    /// Calls that have ended, the last few: how, and in which attempt.
    #[serde(default)]
    ended: VecDeque<(String, CallStatus, u32)>,
    /// The last message that says more than who runs an agent.
    moved: Option<u64>,
    /// The last row that an agent may wait for.
    #[serde(default)]
    stirred: Option<u64>,
    /// There were more agents than are kept here, so that any may have work.
    #[serde(default)]
    has_more_agents: bool,
    /// Messages that were written.
    messages: u64,
    /// Texts as they grew, which no reader needs once their message is there.
    pub(super) chunks: ChunkCount,
    /// There were more open calls than are kept here, so that any may be open.
    #[serde(default)]
    has_more_calls: bool,
}

/// What an agent has to do, and who runs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentHead {
    /// Who runs it, or ran it last.
    pub runner: Option<RunnerHead>,
    /// The generation that began last.
    pub last: Option<LastGeneration>,
    /// The last message that it wrote, and the takeover in which.
    sign: Option<(u64, u64)>,
    /// Generations that have not ended.
    open: BTreeMap<String, OpenGeneration>,
    /// Where the first of those began that are too many to be kept: whether they have ended is not
    /// known.
    #[serde(default)]
    more_open: Option<u64>,
    /// Messages for it that it has not read, by position.
    unread: BTreeMap<u64, String>,
    /// The last of those that are too many to be kept.
    unread_up_to: Option<u64>,
    /// How far it has read.
    read_up_to: Option<u64>,
}

/// Who runs an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerHead {
    /// As it was written last.
    pub row: Runner,
    /// Where.
    written: u64,
}

/// A generation that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OpenGeneration {
    /// Where it began.
    began: u64,
    /// How often a process ended under what it has under way, beside others that worked.
    deaths: u32,
    /// How often that failed, or a process ended under it alone.
    failures: u32,
}

/// The generation of an agent that began last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastGeneration {
    /// The generation.
    pub id: String,
    /// Where the conversation begins that its model was told.
    pub history_from: u64,
}

/// A call that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OpenCall {
    generation: Option<String>,
    state: Option<(CallStatus, u32)>,
    /// The attempts that a person has decided on; the last few.
    decided: Vec<u32>,
}

/// A call, and whether a person has decided on its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHead {
    /// How far it is.
    pub status: CallStatus,
    /// Which attempt.
    pub attempt: u32,
    /// Whether there is a decision on this attempt.
    pub is_decided: bool,
}

impl AgentHead {
    /// Whether something was said to the agent that it has not read, or it has begun something and
    /// not ended.
    #[must_use]
    pub fn has_work(&self) -> bool {
        let is_open = !self.open.is_empty() || self.more_open.is_some();
        is_open || !self.unread.is_empty() || self.unread_up_to > self.read_up_to
    }

    /// The last message that its runner wrote, in this takeover: another one renews its lease.
    #[must_use]
    pub fn renewed(&self) -> Option<Position> {
        let runner = self.runner.as_ref()?;
        let (_, position) = self.sign.filter(|(epoch, _)| *epoch == runner.row.epoch)?;
        Some(Position::new(position))
    }

    /// How often a process ended under what the agent has under way, beside others that worked; and
    /// how often that failed.
    #[must_use]
    pub fn setbacks(&self) -> (u32, u32) {
        let open = self.open.values().map(|open| (open.deaths, open.failures));
        open.fold((0, 0), |(a, b), (c, d)| (a.max(c), b.max(d)))
    }

    /// The first position that the agent needs in order to go on: where its conversation begins, or
    /// the first message that it has not read. None if it was told nothing yet.
    #[must_use]
    pub fn window(&self) -> Option<Position> {
        self.window_with(self.last.as_ref())
    }

    /// The same, without what it was told before: a conversation in which nothing is under way may
    /// begin later.
    pub(super) fn window_at_least(&self) -> Option<Position> {
        let is_open = |id: &str| self.open.contains_key(id) || self.more_open.is_some();
        self.window_with(self.last.as_ref().filter(|last| is_open(&last.id)))
    }

    fn window_with(&self, last: Option<&LastGeneration>) -> Option<Position> {
        let history = last.map(|last| last.history_from);
        let unread = self.unread.first_key_value().map(|(position, _)| *position);
        history.into_iter().chain(unread).min().map(Position::new)
    }

    /// How far it has read.
    #[must_use]
    pub const fn read_up_to(&self) -> Option<u64> {
        self.read_up_to
    }
}

impl SessionState {
    /// What an agent has to do; none if the session does not know it.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&AgentHead> {
        self.agents.get(name)
    }

    /// Whether an agent should look at the session. It may be told so for nothing, never too late.
    #[must_use]
    pub fn has_work_for(&self, name: &str) -> bool {
        self.agents.get(name).map_or(self.has_more_agents, AgentHead::has_work)
    }

    /// The last message that says more than who runs an agent: if it is the same as before, nothing
    /// has happened.
    #[must_use]
    pub fn moved(&self) -> Option<Position> {
        self.moved.map(Position::new)
    }

    /// Whether there may be calls that have not ended and are not known here.
    #[must_use]
    pub const fn has_more_calls(&self) -> bool {
        self.has_more_calls
    }

    /// A call that has not ended, or has just ended.
    #[must_use]
    pub fn call(&self, id: &str) -> Option<CallHead> {
        let Some(call) = self.calls.get(id) else {
            let (_, status, attempt) = self.ended.iter().rev().find(|(ended, ..)| ended == id)?;
            return Some(CallHead { status: *status, attempt: *attempt, is_decided: false });
        };
        let (status, attempt) = call.state?;
        Some(CallHead { status, attempt, is_decided: call.decided.contains(&attempt) })
    }

    /// Whether the runner of an agent only waits for others, as it says: it has written nothing
    /// since, and read all that it may wait for.
    #[must_use]
    pub fn is_waiting(&self, agent: &AgentHead) -> bool {
        let Some(RunnerHead { row, written }) = &agent.runner else { return false };
        let is_last = agent.renewed().is_none_or(|renewed| renewed.get() <= *written);
        let has_read = |up_to: u64| self.stirred.is_none_or(|stirred| stirred < up_to);
        row.read_up_to.is_some_and(|up_to| is_last && has_read(up_to))
    }

    /// Where the oldest generation begins that has not ended.
    #[must_use]
    pub fn oldest_open(&self) -> Option<Position> {
        let open = self.agents.values().flat_map(|agent| agent.open.values());
        let more = self.agents.values().filter_map(|agent| agent.more_open);
        open.map(|open| open.began).chain(more).min().map(Position::new)
    }

    /// Messages that were written, by people and agents.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    /// Takes a transaction; tells the ids under which people wrote in it, and where.
    pub(super) fn apply(&mut self, tick: &Tick) -> Vec<(IdKey, Print, Position)> {
        if tick.start == Start::Snapshot {
            *self = Self { moved: self.moved, ..Self::default() };
        }
        self.chunks.take(tick);
        let mut ids = Vec::new();
        for (position, entry) in tick.entries() {
            let Entry::Write(write) = entry else {
                self.moved = self.moved.max(Some(position.get()));
                continue;
            };
            if write.type_name.as_str() != Runner::NAME {
                self.moved = self.moved.max(Some(position.get()));
            }
            self.write(*position, write);
            let past = write.past.as_ref().and_then(|past| past.txid.as_ref());
            if let Some(txid) = past.or(tick.txid.as_ref()) {
                self.sign(txid.as_str(), *position);
            }
            ids.extend(entered(write).map(|(key, print)| (key, print, *position)));
        }
        ids
    }

    fn write(&mut self, position: Position, write: &Write) {
        let (key, value) = (write.key.as_str(), write.value.as_ref());
        let made = write.past.as_ref().map_or(position, |past| past.inserted).get();
        if [ToolCall::NAME, Stop::NAME, Resolution::NAME].contains(&write.type_name.as_str()) {
            self.stirred = self.stirred.max(Some(position.get()));
        }
        match write.type_name.as_str() {
            name if name == Message::NAME => self.message(key, made, write),
            name if name == Generation::NAME => self.generation(key, made, row(value)),
            name if name == Step::NAME => {
                let Some(row) = row::<Step>(value) else { return };
                let is_open = row.status == StepStatus::Started;
                self.set_back(&row.generation_id, is_open, (row.deaths, row.failures));
            }
            name if name == ToolCall::NAME => self.tool_call(key, row(value)),
            name if name == Runner::NAME => {
                let row = row::<Runner>(value);
                if let Some(agent) = self.head(key) {
                    agent.runner = row.map(|row| RunnerHead { row, written: position.get() });
                }
            }
            name if name == Resolution::NAME => {
                let Some(row) = row::<Resolution>(value) else { return };
                if let Some(call) = self.calls.get_mut(&row.tool_call_id) {
                    call.decided.push(row.attempt);
                    call.decided.drain(..call.decided.len().saturating_sub(DECISIONS_MAX));
                }
            }
            _ => {}
        }
    }

    /// Whatever an agent writes is a sign of life.
    fn sign(&mut self, txid: &str, position: Position) {
        let Some((agent, epoch)) = writer_of(txid) else { return };
        if let Some(agent) = self.agents.get_mut(agent) {
            agent.sign = agent.sign.max(Some((epoch, position.get())));
        }
    }

    /// A step or a call of a generation has begun, or ended.
    fn set_back(&mut self, generation: &str, is_open: bool, (deaths, failures): (u32, u32)) {
        let open = self.agents.values_mut().find_map(|agent| agent.open.get_mut(generation));
        if let Some(open) = open {
            (open.deaths, open.failures) = if is_open { (deaths, failures) } else { (0, 0) };
        }
    }

    /// The head of an agent, made if there is room for it.
    fn head(&mut self, name: &str) -> Option<&mut AgentHead> {
        if !self.agents.contains_key(name) && self.agents.len() >= SESSION_AGENTS_MAX {
            self.has_more_agents = true;
            return None;
        }
        Some(self.agents.entry(name.to_owned()).or_default())
    }

    fn message(&mut self, key: &str, made: u64, write: &Write) {
        if write.value.is_none() {
            // It will not be read, so no agent has to be started for it.
            for agent in self.agents.values_mut() {
                agent.unread.retain(|_, id| id != key);
            }
            return;
        }
        self.messages += 1;
        let Some(target) = row::<Message>(write.value.as_ref()).and_then(|row| row.target_agent)
        else {
            return;
        };
        // A message that is written again stands where it stood first.
        let is_first = write.operation != Operation::Update;
        let Some(agent) = self.head(&target).filter(|_| is_first) else { return };
        // The rows of a snapshot are there once each.
        let is_there = write.past.is_none() && agent.unread.values().any(|id| id == key);
        if Some(made) <= agent.read_up_to || is_there {
            return;
        }
        match agent.unread.len() < SESSION_UNREAD_MAX {
            true => _ = agent.unread.insert(made, key.to_owned()),
            false => agent.unread_up_to = agent.unread_up_to.max(Some(made)),
        }
    }

    fn generation(&mut self, key: &str, made: u64, row: Option<Generation>) {
        let Some(row) = row else {
            self.agents.values_mut().for_each(|agent| _ = agent.open.remove(key));
            return self.calls.retain(|_, call| call.generation.as_deref() != Some(key));
        };
        let Some(agent) = self.head(&row.agent_name) else { return };
        if row.status.is_terminal() {
            agent.open.remove(key);
        } else if agent.read_up_to < Some(row.read_up_to) {
            let began = OpenGeneration { began: made, ..OpenGeneration::default() };
            match agent.open.len() < SESSION_GENERATIONS_OPEN_MAX {
                true => _ = agent.open.insert(key.to_owned(), began),
                false => agent.more_open = agent.more_open.or(Some(made)).min(Some(made)),
            }
        }
        // What is older than the last one has ended before: a late write does not open it again.
        if agent.read_up_to < Some(row.read_up_to) {
            agent.read_up_to = Some(row.read_up_to);
            let history_from = row.history_from.unwrap_or_default();
            agent.last = Some(LastGeneration { id: key.to_owned(), history_from });
            agent.unread = agent.unread.split_off(&(row.read_up_to + 1));
        }
        if row.status.is_terminal() {
            self.calls.retain(|_, call| call.generation.as_deref() != Some(key));
        }
    }

    fn tool_call(&mut self, key: &str, row: Option<ToolCall>) {
        let Some(row) = row else {
            self.calls.remove(key);
            return;
        };
        if let Some(generation) = &row.generation_id {
            let is_open = !row.status.is_terminal();
            self.set_back(generation, is_open, (row.deaths, row.failures));
        }
        if row.status.is_terminal() {
            self.calls.remove(key);
            self.ended.push_back((key.to_owned(), row.status, row.attempt));
            self.ended.drain(..self.ended.len().saturating_sub(SESSION_CALLS_ENDED_MAX));
            return;
        }
        if let Some((_, attempt)) = self.calls.get(key).and_then(|call| call.state)
            && row.attempt < attempt
        {
            return;
        }
        // A call of a generation that has ended was written too late.
        let is_open = |id: &String| {
            let is_its = |agent: &AgentHead| {
                agent.open.contains_key(id.as_str()) || agent.more_open.is_some()
            };
            self.agents.values().any(is_its)
        };
        if row.generation_id.as_ref().is_some_and(|id| !is_open(id)) {
            return;
        }
        if self.calls.len() >= SESSION_CALLS_MAX && !self.calls.contains_key(key) {
            self.has_more_calls = true;
            return;
        }
        let call = self.calls.entry(key.to_owned()).or_default();
        call.generation = row.generation_id;
        call.state = Some((row.status, row.attempt));
    }
}

/// Decisions on one call that are remembered.
const DECISIONS_MAX: usize = 8;

/// The id under which a person wrote, and what.
fn entered(write: &Write) -> Option<(IdKey, Print)> {
    let types = [Message::NAME, Stop::NAME, Resolution::NAME];
    let type_name = types.into_iter().find(|name| *name == write.type_name.as_str())?;
    let value: Value = write.value.as_ref()?.read().ok()?;
    Some((IdKey::of(type_name, write.key.as_str()), Print::of(value)))
}

/// The agent that wrote a transaction, and in which takeover.
fn writer_of(txid: &str) -> Option<(&str, u64)> {
    let (rest, _) = txid.strip_prefix("agent/")?.rsplit_once('.')?;
    let (agent, epoch) = rest.rsplit_once('.')?;
    Some((agent, u64::from_str_radix(epoch, 16).ok()?))
}

fn row<R: DeserializeOwned>(value: Option<&Json>) -> Option<R> {
    value?.read().ok()
}
