//! What a life went through, as the disk saw it, for the history and the coverage.

use crate::{
    coverage::Event,
    witness::{Area, Remains, Witness},
    world::World,
};

/// What failed in a life that ends.
pub(crate) fn note_failures(world: &World, witness: &Witness, poisoned: bool) {
    let notes = witness.notes();
    if notes.checkpoints > 0 {
        world.met(Event::Regrouped);
    }
    let regrouping = |area: &Area| matches!(area, Area::Pack | Area::Checkpoint);
    if notes.failures.iter().any(|failure| regrouping(&failure.area)) {
        world.met(Event::RegroupFailed);
    }
    let commit = notes.failures.iter().find(|failure| failure.area == Area::Commit);
    if let Some(failure) = commit.filter(|_| poisoned) {
        world.met(if failure.is_sync { Event::PoisonedBySync } else { Event::PoisonedByWrite });
    }
}

/// What a power cut interrupts.
pub(crate) fn note_cut(world: &World, witness: &Witness) {
    let cut = witness.notes().cut;
    world.note(&format!("the power goes: {cut:?}"));
    world.met(match cut {
        None => Event::CutAtRest,
        Some(Area::Commit) => Event::CutInCommit,
        Some(Area::Slot) => Event::CutInSlot,
        Some(Area::Pack) => Event::CutInPack,
        Some(Area::Checkpoint) => Event::CutInCheckpoint,
        Some(Area::Other) => Event::CutInRecovery,
    });
}

/// What it left of the newest frame.
pub(crate) fn note_remains(world: &World, remains: Option<Remains>) {
    let event = match remains {
        Some(Remains::All) => Event::FrameKept,
        Some(Remains::Some) => Event::FrameTorn,
        Some(Remains::None) => Event::FrameLost,
        None => return,
    };
    world.note(event.words());
    world.met(event);
}
