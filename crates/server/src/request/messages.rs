//! The messages of a body: the one place where their boundaries are found.

use bytes::Bytes;
use wire::{Messages, framing, json};

use crate::{
    problem::Problem,
    request::{Framing, body::Received},
    service::Service,
};

/// Splits a body into messages; an empty body has none. The body is let go if they are a copy.
pub(crate) async fn messages(
    service: &Service,
    is_json: bool,
    framing: Framing,
    body: &mut Received,
) -> Result<Messages, Problem> {
    let bytes = std::mem::take(&mut body.bytes);
    if body.turn.is_none() || !is_json {
        return split(is_json, framing, &bytes);
    }
    // To check so much holds up other connections of the thread.
    Box::pin(service.sys.spawn.blocking(move || split(is_json, framing, &bytes))).await
}

fn split(is_json: bool, framing: Framing, body: &Bytes) -> Result<Messages, Problem> {
    if body.is_empty() {
        return Ok(Messages::none());
    }
    match (framing, is_json) {
        (Framing::Plain, false) => Ok(Messages::one(body.clone())?),
        (Framing::Plain, true) => Ok(json::split(body)?),
        (Framing::Length, _) => {
            let messages = framing::split(body)?;
            if is_json {
                messages.iter().try_for_each(json::check)?;
            }
            Ok(messages)
        }
    }
}
