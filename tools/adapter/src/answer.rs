//! What the suite is told.

use client::{Failure, ProducerError};
use serde_json::{Value, json};

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: &'static str,
    pub(crate) status: Option<u16>,
    pub(crate) message: String,
}

impl Failed {
    #[allow(clippy::needless_pass_by_value, reason = "errors are given away where they are told")]
    pub(crate) fn new(code: &'static str, message: impl ToString) -> Self {
        Self { code, status: None, message: message.to_string() }
    }

    pub(crate) fn answer(&self, command: &str) -> Value {
        json!({
            "type": "error",
            "success": false,
            "commandType": command,
            "status": self.status,
            "errorCode": self.code,
            "message": self.message,
        })
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        let status = failure.status().map(|status| status.as_u16());
        let message = failure.to_string();
        let code = match &failure {
            Failure::Unreachable(_) | Failure::NotConnected(_) => "NETWORK_ERROR",
            Failure::Unreadable(_) => "PARSE_ERROR",
            Failure::Unaskable(_) => "INVALID_ARGUMENT",
            Failure::Refused(refusal) => {
                let is_closed = refusal.headers.get("stream-closed");
                match status {
                    Some(404) => "NOT_FOUND",
                    Some(409) if is_closed.is_some_and(|value| value == "true") => "STREAM_CLOSED",
                    Some(409) if message.to_lowercase().contains("sequence") => "SEQUENCE_CONFLICT",
                    Some(409) => "CONFLICT",
                    Some(400) if message.to_lowercase().contains("offset") => "INVALID_OFFSET",
                    _ => "UNEXPECTED_STATUS",
                }
            }
            _ => "INTERNAL_ERROR",
        };
        Self { code, status, message }
    }
}

impl From<ProducerError> for Failed {
    fn from(error: ProducerError) -> Self {
        match error {
            ProducerError::Failed(failure) => failure.into(),
            ProducerError::Refused(refusal) => Failure::Refused(refusal).into(),
            ProducerError::Closed => {
                Self { code: "STREAM_CLOSED", status: Some(409), message: error.to_string() }
            }
            ProducerError::Fenced { .. } => {
                Self { code: "UNEXPECTED_STATUS", status: Some(403), message: error.to_string() }
            }
            ProducerError::NotJson(_) | ProducerError::Message(_) => {
                Self::new("INVALID_ARGUMENT", error)
            }
            other => Self::new("INTERNAL_ERROR", other),
        }
    }
}
