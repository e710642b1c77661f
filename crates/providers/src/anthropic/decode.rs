//! Reads an answer of Anthropic.

use std::fmt;

use chat::{Block, BlockKind, Id, ModelError, ModelErrorKind, ModelEvent, StopReason, Usage};
use serde_json::{Value, value::RawValue};

use super::{
    PROVIDER, failure,
    frame::{ContentBlock, Counts, Delta, Frame, Start},
};
use crate::{Decoder, caps::BLOCKS_MAX, wire::quote};

/// Reads one answer of Anthropic's Messages API.
#[derive(Debug, Default)]
pub struct AnthropicDecoder {
    open: Vec<Live>,
    /// The least number that a block may have that begins.
    next: u32,
    /// Calls that the provider runs and has not answered: its answer is a block of its own.
    waiting: Vec<(Option<Id>, Block)>,
    tally: Tally,
    progress: Progress,
}

/// How far the answer has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Streaming,
    /// It was said why it ends.
    Stopped(StopReason),
    /// It was said that it has ended.
    Whole,
}

/// A block that has not ended.
#[derive(Debug)]
struct Live {
    block: Block,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text,
    Thinking,
    Call(Arguments),
    ProviderCall(Option<Id>, Arguments),
    /// Nothing is added to it, or nothing that we know.
    Still,
    /// No block of ours.
    Passed,
}

/// Arguments that were there from the start of a call; they count if no others follow.
type Arguments = Option<String>;

/// Tokens so far.
#[derive(Debug, Default)]
struct Tally {
    input: Option<u64>,
    output: Option<u64>,
    cache_write: Option<u64>,
    cache_read: Option<u64>,
    thinking: Option<u64>,
}

impl Decoder for AnthropicDecoder {
    fn push(
        &mut self,
        _name: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let frame: Frame<'_> = serde_json::from_str(data)
            .map_err(|error| malformed(format!("an event is not readable: {error}"), data))?;
        let kind = &*frame.kind;
        let is_content = kind.starts_with("content_block_") || kind.starts_with("message_");
        if self.progress == Progress::Whole && is_content {
            return Err(malformed(format!("{kind} came after message_stop"), data));
        }
        match kind {
            "content_block_delta" => self.delta(&frame, data, out),
            "content_block_start" => self.start(&frame, data, out),
            "content_block_stop" => self.stop(&frame, data, out),
            "message_start" => self.begin(frame.message.as_ref(), out),
            "message_delta" => self.turn(&frame, data, out),
            "message_stop" => {
                self.end(out);
                Ok(())
            }
            "error" => Err(failure::of_event(frame.error.as_ref())),
            // Anthropic adds kinds of events over time, and asks clients to pass over them.
            _ => Ok(()),
        }
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match self.progress {
            Progress::Whole => Ok(()),
            Progress::Stopped(_) if self.open.is_empty() => {
                self.end(out);
                Ok(())
            }
            Progress::Streaming | Progress::Stopped(_) => {
                let message = "the answer broke off before its message_stop; ask again";
                Err(ModelError::new(PROVIDER, ModelErrorKind::Truncated, message))
            }
        }
    }

    fn is_done(&self) -> bool {
        self.progress == Progress::Whole
    }
}

impl AnthropicDecoder {
    fn begin(
        &mut self,
        message: Option<&Start<'_>>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let Some(message) = message else { return Ok(()) };
        if let Some(model) = message.model.as_deref() {
            out.push(ModelEvent::Answering { model: model.into() });
        }
        self.count(message.usage.as_ref(), out);
        Ok(())
    }

    fn start(
        &mut self,
        frame: &Frame<'_>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let block = block_of(frame, data)?;
        if block.0 < self.next {
            return Err(malformed(format!("block {} began twice", block.0), data));
        }
        self.next = block.0 + 1;
        let missing = || malformed("a block began without content_block", data);
        let raw = frame.content_block.ok_or_else(missing)?;
        let content: ContentBlock<'_> = serde_json::from_str(raw.get())
            .map_err(|error| malformed(format!("a block is not readable: {error}"), data))?;
        let kind = match &*content.kind {
            "text" => {
                open(block, BlockKind::Text, out);
                more(block, content.text.as_deref(), out);
                Kind::Text
            }
            "thinking" => {
                open(block, BlockKind::Thinking, out);
                more(block, content.thinking.as_deref(), out);
                sign(block, content.signature.as_deref(), out);
                Kind::Thinking
            }
            "redacted_thinking" => {
                open(block, BlockKind::RedactedThinking, out);
                sign(block, content.data.as_deref(), out);
                Kind::Still
            }
            "tool_use" => {
                let (id, name) = named(&content, data)?;
                open(block, BlockKind::Call { id, name }, out);
                Kind::Call(whole_input(&content))
            }
            "server_tool_use" | "mcp_tool_use" => {
                let (id, name) = named(&content, data)?;
                open(block, BlockKind::ProviderCall { id: id.clone(), name }, out);
                // The name of an MCP server must be sent back, and has no other place.
                sign(block, content.server_name.as_deref(), out);
                Kind::ProviderCall(id, whole_input(&content))
            }
            kind if kind.ends_with("_tool_result") => {
                self.result(block, &content, value_of(raw), out);
                Kind::Passed
            }
            kind => {
                out.push(ModelEvent::Note { name: kind.into(), value: value_of(raw) });
                Kind::Passed
            }
        };
        self.open.push(Live { block, kind });
        Ok(())
    }

    /// What came of a tool that the provider ran. Its call may stand in an answer before this one,
    /// if the provider wanted to be asked to go on.
    fn result(
        &mut self,
        block: Block,
        content: &ContentBlock<'_>,
        result: Value,
        out: &mut Vec<ModelEvent>,
    ) {
        let id = content.tool_use_id.as_deref();
        let waits = |(call, _): &(Option<Id>, Block)| call.as_deref() == id;
        let block = match self.waiting.iter().position(waits) {
            Some(index) => self.waiting.remove(index).1,
            None => {
                let name = content.kind.trim_end_matches("_tool_result").into();
                open(block, BlockKind::ProviderCall { id: id.map(Id::from), name }, out);
                block
            }
        };
        out.push(ModelEvent::ProviderResult { block, result });
        out.push(ModelEvent::Close { block });
    }

    fn delta(
        &mut self,
        frame: &Frame<'_>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let block = block_of(frame, data)?;
        let live = self.open.iter_mut().rfind(|live| live.block == block);
        let not_open = || malformed(format!("block {} grew, but is not open", block.0), data);
        let live = live.ok_or_else(not_open)?;
        let missing = || malformed("a block grew without delta", data);
        let delta = frame.delta.as_ref().ok_or_else(missing)?;
        match (delta.kind.as_deref().unwrap_or_default(), &mut live.kind) {
            ("text_delta", Kind::Text) => more(block, delta.text.as_deref(), out),
            ("thinking_delta", Kind::Thinking) => more(block, delta.thinking.as_deref(), out),
            ("signature_delta", Kind::Thinking) => sign(block, delta.signature.as_deref(), out),
            ("input_json_delta", Kind::Call(whole) | Kind::ProviderCall(_, whole)) => {
                let part = delta.partial_json.as_deref().unwrap_or_default();
                if !part.is_empty() {
                    *whole = None;
                    more(block, Some(part), out);
                }
            }
            ("citations_delta", _) => {
                let value = delta.citation.map_or(Value::Null, value_of);
                out.push(ModelEvent::Note { name: Id::new_static("citation"), value });
            }
            (
                kind @ ("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta"),
                Kind::Text | Kind::Thinking | Kind::Call(_) | Kind::ProviderCall(..) | Kind::Still,
            ) => {
                return Err(malformed(format!("a {kind} is none of block {}", block.0), data));
            }
            // Anthropic adds kinds of deltas over time.
            _ => {}
        }
        Ok(())
    }

    fn stop(
        &mut self,
        frame: &Frame<'_>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let block = block_of(frame, data)?;
        let index = self.open.iter().position(|live| live.block == block);
        let not_open = || malformed(format!("block {} ended, but is not open", block.0), data);
        let live = self.open.remove(index.ok_or_else(not_open)?);
        self.close(live, out);
        Ok(())
    }

    fn close(&mut self, live: Live, out: &mut Vec<ModelEvent>) {
        let block = live.block;
        match live.kind {
            Kind::Passed => return,
            Kind::Call(whole) => more(block, whole.as_deref(), out),
            Kind::ProviderCall(id, whole) => {
                more(block, whole.as_deref(), out);
                self.waiting.push((id, block));
                return;
            }
            Kind::Text | Kind::Thinking | Kind::Still => {}
        }
        out.push(ModelEvent::Close { block });
    }

    /// The answer is whole. Calls that nobody has answered end too: the answer to this answer may
    /// tell what came of them.
    fn end(&mut self, out: &mut Vec<ModelEvent>) {
        for live in std::mem::take(&mut self.open) {
            self.close(live, out);
        }
        let waiting = self.waiting.drain(..);
        out.extend(waiting.map(|(_, block)| ModelEvent::Close { block }));
        if let Progress::Stopped(reason) = std::mem::replace(&mut self.progress, Progress::Whole) {
            out.push(ModelEvent::Stop(reason));
        }
    }

    fn turn(
        &mut self,
        frame: &Frame<'_>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.count(frame.usage.as_ref(), out);
        let missing = || malformed("a message_delta without delta", data);
        let Delta { stop_reason, stop_details, .. } = frame.delta.as_ref().ok_or_else(missing)?;
        let Some(word) = stop_reason.as_deref() else { return Ok(()) };
        if let Some(details) = stop_details {
            let name = Id::new_static("stop-details");
            out.push(ModelEvent::Note { name, value: value_of(details) });
        }
        self.progress = Progress::Stopped(stop_reason_of(word));
        Ok(())
    }

    fn count(&mut self, counts: Option<&Counts>, out: &mut Vec<ModelEvent>) {
        let Some(counts) = counts else { return };
        let tally = &mut self.tally;
        tally.input = counts.input_tokens.or(tally.input);
        tally.output = counts.output_tokens.or(tally.output);
        tally.cache_write = counts.cache_creation_input_tokens.or(tally.cache_write);
        tally.cache_read = counts.cache_read_input_tokens.or(tally.cache_read);
        let details = counts.output_tokens_details.as_ref();
        tally.thinking = details.and_then(|details| details.thinking_tokens).or(tally.thinking);
        out.push(ModelEvent::Usage(tally.usage()));
    }
}

impl Tally {
    /// Anthropic counts what it reads from the cache and writes to it apart from the rest; AG-UI
    /// counts them as parts of the input.
    fn usage(&self) -> Usage {
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        let input = self.input.map(|input| input.saturating_add(cached));
        let total = input.zip(self.output).map(|(input, output)| input.saturating_add(output));
        Usage {
            input_tokens: input,
            output_tokens: self.output,
            total_tokens: total,
            reasoning_tokens: self.thinking,
            cached_input_tokens: self.cache_read,
            cache_write_input_tokens: self.cache_write,
            ..Usage::default()
        }
    }
}

fn stop_reason_of(word: &str) -> StopReason {
    match word {
        "end_turn" | "stop_sequence" => StopReason::End,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "pause_turn" => StopReason::Pause,
        "refusal" => StopReason::Refusal,
        other => StopReason::Other(other.into()),
    }
}

fn block_of(frame: &Frame<'_>, data: &str) -> Result<Block, ModelError> {
    let missing = || malformed(format!("{} without index", &*frame.kind), data);
    let index = frame.index.ok_or_else(missing)?;
    match usize::try_from(index) {
        Ok(number) if number < BLOCKS_MAX => Ok(Block(index)),
        _ => {
            let message = format!("the answer has more than {BLOCKS_MAX} blocks");
            Err(ModelError::new(PROVIDER, ModelErrorKind::TooLarge, message))
        }
    }
}

fn named(content: &ContentBlock<'_>, data: &str) -> Result<(Option<Id>, Id), ModelError> {
    let missing = || malformed(format!("a {} without name", &*content.kind), data);
    let name = content.name.as_deref().ok_or_else(missing)?;
    Ok((content.id.as_deref().map(Id::from), name.into()))
}

/// Arguments that come with the start of a call; usually there are none yet.
fn whole_input(content: &ContentBlock<'_>) -> Option<String> {
    let input = content.input?.get();
    let is_empty = input.trim_matches(['{', '}', ' ', '\n', '\t']).is_empty() || input == "null";
    (!is_empty).then(|| input.to_owned())
}

fn open(block: Block, kind: BlockKind, out: &mut Vec<ModelEvent>) {
    out.push(ModelEvent::Open { block, kind });
}

fn more(block: Block, delta: Option<&str>, out: &mut Vec<ModelEvent>) {
    if let Some(delta) = delta.filter(|delta| !delta.is_empty()) {
        out.push(ModelEvent::More { block, delta: delta.to_owned() });
    }
}

fn sign(block: Block, signature: Option<&str>, out: &mut Vec<ModelEvent>) {
    if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
        out.push(ModelEvent::Sign { block, signature: signature.to_owned() });
    }
}

fn value_of(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn malformed(what: impl fmt::Display, data: &str) -> ModelError {
    let message = format!("{what}, in {}", quote(data.as_bytes()));
    ModelError::new(PROVIDER, ModelErrorKind::Malformed, message)
}
