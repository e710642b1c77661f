//! Requests of the Responses API.

use chat::{
    Id, Message, ModelError, Part, Request, Role, ToolCall, ToolChoice, ToolResult,
    agui::{Content, Media, Source},
};
use serde_json::{Map, Value, json};

use super::{
    responses_words::is_provider_run,
    words::{adapted, check, check_name, effort, file_name, merge, output, unsupported, url},
};
use crate::{
    call_id::{call_id, call_name},
    caps::OPENAI_NAME_LEN_MAX,
    pieces::arguments,
};

/// Puts requests into the words of the Responses API. Nothing is stored there: each request
/// carries the whole conversation, encrypted thoughts included.
#[derive(Debug)]
pub(super) struct ResponsesEncoder<'a> {
    pub(super) provider: &'a Id,
    pub(super) model: &'a str,
}

impl ResponsesEncoder<'_> {
    pub(super) fn body(&self, request: &Request) -> Result<Map<String, Value>, ModelError> {
        check(self.provider, request)?;
        let mut body = Map::new();
        body.insert("model".into(), self.model.into());
        if !request.system.is_empty() {
            body.insert("instructions".into(), request.system.join("\n\n").into());
        }
        body.insert("input".into(), self.input(request)?.into());
        body.insert("stream".into(), true.into());
        body.insert("store".into(), false.into());
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
        self.tools(request, &mut body)?;
        if let Some(spec) = &request.output {
            let mut format = output(spec);
            format.insert("type".into(), "json_schema".into());
            body.insert("text".into(), json!({ "format": format }));
        }
        self.settings(request, &mut body)?;
        merge(&mut body, &request.settings.extra);
        Ok(body)
    }

    fn settings(&self, request: &Request, body: &mut Map<String, Value>) -> Result<(), ModelError> {
        let settings = &request.settings;
        if !settings.stop.is_empty() {
            let why = "the Responses API takes none; leave them out, or use Chat Completions";
            return Err(unsupported(self.provider, "settings.stop", why));
        }
        if let Some(tokens) = settings.tokens_max {
            body.insert("max_output_tokens".into(), tokens.into());
        }
        if let Some(temperature) = settings.temperature {
            body.insert("temperature".into(), temperature.into());
        }
        if let Some(top_p) = settings.top_p {
            body.insert("top_p".into(), top_p.into());
        }
        if let Some(thinking) = settings.thinking {
            let effort = effort(self.provider, thinking)?;
            let reasoning = match effort {
                "none" => json!({ "effort": effort }),
                _ => json!({ "effort": effort, "summary": "auto" }),
            };
            body.insert("reasoning".into(), reasoning);
        }
        Ok(())
    }

    fn tools(&self, request: &Request, body: &mut Map<String, Value>) -> Result<(), ModelError> {
        let mut tools = Vec::new();
        for tool in &request.tools {
            check_name(self.provider, tool)?;
            let (schema, is_strict) = adapted(&tool.name, &tool.input);
            tools.push(json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": schema,
                "strict": is_strict,
            }));
        }
        tools.extend(request.settings.provider_tools.iter().cloned());
        if tools.is_empty() {
            return Ok(());
        }
        body.insert("tools".into(), tools.into());
        let choice = match &request.choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Required => Some(json!("required")),
            ToolChoice::Tool(name) => Some(json!({ "type": "function", "name": name })),
        };
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        if let Some(parallel) = request.settings.parallel_tools {
            body.insert("parallel_tool_calls".into(), parallel.into());
        }
        Ok(())
    }

    fn input(&self, request: &Request) -> Result<Vec<Value>, ModelError> {
        let mut items = Vec::new();
        for message in &request.messages {
            match message.role {
                Role::System => items.push(note("system", message)),
                Role::Developer => items.push(note("developer", message)),
                Role::User => {
                    let mut content = Vec::new();
                    for part in &message.parts {
                        content.extend(self.part(part)?);
                    }
                    if !content.is_empty() {
                        items.push(json!({ "role": "user", "content": content }));
                    }
                }
                Role::Assistant => items.extend(message.parts.iter().filter_map(said)),
                Role::Tool => {}
            }
            for result in message.results() {
                items.push(self.result(result)?);
            }
        }
        Ok(items)
    }

    /// A part of what a person said, or of what a tool answered.
    fn part(&self, part: &Part) -> Result<Option<Value>, ModelError> {
        let value = match part {
            Part::Text(text) => json!({ "type": "input_text", "text": text.text }),
            Part::Image(media) => match &media.source {
                Source::File { value, .. } => json!({ "type": "input_image", "file_id": value }),
                _ => json!({ "type": "input_image", "image_url": url(media) }),
            },
            Part::Document(media) => document(media),
            Part::Audio(_) => {
                let why = "the Responses API takes no sounds; use Chat Completions";
                return Err(unsupported(self.provider, "messages", why));
            }
            Part::Video(_) => {
                let why = "OpenAI takes no films; leave the part out or give pictures of it";
                return Err(unsupported(self.provider, "messages", why));
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    fn result(&self, result: &ToolResult) -> Result<Value, ModelError> {
        let id = call_id(&result.call_id, OPENAI_NAME_LEN_MAX);
        let output = match &result.content {
            Content::Text(text) => text.as_str().into(),
            Content::Parts(parts) => {
                let mut all = Vec::with_capacity(parts.len());
                for part in parts {
                    all.extend(self.part(&part.clone().into())?);
                }
                Value::from(all)
            }
        };
        Ok(json!({ "type": "function_call_output", "call_id": id, "output": output }))
    }
}

fn note(role: &str, message: &Message) -> Value {
    json!({ "role": role, "content": message.text_content() })
}

fn document(media: &Media) -> Value {
    match &media.source {
        Source::File { value, .. } => json!({ "type": "input_file", "file_id": value }),
        Source::Url { value, .. } => json!({ "type": "input_file", "file_url": value }),
        Source::Data { .. } => {
            json!({ "type": "input_file", "filename": file_name(media), "file_data": url(media) })
        }
    }
}

/// A part of what the model said.
fn said(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) if !text.text.is_empty() => {
            let content = json!([{ "type": "output_text", "text": text.text }]);
            Some(json!({ "type": "message", "role": "assistant", "content": content }))
        }
        Part::Thinking(thoughts) => {
            let signature = thoughts.signature.as_ref()?;
            let summary = match thoughts.text.is_empty() {
                true => json!([]),
                false => json!([{ "type": "summary_text", "text": thoughts.text }]),
            };
            let item = json!({
                "type": "reasoning", "summary": summary, "encrypted_content": signature,
            });
            Some(item)
        }
        Part::ToolCall(call) => called(call),
        _ => None,
    }
}

fn called(call: &ToolCall) -> Option<Value> {
    if let Some(result) = &call.provider_result {
        // What another provider ran means nothing here.
        let kind = result.get("type").and_then(Value::as_str)?;
        return is_provider_run(kind).then(|| result.clone());
    }
    Some(json!({
        "type": "function_call",
        "call_id": call_id(&call.id, OPENAI_NAME_LEN_MAX),
        "name": call_name(&call.name),
        "arguments": arguments(&call.arguments).get(),
    }))
}
