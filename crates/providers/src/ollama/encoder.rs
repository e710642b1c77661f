//! Requests of Ollama.

use std::collections::HashMap;

use chat::{
    Id, Message, ModelError, Part, Request, Role, Settings, ThinkingEffort, ToolChoice,
    agui::{Content, ContentPart, Media, Source},
};
use serde_json::{Map, Value, json};

use crate::openai::words::{check, merge, unsupported};

/// Puts requests into the words of Ollama.
#[derive(Debug)]
pub(super) struct OllamaEncoder<'a> {
    pub(super) provider: &'a Id,
    pub(super) model: &'a str,
}

impl OllamaEncoder<'_> {
    pub(super) fn body(&self, request: &Request) -> Result<Map<String, Value>, ModelError> {
        check(self.provider, request)?;
        let mut body = Map::new();
        body.insert("model".into(), self.model.into());
        body.insert("messages".into(), self.messages(request)?.into());
        body.insert("stream".into(), true.into());
        self.tools(request, &mut body)?;
        if let Some(spec) = &request.output {
            body.insert("format".into(), spec.schema.clone());
        }
        if let Some(thinking) = request.settings.thinking {
            body.insert("think".into(), self.think(thinking)?);
        }
        let options = options(&request.settings);
        if !options.is_empty() {
            body.insert("options".into(), options.into());
        }
        merge(&mut body, &request.settings.extra);
        Ok(body)
    }

    fn think(&self, effort: ThinkingEffort) -> Result<Value, ModelError> {
        match effort {
            ThinkingEffort::Off => Ok(false.into()),
            ThinkingEffort::Low => Ok("low".into()),
            ThinkingEffort::Medium => Ok("medium".into()),
            ThinkingEffort::High => Ok("high".into()),
            ThinkingEffort::Tokens(_) => {
                let why = "Ollama takes no number of tokens; use off, low, medium or high";
                Err(unsupported(self.provider, "settings.thinking", why))
            }
        }
    }

    fn tools(&self, request: &Request, body: &mut Map<String, Value>) -> Result<(), ModelError> {
        let settings = &request.settings;
        if !settings.provider_tools.is_empty() {
            let why = "Ollama runs no tools itself; leave them out";
            return Err(unsupported(self.provider, "settings.providerTools", why));
        }
        if settings.parallel_tools == Some(false) {
            let why = "Ollama cannot be kept from calling several tools; leave it out";
            return Err(unsupported(self.provider, "settings.parallelTools", why));
        }
        match &request.choice {
            ToolChoice::Auto => {}
            ToolChoice::None => return Ok(()),
            ToolChoice::Required | ToolChoice::Tool(_) => {
                let why = "Ollama cannot be made to call a tool; leave the choice to the model";
                return Err(unsupported(self.provider, "choice", why));
            }
        }
        let tools = request.tools.iter().map(|tool| {
            let function = json!({
                "name": tool.name, "description": tool.description, "parameters": tool.input,
            });
            json!({ "type": "function", "function": function })
        });
        let tools: Vec<Value> = tools.collect();
        if !tools.is_empty() {
            body.insert("tools".into(), tools.into());
        }
        Ok(())
    }

    fn messages(&self, request: &Request) -> Result<Vec<Value>, ModelError> {
        let mut all = Vec::new();
        let mut names: HashMap<&Id, &Id> = HashMap::new();
        for system in &request.system {
            all.push(json!({ "role": "system", "content": system }));
        }
        for message in &request.messages {
            match message.role {
                Role::System | Role::Developer => {
                    all.push(json!({ "role": "system", "content": message.text_content() }));
                }
                Role::User => all.push(self.user(message)?),
                Role::Assistant => all.extend(assistant(message)),
                Role::Tool => {}
            }
            names.extend(message.calls().map(|call| (&call.id, &call.name)));
            for result in message.results() {
                // An answer is known by its tool's name; the wire has no ids.
                let name = names.get(&result.call_id);
                let mut said = self.answer(&result.content)?;
                said["tool_name"] = name.map_or(Value::Null, |name| name.as_str().into());
                all.push(said);
            }
        }
        Ok(all)
    }

    fn user(&self, message: &Message) -> Result<Value, ModelError> {
        let mut said = json!({ "role": "user", "content": message.text_content() });
        let mut images = Vec::new();
        for part in &message.parts {
            match part {
                Part::Image(media) => images.push(self.image(media)?),
                Part::Audio(_) | Part::Video(_) | Part::Document(_) => {
                    return Err(self.only_pictures());
                }
                _ => {}
            }
        }
        if !images.is_empty() {
            said["images"] = images.into();
        }
        Ok(said)
    }

    fn answer(&self, content: &Content) -> Result<Value, ModelError> {
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        match content {
            Content::Text(text) => texts.push(text.as_str()),
            Content::Parts(parts) => {
                for part in parts {
                    match part {
                        ContentPart::Text(text) => texts.push(&text.text),
                        ContentPart::Image(media) => images.push(self.image(media)?),
                        _ => return Err(self.only_pictures()),
                    }
                }
            }
        }
        let mut said = json!({ "role": "tool", "content": texts.join("\n") });
        if !images.is_empty() {
            said["images"] = images.into();
        }
        Ok(said)
    }

    fn image(&self, media: &Media) -> Result<Value, ModelError> {
        match &media.source {
            Source::Data { value, .. } => Ok(value.as_str().into()),
            Source::Url { .. } | Source::File { .. } => {
                let why = "Ollama takes a picture only as data; fetch it first";
                Err(unsupported(self.provider, "messages", why))
            }
        }
    }

    fn only_pictures(&self) -> ModelError {
        let why = "Ollama takes texts and pictures only; leave the part out";
        unsupported(self.provider, "messages", why)
    }
}

fn options(settings: &Settings) -> Map<String, Value> {
    let mut options = Map::new();
    if let Some(tokens) = settings.tokens_max {
        options.insert("num_predict".into(), tokens.into());
    }
    if let Some(temperature) = settings.temperature {
        options.insert("temperature".into(), temperature.into());
    }
    if let Some(top_p) = settings.top_p {
        options.insert("top_p".into(), top_p.into());
    }
    if !settings.stop.is_empty() {
        options.insert("stop".into(), settings.stop.clone().into());
    }
    options
}

fn assistant(message: &Message) -> Option<Value> {
    let text = message.text_content();
    let mut calls = Vec::new();
    for call in message.calls() {
        let arguments = match call.arguments.trim().is_empty() {
            true => Ok(json!({})),
            false => serde_json::from_str::<Value>(&call.arguments),
        };
        // A model that wrote no JSON was told so in the answer to its call.
        let arguments = arguments.ok().filter(Value::is_object).unwrap_or_else(|| json!({}));
        calls.push(json!({ "function": { "name": call.name, "arguments": arguments } }));
    }
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut said = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        said["tool_calls"] = calls.into();
    }
    Some(said)
}
