//! Whether events come in an order that AG-UI allows.
//!
//! ```
//! use chat::{Verifier, agui::{Event, RunStarted, TextMessageEnd}};
//!
//! let mut verifier = Verifier::new();
//! let started = RunStarted {
//!     thread_id: "t".into(),
//!     run_id: "r".into(),
//!     protocol_version: None,
//!     parent_run_id: None,
//!     input: None,
//! };
//! verifier.push(&started.into())?;
//! let end = Event::from(TextMessageEnd { message_id: "m".into() });
//! let error = verifier.push(&end).unwrap_err();
//! let why = "TEXT_MESSAGE_END: the message \"m\" is not open; start it first";
//! assert_eq!(error.to_string(), why);
//! # Ok::<(), chat::OrderError>(())
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{
    Id,
    agui::{
        BadChunk, Chunks, Event, EventKind, Expanded, Message, SecretOf, SubagentStarted,
        ToolCallStart, Upgrade,
    },
    caps::VERIFIED_IDS_MAX,
};

/// Checks the order of events, one by one.
///
/// The rules are those of AG-UI's own client: a run begins before anything else and ends last;
/// whatever is started is ended once, by whoever started it; a run leaves nothing open. Chunks are
/// taken for the events that they stand for. Runs may follow one another.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    phase: Phase,
    run: Run,
    chunks: Chunks,
    upgrade: Upgrade,
}

/// An event that may not come now. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event}: {rule}")]
pub struct OrderError {
    /// The type of the event; empty at the end of the stream.
    pub event: String,
    /// What it breaks.
    pub rule: Rule,
}

/// A rule that an event breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// Nothing comes before a run.
    #[error("no run has begun; the first event is RUN_STARTED or RUN_ERROR")]
    BeforeTheRun,
    /// Nothing comes after a run but another one.
    #[error("the run is over; only RUN_STARTED may follow")]
    AfterTheRun,
    /// One run at a time.
    #[error("the run before has not ended; finish it first")]
    RunIsOpen,
    /// What is open cannot be started.
    #[error("the {kind} {id:?} is open already; end it first")]
    Open {
        /// What it is.
        kind: Kind,
        /// Which one.
        id: Id,
    },
    /// What is not open can neither grow nor end.
    #[error("the {kind} {id:?} is not open; start it first")]
    NotOpen {
        /// What it is.
        kind: Kind,
        /// Which one.
        id: Id,
    },
    /// A run leaves nothing open.
    #[error("the {kind} {id:?} is still open; end it first")]
    LeftOpen {
        /// What it is.
        kind: Kind,
        /// Which one.
        id: Id,
    },
    /// Whatever is started is continued by whoever started it.
    #[error("the {kind} {id:?} belongs to {owner}, not to {tag}")]
    NotTheOwner {
        /// What it is.
        kind: Kind,
        /// Which one.
        id: Id,
        /// Whose it is.
        owner: Owner,
        /// Who wants to continue it.
        tag: Owner,
    },
    /// A subagent runs once.
    #[error("the subagent {0:?} has run already; every run of a subagent has an id of its own")]
    SubagentAgain(Id),
    /// A subagent is started by one that was started.
    #[error("the subagent {0:?} that it belongs to was never started")]
    NoParent(Id),
    /// A chunk continues something.
    #[error("{0}")]
    Chunk(String),
    /// A run has a bounded number of ids.
    #[error("a run may have {VERIFIED_IDS_MAX} ids of one kind; begin another run")]
    TooManyIds,
}

/// What can be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text message.
    Message,
    /// A tool call.
    Call,
    /// A span of thoughts.
    Span,
    /// A message of thoughts.
    Thoughts,
    /// A step.
    Step,
    /// A subagent.
    Subagent,
    /// An activity.
    Activity,
    /// A run.
    Run,
}

/// The agent itself, or one of its subagents.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(pub Option<Id>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Before,
    Running(Id),
    Finished,
    Failed,
}

/// What is known of one run.
#[derive(Clone, Debug, Default)]
struct Run {
    messages: BTreeSet<Id>,
    calls: BTreeSet<Id>,
    spans: BTreeSet<Id>,
    thoughts: BTreeSet<Id>,
    steps: BTreeSet<(Owner, Id)>,
    subagents: BTreeSet<Id>,
    subagents_over: BTreeSet<Id>,
    owners: Owners,
}

/// Whose everything is, also when it has ended. Ids are unique only among things of one kind.
#[derive(Clone, Debug, Default)]
struct Owners {
    messages: BTreeMap<Id, Owner>,
    calls: BTreeMap<Id, Owner>,
    activities: BTreeMap<Id, Owner>,
    thoughts: BTreeMap<Id, Owner>,
}

impl Verifier {
    /// Before the first event.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks the next event.
    ///
    /// # Errors
    /// If it may not come now. Nothing is changed then.
    pub fn push(&mut self, event: &Event) -> Result<(), OrderError> {
        let (lanes, upgrade) = (self.chunks.clone(), self.upgrade);
        let upgraded = self.upgrade.read(event);
        let event = upgraded.as_ref().unwrap_or(event);
        self.expanded(event).map_err(|rule| {
            self.chunks = lanes;
            self.upgrade = upgrade;
            OrderError { event: event.name().to_owned(), rule }
        })
    }

    /// Checks that the stream may end here.
    ///
    /// # Errors
    /// If a run has not ended.
    pub fn finish(self) -> Result<(), OrderError> {
        match self.phase {
            Phase::Running(id) => {
                let rule = Rule::LeftOpen { kind: Kind::Run, id };
                Err(OrderError { event: "the end of the stream".into(), rule })
            }
            Phase::Before | Phase::Finished | Phase::Failed => Ok(()),
        }
    }

    fn expanded(&mut self, event: &Event) -> Result<(), Rule> {
        let mut written = Vec::new();
        let expanded = self.chunks.expand(event, &mut written)?;
        match (written.as_slice(), expanded) {
            ([], Expanded::Kept) => return self.check(event),
            ([], Expanded::Replaced) => return Ok(()),
            ([one], Expanded::Replaced) => return self.check(one),
            _ => {}
        }
        // Several events stand for one, so all of them pass or none.
        let (phase, run) = (self.phase.clone(), self.run.clone());
        let mut all = written.iter().chain((expanded == Expanded::Kept).then_some(event));
        all.try_for_each(|event| self.check(event)).inspect_err(|_| {
            self.phase = phase;
            self.run = run;
        })
    }

    fn check(&mut self, event: &Event) -> Result<(), Rule> {
        match (&self.phase, &event.kind) {
            (Phase::Before | Phase::Finished | Phase::Failed, EventKind::RunStarted(started)) => {
                self.run = Run::default();
                self.phase = Phase::Running(started.run_id.clone());
                let input = started.input.iter().flat_map(|input| &input.messages);
                input.for_each(|message| self.run.owners.know(message, Claim::IfFree));
                Ok(())
            }
            (Phase::Running(_), EventKind::RunStarted(_)) => Err(Rule::RunIsOpen),
            (Phase::Failed, _) => Err(Rule::AfterTheRun),
            (_, EventKind::RunError(_)) => {
                self.phase = Phase::Failed;
                Ok(())
            }
            (Phase::Before, _) => Err(Rule::BeforeTheRun),
            (Phase::Finished, _) => Err(Rule::AfterTheRun),
            (Phase::Running(_), EventKind::RunFinished(_)) => {
                self.run.leaves_nothing()?;
                self.phase = Phase::Finished;
                Ok(())
            }
            (Phase::Running(_), kind) => {
                self.run.has_room()?;
                let tag = event.common.subagent_run_id.as_ref();
                match kind {
                    EventKind::SubagentStarted(_)
                    | EventKind::SubagentFinished(_)
                    | EventKind::SubagentError(_) => self.run.subagent(kind, tag),
                    _ => self.run.check(kind, tag),
                }
            }
        }
    }
}

impl Run {
    fn check(&mut self, event: &EventKind, tag: Option<&Id>) -> Result<(), Rule> {
        let owners = &mut self.owners;
        match event {
            EventKind::TextMessageStart(event) => {
                let id = &event.message_id;
                start(Kind::Message, &mut self.messages, &mut owners.messages, id, tag)
            }
            EventKind::TextMessageContent(event) => {
                let id = &event.message_id;
                go_on(Kind::Message, &self.messages, &owners.messages, id, tag)
            }
            EventKind::TextMessageEnd(event) => {
                let id = &event.message_id;
                end(Kind::Message, &mut self.messages, &owners.messages, id, tag)
            }
            EventKind::ToolCallStart(event) => self.call(event, tag),
            EventKind::ToolCallArgs(event) => {
                go_on(Kind::Call, &self.calls, &owners.calls, &event.tool_call_id, tag)
            }
            EventKind::ToolCallEnd(event) => {
                end(Kind::Call, &mut self.calls, &owners.calls, &event.tool_call_id, tag)
            }
            EventKind::ToolCallResult(event) => {
                owners.messages.insert(event.message_id.clone(), Owner(tag.cloned()));
                Ok(())
            }
            EventKind::ReasoningStart(event) => {
                let id = &event.message_id;
                start(Kind::Span, &mut self.spans, &mut owners.thoughts, id, tag)
            }
            EventKind::ReasoningMessageStart(event) => {
                let id = &event.message_id;
                start(Kind::Thoughts, &mut self.thoughts, &mut owners.thoughts, id, tag)
            }
            EventKind::ReasoningMessageContent(event) => {
                go_on(Kind::Thoughts, &self.thoughts, &owners.thoughts, &event.message_id, tag)
            }
            EventKind::ReasoningMessageEnd(event) => {
                end(Kind::Thoughts, &mut self.thoughts, &owners.thoughts, &event.message_id, tag)
            }
            EventKind::ReasoningEnd(event) => {
                end(Kind::Span, &mut self.spans, &owners.thoughts, &event.message_id, tag)
            }
            EventKind::ReasoningEncryptedValue(event) => {
                owners.secret(event.subtype, &event.entity_id, tag)
            }
            EventKind::ActivitySnapshot(event) => {
                let (id, owner) = (event.message_id.clone(), Owner(tag.cloned()));
                if event.replace != Some(false) || !owners.activities.contains_key(&id) {
                    owners.activities.insert(id, owner);
                }
                Ok(())
            }
            EventKind::ActivityDelta(event) => {
                let id = &event.message_id;
                agrees(Kind::Activity, owners.activities.get(id), id, tag)
            }
            EventKind::StepStarted(event) => self.step_starts(&event.step_name, tag),
            EventKind::StepFinished(event) => self.step_ends(&event.step_name, tag),
            EventKind::MessagesSnapshot(event) => {
                event.messages.iter().for_each(|message| owners.know(message, Claim::Always));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A call belongs to the message that it stands in.
    fn call(&mut self, event: &ToolCallStart, tag: Option<&Id>) -> Result<(), Rule> {
        let id = &event.tool_call_id;
        if self.calls.contains(id) {
            return Err(Rule::Open { kind: Kind::Call, id: id.clone() });
        }
        let parent = event.parent_message_id.as_ref();
        let inherited = parent.and_then(|parent| {
            self.owners.messages.get(parent).map(|owner| (parent, owner.clone()))
        });
        if let Some((parent, owner)) = &inherited {
            agrees(Kind::Message, Some(owner), parent, tag)?;
        }
        let tagged = tag.map(|tag| Owner(Some(tag.clone())));
        let said = tagged.or(inherited.map(|(_, owner)| owner));
        if let (Some(owner), Some(tag)) = (self.owners.calls.get(id), &said)
            && owner != tag
        {
            let (id, owner, tag) = (id.clone(), owner.clone(), tag.clone());
            return Err(Rule::NotTheOwner { kind: Kind::Call, id, owner, tag });
        }
        self.calls.insert(id.clone());
        self.owners.calls.entry(id.clone()).or_insert_with(|| said.unwrap_or_default());
        Ok(())
    }

    fn step_starts(&mut self, name: &str, tag: Option<&Id>) -> Result<(), Rule> {
        let step = (Owner(tag.cloned()), Id::from(name));
        if self.steps.contains(&step) {
            return Err(Rule::Open { kind: Kind::Step, id: step.1 });
        }
        self.steps.insert(step);
        Ok(())
    }

    /// A step is named within its owner, so another's step of the same name is another step.
    fn step_ends(&mut self, name: &str, tag: Option<&Id>) -> Result<(), Rule> {
        let step = (Owner(tag.cloned()), Id::from(name));
        if self.steps.remove(&step) {
            return Ok(());
        }
        let (tag, id) = step;
        match self.steps.iter().find(|(_, name)| *name == id) {
            Some((owner, _)) => {
                Err(Rule::NotTheOwner { kind: Kind::Step, id, owner: owner.clone(), tag })
            }
            None => Err(Rule::NotOpen { kind: Kind::Step, id }),
        }
    }

    fn subagent(&mut self, event: &EventKind, tag: Option<&Id>) -> Result<(), Rule> {
        let id = tag.cloned().unwrap_or_default();
        let EventKind::SubagentStarted(SubagentStarted { parent_subagent_run_id, .. }) = event
        else {
            if !self.subagents.remove(&id) {
                return Err(Rule::NotOpen { kind: Kind::Subagent, id });
            }
            self.subagents_over.insert(id);
            return Ok(());
        };
        if self.subagents.contains(&id) {
            return Err(Rule::Open { kind: Kind::Subagent, id });
        }
        if self.subagents_over.contains(&id) {
            return Err(Rule::SubagentAgain(id));
        }
        if let Some(parent) = parent_subagent_run_id
            && !self.subagents.contains(parent)
            && !self.subagents_over.contains(parent)
        {
            return Err(Rule::NoParent(parent.clone()));
        }
        self.subagents.insert(id);
        Ok(())
    }

    fn leaves_nothing(&self) -> Result<(), Rule> {
        let step = self.steps.first().map(|(_, name)| (Kind::Step, name));
        let open = [
            (Kind::Message, self.messages.first()),
            (Kind::Thoughts, self.thoughts.first()),
            (Kind::Span, self.spans.first()),
            (Kind::Call, self.calls.first()),
            (Kind::Subagent, self.subagents.first()),
        ];
        let mut open = open.into_iter().filter_map(|(kind, id)| Some((kind, id?)));
        match step.or_else(|| open.next()) {
            Some((kind, id)) => Err(Rule::LeftOpen { kind, id: id.clone() }),
            None => Ok(()),
        }
    }

    fn has_room(&self) -> Result<(), Rule> {
        let Owners { messages, calls, activities, thoughts } = &self.owners;
        let subagents = self.subagents.len() + self.subagents_over.len();
        let sizes = [messages.len(), calls.len(), activities.len(), thoughts.len(), subagents];
        match sizes.into_iter().chain([self.steps.len()]).max() {
            Some(size) if size >= VERIFIED_IDS_MAX => Err(Rule::TooManyIds),
            _ => Ok(()),
        }
    }
}

/// Whether a message that is told again says whose it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    Always,
    IfFree,
}

impl Owners {
    /// A secret may come after the end of what it belongs to.
    fn secret(&self, of: SecretOf, id: &Id, tag: Option<&Id>) -> Result<(), Rule> {
        let (kind, owner) = match of {
            SecretOf::ToolCall => (Kind::Call, self.calls.get(id)),
            SecretOf::Message => {
                (Kind::Message, self.messages.get(id).or_else(|| self.thoughts.get(id)))
            }
        };
        agrees(kind, owner, id, tag)
    }

    fn know(&mut self, message: &Message, claim: Claim) {
        let owner = Owner(message.extras().subagent_run_id.clone());
        let put = |owners: &mut BTreeMap<Id, Owner>, id: &Id| {
            if claim == Claim::Always || !owners.contains_key(id) {
                owners.insert(id.clone(), owner.clone());
            }
        };
        match message {
            Message::Reasoning(_) => put(&mut self.thoughts, message.id()),
            Message::Activity(_) => put(&mut self.activities, message.id()),
            _ => put(&mut self.messages, message.id()),
        }
        if let Message::Assistant(said) = message {
            let calls = said.tool_calls.iter().flatten();
            calls.for_each(|call| put(&mut self.calls, &call.id));
        }
    }
}

fn start(
    kind: Kind,
    open: &mut BTreeSet<Id>,
    owners: &mut BTreeMap<Id, Owner>,
    id: &Id,
    tag: Option<&Id>,
) -> Result<(), Rule> {
    if open.contains(id) {
        return Err(Rule::Open { kind, id: id.clone() });
    }
    agrees(kind, owners.get(id), id, tag)?;
    open.insert(id.clone());
    owners.entry(id.clone()).or_insert_with(|| Owner(tag.cloned()));
    Ok(())
}

fn go_on(
    kind: Kind,
    open: &BTreeSet<Id>,
    owners: &BTreeMap<Id, Owner>,
    id: &Id,
    tag: Option<&Id>,
) -> Result<(), Rule> {
    if !open.contains(id) {
        return Err(Rule::NotOpen { kind, id: id.clone() });
    }
    agrees(kind, owners.get(id), id, tag)
}

fn end(
    kind: Kind,
    open: &mut BTreeSet<Id>,
    owners: &BTreeMap<Id, Owner>,
    id: &Id,
    tag: Option<&Id>,
) -> Result<(), Rule> {
    go_on(kind, open, owners, id, tag)?;
    open.remove(id);
    Ok(())
}

/// Who says nothing agrees with any owner.
fn agrees(kind: Kind, owner: Option<&Owner>, id: &Id, tag: Option<&Id>) -> Result<(), Rule> {
    match (owner, tag) {
        (Some(owner), Some(tag)) if owner.0.as_ref() != Some(tag) => {
            let (id, owner, tag) = (id.clone(), owner.clone(), Owner(Some(tag.clone())));
            Err(Rule::NotTheOwner { kind, id, owner, tag })
        }
        _ => Ok(()),
    }
}

impl From<BadChunk> for Rule {
    fn from(bad: BadChunk) -> Self {
        Self::Chunk(bad.why)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message => "message",
            Self::Call => "tool call",
            Self::Span => "span of thoughts",
            Self::Thoughts => "message of thoughts",
            Self::Step => "step",
            Self::Subagent => "subagent",
            Self::Activity => "activity",
            Self::Run => "run",
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(id) => write!(f, "the subagent {id:?}"),
            None => f.write_str("the agent itself"),
        }
    }
}
