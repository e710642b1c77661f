//! The book of a session: the little of it that decides whether something may be done.

use std::collections::{BTreeSet, HashMap, HashSet};

use agent::rows::{
    CallStatus, Generation, GenerationStatus, Message, Resolution, Runner, Step, StepStatus, Stop,
    ToolCall,
};
use live::Row;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use state::{Entry, Json, Start, Tick, Ticks, Write};
use wire::{Offset, Position};

use super::runners::Runners;
use crate::fleet::RunnerFacts;

/// What was written under an id.
type Print = [u8; 32];

/// A fold of a session, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Book {
    ticks: Ticks,
    /// What people wrote, by type and id.
    entries: HashMap<(&'static str, Box<str>), Entered>,
    calls: HashMap<Box<str>, Call>,
    /// Where messages for agents stand: one that is written again stands where it stood first.
    messages: HashMap<Box<str>, Position>,
    /// What agents have to do, by their names.
    agents: HashMap<Box<str>, Inbox>,
    /// The last message that says more than who runs an agent.
    moved: Option<Position>,
    runners: Runners,
    /// Deaths and failures of what generations have under way, where there were any.
    setbacks: HashMap<Box<str>, (u32, u32)>,
}

/// What an agent has to do.
#[derive(Debug, Default)]
struct Inbox {
    /// Generations that have not ended.
    open: HashSet<Box<str>>,
    /// Messages for it that it has not read.
    unread: BTreeSet<Position>,
    /// How far it has read.
    read_up_to: Option<Position>,
}

/// Something that is in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entered {
    print: Print,
    /// The offset after it.
    pub(super) offset: Offset,
}

/// A call, and whether somebody has decided on its attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parked {
    pub(super) status: CallStatus,
    pub(super) attempt: u32,
    pub(super) is_decided: bool,
}

#[derive(Debug, Default)]
struct Call {
    state: Option<(CallStatus, u32)>,
    decided: HashSet<u32>,
}

impl Book {
    /// Takes one message that stands at a position, and ends before `after`.
    pub(super) fn read(&mut self, position: Position, message: &[u8], after: Offset) {
        // What people wrote is one message each, so what ends here is where it stands.
        if let Some(tick) = self.ticks.push(position, message) {
            self.apply(&tick);
        }
        self.note(position, message, after);
        self.runners.note(position, message);
    }

    /// There is nothing more for now.
    pub(super) fn up_to_date(&mut self) {
        if let Some(tick) = self.ticks.up_to_date() {
            self.apply(&tick);
        }
    }

    pub(super) fn entered(&self, type_name: &'static str, id: &str) -> Option<Entered> {
        self.entries.get(&(type_name, id.into())).copied()
    }

    pub(super) fn call(&self, id: &str) -> Option<Parked> {
        let call = self.calls.get(id)?;
        let (status, attempt) = call.state?;
        Some(Parked { status, attempt, is_decided: call.decided.contains(&attempt) })
    }

    /// Whether an agent should look at it: something was said to it that it has not read, or it has
    /// begun something and not ended.
    pub(crate) fn has_work_for(&self, agent: &str) -> bool {
        let inbox = self.agents.get(agent);
        inbox.is_some_and(|inbox| !inbox.open.is_empty() || !inbox.unread.is_empty())
    }

    /// The last message that says more than who runs an agent: if it is the same as before, nothing
    /// has happened.
    pub(crate) const fn moved(&self) -> Option<Position> {
        self.moved
    }

    /// Who runs an agent, or ran it last.
    pub(crate) fn runner_of(&self, agent: &str) -> Option<RunnerFacts> {
        self.runners.of(agent)
    }

    /// How often the process ended under what an agent has begun, and how often that failed.
    pub(crate) fn setbacks_of(&self, agent: &str) -> (u32, u32) {
        let open = self.agents.get(agent).into_iter().flat_map(|inbox| &inbox.open);
        let setbacks = open.filter_map(|generation| self.setbacks.get(generation));
        setbacks.fold((0, 0), |(a, b), (c, d)| (a.max(*c), b.max(*d)))
    }

    /// Remembers what a person wrote under its id; the first of an id stays.
    fn note(&mut self, position: Position, message: &[u8], offset: Offset) {
        let state::Body::Change(change) = state::decode(message).body else {
            self.moved = Some(position);
            return;
        };
        if change.type_name != Runner::NAME {
            self.moved = Some(position);
        }
        let types = [Message::NAME, Stop::NAME, Resolution::NAME];
        let Some(type_name) = types.into_iter().find(|name| *name == change.type_name) else {
            return;
        };
        let Some(value) = change.value.and_then(|raw| serde_json::from_str(raw.get()).ok()) else {
            return;
        };
        let entered = Entered { print: print(value), offset };
        self.entries.entry((type_name, change.key.into())).or_insert(entered);
    }

    fn apply(&mut self, tick: &Tick) {
        if tick.start == Start::Snapshot {
            self.calls.clear();
            self.messages.clear();
            for inbox in self.agents.values_mut() {
                inbox.open.clear();
                inbox.unread.clear();
            }
        }
        for (position, entry) in tick.entries() {
            if let Entry::Write(write) = entry {
                self.write(*position, write);
            }
        }
    }

    fn write(&mut self, position: Position, write: &Write) {
        let (key, value) = (write.key.as_str(), write.value.as_ref());
        self.runners.write(position, write);
        match write.type_name.as_str() {
            name if name == Message::NAME => {
                let made = write.past.as_ref().map_or(position, |past| past.inserted);
                self.message(key, made, value);
            }
            name if name == Generation::NAME => self.generation(key, row(value)),
            name if name == Step::NAME => {
                let Some(row) = row::<Step>(value) else { return };
                let is_open = row.status == StepStatus::Started;
                self.set_back(row.generation_id, is_open, (row.deaths, row.failures));
            }
            name if name == ToolCall::NAME => {
                let row: Option<ToolCall> = row(value);
                if let Some(row) = &row
                    && let Some(generation) = &row.generation_id
                {
                    let is_open = !row.status.is_terminal();
                    self.set_back(generation.clone(), is_open, (row.deaths, row.failures));
                }
                let call = self.calls.entry(key.into()).or_default();
                call.state = row.map(|row| (row.status, row.attempt));
            }
            name if name == Resolution::NAME => {
                let Some(row) = row::<Resolution>(value) else { return };
                let call = self.calls.entry(row.tool_call_id.into()).or_default();
                call.decided.insert(row.attempt);
            }
            _ => {}
        }
    }

    /// A step or a call of a generation has begun, or ended.
    fn set_back(&mut self, generation: String, is_open: bool, setbacks: (u32, u32)) {
        match is_open && setbacks != (0, 0) {
            true => _ = self.setbacks.insert(generation.into(), setbacks),
            false => _ = self.setbacks.remove(generation.as_str()),
        }
    }

    fn message(&mut self, key: &str, made: Position, value: Option<&Json>) {
        if value.is_none() {
            // Nobody will read it, so nobody has to be started for it.
            let Some(made) = self.messages.remove(key) else { return };
            self.agents.values_mut().for_each(|inbox| _ = inbox.unread.remove(&made));
            return;
        }
        let Some(agent) = row::<Message>(value).and_then(|row| row.target_agent) else { return };
        if self.messages.contains_key(key) {
            return;
        }
        self.messages.insert(key.into(), made);
        let inbox = self.agents.entry(agent.into()).or_default();
        if Some(made) > inbox.read_up_to {
            inbox.unread.insert(made);
        }
    }

    fn generation(&mut self, key: &str, row: Option<Generation>) {
        let Some(row) = row else {
            self.agents.values_mut().for_each(|inbox| _ = inbox.open.remove(key));
            return;
        };
        let inbox = self.agents.entry(row.agent_name.into()).or_default();
        let read_up_to = Position::new(row.read_up_to);
        inbox.read_up_to = inbox.read_up_to.max(Some(read_up_to));
        inbox.unread.retain(|position| *position > read_up_to);
        match row.status {
            GenerationStatus::Pending | GenerationStatus::Generating => {
                inbox.open.insert(key.into());
            }
            _ => {
                inbox.open.remove(key);
                self.setbacks.remove(key);
            }
        }
    }
}

impl Entered {
    /// Whether this is what was written, whenever that was.
    pub(super) fn is(&self, row: &Value) -> bool {
        self.print == print(row.clone())
    }
}

/// Tells rows apart, but for the time they were written at.
fn print(mut row: Value) -> Print {
    if let Some(row) = row.as_object_mut() {
        row.remove("createdAt");
        row.sort_keys();
    }
    Sha256::digest(row.to_string()).into()
}

fn row<R: DeserializeOwned>(value: Option<&Json>) -> Option<R> {
    value?.read().ok()
}
