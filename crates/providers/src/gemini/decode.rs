//! Reads an answer of Gemini.

use std::fmt;

use chat::{Block, BlockKind, Id, ModelError, ModelErrorKind, ModelEvent, StopReason, Usage};
use serde_json::{Map, Value, value::RawValue};

use super::{
    CODE_EXECUTION, PROVIDER, failure,
    frame::{Candidate, Counts, Frame, FunctionCall, Identified, Part, PromptFeedback, ToolCall},
};
use crate::{Decoder, caps::BLOCKS_MAX, wire::quote};

/// Reads one answer of Gemini's `streamGenerateContent`.
#[derive(Debug, Default)]
pub struct GeminiDecoder {
    /// How many blocks there were.
    count: u32,
    /// The text or thought that grows.
    open: Option<(Block, Prose)>,
    /// Calls that Gemini runs and has not answered. An answer without an id belongs to the last.
    waiting: Vec<ProviderCall>,
    has_calls: bool,
    is_named: bool,
    usage: Option<Usage>,
    stop: Option<StopReason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prose {
    Text,
    Thinking,
}

#[derive(Debug)]
struct ProviderCall {
    id: Option<Id>,
    name: Id,
    block: Block,
}

impl Decoder for GeminiDecoder {
    fn push(
        &mut self,
        _name: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let frame: Frame<'_> = serde_json::from_str(data)
            .map_err(|error| malformed(format!("a piece is not readable: {error}"), data))?;
        if let Some(failure) = &frame.error {
            return Err(failure::of_event(failure));
        }
        if let Some(model) = frame.model_version.as_deref()
            && !std::mem::replace(&mut self.is_named, true)
        {
            out.push(ModelEvent::Answering { model: model.into() });
        }
        let candidates = frame.candidates.iter().flatten();
        // Whoever asks for several answers gets the first one.
        for candidate in candidates.filter(|candidate| candidate.index.unwrap_or(0) == 0) {
            self.candidate(candidate, data, out)?;
        }
        if let Some(feedback) = &frame.prompt_feedback {
            self.blocked(feedback, out);
        }
        self.count(frame.usage_metadata.as_ref(), out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Some(stop) = self.stop.take() else {
            let message = "the answer broke off before its finishReason; ask again";
            return Err(ModelError::new(PROVIDER, ModelErrorKind::Truncated, message));
        };
        self.close(out);
        for call in self.waiting.drain(..) {
            out.push(ModelEvent::Close { block: call.block });
        }
        // Gemini has no word of its own for an answer that waits for tools.
        out.push(ModelEvent::Stop(match stop {
            StopReason::End if self.has_calls => StopReason::ToolCalls,
            stop => stop,
        }));
        Ok(())
    }
}

impl GeminiDecoder {
    fn candidate(
        &mut self,
        candidate: &Candidate<'_>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let parts = candidate.content.iter().flat_map(|content| &content.parts).flatten();
        for part in parts {
            self.part(part, data, out)?;
        }
        note("grounding", candidate.grounding_metadata, out);
        note("citations", candidate.citation_metadata, out);
        note("url-context", candidate.url_context_metadata, out);
        if let Some(word) = candidate.finish_reason.as_deref() {
            // Older models say so in every piece: the last word counts.
            self.stop = Some(stop_reason_of(word));
            if let Some(message) = candidate.finish_message.as_deref() {
                let name = Id::new_static("finish-message");
                out.push(ModelEvent::Note { name, value: Value::from(message) });
            }
        }
        Ok(())
    }

    fn part(
        &mut self,
        part: &Part<'_>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let signature = part.thought_signature.as_deref().filter(|text| !text.is_empty());
        if let Some(call) = &part.function_call {
            return self.call(call, signature, data, out);
        }
        if let Some(call) = &part.tool_call {
            return self.tool_call(call, signature, out);
        }
        if let Some(code) = part.executable_code {
            let id = id_of(code);
            return self.provider_call(id, CODE_EXECUTION, Some(code), signature, out);
        }
        let answers = [
            ("codeExecutionResult", part.code_execution_result),
            ("toolResponse", part.tool_response),
        ];
        for (key, answer) in answers {
            if let Some(answer) = answer {
                return self.answer(key, answer, signature, out);
            }
        }
        note("inline-data", part.inline_data, out);
        note("file-data", part.file_data, out);
        let prose = match part.thought.unwrap_or(false) {
            true => Prose::Thinking,
            false => Prose::Text,
        };
        self.prose(prose, part.text.as_deref().unwrap_or_default(), signature, out)
    }

    /// Text. A signed part ends its block, so that no two signatures run into one, and nothing
    /// comes under a signature that was made without it.
    fn prose(
        &mut self,
        prose: Prose,
        words: &str,
        signature: Option<&str>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if words.is_empty() && signature.is_none() {
            return Ok(());
        }
        let block = match self.open {
            Some((block, open)) if open == prose => block,
            _ => {
                let kind = match prose {
                    Prose::Text => BlockKind::Text,
                    Prose::Thinking => BlockKind::Thinking,
                };
                let block = self.begin(kind, out)?;
                self.open = Some((block, prose));
                block
            }
        };
        if !words.is_empty() {
            out.push(ModelEvent::More { block, delta: words.to_owned() });
        }
        if signature.is_some() {
            sign(block, signature, out);
            self.close(out);
        }
        Ok(())
    }

    fn call(
        &mut self,
        call: &FunctionCall<'_>,
        signature: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if call.partial_args.is_some() || call.will_continue == Some(true) {
            let what = "arguments come in pieces; leave streamFunctionCallArguments out";
            return Err(malformed(what, data));
        }
        let Some(name) = call.name.as_deref() else {
            return Err(malformed("a functionCall without name", data));
        };
        let id = call.id.as_deref().filter(|id| !id.is_empty()).map(Id::from);
        let block = self.begin(BlockKind::Call { id, name: name.into() }, out)?;
        more(block, call.args, out);
        sign(block, signature, out);
        out.push(ModelEvent::Close { block });
        self.has_calls = true;
        Ok(())
    }

    fn tool_call(
        &mut self,
        call: &ToolCall<'_>,
        signature: Option<&str>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let name = call.tool_type.as_deref().unwrap_or("TOOL_TYPE_UNSPECIFIED");
        self.provider_call(call.id.as_deref().map(Id::from), name, call.args, signature, out)
    }

    fn provider_call(
        &mut self,
        id: Option<Id>,
        name: &str,
        arguments: Option<&RawValue>,
        signature: Option<&str>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let name = Id::from(name);
        let kind = BlockKind::ProviderCall { id: id.clone(), name: name.clone() };
        let block = self.begin(kind, out)?;
        more(block, arguments, out);
        sign(block, signature, out);
        self.waiting.push(ProviderCall { id, name, block });
        Ok(())
    }

    /// What came of a tool that Gemini ran: the whole part, so that it can be sent back.
    fn answer(
        &mut self,
        key: &str,
        answer: &RawValue,
        signature: Option<&str>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let mut result = Map::from_iter([(key.to_owned(), value_of(answer))]);
        if let Some(signature) = signature {
            result.insert("thoughtSignature".to_owned(), signature.into());
        }
        let id = id_of(answer);
        let is_code = key == "codeExecutionResult";
        let belongs = |call: &ProviderCall| match &id {
            Some(id) if call.id.is_some() => call.id.as_ref() == Some(id),
            _ => (call.name == CODE_EXECUTION) == is_code,
        };
        let block = match self.waiting.iter().rposition(belongs) {
            Some(index) => {
                self.close(out);
                self.waiting.remove(index).block
            }
            None => {
                let name = if is_code { CODE_EXECUTION.into() } else { tool_type_of(answer) };
                self.begin(BlockKind::ProviderCall { id, name }, out)?
            }
        };
        out.push(ModelEvent::ProviderResult { block, result: Value::Object(result) });
        out.push(ModelEvent::Close { block });
        Ok(())
    }

    fn begin(&mut self, kind: BlockKind, out: &mut Vec<ModelEvent>) -> Result<Block, ModelError> {
        self.close(out);
        let block = Block(self.count);
        self.count += 1;
        if usize::try_from(self.count).is_ok_and(|count| count > BLOCKS_MAX) {
            let message = format!("the answer has more than {BLOCKS_MAX} blocks");
            return Err(ModelError::new(PROVIDER, ModelErrorKind::TooLarge, message));
        }
        out.push(ModelEvent::Open { block, kind });
        Ok(block)
    }

    fn close(&mut self, out: &mut Vec<ModelEvent>) {
        if let Some((block, _)) = self.open.take() {
            out.push(ModelEvent::Close { block });
        }
    }

    /// A question that is not let through has no answer, and that is the answer.
    fn blocked(&mut self, feedback: &PromptFeedback<'_>, out: &mut Vec<ModelEvent>) {
        let Some(reason) = feedback.block_reason.as_deref() else { return };
        let mut why = Map::from_iter([("blockReason".to_owned(), Value::from(reason))]);
        if let Some(message) = feedback.block_reason_message.as_deref() {
            why.insert("blockReasonMessage".to_owned(), message.into());
        }
        let name = Id::new_static("prompt-feedback");
        out.push(ModelEvent::Note { name, value: Value::Object(why) });
        self.stop = Some(StopReason::ContentFilter);
    }

    fn count(&mut self, counts: Option<&Counts>, out: &mut Vec<ModelEvent>) {
        let Some(counts) = counts else { return };
        let usage = usage_of(counts);
        if self.usage.as_ref() != Some(&usage) {
            out.push(ModelEvent::Usage(usage.clone()));
            self.usage = Some(usage);
        }
    }
}

/// Gemini counts thoughts apart from what is said, and what tools read apart from the prompt;
/// AG-UI counts them as parts of output and input.
fn usage_of(counts: &Counts) -> Usage {
    let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    };
    let input = sum(counts.prompt_token_count, counts.tool_use_prompt_token_count);
    let output = sum(counts.candidates_token_count, counts.thoughts_token_count);
    Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: counts.total_token_count.or_else(|| sum(input, output)),
        reasoning_tokens: counts.thoughts_token_count,
        cached_input_tokens: counts.cached_content_token_count,
        ..Usage::default()
    }
}

fn stop_reason_of(word: &str) -> StopReason {
    match word {
        "STOP" => StopReason::End,
        "MAX_TOKENS" => StopReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::ContentFilter,
        other => StopReason::Other(other.into()),
    }
}

fn id_of(raw: &RawValue) -> Option<Id> {
    let identified: Identified<'_> = serde_json::from_str(raw.get()).ok()?;
    identified.id.as_deref().filter(|id| !id.is_empty()).map(Id::from)
}

fn tool_type_of(raw: &RawValue) -> Id {
    let call: Option<ToolCall<'_>> = serde_json::from_str(raw.get()).ok();
    let word = call.as_ref().and_then(|call| call.tool_type.as_deref());
    word.unwrap_or("TOOL_TYPE_UNSPECIFIED").into()
}

fn more(block: Block, arguments: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
    if let Some(arguments) = arguments.filter(|arguments| arguments.get() != "null") {
        out.push(ModelEvent::More { block, delta: arguments.get().to_owned() });
    }
}

fn sign(block: Block, signature: Option<&str>, out: &mut Vec<ModelEvent>) {
    if let Some(signature) = signature {
        out.push(ModelEvent::Sign { block, signature: signature.to_owned() });
    }
}

/// Something else that Gemini says; it often says nothing.
fn note(name: &'static str, raw: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
    if let Some(raw) = raw.filter(|raw| !matches!(raw.get(), "{}" | "null")) {
        out.push(ModelEvent::Note { name: Id::new_static(name), value: value_of(raw) });
    }
}

fn value_of(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn malformed(what: impl fmt::Display, data: &str) -> ModelError {
    let message = format!("{what}, in {}", quote(data.as_bytes()));
    ModelError::new(PROVIDER, ModelErrorKind::Malformed, message)
}
