//! Answers of Chat Completions.

use std::borrow::Cow;

use chat::{Block, BlockKind, Id, ModelError, ModelErrorKind, ModelEvent, StopReason, Usage};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::failure::broke_off;
use crate::{
    blocks::{Blocks, Prose},
    caps::BLOCKS_MAX,
    json::{Loose, Text, Texts, object},
    wire::{Decoder, quote},
};

/// Reads one answer of Chat Completions, of OpenAI or of a server that speaks like it.
#[derive(Debug)]
pub struct ChatDecoder {
    provider: Id,
    /// How many events were read, so that errors say where.
    events: u64,
    is_named: bool,
    blocks: Blocks,
    calls: Vec<Call>,
    has_refused: bool,
    /// Why the answer ends, as far as the wire says so.
    reason: Option<Id>,
    is_done: bool,
}

/// A tool call. Servers send its id, its name and its arguments in any order.
#[derive(Debug, Default)]
struct Call {
    index: u32,
    id: String,
    name: String,
    /// Arguments that came before the call could be opened.
    early: String,
    block: Option<Block>,
}

impl ChatDecoder {
    /// Reads an answer of this provider.
    #[must_use]
    pub fn new(provider: Id) -> Self {
        Self {
            provider,
            events: 0,
            is_named: false,
            blocks: Blocks::default(),
            calls: Vec::new(),
            has_refused: false,
            reason: None,
            is_done: false,
        }
    }

    fn malformed(&self, why: &str) -> ModelError {
        let why = format!("event {} of the answer {why}", self.events);
        ModelError::new(self.provider.clone(), ModelErrorKind::Malformed, why)
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        // Some servers say the same thing under both names.
        if let Some(thought) = delta.reasoning_content.full().or_else(|| delta.reasoning.full()) {
            self.blocks.add(Prose::Thinking, thought.into_owned(), out);
        }
        if let Some(text) = delta.content.map(|text| text.0).filter(|text| !text.is_empty()) {
            self.blocks.add(Prose::Text, text.into_owned(), out);
        }
        if let Some(refusal) = delta.refusal.full() {
            self.has_refused = true;
            self.blocks.add(Prose::Text, refusal.into_owned(), out);
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call, out)?;
        }
        if self.blocks.count() > BLOCKS_MAX {
            return Err(self.malformed(&format!("opens more than {BLOCKS_MAX} blocks")));
        }
        Ok(())
    }

    fn call(&mut self, delta: CallDelta<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let function = delta.function.unwrap_or_default();
        let arguments = function.arguments.full();
        let arguments = arguments.map_err(|error| {
            self.malformed(&format!("has arguments that cannot be read: {error}"))
        })?;
        let at = self.place_of(&delta.id, &function.name, delta.index);
        if at >= BLOCKS_MAX {
            return Err(self.malformed(&format!("has more than {BLOCKS_MAX} tool calls")));
        }
        if at == self.calls.len() {
            let index = delta.index.unwrap_or_else(|| u32::try_from(at).unwrap_or(u32::MAX));
            self.calls.push(Call { index, ..Call::default() });
        }
        let call = &mut self.calls[at];
        if let (true, Some(id)) = (call.id.is_empty(), delta.id.full()) {
            call.id = id.into_owned();
        }
        if let (None, Some(name)) = (call.block, function.name.full()) {
            call.name = name.into_owned();
        }
        if call.block.is_none() && !call.id.is_empty() && !call.name.is_empty() {
            open(call, &mut self.blocks, out);
        }
        match (call.block, arguments) {
            (Some(block), Some(delta)) => {
                out.push(ModelEvent::More { block, delta: delta.into_owned() });
            }
            (None, Some(delta)) => call.early.push_str(&delta),
            (_, None) => {}
        }
        Ok(())
    }

    /// Which call is meant: the one past the last is a new one.
    fn place_of(&self, id: &Loose<'_>, name: &Loose<'_>, index: Option<u32>) -> usize {
        let id = id.as_str();
        let known = match index {
            Some(index) => self.calls.iter().rposition(|call| call.index == index),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.id == id),
        };
        let Some(at) = known else { return self.calls.len() };
        // Some servers give every call the same index, but not the same id.
        let is_other = !id.is_empty() && !self.calls[at].id.is_empty() && self.calls[at].id != id;
        match is_other && !name.as_str().is_empty() {
            true => self.calls.iter().rposition(|call| call.id == id).unwrap_or(self.calls.len()),
            false => at,
        }
    }

    fn stop(&self) -> StopReason {
        let has_calls = !self.calls.is_empty();
        match self.reason.as_deref() {
            Some("length") => StopReason::Length,
            Some("content_filter") => StopReason::ContentFilter,
            // What came counts more than what is said of it.
            _ if has_calls => StopReason::ToolCalls,
            _ if self.has_refused => StopReason::Refusal,
            Some("stop" | "tool_calls" | "function_call" | "eos") | None => StopReason::End,
            Some(other) => StopReason::Other(other.into()),
        }
    }
}

impl Decoder for ChatDecoder {
    fn push(
        &mut self,
        _: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.events += 1;
        if data.trim_ascii() == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let chunk: Chunk<'_> = object(data).map_err(|error| {
            self.malformed(&format!("is no chunk: {error}; it is {}", quote(data.as_bytes())))
        })?;
        if let Some(error) = chunk.error {
            let error = serde_json::from_str(error.get()).unwrap_or(Value::Null);
            if !error.is_null() {
                return Err(broke_off(&self.provider, &error));
            }
        }
        if let (false, Some(model)) = (self.is_named, chunk.model.full()) {
            self.is_named = true;
            out.push(ModelEvent::Answering { model: model.as_ref().into() });
        }
        // Only one was asked for.
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, out)?;
            }
            if let Some(reason) = choice.finish_reason.full() {
                self.reason = Some(reason.as_ref().into());
            }
        }
        if let Some(usage) = chunk.usage {
            out.push(ModelEvent::Usage(usage.into()));
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if !self.is_done && self.reason.is_none() {
            let why = "the answer broke off: neither a finish_reason nor [DONE] came";
            return Err(ModelError::new(self.provider.clone(), ModelErrorKind::Truncated, why));
        }
        if let Some(call) = self.calls.iter().find(|call| call.name.is_empty()) {
            let why = format!("leaves tool call {} without a name", call.index);
            return Err(self.malformed(&why));
        }
        self.blocks.close(out);
        for call in &mut self.calls {
            if call.block.is_none() {
                open(call, &mut self.blocks, out);
            }
            out.extend(call.block.map(|block| ModelEvent::Close { block }));
        }
        out.push(ModelEvent::Stop(self.stop()));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// Opens a call whose name is known, with the arguments that came before.
fn open(call: &mut Call, blocks: &mut Blocks, out: &mut Vec<ModelEvent>) {
    blocks.close(out);
    let id = (!call.id.is_empty()).then(|| Id::from(call.id.as_str()));
    let block = blocks.open(BlockKind::Call { id, name: call.name.as_str().into() }, out);
    call.block = Some(block);
    if !call.early.is_empty() {
        out.push(ModelEvent::More { block, delta: std::mem::take(&mut call.early) });
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    model: Loose<'a>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<ChatUsage>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Loose<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Texts<'a>>,
    #[serde(borrow, default)]
    refusal: Loose<'a>,
    #[serde(borrow, default)]
    reasoning_content: Loose<'a>,
    #[serde(borrow, default)]
    reasoning: Loose<'a>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(default)]
    index: Option<u32>,
    #[serde(borrow, default)]
    id: Loose<'a>,
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(Default, Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Loose<'a>,
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
}

/// A piece of JSON as text; some servers send it whole, as an object.
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct Arguments<'a>(#[serde(borrow)] Option<&'a RawValue>);

impl<'a> Arguments<'a> {
    fn full(self) -> Result<Option<Cow<'a, str>>, serde_json::Error> {
        let raw = self.0.map_or("null", RawValue::get);
        let text = match raw.as_bytes().first() {
            Some(b'{') => Cow::Borrowed(raw),
            _ => serde_json::from_str::<Option<Text<'a>>>(raw)?.unwrap_or_default().0,
        };
        Ok((!text.is_empty()).then_some(text))
    }
}

#[derive(Deserialize)]
struct ChatUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl From<ChatUsage> for Usage {
    fn from(usage: ChatUsage) -> Self {
        Self {
            input_tokens: usage.prompt_tokens,
            output_tokens: usage.completion_tokens,
            total_tokens: usage.total_tokens,
            reasoning_tokens: usage.completion_tokens_details.and_then(|all| all.reasoning_tokens),
            cached_input_tokens: usage.prompt_tokens_details.and_then(|all| all.cached_tokens),
            ..Self::default()
        }
    }
}
