//! Sessions as the program runs and reads them: which model answers, the agent that asks it, and
//! the part of a session that a reader loads.

mod choice;
mod clock;
mod window;

use agent::{Agent, AgentBuilder};

pub(crate) use self::{
    choice::Choice,
    window::{Entry, WINDOW_BYTES_MAX, Window, change},
};

/// The agent of every session.
pub(crate) const AGENT: &str = "assistant";

const INSTRUCTIONS: &str = "You are a helpful assistant. Answer briefly and in plain words.";

/// The agent of a session.
pub(crate) fn agent(choice: Choice) -> AgentBuilder {
    Agent::builder(AGENT).instructions(INSTRUCTIONS).model(choice.model).tools(choice.tools)
}
