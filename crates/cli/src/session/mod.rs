//! Sessions as the program runs them: which model answers, and the agent that asks it.

mod choice;
mod clock;

use agent::{Agent, AgentBuilder};

pub(crate) use self::choice::Choice;

/// The agent of every session.
pub(crate) const AGENT: &str = "assistant";

const INSTRUCTIONS: &str = "You are a helpful assistant. Answer briefly and in plain words.";

/// The agent of a session.
pub(crate) fn agent(choice: Choice) -> AgentBuilder {
    Agent::builder(AGENT).instructions(INSTRUCTIONS).model(choice.model).tools(choice.tools)
}
