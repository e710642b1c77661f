//! What Gemini streams, as far as it is read.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::Text;

/// One piece of an answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Frame<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Option<PromptFeedback<'a>>,
    pub(super) usage_metadata: Option<Counts>,
    #[serde(borrow)]
    pub(super) model_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Failure<'a>>,
}

/// One of several answers; only the first is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) finish_message: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) grounding_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) citation_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) url_context_metadata: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<Vec<Part<'a>>>,
}

/// A part of an answer. What belongs to which kind is flat, so that it is read in one go.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    pub(super) thought: Option<bool>,
    #[serde(borrow)]
    pub(super) thought_signature: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) function_call: Option<FunctionCall<'a>>,
    #[serde(borrow)]
    pub(super) executable_code: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) code_execution_result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_call: Option<ToolCall<'a>>,
    #[serde(borrow)]
    pub(super) tool_response: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) inline_data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) file_data: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) partial_args: Option<&'a RawValue>,
    pub(super) will_continue: Option<bool>,
}

/// A call of a tool that Gemini runs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool_type: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
}

/// Something that has an id, perhaps.
#[derive(Debug, Deserialize)]
pub(super) struct Identified<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback<'a> {
    #[serde(borrow)]
    pub(super) block_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) block_reason_message: Option<Text<'a>>,
}

/// Tokens.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    pub(super) prompt_token_count: Option<u64>,
    pub(super) tool_use_prompt_token_count: Option<u64>,
    pub(super) candidates_token_count: Option<u64>,
    pub(super) thoughts_token_count: Option<u64>,
    pub(super) cached_content_token_count: Option<u64>,
    pub(super) total_token_count: Option<u64>,
}

/// What went wrong.
#[derive(Debug, Deserialize)]
pub(super) struct Failure<'a> {
    pub(super) code: Option<u16>,
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) details: Option<Vec<Detail<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Detail<'a> {
    #[serde(borrow)]
    pub(super) reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) retry_delay: Option<Text<'a>>,
}

/// An answer that is no 2xx.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal<'a> {
    #[serde(borrow)]
    pub(super) error: Failure<'a>,
}
