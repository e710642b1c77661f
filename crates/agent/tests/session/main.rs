//! Sessions as every part of a process sees them: the fold, its snapshot, ids and windows.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bounds;
mod compaction;
mod fold;
mod restored;
mod snapshot;
mod support;
mod window;
