//! What is said about rows of others: claims, stops, decisions; and who runs an agent.

use live::{Field, Row};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Somebody wants to do the work of a row. Of the claims of one attempt the first in the stream
/// wins. Written once, by whoever claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row(name = "claim")]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The claim: `{of}#{attempt}@{by}`.
    pub id: String,
    /// The row whose work it is.
    pub of: String,
    /// Which attempt at it, from 1.
    pub attempt: u32,
    /// Who claims.
    pub by: String,
    /// Until when it holds.
    pub until: String,
    /// When it was made.
    pub created_at: String,
}

/// Somebody says stop. It ends generations that have read nothing after it. Written once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row(name = "stop")]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// The stop.
    pub id: String,
    /// The one generation that is meant; all of the agent if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_id: Option<String>,
    /// The agent that is meant; all of the session if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Who says it.
    pub actor_id: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    pub created_at: String,
}

/// A person decides on a call that is parked. The first decision counts. Written once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row(name = "resolution")]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// The resolution.
    pub id: String,
    /// The row of the call.
    pub tool_call_id: String,
    /// Which attempt of the call it is about: the decision counts for no other.
    pub attempt: u32,
    /// What to do.
    pub decision: Decision,
    /// The answer, if the person knows it.
    #[row(json)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Who decides.
    pub actor_id: String,
    /// When.
    pub created_at: String,
}

/// What becomes of a parked call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Field)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It did not happen: run it.
    Retry,
    /// It happened: this is its answer.
    Complete,
    /// The model is told that it failed.
    Fail,
}

/// Who runs an agent. Written by the runner that takes it over, and again as a heartbeat if it has
/// written nothing else for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Row)]
#[row(name = "runner")]
#[serde(rename_all = "camelCase")]
pub struct Runner {
    /// The agent.
    pub id: String,
    /// The process, for people.
    pub runner: String,
    /// Which takeover this is. A runner of an earlier one can write nothing any more.
    pub epoch: u64,
    /// Which life of the stream it runs in. Work that a fork has inherited is of another.
    pub incarnation: u64,
    /// When it took over.
    pub claimed_at: String,
    /// When it stopped in peace, so that what it left unfinished is no failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<String>,
    /// The supervisor that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<String>,
    /// Which opening of an exclusive log it runs in: in any other one it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// For how many milliseconds it may write nothing before another runner takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Whether other agents work in its process, so that it need not be what ends the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_shared: bool,
    /// Set if it only waits for others: it has taken into account what stands before this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_up_to: Option<u64>,
    /// When it goes on at the latest, if it only waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<String>,
    /// How many milliseconds that is from when this was written: for those whose clock shows
    /// another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_ms: Option<u64>,
}
