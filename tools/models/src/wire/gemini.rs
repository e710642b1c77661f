//! Contents: whole responses, each with more parts of one candidate.

use serde_json::{Value, json};

use super::{Frame, Writer};
use crate::script::{End, Kind, Step, Stop, Tokens};

#[derive(Default)]
pub(super) struct Gemini {
    open: Option<Kind>,
    /// Arguments, which come whole.
    arguments: String,
    /// The signature of thoughts is carried by the part that follows them.
    signature: Option<&'static str>,
}

impl Gemini {
    fn chunk(candidate: &Value) -> Value {
        json!({
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": 12, "totalTokenCount": 12,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 12}],
            },
            "modelVersion": "gemini-fixture",
            "responseId": "mAitaLmkHPPlz7IPvtfUqQ4",
        })
    }

    fn part(&mut self, mut part: Value) -> Vec<Frame> {
        if part.get("thought").is_none()
            && let Some(signature) = self.signature.take()
        {
            part["thoughtSignature"] = json!(signature);
        }
        let content = json!({"parts": [part], "role": "model"});
        vec![Frame::json(Self::chunk(&json!({"content": content, "index": 0})))]
    }
}

impl Writer for Gemini {
    fn begin(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    fn write(&mut self, step: Step) -> Vec<Frame> {
        match step {
            Step::Open { kind, .. } => {
                self.open = Some(kind);
                self.arguments.clear();
                Vec::new()
            }
            Step::More { text, .. } => match self.open {
                Some(Kind::Call { .. } | Kind::ProviderCall { .. }) => {
                    self.arguments.push_str(&text);
                    Vec::new()
                }
                Some(Kind::Thinking) => self.part(json!({"text": text, "thought": true})),
                _ => self.part(json!({"text": text})),
            },
            Step::Sign { signature, .. } => {
                self.signature = Some(signature);
                Vec::new()
            }
            Step::Close { .. } => {
                let arguments: Value = serde_json::from_str(&self.arguments).unwrap_or_default();
                match self.open.take() {
                    Some(Kind::Call { name, .. }) => {
                        self.part(json!({"functionCall": {"name": name, "args": arguments}}))
                    }
                    Some(Kind::ProviderCall { .. }) => self.part(json!({"executableCode": {
                        "language": "PYTHON", "code": "print('cold')",
                    }})),
                    _ => Vec::new(),
                }
            }
            Step::Result { .. } => self.part(json!({"codeExecutionResult": {
                "outcome": "OUTCOME_OK", "output": "cold\n",
            }})),
        }
    }

    fn end(&mut self, end: End) -> Vec<Frame> {
        let mut candidate = json!({"index": 0});
        match end.stop {
            Some(Stop::Filter) => candidate["finishReason"] = json!("SAFETY"),
            Some(Stop::Length) => candidate["finishReason"] = json!("MAX_TOKENS"),
            Some(_) => {
                candidate["content"] = json!({"parts": [{"text": ""}], "role": "model"});
                candidate["finishReason"] = json!("STOP");
            }
            None => {}
        }
        let mut last = Self::chunk(&candidate);
        last["usageMetadata"] = usage(end.tokens);
        vec![Frame::json(last)]
    }

    fn fail(&mut self) -> Frame {
        Frame::json(json!({"error": {
            "code": 503, "message": "The model is overloaded. Please try again later.",
            "status": "UNAVAILABLE",
        }}))
    }
}

/// Thoughts are counted beside the candidates, not among them.
fn usage(tokens: Tokens) -> Value {
    let mut usage = json!({
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": tokens.output - tokens.thought,
        "totalTokenCount": tokens.input + tokens.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input}],
    });
    if tokens.thought > 0 {
        usage["thoughtsTokenCount"] = json!(tokens.thought);
    }
    usage
}
