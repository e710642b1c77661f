//! Chat completions: chunks with deltas of one choice, `[DONE]` at the end.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Frame, Writer};
use crate::script::{End, Kind, Step, Stop};

pub(super) struct Chat {
    /// Whether the request wants to know what it costs. Without it, nothing is said.
    wants_usage: bool,
    blocks: BTreeMap<usize, Role>,
    calls: usize,
}

/// What a block becomes. Thoughts are what compatible servers add.
#[derive(Clone, Copy)]
enum Role {
    Field(&'static str),
    Call(usize),
}

impl Chat {
    pub(super) fn new(request: &Value) -> Self {
        let wants_usage = request["stream_options"]["include_usage"] == json!(true);
        Self { wants_usage, blocks: BTreeMap::new(), calls: 0 }
    }

    fn chunk(&self, choices: &Value) -> Value {
        let mut chunk = json!({
            "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
            "object": "chat.completion.chunk",
            "created": 1_760_000_000,
            "model": "gpt-fixture-2026-01-01",
            "service_tier": "default",
            "system_fingerprint": "fp_44709d6fcb",
            "choices": choices,
        });
        if self.wants_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn delta(&self, delta: &Value) -> Vec<Frame> {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        vec![Frame::json(self.chunk(&json!([choice])))]
    }
}

impl Writer for Chat {
    fn begin(&mut self) -> Vec<Frame> {
        self.delta(&json!({"role": "assistant", "content": "", "refusal": null}))
    }

    fn write(&mut self, step: Step) -> Vec<Frame> {
        match step {
            Step::Open { block, kind } => {
                let role = match kind {
                    Kind::Text => Role::Field("content"),
                    Kind::Thinking => Role::Field("reasoning_content"),
                    Kind::Refusal => Role::Field("refusal"),
                    Kind::Call { id, name } | Kind::ProviderCall { id, name } => {
                        let index = self.calls;
                        self.calls += 1;
                        self.blocks.insert(block, Role::Call(index));
                        let call = json!({
                            "index": index, "id": id, "type": "function",
                            "function": {"name": name, "arguments": ""},
                        });
                        return self.delta(&json!({"tool_calls": [call]}));
                    }
                };
                self.blocks.insert(block, role);
                Vec::new()
            }
            Step::More { block, text } => match self.blocks.get(&block) {
                Some(Role::Field(field)) => self.delta(&json!({*field: text})),
                Some(Role::Call(index)) => {
                    let call = json!({"index": index, "function": {"arguments": text}});
                    self.delta(&json!({"tool_calls": [call]}))
                }
                None => Vec::new(),
            },
            // There is no place for these.
            Step::Sign { .. } | Step::Result { .. } | Step::Close { .. } => Vec::new(),
        }
    }

    fn end(&mut self, end: End) -> Vec<Frame> {
        let mut frames = Vec::new();
        if let Some(stop) = end.stop {
            let reason = match stop {
                Stop::End | Stop::Refusal => "stop",
                Stop::Calls => "tool_calls",
                Stop::Length => "length",
                Stop::Filter => "content_filter",
            };
            let choice =
                json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason});
            frames.push(Frame::json(self.chunk(&json!([choice]))));
        }
        if self.wants_usage {
            let mut last = self.chunk(&json!([]));
            let tokens = end.tokens;
            last["usage"] = json!({
                "prompt_tokens": tokens.input,
                "completion_tokens": tokens.output,
                "total_tokens": tokens.input + tokens.output,
                "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
                "completion_tokens_details": {
                    "reasoning_tokens": tokens.thought, "audio_tokens": 0,
                    "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
                },
            });
            frames.push(Frame::json(last));
        }
        frames.push(Frame::raw("[DONE]"));
        frames
    }

    fn fail(&mut self) -> Frame {
        Frame::json(json!({"error": {
            "message": "The server had an error while processing your request. Sorry about that!",
            "type": "server_error", "param": null, "code": null,
        }}))
    }
}
