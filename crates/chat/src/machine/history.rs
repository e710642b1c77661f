//! A conversation as a model may be shown it: every call has its result, in order.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{CallEnd, Id, Message, Part, Role, ToolCall, ToolResult, agui::Content};

/// What a call that nobody answered is answered with.
const NEVER_ANSWERED: &str = "This call was never answered.";

/// A conversation, and the calls at its end that still wait for their results.
#[derive(Debug, PartialEq)]
pub(super) struct History {
    pub(super) messages: Vec<Arc<Message>>,
    /// Calls of the last assistant message, and the results that some of them have.
    pub(super) open: Vec<(ToolCall, Option<Message>)>,
}

impl History {
    /// Mends a conversation: results stand behind their calls, in the calls' order; a call without
    /// one is answered for; a result without a call is left out, and so is a second one.
    ///
    /// Calls at the very end are not answered for: they are still open.
    pub(super) fn of(messages: impl IntoIterator<Item = Message>) -> Self {
        let (results, others) = split(messages);
        let mut results = by_call(&others, results);
        let mut history = Self { messages: Vec::new(), open: Vec::new() };
        for (index, message) in others.into_iter().enumerate() {
            history.answer_for_open_calls();
            let calls = message.calls().cloned().enumerate();
            history.open = calls.map(|(call, it)| (it, results.remove(&(index, call)))).collect();
            if !message.parts.is_empty() {
                history.messages.push(Arc::new(message));
            }
        }
        match history.open.iter().all(|(_, result)| result.is_some()) {
            true => history.answer_for_open_calls(),
            false => history.tell_open_calls_apart(),
        }
        history
    }

    /// Calls that wait are known by their ids alone: of two that share one, the later is renamed.
    fn tell_open_calls_apart(&mut self) {
        let Some(asked) = self.messages.last_mut() else { return };
        let mut ids = BTreeSet::new();
        let mut renamed = BTreeMap::new();
        for (index, (call, result)) in self.open.iter_mut().enumerate() {
            if !call.id.is_empty() && ids.insert(call.id.clone()) {
                continue;
            }
            call.id = Id::from(format!("{}:c{index}", asked.id));
            renamed.insert(index, call.id.clone());
            let parts = result.iter_mut().flat_map(|message| &mut message.parts);
            for part in parts {
                if let Part::ToolResult(result) = part {
                    result.call_id = call.id.clone();
                }
            }
        }
        if renamed.is_empty() {
            return;
        }
        let parts = Arc::make_mut(asked).parts.iter_mut();
        let calls = parts.filter_map(|part| match part {
            Part::ToolCall(call) if call.provider_result.is_none() => Some(call),
            _ => None,
        });
        for (index, call) in calls.enumerate() {
            if let Some(id) = renamed.remove(&index) {
                call.id = id;
            }
        }
    }

    fn answer_for_open_calls(&mut self) {
        let Some(asked) = self.messages.last().map(|message| message.id.clone()) else { return };
        for (index, (call, result)) in self.open.drain(..).enumerate() {
            let result = result.unwrap_or_else(|| never_answered(&asked, index, &call));
            self.messages.push(Arc::new(result));
        }
    }
}

/// A call: the number of its message, and its own number in there.
type Place = (usize, usize);

/// A result, and how many other messages stand before it.
type Answer = (usize, Message);

/// Which result is whose. Some providers give one id to many calls: a result belongs to the latest
/// call before it that has none, and to a later one only if there is no earlier one at all.
fn by_call(others: &[Message], results: Vec<Answer>) -> BTreeMap<Place, Message> {
    let mut places = BTreeMap::<&Id, Vec<(Place, Option<Message>)>>::new();
    for (index, message) in others.iter().enumerate() {
        for (call_index, call) in message.calls().enumerate() {
            places.entry(&call.id).or_default().push(((index, call_index), None));
        }
    }
    for (before, answer) in results {
        let call_id = answer.results().next().map(|result| &result.call_id);
        let Some(places) = call_id.and_then(|id| places.get_mut(id)) else { continue };
        let is_before = |((index, _), _): &(Place, Option<Message>)| *index < before;
        let mut free = places.iter().filter(|(_, taken)| taken.is_none());
        let message = match places.iter().any(is_before) {
            true => free.rfind(|place| is_before(place)),
            false => free.next(),
        };
        let Some(message) = message.map(|((index, _), _)| *index) else { continue };
        let is_its = |((index, _), taken): &&mut (Place, Option<Message>)| {
            *index == message && taken.is_none()
        };
        if let Some((_, taken)) = places.iter_mut().find(is_its) {
            *taken = Some(answer);
        }
    }
    let places = places.into_values().flatten();
    places.filter_map(|(place, answer)| Some((place, answer?))).collect()
}

/// The results, one for each message, and everything else.
fn split(messages: impl IntoIterator<Item = Message>) -> (Vec<Answer>, Vec<Message>) {
    let (mut results, mut others) = (Vec::new(), Vec::new());
    for message in messages {
        let is_answer = |part: &Part| matches!(part, Part::ToolResult(_));
        let (answers, rest): (Vec<_>, Vec<_>) = message.parts.into_iter().partition(is_answer);
        let several = answers.len() > 1 || !rest.is_empty();
        // A tool says nothing but results.
        let is_kept = !rest.is_empty() && message.role != Role::Tool;
        let before = others.len() + usize::from(is_kept);
        for (index, answer) in answers.into_iter().enumerate() {
            let id = match several {
                true => Id::from(format!("{}:{index}", message.id)),
                false => message.id.clone(),
            };
            let metadata = message.metadata.clone();
            let answer = Message { metadata, ..Message::new(id, Role::Tool, vec![answer]) };
            results.push((before, answer));
        }
        if is_kept {
            others.push(Message { parts: rest, ..message });
        }
    }
    (results, others)
}

/// The id of the message that holds the result of the call of this number.
pub(super) fn result_id(asked: &Id, index: usize) -> Id {
    Id::from(format!("{asked}:r{index}"))
}

fn never_answered(asked: &Id, index: usize, call: &ToolCall) -> Message {
    let content = Content::Text(NEVER_ANSWERED.to_owned());
    let result = ToolResult { call_id: call.id.clone(), content, end: CallEnd::Cancelled };
    Message::new(result_id(asked, index), Role::Tool, vec![Part::ToolResult(result)])
}
