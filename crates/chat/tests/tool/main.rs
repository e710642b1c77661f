//! Tools as their users make and call them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arguments;
mod attribute;
mod call;
mod random;

use chat::{ToolContext, ToolOutcome, agui::Content};
use sys::{Cancellation, Canceller, Sys, UnixMs, disk};

/// A world whose time passes when all wait.
fn simulated() -> Sys {
    let disk = disk::SimDisk::new(1, disk::SimFaults::default());
    Sys::simulated(1, disk, UnixMs::new(0))
}

/// A call that nobody cancels until the canceller goes.
fn context() -> (Canceller, ToolContext) {
    let (canceller, cancellation) = Cancellation::new();
    (canceller, ToolContext::new("call-1", cancellation))
}

fn done(text: &str) -> ToolOutcome {
    ToolOutcome::Done { content: Content::Text(text.to_owned()) }
}

fn failed(why: &str) -> ToolOutcome {
    ToolOutcome::Failed { why: why.to_owned() }
}
