//! Failures of `genai`, as what they mean for whoever asked.

use ::genai::{Error, webc};
use chat::{ModelError, ModelErrorKind};
use sys::UnixMs;

use super::{PROVIDER, failed};
use crate::{openai::failure::refused, transport::retry_after, wire::quote};

/// What a failure means.
pub(super) fn meaning(error: &Error, now: UnixMs) -> ModelError {
    match error {
        Error::HttpError { status, body, headers, .. } => {
            let mut error = refused(&PROVIDER.into(), *status, body.as_bytes());
            error.retry_after = retry_after(headers, now);
            error
        }
        Error::WebStream { error, .. } => match error.downcast_ref::<Error>() {
            Some(error) => meaning(error, now),
            None => match error.downcast_ref::<reqwest::Error>() {
                Some(error) => unreached(error),
                None => failed(ModelErrorKind::Truncated, format!("the answer broke off: {error}")),
            },
        },
        Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => {
            match webc_error {
                webc::Error::Reqwest(error) => unreached(error),
                other => failed(ModelErrorKind::Malformed, quote(other.to_string().as_bytes())),
            }
        }
        Error::ChatResponse { body, .. } => {
            crate::openai::failure::broke_off(&PROVIDER.into(), body)
        }
        other => failed(kind_of(other), quote(other.to_string().as_bytes())),
    }
}

fn kind_of(error: &Error) -> ModelErrorKind {
    match error {
        Error::RequiresApiKey { .. }
        | Error::NoAuthResolver { .. }
        | Error::NoAuthData { .. }
        | Error::Resolver { .. } => ModelErrorKind::MissingKey,
        Error::StreamParse { .. }
        | Error::NoChatResponse { .. }
        | Error::InvalidJsonResponseElement { .. }
        | Error::ChatResponseGeneration { .. }
        | Error::JsonValueExt(_)
        | Error::SerdeJson(_) => ModelErrorKind::Malformed,
        Error::ClientBuildFail { .. } | Error::Internal(_) => ModelErrorKind::Unavailable,
        _ => ModelErrorKind::Unsupported,
    }
}

/// A connection that failed, before or amid an answer.
fn unreached(error: &reqwest::Error) -> ModelError {
    let told = told(error);
    if error.is_timeout() {
        failed(ModelErrorKind::TimedOut, format!("the provider takes too long: {told}"))
    } else if error.is_connect() || error.is_request() {
        failed(ModelErrorKind::Unavailable, format!("the provider cannot be reached: {told}"))
    } else {
        failed(ModelErrorKind::Truncated, format!("the answer broke off: {told}; ask again"))
    }
}

/// The error and what caused it; the first alone rarely says anything. No URL: it may hold a key.
fn told(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    match causes.is_empty() {
        true => "no reason is given".to_owned(),
        false => causes.join(": "),
    }
}
