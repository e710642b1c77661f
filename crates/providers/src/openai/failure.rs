//! Failures in OpenAI's words.

use chat::{Id, ModelError, ModelErrorKind};
use http::StatusCode;
use serde_json::Value;

use crate::wire::{kind_of, quote};

/// What an answer that is no 2xx means.
pub(crate) fn refused(provider: &Id, status: StatusCode, body: &[u8]) -> ModelError {
    let said = serde_json::from_slice(body).ok().and_then(|value| Said::read(&value));
    let number = status.as_u16();
    let Some(said) = said else {
        let what = match body.is_empty() {
            true => "no reason is given".to_owned(),
            false => format!("the answer begins with {}", quote(body)),
        };
        return ModelError::new(provider.clone(), kind_of(status), format!("{number}: {what}"));
    };
    let kind = said.kind().unwrap_or_else(|| kind_of(status));
    ModelError::new(provider.clone(), kind, format!("{number}: {}", said.message(kind)))
}

/// What a failure in the middle of an answer means.
pub(crate) fn broke_off(provider: &Id, error: &Value) -> ModelError {
    let Some(said) = Said::read(error) else {
        let why =
            format!("the answer ends with a failure: {}", quote(error.to_string().as_bytes()));
        return ModelError::new(provider.clone(), ModelErrorKind::Unavailable, why);
    };
    let kind = said.kind().unwrap_or(ModelErrorKind::Unavailable);
    ModelError::new(provider.clone(), kind, said.message(kind))
}

/// What a provider says of a failure.
#[derive(Debug, Default)]
struct Said {
    message: String,
    code: Option<String>,
    kind: Option<String>,
    field: Option<String>,
}

impl Said {
    /// From `{"error": {…}}`, `{"error": "…"}`, or what stands in it; servers differ.
    fn read(value: &Value) -> Option<Self> {
        let error = match value.get("error") {
            Some(error) if !error.is_null() => error,
            _ => value,
        };
        if let Some(message) = error.as_str() {
            return Some(Self { message: message.to_owned(), ..Self::default() });
        }
        let text = |name: &str| match error.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let message = text("message").or_else(|| text("detail"));
        let (code, kind, field) = (text("code"), text("type"), text("param"));
        let message = message.or_else(|| code.clone())?;
        Some(Self { message, code, kind, field })
    }

    fn kind(&self) -> Option<ModelErrorKind> {
        [&self.code, &self.kind].into_iter().flatten().find_map(|word| kind_of_word(word))
    }

    fn message(&self, kind: ModelErrorKind) -> String {
        let mut message = self.message.clone();
        if let Some(field) = &self.field {
            message = format!("{message} (field {field:?})");
        }
        if kind == ModelErrorKind::Unauthorized {
            message.push_str("; check the key and what it may do");
        }
        message
    }
}

fn kind_of_word(word: &str) -> Option<ModelErrorKind> {
    if let Ok(status) = StatusCode::from_bytes(word.as_bytes()) {
        return (!status.is_success()).then(|| kind_of(status));
    }
    match word {
        "invalid_api_key" | "authentication_error" | "permission_error" | "permission_denied" => {
            Some(ModelErrorKind::Unauthorized)
        }
        "model_not_found" | "model_not_available" => Some(ModelErrorKind::UnknownModel),
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "insufficient_quota"
        | "tokens"
        | "requests" => Some(ModelErrorKind::RateLimited),
        "server_error"
        | "internal_error"
        | "overloaded"
        | "overloaded_error"
        | "service_unavailable"
        | "engine_overloaded"
        | "slow_down" => Some(ModelErrorKind::Unavailable),
        "timeout" | "vector_store_timeout" => Some(ModelErrorKind::TimedOut),
        "context_length_exceeded"
        | "invalid_request_error"
        | "invalid_prompt"
        | "invalid_image"
        | "image_too_large"
        | "unsupported_parameter"
        | "unsupported_value" => Some(ModelErrorKind::BadRequest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, kind: ModelErrorKind, message: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        let error = refused(&"openai".into(), status, body.as_bytes());
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
    }

    #[test]
    fn refusals_are_told_in_the_words_of_the_provider() {
        let body = r#"{"error":{"message":"The model `x` does not exist","type":
            "invalid_request_error","param":null,"code":"model_not_found"}}"#;
        check(404, body, ModelErrorKind::UnknownModel, "404: The model `x` does not exist");
        let body = r#"{"error":{"message":"Too long","type":"invalid_request_error","param":
            "messages","code":"context_length_exceeded"}}"#;
        check(400, body, ModelErrorKind::BadRequest, "400: Too long (field \"messages\")");
        let body = r#"{"error":{"message":"No money","type":"insufficient_quota","code":
            "insufficient_quota"}}"#;
        check(429, body, ModelErrorKind::RateLimited, "429: No money");
        let told = "401: Bad; check the key and what it may do";
        check(401, r#"{"error":{"message":"Bad"}}"#, ModelErrorKind::Unauthorized, told);
        check(400, r#"{"error":"plain"}"#, ModelErrorKind::BadRequest, "400: plain");
        check(422, r#"{"detail":"no"}"#, ModelErrorKind::BadRequest, "422: no");
        check(529, r#"{"message":"busy","code":529}"#, ModelErrorKind::Unavailable, "529: busy");
        let told = "502: the answer begins with \"<html>\"";
        check(502, "<html>", ModelErrorKind::Unavailable, told);
        check(503, "", ModelErrorKind::Unavailable, "503: no reason is given");
    }
}
