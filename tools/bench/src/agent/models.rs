//! Models that take no time of their own: one that talks, one that calls a tool over and over.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use chat::{
    Abilities, Block, BlockKind, Model, ModelEvent, ModelName, ModelStream, Request, StopReason,
    Structured,
};
use futures_util::{StreamExt as _, stream};
use sys::Cancellation;
use tokio::time::MissedTickBehavior;

/// What the tool of the caller is called.
pub(crate) const TOOL: &str = "note";
const BLOCK: Block = Block(0);

/// Moments, in the order in which they came.
#[derive(Clone, Debug)]
pub(crate) struct Notes<T>(Arc<Mutex<Vec<(T, Instant)>>>);

impl<T> Default for Notes<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Notes<T> {
    pub(crate) fn note(&self, what: T) {
        let now = Instant::now();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((what, now));
    }

    pub(crate) fn take(&self) -> Vec<(T, Instant)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Says words that are all different, and notes when it says each.
#[derive(Debug)]
pub(crate) struct Talker {
    name: ModelName,
    words: u32,
    pace: Option<Duration>,
    said: Notes<u32>,
}

impl Talker {
    pub(crate) fn new(words: u32, pace: Option<Duration>, said: Notes<u32>) -> Self {
        Self { name: name("talker"), words, pace, said }
    }
}

/// The word of this number.
pub(crate) fn word(number: u32) -> String {
    format!("w{number} ")
}

impl Model for Talker {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn abilities(&self) -> Abilities {
        Abilities { structured: Structured::Prompted }
    }

    fn call(&self, _: Arc<Request>, _: Cancellation) -> ModelStream {
        let clock = self.pace.map(|pace| {
            let mut clock = tokio::time::interval(pace);
            clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
            clock
        });
        let (words, said) = (self.words, self.said.clone());
        let talk = stream::unfold((0, clock), move |(number, mut clock)| {
            let said = said.clone();
            async move {
                if number == words {
                    return None;
                }
                if let Some(clock) = &mut clock {
                    clock.tick().await;
                }
                said.note(number);
                let event = ModelEvent::More { block: BLOCK, delta: word(number) };
                Some((Ok(event), (number + 1, clock)))
            }
        });
        let open = ModelEvent::Open { block: BLOCK, kind: BlockKind::Text };
        let end = [ModelEvent::Close { block: BLOCK }, ModelEvent::Stop(StopReason::End)];
        stream::iter([Ok(open)]).chain(talk).chain(stream::iter(end.map(Ok))).boxed()
    }
}

/// What happens in a run that calls a tool over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    ModelAsked,
    ModelEnded,
    ToolBegun,
    ToolEnded,
}

/// Calls the tool in every turn but the last, and notes when it is asked and has ended.
#[derive(Debug)]
pub(crate) struct Caller {
    name: ModelName,
    turns: u32,
    turn: AtomicU32,
    notes: Notes<Moment>,
}

impl Caller {
    /// Each generation takes so many turns.
    pub(crate) fn new(turns: u32, notes: Notes<Moment>) -> Self {
        Self { name: name("caller"), turns, turn: AtomicU32::new(0), notes }
    }
}

impl Model for Caller {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn abilities(&self) -> Abilities {
        Abilities { structured: Structured::Prompted }
    }

    fn call(&self, _: Arc<Request>, _: Cancellation) -> ModelStream {
        self.notes.note(Moment::ModelAsked);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let is_last = (turn + 1).is_multiple_of(self.turns);
        let (kind, delta) = match is_last {
            true => (BlockKind::Text, "Done."),
            false => {
                let id = Some(format!("call_{turn}").into());
                (BlockKind::Call { id, name: TOOL.into() }, "{}")
            }
        };
        let events = [
            ModelEvent::Open { block: BLOCK, kind },
            ModelEvent::More { block: BLOCK, delta: delta.to_owned() },
            ModelEvent::Close { block: BLOCK },
            ModelEvent::Stop(if is_last { StopReason::End } else { StopReason::ToolCalls }),
        ];
        let notes = self.notes.clone();
        let end = stream::poll_fn(move |_| {
            notes.note(Moment::ModelEnded);
            Poll::Ready(None)
        });
        stream::iter(events.map(Ok)).chain(end).boxed()
    }
}

fn name(model: &str) -> ModelName {
    ModelName { provider: "bench".into(), model: model.into() }
}
