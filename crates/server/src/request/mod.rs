//! Requests: parsed at the door, strictly, into types that cannot hold a wrong value.

mod body;
mod encoding;
mod headers;
mod incoming;
mod messages;
mod params;

pub(crate) use body::{Received, Upload, receive, receive_at_most};
#[cfg(fuzzing)]
pub(crate) use encoding::unpacked;
pub(crate) use headers::{Framing, closing, content_type, framing, host, parsed, single};
pub(crate) use incoming::Incoming;
pub(crate) use messages::messages;
pub(crate) use params::{
    Live, ReadParams, Removal, after, list, list_subscriptions, percent_decoded, watched,
};
