//! Requests: parsed at the door, strictly, into types that cannot hold a wrong value.

mod body;
mod headers;
mod incoming;
mod params;

pub(crate) use body::{Received, receive};
pub(crate) use headers::{closing, content_type, parsed, single};
pub(crate) use incoming::Incoming;
pub(crate) use params::{Live, ReadParams, Removal, list, percent_decoded};
