//! Requests in the words of `genai`.

use std::collections::HashMap;

use ::genai::{
    adapter::AdapterKind,
    chat::{
        Binary, ChatMessage, ChatOptions, ChatRequest, ContentPart, JsonSpec, ReasoningEffort,
        Tool, ToolCall, ToolChoice as Choice, ToolResponse,
    },
};
use chat::{
    ModelError, Part, Request, Role, Settings, Structured, ThinkingEffort, ToolChoice, ToolResult,
    agui::{Content, ContentPart as Shown, Media, Source},
};
use serde_json::Value;

use super::{PROVIDER, structured};
use crate::openai::words;

/// The request, and how it should be answered.
///
/// # Errors
/// `Unsupported` if `genai` has no words for something; the message names the field and the remedy.
pub(super) fn encode(
    kind: AdapterKind,
    request: &Request,
) -> Result<(ChatRequest, ChatOptions), ModelError> {
    words::check(&PROVIDER.into(), request)?;
    let mut options = settings(kind, &request.settings)?;
    let mut asked = ChatRequest::new(messages(request)?);
    if !request.system.is_empty() {
        asked = asked.with_system(request.system.join("\n\n"));
    }
    if !request.tools.is_empty() {
        options.tool_choice = choice(kind, &request.choice)?;
        if !is_curt(kind) || request.choice != ToolChoice::None {
            asked = asked.with_tools(request.tools.iter().map(|tool| {
                Tool::new(tool.name.as_str())
                    .with_description(tool.description.as_str())
                    .with_schema(tool.input.clone())
            }));
        }
    }
    if let Some(output) = &request.output {
        if structured(kind) == Structured::Prompted {
            let why = "genai cannot hold this provider to a schema; ask for it in words";
            return Err(unsupported("output", why));
        }
        options.response_format =
            Some(JsonSpec::new(output.name.as_str(), output.schema.clone()).into());
    }
    Ok((asked, options))
}

/// Providers for which `genai` drops a choice of tools and extra fields in silence.
fn is_curt(kind: AdapterKind) -> bool {
    use AdapterKind::{BedrockApi, Cohere, Ollama, OllamaCloud};
    matches!(kind, BedrockApi | Cohere | Ollama | OllamaCloud)
}

fn settings(kind: AdapterKind, settings: &Settings) -> Result<ChatOptions, ModelError> {
    if settings.parallel_tools.is_some() {
        let why = "genai has no word for it; put the provider's own into `extra`";
        return Err(unsupported("settings.parallelTools", why));
    }
    if !settings.provider_tools.is_empty() {
        let why = "genai does not pass them on; leave them out, or use a wire of this crate";
        return Err(unsupported("settings.providerTools", why));
    }
    let mut options = ChatOptions {
        temperature: settings.temperature,
        max_tokens: settings.tokens_max,
        top_p: settings.top_p,
        stop_sequences: settings.stop.clone(),
        reasoning_effort: settings.thinking.map(effort),
        ..ChatOptions::default()
    };
    // Pieces of calls come without saying of which, so they are taken whole from the end.
    options = options.with_capture_usage(true).with_capture_tool_calls(true);
    if !settings.extra.is_empty() {
        if is_curt(kind) {
            let why = "genai does not pass them on to this provider; leave them out";
            return Err(unsupported("settings.extra", why));
        }
        options = options.with_extra_body(Value::Object(settings.extra.clone()));
    }
    Ok(options)
}

fn effort(thinking: ThinkingEffort) -> ReasoningEffort {
    match thinking {
        ThinkingEffort::Off => ReasoningEffort::Zero,
        ThinkingEffort::Low => ReasoningEffort::Low,
        ThinkingEffort::Medium => ReasoningEffort::Medium,
        ThinkingEffort::High => ReasoningEffort::High,
        ThinkingEffort::Tokens(tokens) => ReasoningEffort::Budget(tokens),
    }
}

fn choice(kind: AdapterKind, choice: &ToolChoice) -> Result<Option<Choice>, ModelError> {
    Ok(match choice {
        ToolChoice::Auto => None,
        // Its tools are left out instead.
        ToolChoice::None if is_curt(kind) => None,
        ToolChoice::None => Some(Choice::None),
        _ if is_curt(kind) => {
            let why = "genai cannot make this provider call a tool; leave it to the model";
            return Err(unsupported("choice", why));
        }
        ToolChoice::Required => Some(Choice::Required),
        ToolChoice::Tool(name) => Some(Choice::tool(name.as_str())),
    })
}

fn messages(request: &Request) -> Result<Vec<ChatMessage>, ModelError> {
    let mut all = Vec::new();
    // Some providers want the name of the tool with its answer.
    let mut names = HashMap::new();
    for message in &request.messages {
        names.extend(message.calls().map(|call| (call.id.clone(), call.name.clone())));
        let mut parts = Vec::new();
        let mut answers = Vec::new();
        for part in &message.parts {
            match part {
                Part::ToolResult(result) => {
                    let mut answer = answer(result)?;
                    answer.fn_name = names.get(&result.call_id).map(|name| name.to_string());
                    answers.push(ContentPart::from(answer));
                }
                part => put(part, &mut parts)?,
            }
        }
        if !answers.is_empty() {
            all.push(ChatMessage::tool(answers));
        }
        if parts.is_empty() {
            continue;
        }
        all.push(match message.role {
            Role::System | Role::Developer => ChatMessage::system(message.text_content()),
            Role::Assistant => ChatMessage::assistant(parts),
            Role::User | Role::Tool => ChatMessage::user(parts),
        });
    }
    Ok(all)
}

fn put(part: &Part, out: &mut Vec<ContentPart>) -> Result<(), ModelError> {
    match part {
        Part::Text(text) => out.push(ContentPart::Text(text.text.clone())),
        Part::Image(media) => out.push(binary(media, "image/jpeg")?.into()),
        Part::Audio(media) => out.push(binary(media, "audio/wav")?.into()),
        Part::Video(media) => out.push(binary(media, "video/mp4")?.into()),
        Part::Document(media) => out.push(binary(media, "application/pdf")?.into()),
        Part::Thinking(thinking) => {
            // `genai` wants a signature before what it signs.
            if let Some(signature) = &thinking.signature {
                out.push(ContentPart::ThoughtSignature(signature.clone()));
                if !thinking.text.is_empty() {
                    out.push(ContentPart::ReasoningContent(thinking.text.clone()));
                }
            }
        }
        Part::ToolCall(call) if call.provider_result.is_none() => {
            let arguments = match call.arguments.trim() {
                "" => Value::Object(serde_json::Map::new()),
                text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
            };
            out.push(ContentPart::ToolCall(ToolCall {
                call_id: call.id.to_string(),
                fn_name: call.name.to_string(),
                fn_arguments: arguments,
                thought_signatures: None,
            }));
        }
        _ => {}
    }
    Ok(())
}

fn binary(media: &Media, kind: &str) -> Result<Binary, ModelError> {
    match &media.source {
        Source::Data { value, mime_type } => {
            Ok(Binary::from_base64(mime_type.as_str(), value.as_str(), None))
        }
        Source::Url { value, mime_type } => {
            Ok(Binary::from_url(mime_type.as_deref().unwrap_or(kind), value.as_str(), None))
        }
        Source::File { .. } => {
            let why = "genai takes no file by a provider's name; give its data or a URL";
            Err(unsupported("messages", why))
        }
    }
}

fn answer(result: &ToolResult) -> Result<ToolResponse, ModelError> {
    let text = match &result.content {
        Content::Text(text) => text.clone(),
        Content::Parts(parts) => {
            let mut texts = Vec::new();
            for part in parts {
                let Shown::Text(text) = part else {
                    let why = "genai takes only text as the answer of a tool; describe the rest";
                    return Err(unsupported("messages", why));
                };
                texts.push(text.text.as_str());
            }
            texts.join("\n")
        }
    };
    Ok(ToolResponse::new(result.call_id.as_str(), text))
}

fn unsupported(field: &str, why: &str) -> ModelError {
    words::unsupported(&PROVIDER.into(), field, why)
}
