//! What the runs went through, so that the simulation cannot silently stop testing.

use std::{collections::BTreeMap, fmt};

macro_rules! events {
    ($($(#[$doc:meta])* $event:ident => $words:literal,)*) => {
        /// Something worth meeting in a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the words beside each say it")]
        pub enum Event {
            $($(#[$doc])* $event,)*
        }

        impl Event {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$event,)*];

            /// In words.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self { $(Self::$event => $words,)* }
            }
        }
    };
}

events! {
    CutInCommit => "power cut in a commit",
    CutInSlot => "power cut while a segment's file was made or begun",
    CutInPack => "power cut while a pack was written",
    CutInCheckpoint => "power cut while a checkpoint was written",
    CutAtSectorEdge => "power cut while records at the edge of a sector became durable",
    CutInRecovery => "power cut in recovery",
    CutAtRest => "power cut with nothing under way",
    FrameTorn => "newest frame torn",
    FrameLost => "newest frame lost",
    FrameKept => "newest frame kept without having been acknowledged",
    CleanClose => "clean close",
    PoisonedBySync => "poisoned by a failed sync",
    PoisonedByWrite => "poisoned by a failed write",
    ReopenedPoisoned => "poisoned log opened again without a power cut",
    ReadWhilePoisoned => "read from a poisoned log",
    DiskFull => "append refused for want of space",
    Overloaded => "request refused for want of room in the queue",
    Regrouped => "checkpoint put in force",
    RegroupFailed => "regrouping met an error",
    CheckpointInParts => "more streams than one part of a checkpoint",
    Forked => "fork",
    ForkedFork => "fork of a fork",
    ForkedInside => "fork at a sub-offset",
    ForkOutlivedSource => "fork read after its source was deleted",
    Trimmed => "trim",
    Closed => "close",
    Deleted => "delete",
    Erased => "erase",
    MadeAnew => "name used again",
    Expired => "stream expired",
    Cancelled => "append whose caller did not wait",
    UnansweredStored => "append without an answer that was stored",
    UnansweredDropped => "append without an answer that was dropped",
    DuplicateAfterCrash => "duplicate recognised after a crash",
    ResentAfterCrash => "append stored by a retry after a crash",
    Fenced => "producer fenced",
    Gap => "producer gap refused",
    Followed => "message delivered to a waiting follower",
    Reclaimed => "bytes given back",
    ErasedFromDisk => "erased bytes gone from the disk",
}

/// How often each event occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<Event, u64>,
}

impl Coverage {
    pub(crate) fn met(&mut self, event: Event) {
        *self.counts.entry(event).or_default() += 1;
    }

    /// Adds the run of another seed: each event of it counts once.
    pub fn add_run(&mut self, run: &Self) {
        for event in run.counts.keys() {
            self.met(*event);
        }
    }

    /// Events that never occurred.
    pub fn missing(&self) -> impl Iterator<Item = Event> {
        Event::ALL.iter().copied().filter(|event| !self.counts.contains_key(event))
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in Event::ALL {
            let count = self.counts.get(event).copied().unwrap_or_default();
            writeln!(f, "{count:>7}  {}", event.words())?;
        }
        Ok(())
    }
}
