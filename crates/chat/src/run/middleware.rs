//! Middleware: whoever wants to see, change or stop what a run does.

use std::fmt;

use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;

use crate::{
    Request, ToolResult, Usage,
    agui::Event,
    machine::{Call, Done, Failure},
};

/// Hooks into a run. All have a default that changes nothing. Several are asked in the order in
/// which they were added; what comes back from tools passes them in reverse.
pub trait Middleware: Send + Sync + fmt::Debug {
    /// Before the model is asked.
    fn on_request(&self, request: &mut Request) {
        let _ = request;
    }

    /// For each event: pass it on, change it, add others, or drop it.
    fn on_event(&self, event: Event, pass_on: &mut Vec<Event>) {
        pass_on.push(event);
    }

    /// Before a tool is called.
    fn before_tool<'a>(&'a self, call: &'a mut Call) -> BoxFuture<'a, BeforeTool> {
        let _ = call;
        async { BeforeTool::Call }.boxed()
    }

    /// After a tool was called, or answered for.
    fn after_tool<'a>(&'a self, call: &'a Call, result: &'a mut ToolResult) -> BoxFuture<'a, ()> {
        let _ = (call, result);
        async {}.boxed()
    }

    /// What the run has cost so far, by model, after each turn.
    fn on_usage(&self, usage: &[Usage]) {
        let _ = usage;
    }

    /// Once, when the run is over and has not failed.
    fn on_finish(&self, done: &Done) {
        let _ = done;
    }

    /// Once, when the run has failed.
    fn on_error(&self, failure: &Failure) {
        let _ = failure;
    }
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BeforeTool {
    /// It is made, with the arguments that the hook has left.
    Call,
    /// It is not made; this is its outcome.
    Answer(ToolResult),
    /// The whole run is stopped.
    Stop {
        /// Why.
        reason: String,
    },
}
