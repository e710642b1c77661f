//! One model turn: blocks come in, AG-UI events go out, and a message grows.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{misfed::BadModelEvent, names::CallNames};
use crate::{
    Block, BlockKind, Id, Message, ModelEvent, Part, Role, StopReason, Text, Thinking, ToolCall,
    Usage,
    agui::{
        Custom, Event, ReasoningEncryptedValue, ReasoningEnd, ReasoningMessageContent,
        ReasoningMessageEnd, ReasoningMessageStart, ReasoningStart, SecretOf, TextMessageContent,
        TextMessageEnd, TextMessageStart, ToolCallArgs, ToolCallEnd, ToolCallStart, ours,
    },
    caps::{BLOCKS_PER_TURN_MAX, TURN_BYTES_MAX},
};

/// The answer of a model while it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Turn {
    /// The message that grows.
    message_id: Id,
    blocks: Vec<Grown>,
    /// How many blocks there were, also those that stayed empty.
    opened: usize,
    told: usize,
    bytes: usize,
    pub(super) model: Option<Id>,
    pub(super) usage: Option<Usage>,
    pub(super) stop: Option<StopReason>,
}

/// A block, as far as it has grown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Grown {
    block: Block,
    id: Id,
    part: Part,
    stage: Stage,
    /// When it was told of: the order of the parts.
    order: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// Nobody has been told of it, since there is nothing in it yet.
    Silent,
    Open,
    /// A call that the provider runs: whole, but not answered.
    Waiting,
    Ended,
}

impl Turn {
    pub(super) const fn new(message_id: Id) -> Self {
        Self {
            message_id,
            blocks: Vec::new(),
            opened: 0,
            told: 0,
            bytes: 0,
            model: None,
            usage: None,
            stop: None,
        }
    }

    /// Takes what the model streamed, and tells what that means.
    pub(super) fn take(
        &mut self,
        event: ModelEvent,
        names: &mut CallNames,
        events: &mut Vec<Event>,
    ) -> Result<(), BadModelEvent> {
        match event {
            ModelEvent::More { block, delta } => self.more(block, delta, events)?,
            ModelEvent::Open { block, kind } => self.open(block, kind, names, events)?,
            ModelEvent::Close { block } => self.close(block, events)?,
            ModelEvent::Sign { block, signature } => self.sign(block, &signature, events)?,
            ModelEvent::ProviderResult { block, result } => self.answer(block, result, events)?,
            ModelEvent::Answering { model } => self.model = Some(model),
            ModelEvent::Usage(usage) => self.usage = Some(usage),
            ModelEvent::Stop(reason) => self.stop = Some(reason),
            ModelEvent::Note { name, value } => {
                events.push(Custom { name: name.to_string(), value }.into());
            }
        }
        Ok(())
    }

    /// Ends what has not ended: the model has said all it will.
    pub(super) fn end(&mut self, events: &mut Vec<Event>) {
        self.blocks.retain(|grown| grown.stage != Stage::Silent);
        for grown in &mut self.blocks {
            grown.end(events);
        }
    }

    /// The message; `None` if nothing was said.
    pub(super) fn into_message(mut self) -> Option<Message> {
        self.blocks.sort_by_key(|grown| grown.order);
        let mut parts: Vec<_> = self.blocks.into_iter().map(|grown| grown.part).collect();
        // A conversation is kept for long; room to grow is for the turn that is being read.
        parts.shrink_to_fit();
        parts.iter_mut().for_each(shrink);
        (!parts.is_empty()).then(|| Message::new(self.message_id, Role::Assistant, parts))
    }

    /// The calls in it.
    pub(super) fn call_ids(&self) -> impl Iterator<Item = &Id> {
        self.blocks.iter().filter_map(|grown| match &grown.part {
            Part::ToolCall(call) => Some(&call.id),
            _ => None,
        })
    }

    fn open(
        &mut self,
        block: Block,
        kind: BlockKind,
        names: &mut CallNames,
        events: &mut Vec<Event>,
    ) -> Result<(), BadModelEvent> {
        if self.find(block).is_ok() {
            return Err(BadModelEvent::OpenedTwice { block });
        }
        if self.opened == BLOCKS_PER_TURN_MAX {
            return Err(BadModelEvent::TooManyBlocks);
        }
        let own_id = Id::from(format!("{}:{}", self.message_id, self.opened));
        let (id, part) = self.begin(kind, own_id, names);
        self.opened += 1;
        let is_call = matches!(part, Part::ToolCall(_));
        self.blocks.push(Grown { block, id, part, stage: Stage::Silent, order: 0 });
        if is_call {
            self.tell(self.blocks.len() - 1, events);
        }
        Ok(())
    }

    /// A block of this kind. The first text has the id of the message.
    fn begin(&self, kind: BlockKind, own_id: Id, names: &mut CallNames) -> (Id, Part) {
        let thinking = |redacted| Thinking { redacted, ..Thinking::default() };
        match kind {
            BlockKind::Text => {
                let is_first = self.blocks.iter().all(|grown| grown.id != self.message_id);
                let id = if is_first { self.message_id.clone() } else { own_id };
                (id, Part::Text(Text::default()))
            }
            BlockKind::Thinking => (own_id, Part::Thinking(thinking(false))),
            BlockKind::RedactedThinking => (own_id, Part::Thinking(thinking(true))),
            BlockKind::Call { id, name } => {
                let id = names.take(id, own_id);
                let call = ToolCall { id: id.clone(), name, ..ToolCall::default() };
                (id, Part::ToolCall(call))
            }
            BlockKind::ProviderCall { id, name } => {
                let id = names.take(id, own_id);
                let mut call = ToolCall { id: id.clone(), name, ..ToolCall::default() };
                call.provider_result = Some(Value::Null);
                (id, Part::ToolCall(call))
            }
        }
    }

    fn more(
        &mut self,
        block: Block,
        delta: String,
        events: &mut Vec<Event>,
    ) -> Result<(), BadModelEvent> {
        let index = self.find(block)?;
        if delta.is_empty() {
            return Ok(());
        }
        self.grow(delta.len())?;
        self.tell(index, events);
        let grown = &mut self.blocks[index];
        let id = grown.id.clone();
        events.push(match &mut grown.part {
            Part::Text(text) => {
                text.text.push_str(&delta);
                TextMessageContent { message_id: id, delta }.into()
            }
            Part::Thinking(thinking) => {
                thinking.text.push_str(&delta);
                ReasoningMessageContent { message_id: id, delta }.into()
            }
            Part::ToolCall(call) => {
                call.arguments.push_str(&delta);
                ToolCallArgs { tool_call_id: id, delta }.into()
            }
            _ => return Ok(()),
        });
        Ok(())
    }

    fn sign(
        &mut self,
        block: Block,
        signature: &str,
        events: &mut Vec<Event>,
    ) -> Result<(), BadModelEvent> {
        let index = self.find(block)?;
        self.grow(signature.len())?;
        self.tell(index, events);
        let signed = match &mut self.blocks[index].part {
            Part::Text(text) => &mut text.signature,
            Part::Thinking(thinking) => &mut thinking.signature,
            Part::ToolCall(call) => &mut call.signature,
            _ => return Ok(()),
        };
        signed.get_or_insert_default().push_str(signature);
        Ok(())
    }

    fn answer(
        &mut self,
        block: Block,
        result: Value,
        events: &mut Vec<Event>,
    ) -> Result<(), BadModelEvent> {
        // A provider may tell the answer long after the call.
        let open = |grown: &&mut Grown| grown.block == block && grown.stage != Stage::Ended;
        let grown = self.blocks.iter_mut().rfind(open);
        let grown = grown.ok_or(BadModelEvent::UnknownBlock { block })?;
        match &mut grown.part {
            Part::ToolCall(call) if call.provider_result.is_some() => {
                call.provider_result = Some(result);
            }
            _ => return Err(BadModelEvent::NotTheProviders { block }),
        }
        if grown.stage == Stage::Waiting {
            grown.end(events);
        }
        Ok(())
    }

    fn close(&mut self, block: Block, events: &mut Vec<Event>) -> Result<(), BadModelEvent> {
        let index = self.find(block)?;
        let grown = &mut self.blocks[index];
        match &grown.part {
            _ if grown.stage == Stage::Silent => {
                self.blocks.remove(index);
            }
            Part::ToolCall(call) if call.provider_result == Some(Value::Null) => {
                grown.stage = Stage::Waiting;
            }
            _ => grown.end(events),
        }
        Ok(())
    }

    /// The block of this number that may still grow.
    fn find(&self, block: Block) -> Result<usize, BadModelEvent> {
        let grows = |grown: &Grown| {
            grown.block == block && matches!(grown.stage, Stage::Silent | Stage::Open)
        };
        self.blocks.iter().rposition(grows).ok_or(BadModelEvent::UnknownBlock { block })
    }

    const fn grow(&mut self, bytes: usize) -> Result<(), BadModelEvent> {
        self.bytes += bytes;
        if self.bytes > TURN_BYTES_MAX { Err(BadModelEvent::TooLong) } else { Ok(()) }
    }

    /// Tells of a block, once there is something in it.
    fn tell(&mut self, index: usize, events: &mut Vec<Event>) {
        if self.blocks[index].stage != Stage::Silent {
            return;
        }
        let parent = self.latest_text().unwrap_or(&self.message_id).clone();
        let grown = &mut self.blocks[index];
        grown.stage = Stage::Open;
        grown.order = self.told;
        self.told += 1;
        let (id, message_id) = (grown.id.clone(), &self.message_id);
        match &grown.part {
            Part::Text(_) => {
                let is_other = id != *message_id;
                let start = TextMessageStart { message_id: id, role: None, name: None };
                events.push(match is_other {
                    true => ours::with(start.into(), ours::MESSAGE_ID, json!(message_id)),
                    false => start.into(),
                });
            }
            Part::Thinking(thinking) => {
                events.push(ReasoningStart { message_id: id.clone() }.into());
                let role = "reasoning".to_owned();
                let start = ReasoningMessageStart { message_id: id, role };
                let start = ours::with(start.into(), ours::MESSAGE_ID, json!(message_id));
                events.push(match thinking.redacted {
                    true => ours::with(start, ours::REDACTED, json!(true)),
                    false => start,
                });
            }
            Part::ToolCall(call) => {
                let tool_call_name = call.name.to_string();
                let parent_message_id = Some(parent);
                let start = ToolCallStart { tool_call_id: id, tool_call_name, parent_message_id };
                let mut start = Event::from(start);
                if call.provider_result.is_some() {
                    // TanStack AI knows such calls by this; else its clients would make them.
                    let metadata = start.common.metadata.get_or_insert_default();
                    metadata.insert("providerExecuted".into(), json!(true));
                }
                events.push(start);
            }
            _ => {}
        }
    }

    /// The text that tool calls hang on.
    fn latest_text(&self) -> Option<&Id> {
        let told =
            |grown: &&Grown| grown.stage != Stage::Silent && matches!(grown.part, Part::Text(_));
        let latest = self.blocks.iter().filter(told).max_by_key(|grown| grown.order);
        latest.map(|grown| &grown.id)
    }
}

fn shrink(part: &mut Part) {
    match part {
        Part::Text(text) => text.text.shrink_to_fit(),
        Part::Thinking(thinking) => thinking.text.shrink_to_fit(),
        Part::ToolCall(call) => call.arguments.shrink_to_fit(),
        _ => {}
    }
}

impl Grown {
    fn end(&mut self, events: &mut Vec<Event>) {
        if self.stage == Stage::Ended {
            return;
        }
        self.stage = Stage::Ended;
        let id = self.id.clone();
        match &self.part {
            Part::Text(text) => {
                events.extend(secret(SecretOf::Message, &id, text.signature.as_ref()));
                events.push(TextMessageEnd { message_id: id }.into());
            }
            Part::Thinking(thinking) => {
                events.push(ReasoningMessageEnd { message_id: id.clone() }.into());
                events.extend(secret(SecretOf::Message, &id, thinking.signature.as_ref()));
                events.push(ReasoningEnd { message_id: id }.into());
            }
            Part::ToolCall(call) => {
                events.extend(secret(SecretOf::ToolCall, &id, call.signature.as_ref()));
                let end = ToolCallEnd { tool_call_id: id }.into();
                events.push(match &call.provider_result {
                    Some(result) => ours::with(end, ours::PROVIDER_RESULT, result.clone()),
                    None => end,
                });
            }
            _ => {}
        }
    }
}

fn secret(subtype: SecretOf, id: &Id, signature: Option<&String>) -> Option<Event> {
    let encrypted_value = signature?.clone();
    Some(ReasoningEncryptedValue { subtype, entity_id: id.clone(), encrypted_value }.into())
}
