//! What people do in a session: each deed is one row, checked before it is written.

use agent::{
    rows::{CallStatus, Decision, Message, Resolution, Role, Stop},
    session::{CallHead, SessionState},
};
use live::Row;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{ActionError, check_id, check_length, check_name};
use crate::caps::{REASON_BYTES_MAX, RESULT_BYTES_MAX, TEXT_BYTES_MAX};

/// Something that a person does in a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Deed {
    /// Says something.
    Say(Say),
    /// Stops what is under way.
    Halt(Halt),
    /// Decides on a call that is parked.
    Resolve(Resolve),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Say {
    /// Makes it safe to repeat: the same id is the same message. Drawn if absent.
    #[serde(default)]
    pub id: Option<String>,
    /// What is said.
    pub text: String,
    /// Which agent it is for.
    #[serde(default)]
    pub target_agent: Option<String>,
}

impl Say {
    /// A message under a name of its own, which makes it safe to repeat.
    #[must_use]
    pub fn named(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: Some(id.into()), text: text.into(), target_agent: None }
    }
}

/// A stop.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Halt {
    /// Makes it safe to repeat. Drawn if absent.
    #[serde(default)]
    pub id: Option<String>,
    /// The one generation that is meant; whatever is under way if absent.
    #[serde(default)]
    pub generation_id: Option<String>,
    /// Why.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A decision on a parked call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolve {
    /// Makes it safe to repeat. Drawn if absent.
    #[serde(default)]
    pub id: Option<String>,
    /// The row of the call.
    pub tool_call_id: String,
    /// Which attempt of it.
    pub attempt: u32,
    /// What to do.
    pub decision: Decision,
    /// The answer, for a call that has happened.
    #[serde(default)]
    pub result: Option<Value>,
}

/// Who does it, when, under which id, and for whom if nobody is named.
pub(super) struct Circumstances<'a> {
    pub(super) actor: &'a str,
    pub(super) id: &'a str,
    pub(super) at: String,
    pub(super) target: Option<&'a str>,
}

/// A row to be written.
pub(super) struct Written {
    pub(super) type_name: &'static str,
    pub(super) value: Value,
}

impl Deed {
    pub(super) fn id(&self) -> Option<&str> {
        match self {
            Self::Say(say) => say.id.as_deref(),
            Self::Halt(halt) => halt.id.as_deref(),
            Self::Resolve(resolve) => resolve.id.as_deref(),
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Say(_) => Message::NAME,
            Self::Halt(_) => Stop::NAME,
            Self::Resolve(_) => Resolution::NAME,
        }
    }

    /// Refuses what can be refused without a look at the session.
    pub(super) fn validate(&self) -> Result<(), ActionError> {
        if let Some(id) = self.id() {
            check_id("id", id)?;
        }
        match self {
            Self::Say(say) => say.validate(),
            Self::Halt(halt) => halt.validate(),
            Self::Resolve(resolve) => resolve.validate(),
        }
    }

    /// Refuses what the session has no place for.
    pub(super) fn check(&self, state: &SessionState) -> Result<(), ActionError> {
        match self {
            Self::Say(_) | Self::Halt(_) => Ok(()),
            Self::Resolve(resolve) => resolve.check(state),
        }
    }

    pub(super) fn row(&self, its: Circumstances<'_>) -> Result<Written, ActionError> {
        match self {
            Self::Say(say) => written(&say.row(its)),
            Self::Halt(halt) => written(&halt.row(its)),
            Self::Resolve(resolve) => written(&resolve.row(its)),
        }
    }
}

impl Say {
    fn validate(&self) -> Result<(), ActionError> {
        if self.text.trim().is_empty() {
            return Err(ActionError::invalid("text", "it says nothing; write something"));
        }
        check_length("text", &self.text, TEXT_BYTES_MAX)?;
        self.target_agent.as_deref().map_or(Ok(()), |name| check_name("targetAgent", name))
    }

    fn row(&self, its: Circumstances<'_>) -> Message {
        Message {
            id: its.id.to_owned(),
            role: Role::User,
            content: self.text.clone(),
            parts: None,
            actor_id: its.actor.to_owned(),
            target_agent: self.target_agent.as_deref().or(its.target).map(str::to_owned),
            generation_id: None,
            request_id: None,
            in_reply_to: None,
            created_at: its.at,
        }
    }
}

impl Halt {
    fn validate(&self) -> Result<(), ActionError> {
        if let Some(id) = &self.generation_id {
            check_name("generationId", id)?;
        }
        check_length("reason", self.reason.as_deref().unwrap_or_default(), REASON_BYTES_MAX)
    }

    fn row(&self, its: Circumstances<'_>) -> Stop {
        Stop {
            id: its.id.to_owned(),
            generation_id: self.generation_id.clone(),
            agent_name: None,
            actor_id: its.actor.to_owned(),
            reason: self.reason.clone(),
            created_at: its.at,
        }
    }
}

impl Resolve {
    fn validate(&self) -> Result<(), ActionError> {
        check_name("toolCallId", &self.tool_call_id)?;
        match (self.decision, &self.result) {
            (Decision::Complete, None) => Err(ActionError::invalid(
                "result",
                "a call that is complete has an answer; send it, or null if there is none to tell",
            )),
            (Decision::Retry, Some(_)) => {
                Err(ActionError::invalid("result", "a call that is run again answers for itself"))
            }
            (_, Some(result)) => check_length("result", &result.to_string(), RESULT_BYTES_MAX),
            (_, None) => Ok(()),
        }
    }

    fn check(&self, state: &SessionState) -> Result<(), ActionError> {
        let call = self.tool_call_id.clone();
        let refused = |why: String| Err(ActionError::NotParked { call, why });
        match state.call(&self.tool_call_id) {
            None if state.has_more_calls() => Ok(()),
            None => refused("has ended, or is not one of this session".to_owned()),
            Some(CallHead { status, .. }) if status != CallStatus::Parked => {
                refused(format!("is {}, not parked", word(status)))
            }
            Some(CallHead { attempt, .. }) if attempt != self.attempt => {
                refused(format!("is parked in attempt {attempt}, not {}", self.attempt))
            }
            Some(CallHead { is_decided: true, .. }) => {
                refused("has been decided on already".to_owned())
            }
            Some(_) => Ok(()),
        }
    }

    fn row(&self, its: Circumstances<'_>) -> Resolution {
        Resolution {
            id: its.id.to_owned(),
            tool_call_id: self.tool_call_id.clone(),
            attempt: self.attempt,
            decision: self.decision,
            result: self.result.clone(),
            actor_id: its.actor.to_owned(),
            created_at: its.at,
        }
    }
}

fn written<R: Row + Serialize>(row: &R) -> Result<Written, ActionError> {
    let value = serde_json::to_value(row).map_err(|error| ActionError::Invalid {
        field: "body",
        why: format!("no row can hold it: {error}"),
    })?;
    Ok(Written { type_name: R::NAME, value })
}

/// A status as it stands in its row.
fn word(status: CallStatus) -> String {
    let value = serde_json::to_value(status).unwrap_or_default();
    value.as_str().unwrap_or("unknown").to_owned()
}
