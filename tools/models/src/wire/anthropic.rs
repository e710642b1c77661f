//! Messages: content blocks by index, one after the other.

use serde_json::{Value, json};

use super::{Frame, Writer};
use crate::script::{End, Kind, Step, Stop};

#[derive(Default)]
pub(super) struct Anthropic {
    /// The block that is open. Only one is at a time.
    open: Option<Kind>,
    index: usize,
    has_pinged: bool,
}

impl Anthropic {
    fn start(&self, block: &Value) -> Frame {
        let fields =
            json!({"type": "content_block_start", "index": self.index, "content_block": block});
        Frame::named("content_block_start", fields)
    }

    fn delta(&self, delta: &Value) -> Frame {
        let fields = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
        Frame::named("content_block_delta", fields)
    }

    fn stop(&mut self) -> Frame {
        let fields = json!({"type": "content_block_stop", "index": self.index});
        self.index += 1;
        self.open = None;
        Frame::named("content_block_stop", fields)
    }
}

impl Writer for Anthropic {
    fn begin(&mut self) -> Vec<Frame> {
        let message = json!({
            "id": "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY",
            "type": "message",
            "role": "assistant",
            "model": "claude-fixture-20260101",
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {
                "input_tokens": 12, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0, "output_tokens": 1, "service_tier": "standard",
            },
        });
        let start = json!({"type": "message_start", "message": message});
        vec![Frame::named("message_start", start)]
    }

    fn write(&mut self, step: Step) -> Vec<Frame> {
        match step {
            Step::Open { kind, .. } => {
                self.open = Some(kind);
                let mut frames = vec![self.start(&match kind {
                    Kind::Text | Kind::Refusal => json!({"type": "text", "text": ""}),
                    Kind::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
                    Kind::Call { id, name } => {
                        json!({"type": "tool_use", "id": id, "name": name, "input": {}})
                    }
                    Kind::ProviderCall { id, name } => {
                        json!({"type": "server_tool_use", "id": id, "name": name, "input": {}})
                    }
                })];
                if !self.has_pinged {
                    self.has_pinged = true;
                    frames.push(Frame::named("ping", json!({"type": "ping"})));
                }
                // The service begins arguments with an empty piece.
                if matches!(kind, Kind::Call { .. } | Kind::ProviderCall { .. }) {
                    let empty = json!({"type": "input_json_delta", "partial_json": ""});
                    frames.push(self.delta(&empty));
                }
                frames
            }
            Step::More { text, .. } => vec![self.delta(&match self.open {
                Some(Kind::Thinking) => json!({"type": "thinking_delta", "thinking": text}),
                Some(Kind::Call { .. } | Kind::ProviderCall { .. }) => {
                    json!({"type": "input_json_delta", "partial_json": text})
                }
                _ => json!({"type": "text_delta", "text": text}),
            })],
            Step::Sign { signature, .. } => {
                vec![self.delta(&json!({"type": "signature_delta", "signature": signature}))]
            }
            Step::Close { .. } => vec![self.stop()],
            Step::Result { call, told } => {
                let mut found = told;
                for result in found.as_array_mut().into_iter().flatten() {
                    result["type"] = json!("web_search_result");
                    result["encrypted_content"] = json!("EqgfCioIARgBIiQ3YTAwMjY1Mi1mZjM5");
                    result["page_age"] = Value::Null;
                }
                let block = json!({
                    "type": "web_search_tool_result", "tool_use_id": call, "content": found,
                });
                vec![self.start(&block), self.stop()]
            }
        }
    }

    fn end(&mut self, end: End) -> Vec<Frame> {
        let reason = end.stop.map(|stop| match stop {
            Stop::End | Stop::Filter => "end_turn",
            Stop::Calls => "tool_use",
            Stop::Length => "max_tokens",
            Stop::Refusal => "refusal",
        });
        let delta = json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": end.tokens.output},
        });
        let stop = json!({"type": "message_stop"});
        vec![Frame::named("message_delta", delta), Frame::named("message_stop", stop)]
    }

    fn fail(&mut self) -> Frame {
        let error = json!({"type": "overloaded_error", "message": "Overloaded"});
        Frame::named("error", json!({"type": "error", "error": error}))
    }
}
