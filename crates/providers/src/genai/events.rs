//! What `genai` streams, as blocks.

use ::genai::{
    adapter::AdapterKind,
    chat::{ChatStreamEvent, StopReason as Reason, StreamEnd, ToolCall, Usage as Cost},
};
use chat::{BlockKind, ModelError, ModelErrorKind, ModelEvent, StopReason, Usage};
use serde_json::Value;

use super::failed;
use crate::{
    blocks::{Blocks, Prose},
    caps::{ANSWER_BYTES_MAX, BLOCKS_MAX},
};

/// Reads one answer.
pub(super) struct Reader {
    kind: AdapterKind,
    blocks: Blocks,
    bytes: usize,
    /// Whether the open thoughts were signed: what follows them are others.
    is_signed: bool,
    is_whole: bool,
}

impl Reader {
    pub(super) fn new(kind: AdapterKind) -> Self {
        Self { kind, blocks: Blocks::default(), bytes: 0, is_signed: false, is_whole: false }
    }

    /// Whether nothing follows.
    pub(super) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(super) fn push(
        &mut self,
        event: ChatStreamEvent,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        match event {
            ChatStreamEvent::Start | ChatStreamEvent::Heartbeat => {}
            ChatStreamEvent::Chunk(chunk) => self.add(Prose::Text, chunk.content, out)?,
            ChatStreamEvent::ReasoningChunk(chunk) => {
                if std::mem::take(&mut self.is_signed) {
                    self.blocks.close(out);
                }
                self.add(Prose::Thinking, chunk.content, out)?;
            }
            ChatStreamEvent::ThoughtSignatureChunk(chunk) => {
                self.count(chunk.content.len())?;
                self.blocks.sign_thinking(chunk.content, out);
                self.is_signed = true;
            }
            // What came so far, each time; the end tells it whole.
            ChatStreamEvent::ToolCallChunk(chunk) => {
                let so_far = chunk.tool_call.fn_arguments.as_str().map_or(0, str::len);
                self.check(self.bytes.saturating_add(so_far))?;
            }
            ChatStreamEvent::End(end) => self.end(end, out)?,
        }
        Ok(())
    }

    fn add(
        &mut self,
        prose: Prose,
        delta: String,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if delta.is_empty() {
            return Ok(());
        }
        self.count(delta.len())?;
        self.blocks.add(prose, delta, out);
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.check(self.bytes)
    }

    fn check(&self, bytes: usize) -> Result<(), ModelError> {
        if bytes > ANSWER_BYTES_MAX {
            let why = format!("the answer is longer than {ANSWER_BYTES_MAX} bytes; ask for less");
            return Err(failed(ModelErrorKind::TooLarge, why));
        }
        if self.blocks.count() >= BLOCKS_MAX {
            let why = format!("the answer has more than {BLOCKS_MAX} blocks; ask for less");
            return Err(failed(ModelErrorKind::TooLarge, why));
        }
        Ok(())
    }

    fn end(&mut self, mut end: StreamEnd, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let reason = end.captured_stop_reason.take();
        if reason.is_none() && makes_up_ends(self.kind) {
            return Err(broke_off());
        }
        self.blocks.close(out);
        let usage = end.captured_usage.take();
        let calls = end.captured_into_tool_calls().unwrap_or_default();
        let has_calls = !calls.is_empty();
        for call in calls {
            self.call(call, out)?;
        }
        if let Some(usage) = usage {
            out.push(ModelEvent::Usage(cost(&usage)));
        }
        out.push(ModelEvent::Stop(stop(reason, has_calls)));
        self.is_whole = true;
        Ok(())
    }

    fn call(&mut self, call: ToolCall, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let arguments = match call.fn_arguments {
            // What is no JSON is left as the model wrote it, for the complaint about it.
            Value::String(text) => text,
            Value::Null => String::new(),
            value => value.to_string(),
        };
        self.count(arguments.len())?;
        if call.fn_name.is_empty() {
            let why = "a call names no tool; ask again, or ask another model";
            return Err(failed(ModelErrorKind::Malformed, why));
        }
        let id = (!call.call_id.is_empty()).then(|| call.call_id.as_str().into());
        let kind = BlockKind::Call { id, name: call.fn_name.as_str().into() };
        let block = self.blocks.open(kind, out);
        if !arguments.is_empty() {
            out.push(ModelEvent::More { block, delta: arguments });
        }
        out.push(ModelEvent::Close { block });
        Ok(())
    }
}

/// An answer that ended without an end.
pub(super) fn broke_off() -> ModelError {
    failed(ModelErrorKind::Truncated, "the answer broke off before its end; ask again")
}

/// Providers for which `genai` makes up an end where the connection just closed.
fn makes_up_ends(kind: AdapterKind) -> bool {
    use AdapterKind::{BedrockApi, Gemini, GeminiIx, GithubCopilot, OpenAIResp, Vertex};
    matches!(kind, BedrockApi | Gemini | GeminiIx | GithubCopilot | OpenAIResp | Vertex)
}

/// Why an answer ends. What came counts more than what is said of it.
fn stop(reason: Option<Reason>, has_calls: bool) -> StopReason {
    match reason {
        Some(Reason::MaxTokens(_)) => StopReason::Length,
        Some(Reason::ContentFilter(word)) if word == "refusal" => StopReason::Refusal,
        Some(Reason::ContentFilter(_)) => StopReason::ContentFilter,
        _ if has_calls => StopReason::ToolCalls,
        Some(Reason::Other(word)) => StopReason::Other(word.as_str().into()),
        _ => StopReason::End,
    }
}

fn cost(usage: &Cost) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let read = usage.prompt_tokens_details.as_ref();
    let written = usage.completion_tokens_details.as_ref();
    Usage {
        input_tokens: count(usage.prompt_tokens),
        output_tokens: count(usage.completion_tokens),
        total_tokens: count(usage.total_tokens),
        reasoning_tokens: count(written.and_then(|details| details.reasoning_tokens)),
        cached_input_tokens: count(read.and_then(|details| details.cached_tokens)),
        cache_write_input_tokens: count(read.and_then(|details| details.cache_creation_tokens)),
        ..Usage::default()
    }
}
