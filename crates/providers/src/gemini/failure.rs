//! What Gemini's failures mean.

use std::time::Duration;

use chat::{ModelError, ModelErrorKind};
use http::StatusCode;

use super::{
    PROVIDER,
    frame::{Failure, Refusal},
};
use crate::wire::{kind_of as kind_of_status, quote};

/// A failure in the middle of an answer.
pub(super) fn of_event(failure: &Failure<'_>) -> ModelError {
    let status = failure.code.and_then(|code| StatusCode::from_u16(code).ok());
    told(failure, status)
}

/// An answer that is no 2xx. Some come in a list of one.
pub(super) fn of_answer(status: StatusCode, body: &[u8]) -> ModelError {
    let one = || serde_json::from_slice::<Refusal<'_>>(body).ok();
    let many = || serde_json::from_slice::<Vec<Refusal<'_>>>(body).ok()?.pop();
    match many().or_else(one) {
        Some(refusal) => told(&refusal.error, Some(status)),
        None => {
            let said = quote(body);
            ModelError::new(PROVIDER, kind_of("", Some(status)), format!("{said} ({status})"))
        }
    }
}

fn told(failure: &Failure<'_>, status: Option<StatusCode>) -> ModelError {
    let word = failure.status.as_deref().unwrap_or_default();
    let said = failure.message.as_deref().unwrap_or_default();
    let details = failure.details.as_deref().unwrap_or_default();
    // A wrong key is told as a bad request.
    let is_key = |reason: &str| matches!(reason, "API_KEY_INVALID" | "API_KEY_EXPIRED");
    let is_about_key = details.iter().any(|detail| detail.reason.as_deref().is_some_and(is_key));
    let kind = match is_about_key {
        true => ModelErrorKind::Unauthorized,
        false => kind_of(word, status),
    };
    let mut message = match (word, status) {
        ("", None) => said.to_owned(),
        ("", Some(status)) => format!("{said} ({status})"),
        (word, _) => format!("{said} ({word})"),
    };
    if kind == ModelErrorKind::Unauthorized {
        message.push_str("; check GEMINI_API_KEY");
    }
    let pause = details.iter().find_map(|detail| seconds(detail.retry_delay.as_deref()?));
    ModelError { retry_after: pause, ..ModelError::new(PROVIDER, kind, message) }
}

fn kind_of(word: &str, status: Option<StatusCode>) -> ModelErrorKind {
    match word {
        "UNAUTHENTICATED" | "PERMISSION_DENIED" => ModelErrorKind::Unauthorized,
        "NOT_FOUND" => ModelErrorKind::UnknownModel,
        "RESOURCE_EXHAUSTED" => ModelErrorKind::RateLimited,
        "DEADLINE_EXCEEDED" => ModelErrorKind::TimedOut,
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" | "UNIMPLEMENTED" => {
            ModelErrorKind::BadRequest
        }
        _ => status.map_or(ModelErrorKind::Unavailable, kind_of_status),
    }
}

/// A time as protocol buffers write it: `34.5s`.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_to_do() {
        let rows = [
            (400, "INVALID_ARGUMENT", ModelErrorKind::BadRequest, false),
            (400, "FAILED_PRECONDITION", ModelErrorKind::BadRequest, false),
            (401, "UNAUTHENTICATED", ModelErrorKind::Unauthorized, false),
            (403, "PERMISSION_DENIED", ModelErrorKind::Unauthorized, false),
            (404, "NOT_FOUND", ModelErrorKind::UnknownModel, false),
            (429, "RESOURCE_EXHAUSTED", ModelErrorKind::RateLimited, true),
            (500, "INTERNAL", ModelErrorKind::Unavailable, true),
            (503, "UNAVAILABLE", ModelErrorKind::Unavailable, true),
            (504, "DEADLINE_EXCEEDED", ModelErrorKind::TimedOut, true),
        ];
        for (code, word, kind, is_retryable) in rows {
            let one =
                format!(r#"{{"error":{{"code":{code},"message":"said so","status":"{word}"}}}}"#);
            let status = StatusCode::from_u16(code).unwrap();
            for body in [one.clone(), format!("[{one}]")] {
                let error = of_answer(status, body.as_bytes());
                assert_eq!((error.kind, error.is_retryable()), (kind, is_retryable), "{word}");
                assert!(error.message.starts_with("said so"), "{error}");
            }
            let bare = of_answer(status, b"<html>");
            assert_eq!(bare.is_retryable(), is_retryable, "of {status}");
            assert!(bare.message.contains("<html>"), "{bare}");
        }
    }

    #[test]
    fn details_tell_of_keys_and_pauses() {
        let key = concat!(
            r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"API key not valid.","#,
            r#""details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","#,
            r#""reason":"API_KEY_INVALID","metadata":{}}]}}"#
        )
        .as_bytes();
        let error = of_answer(StatusCode::BAD_REQUEST, key);
        assert_eq!(error.kind, ModelErrorKind::Unauthorized);
        assert!(error.message.contains("GEMINI_API_KEY"), "{error}");
        let pause = concat!(
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Quota.","details":[{"#,
            r#""@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#
        )
        .as_bytes();
        let error = of_answer(StatusCode::TOO_MANY_REQUESTS, pause);
        assert_eq!(error.retry_after, Some(Duration::from_millis(34_500)));
        assert_eq!(seconds("1e300s"), None);
    }
}
