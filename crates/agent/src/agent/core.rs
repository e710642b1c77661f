//! What an agent is made of that does not change while it runs.

use std::{sync::Arc, time::Duration};

use chat::{Model, machine::Plan};
use sys::Sys;

use crate::{
    call_ages::CallAges,
    caps::{
        FLUSH_PATIENCE, FLUSH_PATIENCE_ECONOMY, HISTORY_BYTES_DEFAULT, HISTORY_MESSAGES_DEFAULT,
        LEASE_DEFAULT, WINDOW_BYTES_MIN, WINDOW_BYTES_PER_HISTORY_BYTE,
    },
    lease::{Home, Lease},
    rows::Runner,
};

/// How soon what a model says is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flush {
    /// At once when no append is under way, else as soon as that is done, and within 10 ms.
    #[default]
    Adaptive,
    /// Every 250 ms: fewer and larger rows.
    Economy,
}

/// What becomes of what was said before a generation was cancelled or failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partial {
    /// It stays, and the model sees it in later turns.
    #[default]
    Keep,
    /// It is deleted.
    Delete,
}

/// How much of a conversation the model of an agent is told. One that has become longer is cut to
/// half of it, at the beginning of an answer, so that what the model is told changes rarely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Messages, those of people, of the model and answers of tools; [`HISTORY_MESSAGES_DEFAULT`].
    pub messages_max: usize,
    /// Bytes of them as JSON; [`HISTORY_BYTES_DEFAULT`].
    pub bytes_max: usize,
}

impl History {
    /// All of it, however long: an agent then takes longer to start as the conversation grows.
    pub const ALL: Self = Self { messages_max: usize::MAX, bytes_max: usize::MAX };

    /// The newest messages, this many at the most.
    #[must_use]
    pub const fn last(messages_max: usize) -> Self {
        Self { messages_max, bytes_max: HISTORY_BYTES_DEFAULT }
    }

    /// Bytes of the session that an agent reads for it when it starts.
    pub(super) const fn window_bytes_max(self) -> u64 {
        let bytes = (self.bytes_max as u64).saturating_mul(WINDOW_BYTES_PER_HISTORY_BYTE);
        if bytes > WINDOW_BYTES_MIN { bytes } else { WINDOW_BYTES_MIN }
    }

    pub(super) const fn is_over(self, messages: usize, bytes: usize) -> bool {
        messages > self.messages_max || bytes > self.bytes_max
    }

    pub(super) const fn half(self) -> Self {
        Self { messages_max: self.messages_max / 2, bytes_max: self.bytes_max / 2 }
    }
}

impl Default for History {
    fn default() -> Self {
        Self { messages_max: HISTORY_MESSAGES_DEFAULT, bytes_max: HISTORY_BYTES_DEFAULT }
    }
}

/// What an agent is made of.
pub(super) struct Core {
    pub(super) sys: Sys,
    pub(super) name: String,
    /// This process, for people.
    pub(super) runner: String,
    pub(super) model: Arc<dyn Model>,
    pub(super) plan: Plan,
    pub(super) history: History,
    pub(super) flush: Flush,
    pub(super) keeps_partial: bool,
    pub(super) silence_max: Duration,
    pub(super) time_max: Option<Duration>,
    pub(super) tools_parallel: usize,
    /// What the keys of calls begin with: which life of the stream this is.
    pub(super) incarnation: u64,
    /// On what terms a supervisor lets it run, if one does.
    pub(super) lease: Option<Lease>,
    /// How long calls that are made elsewhere have been as they are.
    pub(super) ages: CallAges,
    /// The opening of an exclusive log that it runs in, if it is one.
    pub(super) home: Option<Home>,
}

impl Core {
    pub(super) const fn flush_patience(&self) -> Duration {
        match self.flush {
            Flush::Adaptive => FLUSH_PATIENCE,
            Flush::Economy => FLUSH_PATIENCE_ECONOMY,
        }
    }

    pub(super) const fn flushes_at_once(&self) -> bool {
        matches!(self.flush, Flush::Adaptive)
    }

    /// The row that claims the agent after this takeover.
    pub(super) fn runner_after(&self, epoch: u64) -> Runner {
        let lease = self.lease.as_ref();
        let duration = lease.map_or(LEASE_DEFAULT, |lease| lease.duration);
        Runner {
            id: self.name.clone(),
            runner: self.runner.clone(),
            epoch,
            incarnation: self.incarnation,
            supervisor: lease.map(|lease| lease.supervisor.clone()),
            home: self.home.map(|home| home.to_string()),
            lease_ms: u64::try_from(duration.as_millis()).ok(),
            is_shared: lease.is_some_and(|lease| !lease.is_alone),
            ..Runner::default()
        }
    }

    /// The key of a call: the same in every attempt and every process.
    pub(super) fn key_of(&self, row_id: &str) -> String {
        format!("{}/{row_id}", self.incarnation)
    }
}
