//! The door for wakes: HTTP on one side, a desk on the other.

use std::sync::Arc;

use agent::lifecycle::{KeyRing, KeySource, WakeAnswer, WebhookDesk};
use axum::{
    body::{Body, Bytes, HttpBody as _},
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use sys::Sys;
use tokio::sync::Semaphore;
use wake::WakeNotice;

use crate::{
    caps::{WAKE_BODY_BYTES_MAX, WAKE_BODY_PATIENCE, WAKE_ROOM_UNIT, WAKE_ROOM_UNITS},
    problem::Problem,
};

const SIGNATURE: &str = "webhook-signature";

/// Whom to believe, and who works.
#[derive(Debug)]
pub struct WakeDoor {
    sys: Sys,
    keys: KeyRing,
    desk: Arc<WebhookDesk>,
    /// For bodies that are read: those who prove nothing must not fill the memory.
    room: Semaphore,
}

impl WakeDoor {
    /// A door to `desk` for whoever signs with a key of `keys`.
    #[must_use]
    pub fn new(sys: &Sys, keys: impl KeySource + 'static, desk: Arc<WebhookDesk>) -> Arc<Self> {
        let (keys, room) = (KeyRing::new(sys, keys), Semaphore::new(WAKE_ROOM_UNITS));
        Arc::new(Self { sys: sys.clone(), keys, desk, room })
    }

    /// Reads the body, and believes it if it is signed.
    async fn read(&self, headers: &HeaderMap, body: Body) -> Result<WakeNotice, Problem> {
        let mut signatures = headers.get_all(SIGNATURE).iter();
        let (Some(signature), None) = (signatures.next(), signatures.next()) else {
            return Err(Problem::NoSignature);
        };
        let signature = signature.to_str().map_err(|_| Problem::NoSignature)?;
        self.keys.glance(signature)?;
        let _room = self.room.try_acquire_many(units(&body)).map_err(|_| Problem::Busy)?;
        let reading = self.sys.clock.timeout(WAKE_BODY_PATIENCE, collect(body)).await;
        let body = reading.map_err(|_| Problem::BodyTooSlow)??;
        Ok(self.keys.open(signature, &body).await?)
    }
}

/// Takes a wake: `axum::routing::post(handle_wake)` with a [`WakeDoor`] as its state.
///
/// | status | |
/// |---|---|
/// | 200 `{"done":true}` | everything that the wake listed is done |
/// | 202 | it is being worked on; its end is reported |
/// | 400, 408, 413 | the request is no wake, too slow, or too large |
/// | 401 | the signature proves nothing |
/// | 409 | the wake is over; nothing ran |
/// | 500 | the work failed; the wake was given back |
/// | 503 | there is too much to do; it should come again |
pub async fn handle_wake(
    State(door): State<Arc<WakeDoor>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let notice = match door.read(&headers, body).await {
        Ok(notice) => notice,
        Err(problem) => return problem.into_response(),
    };
    match door.desk.receive(notice).await {
        WakeAnswer::Done => json(StatusCode::OK, r#"{"done":true}"#),
        WakeAnswer::Accepted => json(StatusCode::ACCEPTED, "{}"),
        WakeAnswer::Stale(why) => Problem::Stale(why).into_response(),
        WakeAnswer::Failed(_) => Problem::WorkFailed.into_response(),
        WakeAnswer::Busy => Problem::Busy.into_response(),
    }
}

/// The room that a body takes: as much as it says, or as much as it may have.
fn units(body: &Body) -> u32 {
    let said = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = said.map_or(WAKE_BODY_BYTES_MAX, |bytes| bytes.min(WAKE_BODY_BYTES_MAX));
    u32::try_from(bytes.div_ceil(WAKE_ROOM_UNIT).max(1)).unwrap_or(u32::MAX)
}

async fn collect(body: Body) -> Result<Bytes, Problem> {
    match Limited::new(body, WAKE_BODY_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::BodyTooLarge),
        Err(_) => Err(Problem::BodyBroken),
    }
}

fn json(status: StatusCode, body: &'static str) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
