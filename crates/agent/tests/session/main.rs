//! Sessions as every part of a process sees them: the fold, its snapshot, ids and windows.

mod snapshot;
mod support;
mod window;
