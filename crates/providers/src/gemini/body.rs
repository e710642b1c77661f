//! A request as Gemini's wire writes it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, value::RawValue};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    pub(super) contents: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    pub(super) generation_config: GenerationConfig<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct Instruction<'a> {
    pub(super) parts: Vec<Part<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Turn<'a> {
    pub(super) role: Role,
    pub(super) parts: Vec<Part<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    User,
    Model,
}

/// A part, and what Gemini wants to see again with it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(flatten)]
    pub(super) data: Data<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", untagged)]
pub(super) enum Data<'a> {
    Text {
        text: &'a str,
    },
    Thought {
        text: &'a str,
        thought: bool,
    },
    #[serde(rename_all = "camelCase")]
    Inline {
        inline_data: Blob<'a>,
    },
    #[serde(rename_all = "camelCase")]
    File {
        file_data: FileData<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: FunctionCall<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Response {
        function_response: FunctionResponse<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Code {
        executable_code: Cow<'a, RawValue>,
    },
    #[serde(rename_all = "camelCase")]
    ToolCall {
        tool_call: ToolCall<'a>,
    },
    /// What the wire wrote, as it wrote it.
    Raw(&'a Value),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob<'a> {
    pub(super) mime_type: &'a str,
    pub(super) data: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<&'a str>,
    pub(super) file_uri: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionCall<'a> {
    pub(super) id: &'a str,
    pub(super) name: Cow<'a, str>,
    pub(super) args: Cow<'a, RawValue>,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionResponse<'a> {
    pub(super) id: &'a str,
    pub(super) name: Cow<'a, str>,
    pub(super) response: Outcome<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<Part<'a>>,
}

/// What came of a call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome<'a> {
    Output(Cow<'a, RawValue>),
    Error(Cow<'a, RawValue>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall<'a> {
    pub(super) id: &'a str,
    pub(super) tool_type: &'a str,
    pub(super) args: Cow<'a, RawValue>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Tool<'a> {
    #[serde(rename_all = "camelCase")]
    Ours {
        function_declarations: Vec<Declaration<'a>>,
    },
    Theirs(&'a Value),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Declaration<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters_json_schema: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'a> {
    pub(super) function_calling_config: Calling<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Calling<'a> {
    pub(super) mode: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) allowed_function_names: Vec<&'a str>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_json_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_config: Option<ThinkingConfig>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_budget: Option<u32>,
}

impl GenerationConfig<'_> {
    fn is_empty(&self) -> bool {
        let Self { max_output_tokens, temperature, top_p, stop_sequences, .. } = self;
        let is_plain = max_output_tokens.is_none() && temperature.is_none() && top_p.is_none();
        let is_free = self.response_mime_type.is_none() && self.thinking_config.is_none();
        is_plain && is_free && stop_sequences.is_empty()
    }
}
