//! What is asked: which wire, which model, and whether the provider would take it.

use http::{HeaderMap, Uri};
use serde_json::Value;

use crate::{Wire, history::is_answered, refusal::Refusal};

/// A request for an answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) wire: Wire,
    pub(crate) model: String,
    pub(crate) body: Value,
    /// Whether the model goes on from answers to its calls.
    pub(crate) is_answered: bool,
}

/// Which wire a path belongs to, and the model if the path names it.
pub(crate) fn route(path: &str) -> Option<(Wire, Option<&str>)> {
    match path {
        "/openai/v1/chat/completions" => Some((Wire::Chat, None)),
        "/openai/v1/responses" => Some((Wire::Responses, None)),
        "/anthropic/v1/messages" => Some((Wire::Anthropic, None)),
        "/ollama/api/chat" => Some((Wire::Ollama, None)),
        path => {
            let model = path.strip_prefix("/gemini/v1beta/models/")?;
            Some((Wire::Gemini, Some(model.strip_suffix(":streamGenerateContent")?)))
        }
    }
}

/// Reads a request as the provider would, as far as a sloppy client could get it wrong.
pub(crate) fn read(uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<Asked, Refusal> {
    let bad = |why: &str| Refusal::BadRequest(why.to_owned());
    let (wire, named) = route(uri.path()).ok_or_else(|| bad("nothing is here"))?;
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| Refusal::BadRequest(format!("the body is no JSON: {error}")))?;
    let model = named.or_else(|| body["model"].as_str());
    let model = model.ok_or_else(|| bad("model: Field required"))?.to_owned();
    let has = |name: &str| headers.get(name).is_some_and(|value| !value.is_empty());
    let is_list = |field: &str| body[field].as_array().is_some_and(|list| !list.is_empty());
    match wire {
        Wire::Chat | Wire::Responses if !has("authorization") => return Err(Refusal::BadKey),
        Wire::Chat if !is_list("messages") => return Err(bad("messages: too short")),
        Wire::Responses if body["input"].is_null() => return Err(bad("input: required")),
        // The documents name the first, the SDK sends the second.
        Wire::Anthropic if !has("x-api-key") && !has("authorization") => {
            return Err(Refusal::BadKey);
        }
        Wire::Anthropic if !has("anthropic-version") => {
            return Err(bad("anthropic-version: header is required"));
        }
        Wire::Anthropic if !is_list("messages") => return Err(bad("messages: too short")),
        Wire::Anthropic if body["max_tokens"].as_u64().is_none_or(|tokens| tokens == 0) => {
            return Err(bad("max_tokens: Field required"));
        }
        Wire::Gemini if !has("x-goog-api-key") => return Err(Refusal::BadKey),
        Wire::Gemini if !is_list("contents") => return Err(bad("contents is not specified")),
        Wire::Gemini if uri.query().is_none_or(|query| !query.contains("alt=sse")) => {
            return Err(bad("only alt=sse is served here"));
        }
        Wire::Ollama if !body["messages"].is_array() => return Err(bad("messages: required")),
        _ => {}
    }
    let streams = match wire {
        Wire::Gemini => true,
        Wire::Ollama => body["stream"] != Value::Bool(false),
        _ => body["stream"] == Value::Bool(true),
    };
    if !streams {
        return Err(bad("only streams are served here: set `stream`"));
    }
    let is_answered = is_answered(wire, &body)?;
    Ok(Asked { wire, model, body, is_answered })
}
