//! What answers of the Responses API are made of.

use std::borrow::Cow;

use chat::Usage;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::json::Loose;

/// The whole answer.
#[derive(Deserialize)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    pub(super) model: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    pub(super) usage: Option<ResponseUsage>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: Option<Incomplete<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Incomplete<'a> {
    #[serde(borrow, default)]
    pub(super) reason: Loose<'a>,
}

/// One item of an answer.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) call_id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) name: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) encrypted_content: Loose<'a>,
}

/// A text, or why there is none.
pub(super) struct PartText<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) is_refusal: bool,
}

/// The texts of the parts of an item, in order.
pub(super) fn texts(parts: Option<&RawValue>) -> Vec<PartText<'_>> {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow, default)]
        text: Loose<'a>,
        #[serde(borrow, default)]
        refusal: Loose<'a>,
    }
    let parts = parts.and_then(|raw| serde_json::from_str::<Vec<Part<'_>>>(raw.get()).ok());
    let texts = parts.into_iter().flatten().map(|part| {
        let refusal = part.refusal.full();
        let is_refusal = refusal.is_some();
        PartText { text: refusal.or(part.text.0).unwrap_or_default(), is_refusal }
    });
    texts.collect()
}

/// Whether an item is a call of a tool that the provider runs.
pub(super) fn is_provider_run(kind: &str) -> bool {
    // Those are for us to run, and none of them is a tool of ours.
    const OURS: &[&str] = &[
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
    ];
    kind.ends_with("_call") && !OURS.contains(&kind)
}

/// What a tool that the provider runs is called.
pub(super) fn provider_tool<'a>(kind: &'a str, name: &'a str) -> &'a str {
    match name.is_empty() {
        true => kind.strip_suffix("_call").unwrap_or(kind),
        false => name,
    }
}

/// What a tool that the provider ran was asked, as JSON.
pub(super) fn arguments_of(item: &Value) -> String {
    if let Some(arguments) = item.get("arguments").and_then(Value::as_str) {
        return arguments.to_owned();
    }
    match (item.get("action"), item.get("queries"), item.get("code")) {
        (Some(action), _, _) => action.to_string(),
        (_, Some(queries), _) => json!({ "queries": queries }).to_string(),
        (_, _, Some(code)) => json!({ "code": code }).to_string(),
        _ => "{}".to_owned(),
    }
}

#[derive(Deserialize)]
pub(super) struct ResponseUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl From<ResponseUsage> for Usage {
    fn from(usage: ResponseUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            total_tokens: usage.total_tokens,
            reasoning_tokens: usage.output_tokens_details.and_then(|all| all.reasoning_tokens),
            cached_input_tokens: usage.input_tokens_details.and_then(|all| all.cached_tokens),
            ..Self::default()
        }
    }
}
