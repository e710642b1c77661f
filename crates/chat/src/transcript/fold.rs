//! What each event does to the messages.

use serde_json::{Map, Value};

use crate::{
    Id, Part, Role, Text, Thinking, ToolCall, ToolResult,
    agui::{
        Common, Event, EventKind, MessagesSnapshot, ReasoningMessageStart, RunStarted, SecretOf,
        TextMessageStart, TextRole, ToolCallResult, ToolCallStart, ours,
    },
    convert::{call_end, from_agui, is_redacted, provider_result},
};

use super::{
    TranscriptError,
    turns::{BlockOf, Latest, Place, Turns},
};

impl Turns {
    /// Whether there is room for what an event adds.
    pub(super) fn has_room(&self, event: &Event) -> Result<(), TranscriptError> {
        let delta = match &event.kind {
            EventKind::TextMessageContent(event) => Some(&event.delta),
            EventKind::ToolCallArgs(event) => Some(&event.delta),
            EventKind::ReasoningMessageContent(event) => Some(&event.delta),
            EventKind::TextMessageChunk(event) => event.delta.as_ref(),
            EventKind::ToolCallChunk(event) => event.delta.as_ref(),
            EventKind::ReasoningMessageChunk(event) => event.delta.as_ref(),
            _ => None,
        };
        self.has_bytes(delta.map_or(0, String::len))
    }

    pub(super) fn apply(&mut self, event: &Event) -> Result<(), TranscriptError> {
        let common = &event.common;
        match &event.kind {
            EventKind::TextMessageContent(event) => {
                let place = self.grow(BlockOf::Text, &event.message_id, &event.delta)?;
                self.say(place.turn, common);
                Ok(())
            }
            EventKind::ReasoningMessageContent(event) => {
                self.grow(BlockOf::Thoughts, &event.message_id, &event.delta).map(drop)
            }
            EventKind::ToolCallArgs(event) => {
                self.grow(BlockOf::Call, &event.tool_call_id, &event.delta).map(drop)
            }
            EventKind::TextMessageStart(event) => self.start_text(event, common),
            EventKind::TextMessageEnd(event) => self.end_text(&event.message_id, common),
            EventKind::ReasoningMessageStart(event) => self.start_thoughts(event, common),
            EventKind::ReasoningMessageEnd(event) => {
                self.find(BlockOf::Thoughts, "REASONING_MESSAGE_END", &event.message_id).map(drop)
            }
            EventKind::ReasoningEncryptedValue(event) => {
                self.sign(event.subtype, &event.entity_id, &event.encrypted_value)
            }
            EventKind::ToolCallStart(event) => self.start_call(event, common),
            EventKind::ToolCallEnd(event) => self.end_call(&event.tool_call_id, common),
            EventKind::ToolCallResult(event) => self.take_answer(event, common),
            EventKind::Custom(custom) if custom.name == ours::EDITED => self.edit(&custom.value),
            EventKind::MessagesSnapshot(MessagesSnapshot { messages }) => {
                let mut turns = Self::default();
                turns.add(from_agui(messages))?;
                *self = turns;
                Ok(())
            }
            EventKind::RunStarted(RunStarted { input: Some(input), .. }) => {
                let mut turns = self.clone();
                turns.is_adrift = false;
                turns.add(from_agui(&input.messages))?;
                *self = turns;
                Ok(())
            }
            EventKind::RunStarted(_) | EventKind::RunFinished(_) | EventKind::RunError(_) => {
                self.is_adrift = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Where a block stands.
    fn find(&self, kind: BlockOf, event: &'static str, id: &Id) -> Result<Place, TranscriptError> {
        if let Some(latest) = &self.latest
            && latest.kind == kind
            && latest.id == *id
        {
            return Ok(latest.place);
        }
        let (blocks, what) = match kind {
            BlockOf::Text => (&self.texts, "text message"),
            BlockOf::Thoughts => (&self.thoughts, "message of thoughts"),
            BlockOf::Call => (&self.calls, "tool call"),
        };
        let unknown = || TranscriptError::Unknown { event, what, id: id.clone() };
        blocks.get(id).copied().ok_or_else(unknown)
    }

    /// Puts back the texts that said nothing: what ended them does not count.
    pub(super) fn put_back(&mut self) {
        for (id, turn) in std::mem::take(&mut self.emptied) {
            if let Ok(place) = self.push_part(turn, Part::Text(Text::default())) {
                self.know(BlockOf::Text, &id, place);
            }
        }
    }

    /// Remembers where a block stands.
    fn know(&mut self, kind: BlockOf, id: &Id, place: Place) {
        let blocks = match kind {
            BlockOf::Text => &mut self.texts,
            BlockOf::Thoughts => &mut self.thoughts,
            BlockOf::Call => &mut self.calls,
        };
        blocks.insert(id.clone(), place);
        self.latest = Some(Latest { kind, id: id.clone(), place });
    }

    fn grow(&mut self, kind: BlockOf, id: &Id, delta: &str) -> Result<Place, TranscriptError> {
        let event = match kind {
            BlockOf::Text => "TEXT_MESSAGE_CONTENT",
            BlockOf::Thoughts => "REASONING_MESSAGE_CONTENT",
            BlockOf::Call => "TOOL_CALL_ARGS",
        };
        let mut place = self.find(kind, event, id)?;
        self.has_bytes(delta.len())?;
        if place.part.is_none() && !delta.is_empty() {
            place = self.push_part(place.turn, Part::Text(Text::default()))?;
            self.know(kind, id, place);
        } else if !self.latest.as_ref().is_some_and(|it| it.kind == kind && it.id == *id) {
            self.latest = Some(Latest { kind, id: id.clone(), place });
        }
        match self.part(place) {
            Some(Part::Text(text)) => text.text.push_str(delta),
            Some(Part::Thinking(thinking)) => thinking.text.push_str(delta),
            Some(Part::ToolCall(call)) => call.arguments.push_str(delta),
            _ => {}
        }
        self.count(delta.len())?;
        Ok(place)
    }

    fn start_text(
        &mut self,
        event: &TextMessageStart,
        common: &Common,
    ) -> Result<(), TranscriptError> {
        let TextMessageStart { message_id: id, role, name } = event;
        let role = match role.unwrap_or_default() {
            TextRole::Developer => Role::Developer,
            TextRole::System => Role::System,
            TextRole::Assistant => Role::Assistant,
            TextRole::User => Role::User,
        };
        let known = self.texts.get(id).copied();
        let turn = match (message_id(common), known) {
            (None, Some(place)) => place.turn,
            (message, _) => {
                let (message, by) =
                    (message.as_ref().unwrap_or(id), common.subagent_run_id.as_ref());
                self.message("TEXT_MESSAGE_START", message, role, by)?
            }
        };
        let place = match known {
            Some(place) if place.turn == turn && self.is_last(place) => place,
            _ => self.push_part(turn, Part::Text(Text::default()))?,
        };
        self.know(BlockOf::Text, id, place);
        self.say(turn, common);
        if let (Some(name), Some(message)) = (name, self.message_mut(turn)) {
            message.name = Some(name.clone());
        }
        Ok(())
    }

    fn end_text(&mut self, id: &Id, common: &Common) -> Result<(), TranscriptError> {
        let place = self.find(BlockOf::Text, "TEXT_MESSAGE_END", id)?;
        self.say(place.turn, common);
        // A text that says nothing is no part.
        let is_empty = match self.part(place) {
            Some(Part::Text(text)) => text.text.is_empty() && text.signature.is_none(),
            _ => false,
        };
        if is_empty && self.is_last(place) {
            self.message_mut(place.turn).into_iter().for_each(|message| drop(message.parts.pop()));
            self.know(BlockOf::Text, id, Place { part: None, ..place });
            self.emptied.push((id.clone(), place.turn));
        }
        Ok(())
    }

    fn start_thoughts(
        &mut self,
        event: &ReasoningMessageStart,
        common: &Common,
    ) -> Result<(), TranscriptError> {
        let (id, name) = (&event.message_id, "REASONING_MESSAGE_START");
        let known = self.thoughts.get(id).copied();
        if let Some(place) = known.filter(|place| self.is_last(*place)) {
            self.know(BlockOf::Thoughts, id, place);
            return Ok(());
        }
        let by = common.subagent_run_id.as_ref();
        let turn = match (message_id(common), known, self.adrift(by)) {
            (Some(message), ..) => self.message(name, &message, Role::Assistant, by)?,
            (None, Some(place), _) => place.turn,
            (None, None, Some(turn)) => turn,
            (None, None, None) => {
                let turn = self.message(name, id, Role::Assistant, by)?;
                self.is_adrift = self.message_mut(turn).is_some_and(|it| it.parts.is_empty());
                turn
            }
        };
        let redacted = is_redacted(id, common.metadata.as_ref());
        let thinking = Thinking { redacted, ..Thinking::default() };
        let place = self.push_part(turn, Part::Thinking(thinking))?;
        self.know(BlockOf::Thoughts, id, place);
        Ok(())
    }

    fn start_call(
        &mut self,
        event: &ToolCallStart,
        common: &Common,
    ) -> Result<(), TranscriptError> {
        let ToolCallStart { tool_call_id: id, tool_call_name: name, parent_message_id } = event;
        if let Some(place) = self.calls.get(id).copied() {
            self.know(BlockOf::Call, id, place);
            if let Some(Part::ToolCall(call)) = self.part(place) {
                call.name = Id::from(name.as_str());
            }
            return Ok(());
        }
        let turn = self.parent(parent_message_id.as_ref(), id, common.subagent_run_id.as_ref())?;
        let (name, provider_result) =
            (Id::from(name.as_str()), provider_result(common.metadata.as_ref()));
        let call = ToolCall { id: id.clone(), name, provider_result, ..ToolCall::default() };
        let place = self.push_part(turn, Part::ToolCall(call))?;
        self.know(BlockOf::Call, id, place);
        Ok(())
    }

    /// The message that a call stands in.
    fn parent(
        &mut self,
        parent: Option<&Id>,
        call: &Id,
        subagent: Option<&Id>,
    ) -> Result<usize, TranscriptError> {
        let block = parent.and_then(|id| self.texts.get(id).or_else(|| self.thoughts.get(id)));
        let turn = block.map(|place| place.turn);
        let by_assistant = |turns: &mut Self, turn| {
            turns.message_mut(turn).is_some_and(|message| message.role == Role::Assistant)
        };
        if let Some(turn) = turn.filter(|turn| by_assistant(self, *turn)) {
            return Ok(turn);
        }
        let id = match parent.map(|id| (id, self.find_message(id))) {
            Some((id, None | Some((_, Role::Assistant)))) => id,
            _ => call,
        };
        self.message("TOOL_CALL_START", id, Role::Assistant, subagent)
    }

    fn end_call(&mut self, id: &Id, common: &Common) -> Result<(), TranscriptError> {
        let place = self.find(BlockOf::Call, "TOOL_CALL_END", id)?;
        if let (Some(result), Some(Part::ToolCall(call))) =
            (provider_result(common.metadata.as_ref()), self.part(place))
        {
            call.provider_result = Some(result);
        }
        Ok(())
    }

    /// A person has changed the arguments of a call.
    fn edit(&mut self, edited: &Value) -> Result<(), TranscriptError> {
        let (Some(id), Some(arguments)) =
            (edited["toolCallId"].as_str(), edited["arguments"].as_str())
        else {
            return Ok(());
        };
        let place = self.find(BlockOf::Call, ours::EDITED, &Id::from(id))?;
        self.has_bytes(arguments.len())?;
        if let Some(Part::ToolCall(call)) = self.part(place) {
            arguments.clone_into(&mut call.arguments);
        }
        self.count(arguments.len())
    }

    fn take_answer(
        &mut self,
        event: &ToolCallResult,
        common: &Common,
    ) -> Result<(), TranscriptError> {
        let result = ToolResult {
            call_id: event.tool_call_id.clone(),
            content: event.content.clone(),
            end: call_end(common.metadata.as_ref()).unwrap_or_default(),
        };
        let mut metadata = told(common);
        if let Some(subagent) = &common.subagent_run_id {
            ours::set(&mut metadata, ours::SUBAGENT_RUN_ID, subagent.as_str().into());
        }
        self.answer(&event.message_id, result, metadata)
    }

    fn sign(&mut self, of: SecretOf, id: &Id, secret: &str) -> Result<(), TranscriptError> {
        const EVENT: &str = "REASONING_ENCRYPTED_VALUE";
        let mut place = match of {
            SecretOf::ToolCall => self.find(BlockOf::Call, EVENT, id)?,
            SecretOf::Message => match self.thoughts.get(id) {
                Some(place) => *place,
                None => self.find(BlockOf::Text, EVENT, id)?,
            },
        };
        self.has_bytes(secret.len())?;
        if place.part.is_none() {
            place = self.push_part(place.turn, Part::Text(Text::default()))?;
            self.know(BlockOf::Text, id, place);
        }
        let signature = match self.part(place) {
            Some(Part::Text(text)) => &mut text.signature,
            Some(Part::Thinking(thinking)) => &mut thinking.signature,
            Some(Part::ToolCall(call)) => &mut call.signature,
            _ => return Ok(()),
        };
        *signature = Some(secret.to_owned());
        self.count(secret.len())
    }

    /// What an event says of a whole message.
    fn say(&mut self, turn: usize, common: &Common) {
        let mut metadata = told(common);
        if let (false, Some(message)) = (metadata.is_empty(), self.message_mut(turn)) {
            message.metadata.append(&mut metadata);
        }
    }
}

/// Metadata of an event that are about what it tells of.
fn told(common: &Common) -> Map<String, Value> {
    let metadata = common.metadata.iter().flatten();
    let about = metadata.filter(|(name, _)| *name != ours::KEY && *name != "tanstack");
    about.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn message_id(common: &Common) -> Option<Id> {
    let metadata = common.metadata.as_ref()?;
    ours::find(metadata, ours::MESSAGE_ID).and_then(Value::as_str).map(Id::from)
}
