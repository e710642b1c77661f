//! Answers of Ollama.

use chat::{BlockKind, Id, ModelError, ModelErrorKind, ModelEvent, StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    blocks::{Blocks, Prose},
    caps::BLOCKS_MAX,
    json::{Loose, object},
    openai::failure::broke_off,
    wire::{Decoder, quote},
};

/// Reads one answer of Ollama.
#[derive(Debug)]
pub struct OllamaDecoder {
    provider: Id,
    /// How many lines were read, so that errors say where.
    lines: u64,
    is_named: bool,
    blocks: Blocks,
    has_calls: bool,
    stop: Option<StopReason>,
}

impl OllamaDecoder {
    /// Reads an answer of this provider.
    #[must_use]
    pub fn new(provider: Id) -> Self {
        Self {
            provider,
            lines: 0,
            is_named: false,
            blocks: Blocks::default(),
            has_calls: false,
            stop: None,
        }
    }

    fn malformed(&self, why: &str) -> ModelError {
        let why = format!("line {} of the answer {why}", self.lines);
        ModelError::new(self.provider.clone(), ModelErrorKind::Malformed, why)
    }

    fn message(
        &mut self,
        message: Message<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if let Some(thought) = message.thinking.full() {
            self.blocks.add(Prose::Thinking, thought.into_owned(), out);
        }
        if let Some(text) = message.content.full() {
            self.blocks.add(Prose::Text, text.into_owned(), out);
        }
        for call in message.tool_calls.into_iter().flatten() {
            let Some(name) = call.function.name.full() else {
                return Err(self.malformed("has a tool call without a name"));
            };
            self.has_calls = true;
            self.blocks.close(out);
            let id = call.id.full().map(|id| id.as_ref().into());
            let kind = BlockKind::Call { id, name: name.as_ref().into() };
            let block = self.blocks.open(kind, out);
            let delta = call.function.arguments.map_or("{}", RawValue::get).to_owned();
            out.push(ModelEvent::More { block, delta });
            out.push(ModelEvent::Close { block });
        }
        if self.blocks.count() > BLOCKS_MAX {
            return Err(self.malformed(&format!("opens more than {BLOCKS_MAX} blocks")));
        }
        Ok(())
    }
}

impl Decoder for OllamaDecoder {
    fn push(
        &mut self,
        _: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.lines += 1;
        let line: Line<'_> = object(data).map_err(|error| {
            self.malformed(&format!("cannot be read: {error}; it is {}", quote(data.as_bytes())))
        })?;
        if let Some(error) = line.error {
            let error = serde_json::from_str(error.get()).unwrap_or_default();
            return Err(broke_off(&self.provider, &error));
        }
        if let (false, Some(model)) = (self.is_named, line.model.full()) {
            self.is_named = true;
            out.push(ModelEvent::Answering { model: model.as_ref().into() });
        }
        if let Some(message) = line.message {
            self.message(message, out)?;
        }
        if line.done {
            if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
                out.push(ModelEvent::Usage(Usage {
                    input_tokens: line.prompt_eval_count,
                    output_tokens: line.eval_count,
                    total_tokens: line
                        .prompt_eval_count
                        .zip(line.eval_count)
                        .map(|(a, b)| u64::saturating_add(a, b)),
                    ..Usage::default()
                }));
            }
            self.stop = Some(match line.done_reason.as_str() {
                "length" => StopReason::Length,
                _ if self.has_calls => StopReason::ToolCalls,
                "stop" | "" => StopReason::End,
                other => StopReason::Other(other.into()),
            });
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Some(stop) = self.stop.clone() else {
            let why = "the answer broke off: no line says that it is done";
            return Err(ModelError::new(self.provider.clone(), ModelErrorKind::Truncated, why));
        };
        self.blocks.close(out);
        out.push(ModelEvent::Stop(stop));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.stop.is_some()
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    model: Loose<'a>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(default)]
    done: bool,
    #[serde(borrow, default)]
    done_reason: Loose<'a>,
    #[serde(default)]
    prompt_eval_count: Option<u64>,
    #[serde(default)]
    eval_count: Option<u64>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Loose<'a>,
    #[serde(borrow, default)]
    thinking: Loose<'a>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Loose<'a>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Loose<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}
