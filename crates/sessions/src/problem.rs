//! Problems: the one map from what went wrong to a status, and the body that says what to do.

use agent::lifecycle::NotVerified;
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};

use crate::caps::{RETRY_AFTER_SECONDS, WAKE_BODY_BYTES_MAX};

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
        let status = self.status();
        let (code, title) = self.names();
        let body = serde_json::json!({
            "type": format!("urn:headwater:problem:{code}"),
            "title": title,
            "status": status.as_u16(),
            "detail": self.detail(),
        });
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let problem = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, problem);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into());
        }
        response
    }
}
