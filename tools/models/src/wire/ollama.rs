//! Chats of Ollama: a line of JSON for each piece; calls come whole.

use serde_json::{Value, json};

use super::{Frame, Writer};
use crate::script::{End, Kind, Step, Stop};

#[derive(Default)]
pub(super) struct Ollama {
    open: Option<Kind>,
    arguments: String,
    calls: usize,
}

fn line(message: &Value) -> Value {
    json!({
        "model": "llama-fixture",
        "created_at": "2026-01-01T00:00:00.123456789Z",
        "message": message,
        "done": false,
    })
}

impl Writer for Ollama {
    fn begin(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    fn write(&mut self, step: Step) -> Vec<Frame> {
        let message = match step {
            Step::Open { kind, .. } => {
                self.open = Some(kind);
                self.arguments.clear();
                return Vec::new();
            }
            Step::More { text, .. } => match self.open {
                Some(Kind::Call { .. } | Kind::ProviderCall { .. }) => {
                    self.arguments.push_str(&text);
                    return Vec::new();
                }
                Some(Kind::Thinking) => {
                    json!({"role": "assistant", "content": "", "thinking": text})
                }
                _ => json!({"role": "assistant", "content": text}),
            },
            Step::Close { .. } => {
                let Some(Kind::Call { name, .. }) = self.open.take() else { return Vec::new() };
                let arguments: Value = serde_json::from_str(&self.arguments).unwrap_or_default();
                let function = json!({"index": self.calls, "name": name, "arguments": arguments});
                self.calls += 1;
                json!({"role": "assistant", "content": "", "tool_calls": [{"function": function}]})
            }
            Step::Sign { .. } | Step::Result { .. } => return Vec::new(),
        };
        vec![Frame::json(line(&message))]
    }

    fn end(&mut self, end: End) -> Vec<Frame> {
        let mut last = line(&json!({"role": "assistant", "content": ""}));
        last["done"] = json!(true);
        if let Some(stop) = end.stop {
            // Calls end an answer like any other.
            last["done_reason"] = json!(if stop == Stop::Length { "length" } else { "stop" });
        }
        last["total_duration"] = json!(4_883_583_458_u64);
        last["load_duration"] = json!(1_334_875);
        last["prompt_eval_count"] = json!(end.tokens.input);
        last["prompt_eval_duration"] = json!(342_546_000);
        last["eval_count"] = json!(end.tokens.output);
        last["eval_duration"] = json!(4_535_599_000_u64);
        vec![Frame::json(last)]
    }

    fn fail(&mut self) -> Frame {
        Frame::json(json!({"error": "an error was encountered while running the model: EOF"}))
    }
}
