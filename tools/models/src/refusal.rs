//! How each provider says no.

use http::StatusCode;
use serde_json::{Value, json};

use crate::Wire;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    BadKey,
    BadRequest(String),
    RateLimited,
    Overloaded,
    UnknownModel(String),
}

impl Refusal {
    /// The status and the body on this wire.
    pub(crate) fn on(&self, wire: Wire) -> (StatusCode, Value) {
        match wire {
            Wire::Chat | Wire::Responses => self.openai(),
            Wire::Anthropic => self.anthropic(),
            Wire::Gemini => self.gemini(),
            Wire::Ollama => self.ollama(),
        }
    }

    fn openai(&self) -> (StatusCode, Value) {
        let (status, kind, code, message) = match self {
            Self::BadKey => (
                StatusCode::UNAUTHORIZED,
                "invalid_request_error",
                json!("invalid_api_key"),
                "Incorrect API key provided.".to_owned(),
            ),
            Self::BadRequest(why) => {
                (StatusCode::BAD_REQUEST, "invalid_request_error", Value::Null, why.clone())
            }
            Self::RateLimited => (
                StatusCode::TOO_MANY_REQUESTS,
                "requests",
                json!("rate_limit_exceeded"),
                "Rate limit reached for requests.".to_owned(),
            ),
            Self::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                Value::Null,
                "The engine is currently overloaded, please try again later".to_owned(),
            ),
            Self::UnknownModel(model) => (
                StatusCode::NOT_FOUND,
                "invalid_request_error",
                json!("model_not_found"),
                format!("The model `{model}` does not exist or you do not have access to it."),
            ),
        };
        let error = json!({"message": message, "type": kind, "param": null, "code": code});
        (status, json!({"error": error}))
    }

    fn anthropic(&self) -> (StatusCode, Value) {
        let (status, kind, message) = match self {
            Self::BadKey => {
                (StatusCode::UNAUTHORIZED, "authentication_error", "invalid x-api-key".to_owned())
            }
            Self::BadRequest(why) => {
                (StatusCode::BAD_REQUEST, "invalid_request_error", why.clone())
            }
            Self::RateLimited => (
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_error",
                "This request would exceed your rate limit.".to_owned(),
            ),
            Self::Overloaded => (
                StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
                "overloaded_error",
                "Overloaded".to_owned(),
            ),
            Self::UnknownModel(model) => {
                (StatusCode::NOT_FOUND, "not_found_error", format!("model: {model}"))
            }
        };
        let error = json!({"type": kind, "message": message});
        let id = "req_011CSHoEeqs5C35K2UUqR7Fy";
        (status, json!({"type": "error", "error": error, "request_id": id}))
    }

    fn gemini(&self) -> (StatusCode, Value) {
        let (status, word, message) = match self {
            // The service says this of a key that it does not know.
            Self::BadKey => (
                StatusCode::BAD_REQUEST,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.".to_owned(),
            ),
            Self::BadRequest(why) => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", why.clone()),
            Self::RateLimited => (
                StatusCode::TOO_MANY_REQUESTS,
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota.".to_owned(),
            ),
            Self::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                "UNAVAILABLE",
                "The model is overloaded. Please try again later.".to_owned(),
            ),
            Self::UnknownModel(model) => (
                StatusCode::NOT_FOUND,
                "NOT_FOUND",
                format!("models/{model} is not found for API version v1beta."),
            ),
        };
        let mut error = json!({"code": status.as_u16(), "message": message, "status": word});
        if *self == Self::BadKey {
            error["details"] = json!([{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
                "metadata": {"service": "generativelanguage.googleapis.com"},
            }]);
        }
        (status, json!({"error": error}))
    }

    fn ollama(&self) -> (StatusCode, Value) {
        let (status, message) = match self {
            Self::BadKey => (StatusCode::UNAUTHORIZED, "unauthorized".to_owned()),
            Self::BadRequest(why) => (StatusCode::BAD_REQUEST, why.clone()),
            Self::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "too many requests".to_owned()),
            Self::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                "server busy, please try again.  maximum pending requests exceeded".to_owned(),
            ),
            Self::UnknownModel(model) => {
                (StatusCode::NOT_FOUND, format!("model '{model}' not found"))
            }
        };
        (status, json!({"error": message}))
    }
}
