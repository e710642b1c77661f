//! Responses: items with parts, each announced, streamed, and repeated whole.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Frame, Writer, keep};
use crate::script::{End, Kind, Step, Stop};

#[derive(Default)]
pub(super) struct Responses {
    sequence: u64,
    blocks: BTreeMap<usize, Item>,
    output: BTreeMap<usize, Value>,
}

struct Item {
    kind: Kind,
    id: String,
    index: usize,
    text: String,
    signature: &'static str,
}

impl Responses {
    fn frame(&mut self, event: &'static str, mut fields: Value) -> Frame {
        fields["type"] = json!(event);
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        Frame::named(event, fields)
    }

    fn response(&self, status: &str) -> Value {
        json!({
            "id": "resp_67ccd2bed1ec8190b14f964abc054267",
            "object": "response",
            "created_at": 1_760_000_000,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "model": "gpt-fixture-2026-01-01",
            "output": self.output.values().collect::<Vec<_>>(),
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "reasoning": {"effort": null, "summary": null},
            "store": false,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": null,
            "user": null,
            "metadata": {},
        })
    }

    fn open(&mut self, item: &Item) -> Vec<Frame> {
        let (id, index) = (&item.id, item.index);
        let added = item.value("in_progress", "");
        let added = json!({"output_index": index, "item": added});
        let mut frames = vec![self.frame("response.output_item.added", added)];
        let place = json!({"item_id": id, "output_index": index});
        match item.kind {
            Kind::Text | Kind::Refusal => {
                let part = item.part("");
                let part = with(&place, json!({"content_index": 0, "part": part}));
                frames.push(self.frame("response.content_part.added", part));
            }
            Kind::Thinking => {
                let part = json!({"summary_index": 0, "part": item.part("")});
                let part = with(&place, part);
                frames.push(self.frame("response.reasoning_summary_part.added", part));
            }
            Kind::ProviderCall { .. } => {
                frames.push(self.frame("response.web_search_call.in_progress", place.clone()));
                frames.push(self.frame("response.web_search_call.searching", place));
            }
            Kind::Call { .. } => {}
        }
        frames
    }

    fn more(&mut self, block: usize, text: &str) -> Vec<Frame> {
        let Some(item) = self.blocks.get_mut(&block) else { return Vec::new() };
        keep(&mut item.text, text);
        let place = json!({"item_id": item.id, "output_index": item.index});
        let (event, fields) = match item.kind {
            Kind::Text => (
                "response.output_text.delta",
                json!({"content_index": 0, "delta": text, "logprobs": [], "obfuscation": "x7"}),
            ),
            Kind::Refusal => ("response.refusal.delta", json!({"content_index": 0, "delta": text})),
            Kind::Thinking => (
                "response.reasoning_summary_text.delta",
                json!({"summary_index": 0, "delta": text}),
            ),
            Kind::Call { .. } => ("response.function_call_arguments.delta", json!({"delta": text})),
            // What is searched for is told at the end.
            Kind::ProviderCall { .. } => return Vec::new(),
        };
        vec![self.frame(event, with(&place, fields))]
    }

    fn close(&mut self, block: usize) -> Vec<Frame> {
        let Some(item) = self.blocks.remove(&block) else { return Vec::new() };
        let place = json!({"item_id": item.id, "output_index": item.index});
        let part = item.part(&item.text);
        let ends = match item.kind {
            Kind::Text => vec![
                (
                    "response.output_text.done",
                    json!({"content_index": 0, "text": item.text, "logprobs": []}),
                ),
                ("response.content_part.done", json!({"content_index": 0, "part": part})),
            ],
            Kind::Refusal => vec![
                ("response.refusal.done", json!({"content_index": 0, "refusal": item.text})),
                ("response.content_part.done", json!({"content_index": 0, "part": part})),
            ],
            Kind::Thinking => vec![
                (
                    "response.reasoning_summary_text.done",
                    json!({"summary_index": 0, "text": item.text}),
                ),
                ("response.reasoning_summary_part.done", json!({"summary_index": 0, "part": part})),
            ],
            Kind::Call { name, .. } => vec![(
                "response.function_call_arguments.done",
                json!({"arguments": item.text, "name": name}),
            )],
            Kind::ProviderCall { .. } => vec![("response.web_search_call.completed", json!({}))],
        };
        let mut frames: Vec<Frame> = Vec::new();
        for (event, fields) in ends {
            frames.push(self.frame(event, with(&place, fields)));
        }
        let whole = item.value("completed", &item.text);
        let done = json!({"output_index": item.index, "item": whole});
        self.output.insert(item.index, whole);
        frames.push(self.frame("response.output_item.done", done));
        frames
    }
}

impl Item {
    fn value(&self, status: &str, text: &str) -> Value {
        let id = &self.id;
        let is_done = status == "completed";
        match self.kind {
            Kind::Text | Kind::Refusal => {
                let content = if is_done { json!([self.part(text)]) } else { json!([]) };
                json!({"id": id, "type": "message", "status": status, "role": "assistant",
                       "content": content})
            }
            Kind::Thinking => {
                let summary = if is_done { json!([self.part(text)]) } else { json!([]) };
                let signature = if is_done { json!(self.signature) } else { Value::Null };
                json!({"id": id, "type": "reasoning", "summary": summary,
                       "encrypted_content": signature})
            }
            Kind::Call { id: call_id, name } => {
                json!({"id": id, "type": "function_call", "status": status, "arguments": text,
                       "call_id": call_id, "name": name})
            }
            Kind::ProviderCall { .. } => {
                let mut call = json!({"id": id, "type": "web_search_call", "status": status});
                if is_done {
                    let query: Value = serde_json::from_str(text).unwrap_or_default();
                    call["action"] = json!({"type": "search", "query": query["query"]});
                }
                call
            }
        }
    }

    fn part(&self, text: &str) -> Value {
        match self.kind {
            Kind::Refusal => json!({"type": "refusal", "refusal": text}),
            Kind::Thinking => json!({"type": "summary_text", "text": text}),
            _ => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
        }
    }
}

impl Writer for Responses {
    fn begin(&mut self) -> Vec<Frame> {
        let response = json!({"response": self.response("in_progress")});
        let created = self.frame("response.created", response.clone());
        vec![created, self.frame("response.in_progress", response)]
    }

    fn write(&mut self, step: Step) -> Vec<Frame> {
        match step {
            Step::Open { block, kind } => {
                let prefix = match kind {
                    Kind::Text | Kind::Refusal => "msg",
                    Kind::Thinking => "rs",
                    Kind::Call { .. } => "fc",
                    Kind::ProviderCall { .. } => "ws",
                };
                let id = format!("{prefix}_67ccd3acc8d48190a77525dc6de64b4{block}");
                let item = Item { kind, id, index: block, text: String::new(), signature: "" };
                let frames = self.open(&item);
                self.blocks.insert(block, item);
                frames
            }
            Step::More { block, text } => self.more(block, &text),
            Step::Sign { block, signature } => {
                if let Some(item) = self.blocks.get_mut(&block) {
                    item.signature = signature;
                }
                Vec::new()
            }
            // What was found is for the model alone.
            Step::Result { .. } => Vec::new(),
            Step::Close { block } => self.close(block),
        }
    }

    fn end(&mut self, end: End) -> Vec<Frame> {
        let reason = match end.stop {
            Some(Stop::Length) => Some("max_output_tokens"),
            Some(Stop::Filter) => Some("content_filter"),
            _ => None,
        };
        let mut response = self.response(reason.map_or("completed", |_| "incomplete"));
        if let Some(reason) = reason {
            response["incomplete_details"] = json!({"reason": reason});
        }
        let tokens = end.tokens;
        response["usage"] = json!({
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.thought},
            "total_tokens": tokens.input + tokens.output,
        });
        let event = reason.map_or("response.completed", |_| "response.incomplete");
        vec![self.frame(event, json!({"response": response}))]
    }

    fn fail(&mut self) -> Frame {
        let mut response = self.response("failed");
        response["error"] = json!({
            "code": "server_error",
            "message": "The model failed to generate a response.",
        });
        self.frame("response.failed", json!({"response": response}))
    }
}

fn with(place: &Value, fields: Value) -> Value {
    let mut whole = place.clone();
    if let (Some(whole), Value::Object(fields)) = (whole.as_object_mut(), fields) {
        whole.extend(fields);
    }
    whole
}
