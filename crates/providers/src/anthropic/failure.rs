//! What Anthropic's failures mean.

use chat::{ModelError, ModelErrorKind};
use http::StatusCode;

use super::{
    PROVIDER,
    frame::{Failure, Refusal},
};
use crate::wire::{kind_of as kind_of_status, quote};

/// An error event in the middle of an answer.
pub(super) fn of_event(failure: Option<&Failure<'_>>) -> ModelError {
    let kind = failure.and_then(|failure| failure.kind.as_deref()).unwrap_or("api_error");
    let message = failure.and_then(|failure| failure.message.as_deref()).unwrap_or_default();
    let meaning = kind_of(kind).unwrap_or(ModelErrorKind::Unavailable);
    ModelError::new(PROVIDER, meaning, format!("{message} ({kind})"))
}

/// An answer that is no 2xx.
pub(super) fn of_answer(status: StatusCode, body: &[u8]) -> ModelError {
    let refusal = serde_json::from_slice::<Refusal<'_>>(body).ok();
    let word = refusal.as_ref().and_then(|refusal| refusal.error.kind.as_deref());
    let said = refusal.as_ref().and_then(|refusal| refusal.error.message.as_deref());
    let kind = word.and_then(kind_of).unwrap_or_else(|| kind_of_status(status));
    let said = said.map_or_else(|| quote(body), str::to_owned);
    let message = match kind {
        ModelErrorKind::Unauthorized => format!("{said} ({status}); check ANTHROPIC_API_KEY"),
        _ => format!("{said} ({status})"),
    };
    ModelError::new(PROVIDER, kind, message)
}

fn kind_of(word: &str) -> Option<ModelErrorKind> {
    Some(match word {
        "authentication_error" | "permission_error" => ModelErrorKind::Unauthorized,
        "not_found_error" => ModelErrorKind::UnknownModel,
        "rate_limit_error" | "billing_error" => ModelErrorKind::RateLimited,
        "timeout_error" => ModelErrorKind::TimedOut,
        "invalid_request_error" | "request_too_large" => ModelErrorKind::BadRequest,
        "api_error" | "overloaded_error" => ModelErrorKind::Unavailable,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_to_do() {
        let body = |word: &str| {
            format!(r#"{{"type":"error","error":{{"type":"{word}","message":"said so"}}}}"#)
        };
        let rows = [
            (401, "authentication_error", ModelErrorKind::Unauthorized, false),
            (403, "permission_error", ModelErrorKind::Unauthorized, false),
            (404, "not_found_error", ModelErrorKind::UnknownModel, false),
            (413, "request_too_large", ModelErrorKind::BadRequest, false),
            (400, "invalid_request_error", ModelErrorKind::BadRequest, false),
            (429, "rate_limit_error", ModelErrorKind::RateLimited, true),
            (500, "api_error", ModelErrorKind::Unavailable, true),
            (504, "timeout_error", ModelErrorKind::TimedOut, true),
            (529, "overloaded_error", ModelErrorKind::Unavailable, true),
        ];
        for (status, word, kind, is_retryable) in rows {
            let status = StatusCode::from_u16(status).unwrap();
            let error = of_answer(status, body(word).as_bytes());
            assert_eq!((error.kind, error.is_retryable()), (kind, is_retryable), "of {status}");
            assert!(error.message.starts_with("said so"), "{error}");
        }
    }

    #[test]
    fn an_answer_of_somebody_else_is_quoted() {
        let error = of_answer(StatusCode::BAD_GATEWAY, b"<html>bad gateway</html>");
        assert_eq!(error.kind, ModelErrorKind::Unavailable);
        assert!(error.message.contains("<html>bad gateway</html>"), "{error}");
    }
}
