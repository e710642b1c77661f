//! A conversation as a model may be shown it: every call has its result, in order.

use std::{
    collections::{BTreeMap, VecDeque},
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
        let mut results = by_call(results);
        let mut history = Self { messages: Vec::new(), open: Vec::new() };
        for message in others {
            history.answer_for_open_calls();
            // Some providers give one id to many calls; each takes the next result.
            let mut result_of = |call: &ToolCall| results.get_mut(&call.id)?.pop_front();
            let calls = message.calls().map(|call| (call.clone(), result_of(call)));
            history.open = calls.collect();
            if !message.parts.is_empty() {
                history.messages.push(Arc::new(message));
            }
        }
        if history.open.iter().all(|(_, result)| result.is_some()) {
            history.answer_for_open_calls();
        }
        history
    }

    fn answer_for_open_calls(&mut self) {
        let Some(asked) = self.messages.last().map(|message| message.id.clone()) else { return };
        for (index, (call, result)) in self.open.drain(..).enumerate() {
            let result = result.unwrap_or_else(|| never_answered(&asked, index, &call));
            self.messages.push(Arc::new(result));
        }
    }
}

fn by_call(results: Vec<Message>) -> BTreeMap<Id, VecDeque<Message>> {
    let mut by_call = BTreeMap::<_, VecDeque<_>>::new();
    for result in results {
        let call_id = result.results().next().map(|result| result.call_id.clone());
        if let Some(call_id) = call_id {
            by_call.entry(call_id).or_default().push_back(result);
        }
    }
    by_call
}

/// The results, one for each message, and everything else.
fn split(messages: impl IntoIterator<Item = Message>) -> (Vec<Message>, Vec<Message>) {
    let (mut results, mut others) = (Vec::new(), Vec::new());
    for message in messages {
        let is_answer = |part: &Part| matches!(part, Part::ToolResult(_));
        let (answers, rest): (Vec<_>, Vec<_>) = message.parts.into_iter().partition(is_answer);
        let several = answers.len() > 1 || !rest.is_empty();
        for (index, answer) in answers.into_iter().enumerate() {
            let id = match several {
                true => Id::from(format!("{}:{index}", message.id)),
                false => message.id.clone(),
            };
            let metadata = message.metadata.clone();
            results.push(Message { metadata, ..Message::new(id, Role::Tool, vec![answer]) });
        }
        // A tool says nothing but results.
        if !rest.is_empty() && message.role != Role::Tool {
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
