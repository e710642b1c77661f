//! The text of a run as rows, while it grows.

mod chunker;

pub(crate) use self::chunker::Chunker;
