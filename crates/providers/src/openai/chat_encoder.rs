//! Requests of Chat Completions.

use chat::{
    Id, Message, ModelError, Part, Request, Role, ToolChoice, ToolResult,
    agui::{Content, ContentPart, Media, Source},
};
use serde_json::{Map, Value, json};

use super::{
    Dialect,
    words::{adapted, check, check_name, effort, file_name, merge, output, unsupported, url},
};
use crate::{
    call_id::{call_id, call_name},
    caps::OPENAI_CALL_ID_LEN_MAX,
    pieces::arguments,
};

/// Puts requests into the words of Chat Completions.
#[derive(Debug)]
pub(super) struct ChatEncoder<'a> {
    pub(super) provider: &'a Id,
    pub(super) model: &'a str,
    pub(super) dialect: Dialect,
}

impl ChatEncoder<'_> {
    pub(super) fn body(&self, request: &Request) -> Result<Map<String, Value>, ModelError> {
        check(self.provider, request)?;
        let mut body = Map::new();
        body.insert("model".into(), self.model.into());
        body.insert("messages".into(), self.messages(request)?.into());
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({ "include_usage": true }));
        self.tools(request, &mut body)?;
        if let Some(spec) = &request.output {
            let format = json!({ "type": "json_schema", "json_schema": output(spec) });
            body.insert("response_format".into(), format);
        }
        self.settings(request, &mut body)?;
        merge(&mut body, &request.settings.extra);
        Ok(body)
    }

    fn settings(&self, request: &Request, body: &mut Map<String, Value>) -> Result<(), ModelError> {
        let settings = &request.settings;
        if let Some(tokens) = settings.tokens_max {
            let name = match self.dialect {
                Dialect::OpenAi => "max_completion_tokens",
                Dialect::Compatible => "max_tokens",
            };
            body.insert(name.into(), tokens.into());
        }
        if let Some(temperature) = settings.temperature {
            body.insert("temperature".into(), temperature.into());
        }
        if let Some(top_p) = settings.top_p {
            body.insert("top_p".into(), top_p.into());
        }
        if !settings.stop.is_empty() {
            body.insert("stop".into(), settings.stop.clone().into());
        }
        if let Some(thinking) = settings.thinking {
            let effort = effort(self.provider, thinking)?;
            body.insert("reasoning_effort".into(), effort.into());
        }
        Ok(())
    }

    fn tools(&self, request: &Request, body: &mut Map<String, Value>) -> Result<(), ModelError> {
        let mut tools = Vec::new();
        for tool in &request.tools {
            check_name(self.provider, tool)?;
            let mut function = Map::new();
            function.insert("name".into(), tool.name.as_str().into());
            function.insert("description".into(), tool.description.as_str().into());
            match self.dialect {
                Dialect::OpenAi => {
                    let (schema, is_strict) = adapted(&tool.name, &tool.input);
                    function.insert("parameters".into(), schema);
                    function.insert("strict".into(), is_strict.into());
                }
                // Not every server knows the word.
                Dialect::Compatible => {
                    function.insert("parameters".into(), tool.input.clone());
                }
            }
            tools.push(json!({ "type": "function", "function": function }));
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
            ToolChoice::Tool(name) => {
                Some(json!({ "type": "function", "function": { "name": name } }))
            }
        };
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        if let Some(parallel) = request.settings.parallel_tools {
            body.insert("parallel_tool_calls".into(), parallel.into());
        }
        Ok(())
    }

    fn messages(&self, request: &Request) -> Result<Vec<Value>, ModelError> {
        let mut all = Vec::new();
        for system in &request.system {
            all.push(json!({ "role": "system", "content": system }));
        }
        // Pictures that tools answered with: they go into a message after all the answers.
        let mut shown = Vec::new();
        for message in &request.messages {
            if message.role != Role::Tool && !shown.is_empty() {
                all.push(json!({ "role": "user", "content": std::mem::take(&mut shown) }));
            }
            match message.role {
                Role::System => all.push(self.note("system", message)),
                Role::Developer => all.push(self.note(
                    match self.dialect {
                        Dialect::OpenAi => "developer",
                        Dialect::Compatible => "system",
                    },
                    message,
                )),
                Role::User => all.push(self.user(message)?),
                Role::Assistant => all.extend(assistant(message)),
                Role::Tool => {}
            }
            for result in message.results() {
                all.push(self.result(result, &mut shown)?);
            }
        }
        if !shown.is_empty() {
            all.push(json!({ "role": "user", "content": shown }));
        }
        Ok(all)
    }

    #[allow(clippy::unused_self, reason = "it stands among its kind")]
    fn note(&self, role: &str, message: &Message) -> Value {
        json!({ "role": role, "content": message.text_content() })
    }

    fn user(&self, message: &Message) -> Result<Value, ModelError> {
        let mut parts = Vec::new();
        let mut is_text = true;
        for part in &message.parts {
            is_text &= matches!(part, Part::Text(_) | Part::ToolResult(_));
            parts.extend(self.part(part)?);
        }
        let content = match is_text {
            true => message.text_content().into(),
            false => Value::from(parts),
        };
        let mut said = json!({ "role": "user", "content": content });
        if let (Some(name), Dialect::OpenAi) = (&message.name, self.dialect) {
            said["name"] = name.as_str().into();
        }
        Ok(said)
    }

    /// A part of what a person said, or of what a tool answered.
    fn part(&self, part: &Part) -> Result<Option<Value>, ModelError> {
        let value = match part {
            Part::Text(text) => json!({ "type": "text", "text": text.text }),
            Part::Image(media) => {
                let Some(url) = url(media) else {
                    let why = "Chat Completions takes no picture by its file; give data or a URL";
                    return Err(unsupported(self.provider, "messages", why));
                };
                json!({ "type": "image_url", "image_url": { "url": url } })
            }
            Part::Audio(media) => self.audio(media)?,
            Part::Document(media) => self.document(media)?,
            Part::Video(_) => {
                let why = "OpenAI takes no films; leave the part out or give pictures of it";
                return Err(unsupported(self.provider, "messages", why));
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    fn audio(&self, media: &Media) -> Result<Value, ModelError> {
        let Source::Data { value, mime_type } = &media.source else {
            let why = "Chat Completions takes a sound only as data; fetch it first";
            return Err(unsupported(self.provider, "messages", why));
        };
        let format = match mime_type.as_str() {
            "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
            "audio/mpeg" | "audio/mp3" => "mp3",
            other => {
                let why = format!("Chat Completions takes wav and mp3, not {other:?}; convert it");
                return Err(unsupported(self.provider, "messages", &why));
            }
        };
        Ok(json!({ "type": "input_audio", "input_audio": { "data": value, "format": format } }))
    }

    fn document(&self, media: &Media) -> Result<Value, ModelError> {
        match &media.source {
            Source::Data { .. } => {
                let file = json!({ "filename": file_name(media), "file_data": url(media) });
                Ok(json!({ "type": "file", "file": file }))
            }
            Source::File { value, .. } => {
                Ok(json!({ "type": "file", "file": { "file_id": value } }))
            }
            Source::Url { .. } => {
                let why = "Chat Completions takes no document by its URL; give its data, or use \
                           the Responses API";
                Err(unsupported(self.provider, "messages", why))
            }
        }
    }

    fn result(&self, result: &ToolResult, shown: &mut Vec<Value>) -> Result<Value, ModelError> {
        let id = call_id(&result.call_id, OPENAI_CALL_ID_LEN_MAX);
        let content = match &result.content {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => {
                let mut texts = Vec::new();
                let before = shown.len();
                for part in parts {
                    match part {
                        ContentPart::Text(text) => texts.push(text.text.clone()),
                        other => shown.extend(self.part(&other.clone().into())?),
                    }
                }
                if shown.len() > before {
                    let label = format!("From the answer to {id}:");
                    shown.insert(before, json!({ "type": "text", "text": label }));
                    texts.push("(The rest of the answer follows in the next message.)".into());
                }
                texts.join("\n")
            }
        };
        Ok(json!({ "role": "tool", "tool_call_id": id, "content": content }))
    }
}

/// What the model said. Thoughts stay here: the wire has no words to give them back. What the
/// provider ran itself does, too.
fn assistant(message: &Message) -> Option<Value> {
    let text = message.text_content();
    let calls: Vec<Value> = message
        .calls()
        .map(|call| {
            // Servers that speak alike read them as an object, and refuse the request if they fail.
            let arguments = arguments(&call.arguments);
            json!({
                "id": call_id(&call.id, OPENAI_CALL_ID_LEN_MAX),
                "type": "function",
                "function": { "name": call_name(&call.name), "arguments": arguments.get() },
            })
        })
        .collect();
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut said = Map::new();
    said.insert("role".into(), "assistant".into());
    let content = if text.is_empty() { Value::Null } else { text.into() };
    said.insert("content".into(), content);
    if !calls.is_empty() {
        said.insert("tool_calls".into(), calls.into());
    }
    Some(said.into())
}
