//! When a run goes on after its tools have answered.

use std::{fmt, sync::Arc};

use crate::{
    Conversation, StopReason,
    caps::{TURNS_DEFAULT, TURNS_MAX},
};

/// When a run goes on after its tools have answered. Whatever it says, a run has at most
/// [`TURNS_MAX`] turns.
#[derive(Clone)]
#[non_exhaustive]
pub enum Strategy {
    /// Until so many turns have been made.
    TurnsMax(u32),
    /// Until a turn stops for one of these reasons.
    Until(Vec<StopReason>),
    /// As long as all of these go on.
    All(Vec<Self>),
    /// As long as it says so.
    When(Arc<dyn Fn(&LoopState<'_>) -> bool + Send + Sync>),
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct LoopState<'a> {
    /// Model turns made.
    pub turns: u32,
    /// The conversation.
    pub messages: &'a Conversation,
    /// Why the last turn stopped, if its model said so.
    pub stop: Option<&'a StopReason>,
    /// Tool calls made.
    pub calls: usize,
    /// Tool calls of the last turn.
    pub calls_of_last_turn: usize,
}

impl Strategy {
    /// As long as `rule` says so.
    #[must_use]
    pub fn when(rule: impl Fn(&LoopState<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self::When(Arc::new(rule))
    }

    /// Whether there is another turn.
    #[must_use]
    pub fn goes_on(&self, progress: &LoopState<'_>) -> bool {
        progress.turns < TURNS_MAX && self.allows(progress)
    }

    fn allows(&self, progress: &LoopState<'_>) -> bool {
        match self {
            Self::TurnsMax(turns) => progress.turns < *turns,
            Self::Until(reasons) => !progress.stop.is_some_and(|stop| reasons.contains(stop)),
            Self::All(all) => all.iter().all(|strategy| strategy.allows(progress)),
            Self::When(rule) => rule(progress),
        }
    }
}

impl Default for Strategy {
    fn default() -> Self {
        Self::TurnsMax(TURNS_DEFAULT)
    }
}

impl fmt::Debug for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TurnsMax(turns) => f.debug_tuple("TurnsMax").field(turns).finish(),
            Self::Until(reasons) => f.debug_tuple("Until").field(reasons).finish(),
            Self::All(all) => f.debug_tuple("All").field(all).finish(),
            Self::When(_) => f.write_str("When(..)"),
        }
    }
}
