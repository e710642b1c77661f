//! Problems: the one map from what went wrong to a status, and the body that says what to do.

use agent::lifecycle::NotVerified;
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use server::Refusal;

use crate::{
    actions::ActionError,
    caps::{DISK_FULL_RETRY_SECONDS, RETRY_AFTER_SECONDS, WAKE_BODY_BYTES_MAX},
};

/// Why a request was not served.
#[derive(Debug)]
pub(crate) enum Problem {
    NotVerified(NotVerified),
    /// There is none, or several.
    NoSignature,
    BodyTooLarge,
    BodyTooSlow,
    BodyBroken,
    Stale(String),
    WorkFailed,
    Busy,
}

impl Problem {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoSignature | Self::NotVerified(NotVerified::Signature(_)) => {
                StatusCode::UNAUTHORIZED
            }
            Self::BodyBroken | Self::NotVerified(NotVerified::Notice(_)) => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Stale(_) => StatusCode::CONFLICT,
            Self::WorkFailed => StatusCode::INTERNAL_SERVER_ERROR,
            // Also whatever else the ring of keys may come to say: it did not say yes.
            Self::Busy | Self::NotVerified(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The name that programs tell problems apart by, and the one for people.
    fn names(&self) -> (&'static str, &'static str) {
        match self.status() {
            StatusCode::UNAUTHORIZED => ("signature-invalid", "The signature proves nothing"),
            StatusCode::BAD_REQUEST => ("bad-request", "The request is malformed"),
            StatusCode::PAYLOAD_TOO_LARGE => ("too-large", "The request is too large"),
            StatusCode::REQUEST_TIMEOUT => ("request-timeout", "The request took too long"),
            StatusCode::CONFLICT => ("fenced", "The wake is over"),
            StatusCode::SERVICE_UNAVAILABLE => ("overloaded", "There is too much to do"),
            _ => ("work-failed", "The work failed"),
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::NotVerified(why) => why.to_string(),
            Self::NoSignature => "send one Webhook-Signature header".to_owned(),
            Self::BodyTooLarge => format!("a wake has at most {WAKE_BODY_BYTES_MAX} bytes"),
            Self::BodyTooSlow => "the body did not arrive in time; send it again".to_owned(),
            Self::BodyBroken => "the body did not arrive; send it again".to_owned(),
            Self::Stale(why) => why.clone(),
            // What went wrong inside is in the log, and nobody else's business.
            Self::WorkFailed => "the wake was given back; its work comes again".to_owned(),
            Self::Busy => "come back after a moment".to_owned(),
        }
    }
}

impl From<NotVerified> for Problem {
    fn from(why: NotVerified) -> Self {
        Self::NotVerified(why)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        written(self.status(), self.names(), &self.detail()).map(Body::from)
    }
}

/// Why a request at the door for actions was not served.
#[derive(Debug)]
pub(crate) enum Refused {
    Action(ActionError),
    Unauthorized(String),
    Forbidden(String),
    /// The server gives no tokens.
    NoTokens,
    NowhereKnown,
    NoSuchName(String),
    Method(Method),
    NotJson(String),
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NoTokens
            | Self::NowhereKnown
            | Self::NoSuchName(_)
            | Self::Action(ActionError::NoSession(_)) => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotJson(_) => StatusCode::BAD_REQUEST,
            Self::Action(error) => match error {
                ActionError::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                ActionError::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                ActionError::IdTaken(_)
                | ActionError::NotParked { .. }
                | ActionError::Closed { .. } => StatusCode::CONFLICT,
                ActionError::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            },
        }
    }

    /// The name that programs tell problems apart by, and the one for people.
    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Unauthorized(_) => ("unauthorized", "Who are you?"),
            Self::Forbidden(_) => ("forbidden", "This is not allowed"),
            Self::NoTokens => ("no-tokens", "This server gives no tokens"),
            Self::NowhereKnown => ("not-found", "There is nothing here"),
            Self::NoSuchName(_) => ("bad-session-id", "No session has such a name"),
            Self::Method(_) => ("method-not-allowed", "The method does not apply here"),
            Self::NotJson(_) => ("bad-request", "The body is not JSON"),
            Self::Action(error) => match error {
                ActionError::NoSession(_) => ("session-not-found", "There is no such session"),
                ActionError::Invalid { .. } => ("invalid", "The request cannot be done"),
                ActionError::TooLong { .. } => ("too-large", "The request is too large"),
                ActionError::IdTaken(_) => ("id-taken", "The id is taken"),
                ActionError::NotParked { .. } => ("not-parked", "The call waits for no decision"),
                ActionError::Closed { .. } => ("session-closed", "The session takes nothing"),
                ActionError::Busy => ("overloaded", "There is too much to do"),
                ActionError::DiskFull => ("disk-full", "There is no room on the disk"),
                _ => ("unavailable", "The log cannot serve now"),
            },
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Action(error) => error.to_string(),
            Self::Unauthorized(why) | Self::Forbidden(why) | Self::NoSuchName(why) => why.clone(),
            Self::NoTokens => "ask whoever runs it for a token with the scope act".to_owned(),
            Self::NowhereKnown => {
                "PUT /v1/sessions/{id}, or POST to its messages, stop, resolve or token".to_owned()
            }
            Self::Method(wanted) => format!("use {wanted}"),
            Self::NotJson(why) => format!("send a JSON object: {why}"),
        }
    }
}

impl From<ActionError> for Refused {
    fn from(error: ActionError) -> Self {
        Self::Action(error)
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unknown(why) => Self::Unauthorized(why),
            Refusal::Forbidden(why) => Self::Forbidden(why),
        }
    }
}

/// The answer to what was refused.
pub(crate) fn response(refused: &Refused) -> http::Response<Bytes> {
    let mut response = written(refused.status(), refused.names(), &refused.detail());
    let headers = response.headers_mut();
    match refused {
        Refused::Unauthorized(_) => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Refused::Method(wanted) => {
            if let Ok(allowed) = HeaderValue::from_str(wanted.as_str()) {
                headers.insert(header::ALLOW, allowed);
            }
        }
        _ => {}
    }
    response
}

/// An answer that nobody keeps.
pub(crate) fn document(status: StatusCode, body: &Value) -> http::Response<Bytes> {
    let mut response = http::Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn written(
    status: StatusCode,
    (code, title): (&'static str, &'static str),
    detail: &str,
) -> http::Response<Bytes> {
    let body = json!({
        "type": format!("urn:headwater:problem:{code}"),
        "title": title,
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
    });
    let mut response = document(status, &body);
    let headers = response.headers_mut();
    let problem = HeaderValue::from_static("application/problem+json");
    headers.insert(header::CONTENT_TYPE, problem);
    let retry = match status {
        StatusCode::SERVICE_UNAVAILABLE => Some(RETRY_AFTER_SECONDS),
        StatusCode::INSUFFICIENT_STORAGE => Some(DISK_FULL_RETRY_SECONDS),
        _ => None,
    };
    if let Some(seconds) = retry {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
