//! The messages of a body: the one place where their boundaries are found.

use bytes::Bytes;
use wire::{Messages, framing, json};

use crate::{problem::Problem, request::Framing};

/// Splits a body into messages; an empty body has none.
pub(crate) fn messages(is_json: bool, framing: Framing, body: &Bytes) -> Result<Messages, Problem> {
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
