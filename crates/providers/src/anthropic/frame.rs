//! What Anthropic streams, as far as it is read.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::Text;

/// One event. What belongs to which kind is flat, so that it is read in one go.
#[derive(Debug, Deserialize)]
pub(super) struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<Start<'a>>,
    pub(super) usage: Option<Counts>,
    #[serde(borrow)]
    pub(super) error: Option<Failure<'a>>,
}

/// What is added to a block, or to the message.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) stop_details: Option<&'a RawValue>,
}

/// The message before there is anything in it.
#[derive(Debug, Deserialize)]
pub(super) struct Start<'a> {
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    pub(super) usage: Option<Counts>,
}

/// A block as it begins.
#[derive(Debug, Deserialize)]
pub(super) struct ContentBlock<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_use_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) server_name: Option<Text<'a>>,
}

/// Tokens. What is absent has not changed.
#[derive(Debug, Deserialize)]
pub(super) struct Counts {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) output_tokens_details: Option<CountsOfOutput>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CountsOfOutput {
    pub(super) thinking_tokens: Option<u64>,
}

/// What went wrong.
#[derive(Debug, Deserialize)]
pub(super) struct Failure<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
}

/// An answer that is no 2xx.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal<'a> {
    #[serde(borrow)]
    pub(super) error: Failure<'a>,
}
