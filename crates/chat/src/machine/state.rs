//! What a run is, as data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{calls::Batch, strategy::LoopState, turn::Turn};
use crate::{Conversation, Id, Message, ModelError, ModelName, Part, StopReason, Usage};

/// A run that was saved. It goes on with [`Machine::restore`](super::Machine::restore).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Saved(pub(super) State);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    pub(super) thread_id: Id,
    pub(super) run_id: Id,
    pub(super) messages: Conversation,
    pub(super) phase: Phase,
    /// Whether a run is open in the eyes of whoever reads the events.
    pub(super) is_running: bool,
    pub(super) turns: u32,
    pub(super) calls: usize,
    pub(super) calls_of_last_turn: usize,
    pub(super) repairs: u32,
    pub(super) stop: Option<StopReason>,
    pub(super) model: Option<Id>,
    pub(super) usage: Vec<Usage>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    Model { turn: Box<Turn>, goal: Goal },
    Tools(Batch),
    Done(Done),
}

/// What a model call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Goal {
    /// The next turn of the loop.
    Loop,
    /// Only the output; there are no tools.
    Output,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Done {
    /// The model has said all it has to say.
    Finished {
        /// Why it stopped, if it said so.
        stop: Option<StopReason>,
        /// The output, if one was asked for.
        output: Option<Value>,
    },
    /// The model would go on, but the strategy does not.
    TurnsExhausted,
    /// Somebody stopped it.
    Cancelled {
        /// Why.
        reason: Option<String>,
    },
    /// It failed.
    Failed(Failure),
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Failure {
    /// The model failed.
    #[error(transparent)]
    Model(ModelError),
    /// The answer does not fit the schema, and asking again did not help.
    #[error("the answer does not fit the schema: {complaint}")]
    NoOutput {
        /// What is wrong with it.
        complaint: String,
        /// The answer.
        text: String,
        /// Why the model stopped.
        stop: Option<StopReason>,
    },
    /// Something that was given to the run has panicked: a middleware, whoever decides, the model.
    #[error("something that was given to the run has panicked: {why}")]
    Panicked {
        /// What it said.
        why: String,
    },
}

impl State {
    pub(super) fn new(thread_id: Id, run_id: Id, messages: Conversation) -> Self {
        Self {
            thread_id,
            run_id,
            messages,
            phase: Phase::Done(Done::TurnsExhausted),
            is_running: true,
            turns: 0,
            calls: 0,
            calls_of_last_turn: 0,
            repairs: 0,
            stop: None,
            model: None,
            usage: Vec::new(),
        }
    }

    /// Counts anew; the conversation stays.
    pub(super) fn begin_again(&mut self, said: Vec<Message>) {
        self.messages.extend(said.into_iter().map(Arc::new));
        self.is_running = true;
        (self.turns, self.calls, self.calls_of_last_turn, self.repairs) = (0, 0, 0, 0);
        (self.stop, self.model) = (None, None);
        self.usage.clear();
    }

    /// The id of the message of the next turn.
    pub(super) fn message_id(&self) -> Id {
        Id::from(format!("{}:{}", self.run_id, self.turns + 1))
    }

    pub(super) fn loop_state(&self) -> LoopState<'_> {
        LoopState {
            turns: self.turns,
            messages: &self.messages,
            stop: self.stop.as_ref(),
            calls: self.calls,
            calls_of_last_turn: self.calls_of_last_turn,
        }
    }

    /// Adds what a turn has cost to what its model has cost before.
    pub(super) fn spend(&mut self, asked: &ModelName, model: Option<&Id>, usage: Option<Usage>) {
        let Some(mut usage) = usage else { return };
        let model = model.unwrap_or(&asked.model);
        usage.provider.get_or_insert_with(|| asked.provider.to_string());
        usage.model.get_or_insert_with(|| model.to_string());
        let same =
            |spent: &&mut Usage| spent.provider == usage.provider && spent.model == usage.model;
        match self.usage.iter_mut().find(same) {
            Some(spent) => spent.add(&usage),
            None => self.usage.push(usage),
        }
    }

    pub(super) fn usage_told(&self) -> Option<Vec<Usage>> {
        (!self.usage.is_empty()).then(|| self.usage.clone())
    }

    /// Puts the arguments that a person chose in the place of the model's.
    pub(super) fn edit_call(&mut self, call_id: &Id, arguments: &str) {
        let has_call = |message: &Arc<Message>| message.calls().any(|call| call.id == *call_id);
        let Some(index) = self.messages.iter().rposition(has_call) else { return };
        let Some(message) = self.messages.get_mut(index) else { return };
        for part in &mut message.parts {
            if let Part::ToolCall(call) = part
                && call.id == *call_id
            {
                arguments.clone_into(&mut call.arguments);
            }
        }
    }
}

impl Phase {
    /// Calls of the turn that is being read.
    pub(super) fn calls_in_turn(&self) -> impl Iterator<Item = &Id> {
        let turn = match self {
            Self::Model { turn, .. } => Some(turn),
            Self::Tools(_) | Self::Done(_) => None,
        };
        turn.into_iter().flat_map(|turn| turn.call_ids())
    }
}

impl Failure {
    /// A word for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Model(error) => error.kind.code(),
            Self::NoOutput { .. } => "no-output",
            Self::Panicked { .. } => "panicked",
        }
    }

    /// Whether the same run may fare better later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Model(error) => error.is_retryable(),
            Self::NoOutput { .. } | Self::Panicked { .. } => false,
        }
    }
}
