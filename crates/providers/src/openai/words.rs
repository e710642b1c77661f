//! What both of OpenAI's wires have words for.

use chat::{
    Id, ModelError, ModelErrorKind, OutputSpec, Request, ThinkingEffort, ToolSpec,
    agui::{Media, Source},
};
use serde_json::{Map, Value};

use crate::{caps::OPENAI_NAME_LEN_MAX, schema::strict, wire::check_choice};

/// Something that the wire has no words for.
pub(crate) fn unsupported(provider: &Id, field: &str, why: &str) -> ModelError {
    let message = format!("{field}: {why}");
    ModelError::new(provider.clone(), ModelErrorKind::Unsupported, message)
}

/// What any wire refuses before it looks further.
pub(crate) fn check(provider: &Id, request: &Request) -> Result<(), ModelError> {
    if request.messages.is_empty() {
        return Err(unsupported(provider, "messages", "there are none; give at least one"));
    }
    check_choice(provider, request)
}

/// Refuses names that OpenAI refuses, before anything is sent.
pub(super) fn check_name(provider: &Id, tool: &ToolSpec) -> Result<(), ModelError> {
    let name = tool.name.as_str();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=OPENAI_NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    let why = format!(
        "a tool cannot be called {name:?}; use 1 to {OPENAI_NAME_LEN_MAX} of a-z, A-Z, 0-9, _ and -"
    );
    Err(unsupported(provider, "tools", &why))
}

/// The name and the schema of an answer, and whether OpenAI can hold the model to it.
pub(super) fn output(spec: &OutputSpec) -> Map<String, Value> {
    let (schema, is_strict) = adapted("the answer", &spec.schema);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain = |c: char| if is_plain(c) { c } else { '_' };
    let mut name: String = spec.name.chars().map(plain).take(OPENAI_NAME_LEN_MAX).collect();
    if name.is_empty() {
        name.push_str("answer");
    }
    Map::from_iter([
        ("name".to_owned(), name.into()),
        ("schema".to_owned(), schema),
        ("strict".to_owned(), is_strict.into()),
    ])
}

/// A schema in OpenAI's strict words if it has any, else as it is.
pub(super) fn adapted(whose: &str, schema: &Value) -> (Value, bool) {
    match strict(schema) {
        Ok(strict) => (strict, true),
        Err(why) => {
            tracing::debug!(whose, %why, "this schema is not sent as strict");
            (schema.clone(), false)
        }
    }
}

/// How hard to think, in OpenAI's words.
pub(super) fn effort(provider: &Id, effort: ThinkingEffort) -> Result<&'static str, ModelError> {
    match effort {
        ThinkingEffort::Off => Ok("none"),
        ThinkingEffort::Low => Ok("low"),
        ThinkingEffort::Medium => Ok("medium"),
        ThinkingEffort::High => Ok("high"),
        ThinkingEffort::Tokens(_) => {
            let why = "OpenAI takes no number of tokens; use off, low, medium or high";
            Err(unsupported(provider, "settings.thinking", why))
        }
    }
}

/// An address of something, or the thing itself as one.
pub(super) fn url(media: &Media) -> Option<String> {
    match &media.source {
        Source::Data { value, mime_type } => Some(format!("data:{mime_type};base64,{value}")),
        Source::Url { value, .. } => Some(value.clone()),
        Source::File { .. } => None,
    }
}

/// What a file is called: as it says, or by its type.
pub(super) fn file_name(media: &Media) -> String {
    let said = media.metadata.as_ref().and_then(|metadata| {
        let name = metadata.get("filename").or_else(|| metadata.get("name"))?;
        name.as_str().map(str::to_owned)
    });
    said.unwrap_or_else(|| {
        let kind = match &media.source {
            Source::Data { mime_type, .. } => mime_type.as_str(),
            Source::Url { mime_type, .. } | Source::File { mime_type, .. } => {
                mime_type.as_deref().unwrap_or_default()
            }
        };
        let end = match kind {
            "application/pdf" => "pdf",
            "text/plain" => "txt",
            "text/markdown" => "md",
            "text/csv" => "csv",
            "application/json" => "json",
            "text/html" => "html",
            _ => "bin",
        };
        format!("document.{end}")
    })
}

/// Sets every field that the settings bring; they win.
pub(crate) fn merge(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (name, value) in extra {
        body.insert(name.clone(), value.clone());
    }
}
