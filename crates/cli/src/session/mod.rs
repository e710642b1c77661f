//! Sessions as the program runs and reads them: which model answers, the agent that asks it, and
//! the part of a session that a reader loads.

mod choice;
mod clock;
mod window;

use std::sync::Arc;

use agent::{Agent, AgentError, RunningAgent};
use log::Log;
use sessions::SessionId;
use sys::Sys;

pub(crate) use self::{
    choice::Choice,
    window::{Entry, WINDOW_BYTES_MAX, Window, change},
};

/// The agent of every session.
pub(crate) const AGENT: &str = "assistant";

const INSTRUCTIONS: &str = "You are a helpful assistant. Answer briefly and in plain words.";

/// Starts the agent of a session.
pub(crate) async fn start_agent(
    sys: Sys,
    log: Arc<dyn Log>,
    choice: Choice,
    session: SessionId,
) -> Result<RunningAgent, AgentError> {
    Agent::builder(AGENT)
        .instructions(INSTRUCTIONS)
        .model(choice.model)
        .tools(choice.tools)
        .session(log, session.path().clone())
        .start(&sys)
        .await
}
