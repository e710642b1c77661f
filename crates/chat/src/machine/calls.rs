//! A batch: the tool calls of one turn, and what has become of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{discovery, history::result_id, misfed::Misfed};
use crate::{
    Admission, CallEnd, Id, Message, Part, Place, Role, ToolCall, ToolResult, Toolbox,
    agui::{Content, Event, ToolCallResult, ours},
    caps::CALLS_PER_TURN_MAX,
};

const DECLINED: &str = "The user declined to run this tool.";
const CUT_OFF: &str = "Your answer was cut off before the arguments of this call; make it again.";
const NOT_OFFERED: &str = "No tool can be called now; answer without one.";
const CANCELLED: &str = "This call was cancelled.";

/// A call that may be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The call.
    pub id: Id,
    /// The tool.
    pub name: Id,
    /// Its arguments; they fit the tool.
    pub arguments: Value,
}

/// What a person says to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Decision {
    /// Run it.
    Approve {
        /// With these arguments instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<Value>,
    },
    /// Do not run it.
    Deny {
        /// What the model is told instead of a result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
    },
    /// Nobody will decide.
    Cancel,
}

/// The calls of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Batch {
    /// The message that asked for them.
    asked: Id,
    calls: Vec<Asked>,
}

/// One call of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Asked {
    call: Call,
    place: Place,
    status: Status,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    NeedsApproval,
    Ready,
    Answered(Box<Message>),
}

/// What a decision has changed beside the call itself.
#[derive(Debug, PartialEq)]
pub(super) enum Decided {
    AsAsked,
    /// These arguments take the place of the model's.
    Edited(String),
}

/// Whether the turn that asks for calls is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    /// It was cut off. Arguments that are there are whole, since half an object is no JSON; but
    /// where there are none, some may have been meant.
    Unknown,
}

impl Batch {
    /// Looks at each call once: may it be made, and must somebody agree first?
    pub(super) fn admit<'a>(
        asked: &Id,
        calls: impl IntoIterator<Item = (&'a ToolCall, Option<Message>)>,
        whole: Whole,
        tools: &Toolbox,
        events: &mut Vec<Event>,
    ) -> Self {
        let mut batch = Self { asked: asked.clone(), calls: Vec::new() };
        for (index, (call, result)) in calls.into_iter().enumerate() {
            let mut admitted = batch.look_at(index, call, whole, tools);
            match (result, &admitted.status) {
                (Some(result), _) => admitted.status = Status::Answered(Box::new(result)),
                (None, Status::Answered(refusal)) => events.extend(result_events(refusal)),
                (None, _) => {}
            }
            batch.calls.push(admitted);
        }
        batch
    }

    /// A batch that was admitted before, and what has become of its calls since.
    pub(super) fn recorded<'a>(
        asked: &Id,
        calls: impl IntoIterator<Item = (&'a ToolCall, Option<Message>)>,
        recorded: &BTreeMap<Id, Option<ToolResult>>,
        tools: &Toolbox,
    ) -> Self {
        let mut batch = Self { asked: asked.clone(), calls: Vec::new() };
        for (index, (call, _)) in calls.into_iter().enumerate() {
            let place = tools.get(&call.name).map(|tool| tool.spec().place).unwrap_or_default();
            let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
            let status = match recorded.get(&call.id).cloned().flatten() {
                Some(ToolResult { call_id, content, end }) => {
                    Status::Answered(Box::new(batch.result(index, call_id, content, end)))
                }
                None => Status::Ready,
            };
            let call = Call { id: call.id.clone(), name: call.name.clone(), arguments };
            batch.calls.push(Asked { call, place, status });
        }
        batch
    }

    /// Calls of a turn in which no tool was offered.
    pub(super) fn refused<'a>(
        asked: &Id,
        calls: impl IntoIterator<Item = &'a ToolCall>,
        events: &mut Vec<Event>,
    ) -> Self {
        let mut batch = Self { asked: asked.clone(), calls: Vec::new() };
        for (index, call) in calls.into_iter().enumerate() {
            let refusal = batch.failure(index, call, NOT_OFFERED.to_owned());
            events.extend(result_events(&refusal));
            let status = Status::Answered(Box::new(refusal));
            let call =
                Call { id: call.id.clone(), name: call.name.clone(), arguments: Value::Null };
            batch.calls.push(Asked { call, place: Place::default(), status });
        }
        batch
    }

    fn look_at(&self, index: usize, call: &ToolCall, whole: Whole, tools: &Toolbox) -> Asked {
        let refused = |why: String| Status::Answered(Box::new(self.failure(index, call, why)));
        let place = tools.get(&call.name).map(|tool| tool.spec().place).unwrap_or_default();
        let mut arguments = Value::Null;
        let status = if index >= CALLS_PER_TURN_MAX {
            refused(format!("more than {CALLS_PER_TURN_MAX} calls in one turn; make fewer"))
        } else if whole == Whole::Unknown && call.arguments.trim().is_empty() {
            refused(CUT_OFF.to_owned())
        } else if let Some(found) = discovery::answer(call, tools) {
            let (content, end) = found;
            let found = ToolResult { call_id: call.id.clone(), content, end };
            let ToolResult { call_id, content, end } = tools.capped(&call.name, found);
            Status::Answered(Box::new(self.result(index, call_id, content, end)))
        } else {
            match tools.admit(&call.name, &call.arguments) {
                Admission::Refused { why } => refused(why),
                Admission::Admitted { arguments: fit, needs_approval } => {
                    arguments = fit;
                    if needs_approval { Status::NeedsApproval } else { Status::Ready }
                }
            }
        };
        let call = Call { id: call.id.clone(), name: call.name.clone(), arguments };
        Asked { call, place, status }
    }

    /// Calls that somebody must decide on.
    pub(super) fn undecided(&self) -> Vec<Call> {
        self.select(|asked| matches!(asked.status, Status::NeedsApproval))
    }

    /// Calls that are to be made in this place.
    pub(super) fn ready(&self, place: Place) -> Vec<Call> {
        self.select(|asked| asked.place == place && matches!(asked.status, Status::Ready))
    }

    /// Whether nothing can be done here before somebody else has done something.
    pub(super) fn waits(&self) -> bool {
        !self.undecided().is_empty() || self.ready(Place::Server).is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    fn select(&self, filter: impl Fn(&Asked) -> bool) -> Vec<Call> {
        self.calls.iter().filter(|asked| filter(asked)).map(|asked| asked.call.clone()).collect()
    }

    pub(super) fn is_answered(&self) -> bool {
        self.calls.iter().all(|asked| matches!(asked.status, Status::Answered(_)))
    }

    /// The answers that are there.
    pub(super) fn answers(&self) -> impl Iterator<Item = &ToolResult> {
        self.calls
            .iter()
            .flat_map(|asked| match &asked.status {
                Status::Answered(message) => message.parts.as_slice(),
                Status::NeedsApproval | Status::Ready => &[],
            })
            .filter_map(|part| match part {
                Part::ToolResult(result) => Some(result),
                _ => None,
            })
    }

    /// The results, in the order of the calls.
    pub(super) fn into_results(self) -> impl Iterator<Item = Message> {
        self.calls.into_iter().filter_map(|asked| match asked.status {
            Status::Answered(result) => Some(*result),
            Status::NeedsApproval | Status::Ready => None,
        })
    }

    /// Takes the outcome of a call.
    pub(super) fn answer(
        &mut self,
        result: ToolResult,
        tools: &Toolbox,
        events: &mut Vec<Event>,
    ) -> Result<(), Misfed> {
        let index = self.find(&result.call_id)?;
        match self.calls[index].status {
            Status::Answered(_) => Err(Misfed::AlreadyAnswered { call_id: result.call_id }),
            Status::NeedsApproval if result.end == CallEnd::Done => {
                let why = "needs a decision before it may be made";
                Err(Misfed::WrongOrder { call_id: result.call_id, why })
            }
            Status::NeedsApproval | Status::Ready => {
                self.settle(index, result, tools, events);
                Ok(())
            }
        }
    }

    /// Takes what a person says to a call.
    pub(super) fn decide(
        &mut self,
        call_id: &Id,
        decision: Decision,
        tools: &Toolbox,
        events: &mut Vec<Event>,
    ) -> Result<Decided, Misfed> {
        let index = self.find(call_id)?;
        match self.calls[index].status {
            Status::Answered(_) => {
                return Err(Misfed::AlreadyAnswered { call_id: call_id.clone() });
            }
            Status::Ready if !matches!(decision, Decision::Cancel) => {
                let why = "needs no decision, or has had one";
                return Err(Misfed::WrongOrder { call_id: call_id.clone(), why });
            }
            Status::Ready | Status::NeedsApproval => {}
        }
        match decision {
            Decision::Approve { edited: None } => self.calls[index].status = Status::Ready,
            Decision::Approve { edited: Some(arguments) } => {
                let written = arguments.to_string();
                let call = &mut self.calls[index];
                match tools.admit(&call.call.name, &written) {
                    Admission::Admitted { arguments, .. } => call.call.arguments = arguments,
                    Admission::Refused { why } => return Err(Misfed::BadEdit { why }),
                }
                call.status = Status::Ready;
                return Ok(Decided::Edited(written));
            }
            Decision::Deny { answer } => {
                let answer = answer.unwrap_or_else(|| DECLINED.to_owned());
                let (content, end) = (Content::Text(answer), CallEnd::Denied);
                let result = ToolResult { call_id: call_id.clone(), content, end };
                self.settle(index, result, tools, events);
            }
            Decision::Cancel => self.cancel(index, events),
        }
        Ok(Decided::AsAsked)
    }

    /// Nobody waits for what is still open.
    pub(super) fn cancel_all(&mut self, events: &mut Vec<Event>) {
        for index in 0..self.calls.len() {
            if !matches!(self.calls[index].status, Status::Answered(_)) {
                self.cancel(index, events);
            }
        }
    }

    fn cancel(&mut self, index: usize, events: &mut Vec<Event>) {
        let call_id = self.calls[index].call.id.clone();
        let content = Content::Text(CANCELLED.to_owned());
        let message = self.result(index, call_id, content, CallEnd::Cancelled);
        self.keep(index, message, events);
    }

    /// Takes an answer, whoever gave it, as far as the tool may answer.
    fn settle(
        &mut self,
        index: usize,
        result: ToolResult,
        tools: &Toolbox,
        events: &mut Vec<Event>,
    ) {
        let ToolResult { call_id, content, end } =
            tools.capped(&self.calls[index].call.name, result);
        let message = self.result(index, call_id, content, end);
        self.keep(index, message, events);
    }

    fn keep(&mut self, index: usize, message: Message, events: &mut Vec<Event>) {
        events.extend(result_events(&message));
        self.calls[index].status = Status::Answered(Box::new(message));
    }

    fn find(&self, call_id: &Id) -> Result<usize, Misfed> {
        let found = self.calls.iter().position(|asked| asked.call.id == *call_id);
        found.ok_or_else(|| Misfed::UnknownCall { call_id: call_id.clone() })
    }

    fn result(&self, index: usize, call_id: Id, content: Content, end: CallEnd) -> Message {
        let part = Part::ToolResult(ToolResult { call_id, content, end });
        Message::new(result_id(&self.asked, index), Role::Tool, vec![part])
    }

    fn failure(&self, index: usize, call: &ToolCall, why: String) -> Message {
        self.result(index, call.id.clone(), Content::Text(why), CallEnd::Failed)
    }
}

/// What the world is told of a result.
fn result_events(message: &Message) -> impl Iterator<Item = Event> {
    message.results().map(|result| {
        let event = Event::from(ToolCallResult {
            message_id: message.id.clone(),
            tool_call_id: result.call_id.clone(),
            content: result.content.clone(),
            role: Some("tool".to_owned()),
        });
        match result.end {
            CallEnd::Done => event,
            end => failed(event, end),
        }
    })
}

fn failed(event: Event, end: CallEnd) -> Event {
    let mut event = ours::with(event, ours::END, serde_json::json!(end));
    let metadata = event.common.metadata.get_or_insert_default();
    metadata.insert("tanstack".to_owned(), serde_json::json!({ "state": "output-error" }));
    event
}
