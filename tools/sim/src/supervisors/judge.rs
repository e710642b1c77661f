//! What must hold once faults have stopped.

use std::collections::BTreeMap;

use agent::{
    contract::admits_call,
    rows::{CancelledBy, Claim, Generation, GenerationStatus, Message, Runner, Stop, ToolCall},
};
use log::{Freshness, Log as _, ReadError, file::FileLog};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sessions::SessionId;
use state::{Place, Places, decode};
use wire::{Address, Position, ReadFrom};

use super::{Scene, calls, process::AGENT};
use crate::oracle::{Verdict, Violation, demand};

/// A session as its stream tells it.
#[derive(Default)]
pub(super) struct Told {
    /// Messages for the agent, by where they stand.
    asked: Vec<u64>,
    /// As they stand at last.
    generations: Vec<Generation>,
    pub(super) stops: u64,
    /// As they stand at last.
    pub(super) calls: Vec<ToolCall>,
    /// By where they stand.
    pub(super) claims: BTreeMap<u64, Claim>,
    /// Every row that a runner wrote, in order.
    pub(super) runners: Vec<Runner>,
}

/// A session that is read on as its stream grows.
pub(super) struct Reading {
    pub(super) session: SessionId,
    from: ReadFrom,
    places: Places,
    pub(super) told: Told,
}

impl Told {
    /// What is not answered yet, or has not ended; none if all is.
    pub(super) fn left(&self) -> Option<String> {
        let over = || self.generations.iter().filter(|it| it.status.is_terminal());
        let is_open = |position: &&u64| !over().any(|it| covers(it, **position));
        let open: Vec<_> = self.asked.iter().filter(is_open).collect();
        let calls: Vec<_> = self.calls.iter().filter(|it| !it.status.is_terminal()).collect();
        let is_done = open.is_empty() && calls.is_empty();
        (!is_done).then(|| format!("{open:?} by {:?}, {calls:?}", self.runners.last()))
    }
}

/// Judges what has become of everything.
pub(super) fn judge(scene: &Scene, readings: &[Reading]) -> Verdict {
    for Reading { session, told, .. } in readings {
        for position in &told.asked {
            let answers = told.generations.iter().filter(|it| covers(it, *position)).count();
            demand(answers == 1, || format!("{session} {position} has {answers} answers"))?;
        }
        for generation in &told.generations {
            judge_end(scene, session, generation, told.stops)?;
        }
        judge_takeovers(scene, session, &told.runners)?;
        calls::judge(scene, session, told)?;
        scene.met.lock().answered += told.asked.len() as u64;
    }
    Ok(())
}

fn judge_end(scene: &Scene, session: &SessionId, row: &Generation, stops: u64) -> Verdict {
    let is_stopped = row.status == GenerationStatus::Cancelled
        && row.cancelled_by == Some(CancelledBy::User)
        && stops > 0;
    scene.met.lock().stopped += u64::from(is_stopped);
    demand(is_stopped || row.status == GenerationStatus::Completed, || {
        format!("{session} {} has ended as {:?}: {:?}", row.id, row.status, row.error)
    })
}

/// Only those who are dead, or have failed under the same supervisor, were taken over.
fn judge_takeovers(scene: &Scene, session: &SessionId, runners: &[Runner]) -> Verdict {
    for pair in runners.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        if before.epoch == after.epoch || before.released_at.is_some() {
            continue;
        }
        scene.met.lock().takeovers += 1;
        let supervisor = before.supervisor.clone().unwrap_or_default();
        let is_dead = scene.dead.lock().contains(&supervisor);
        demand(is_dead || before.supervisor == after.supervisor, || {
            format!("{session}: {before:?} lived, and was taken over by {after:?}")
        })?;
    }
    Ok(())
}

fn covers(generation: &Generation, position: u64) -> bool {
    let is_after = generation.read_after.is_none_or(|after| position > after);
    is_after && position <= generation.read_up_to
}

impl Reading {
    pub(super) fn new(session: SessionId) -> Self {
        let (places, told) = (Places::default(), Told::default());
        Self { session, from: ReadFrom::Start, places, told }
    }

    /// Reads to the end of the session.
    pub(super) async fn read_on(&mut self, log: &FileLog) -> Verdict {
        let address = Address::from(self.session.path().clone());
        loop {
            let chunk = match log.read(&address, self.from, 1 << 20).await {
                Ok(chunk) => chunk,
                Err(ReadError::NotFound(_)) => return Ok(()),
                // What was to be read next is a snapshot by now.
                Err(ReadError::Trimmed(_)) if !matches!(self.from, ReadFrom::Start) => {
                    *self = Self::new(self.session.clone());
                    continue;
                }
                Err(error) => {
                    return Err(Violation(format!("{} cannot be read: {error}", self.session)));
                }
            };
            for (lies, message) in (chunk.start.position.get()..).zip(chunk.messages()) {
                self.told.place(&mut self.places, Position::new(lies), message);
            }
            self.from = ReadFrom::At(chunk.next);
            if chunk.freshness != Freshness::Behind {
                return Ok(());
            }
        }
    }
}

impl Told {
    /// Takes a message where it stands: a compaction writes rows again, and none of them is new.
    fn place(&mut self, places: &mut Places, lies: Position, message: &[u8]) {
        let event = decode(message);
        match places.place(lies, &event) {
            Place::At(position) => self.take(position.get(), message),
            Place::Row(written) => {
                let made = event.headers.inserted.unwrap_or(written);
                self.take(made.get(), message);
            }
            Place::Anew(_) => *self = Self::default(),
            Place::Known => {}
        }
    }

    fn take(&mut self, position: u64, message: &[u8]) {
        let Ok(line) = serde_json::from_slice::<Value>(message) else { return };
        match line["type"].as_str() {
            Some("message") => {
                let is_asked = |row: &Message| row.target_agent.as_deref() == Some(AGENT);
                self.asked.extend(row(&line).filter(is_asked).map(|_| position));
            }
            Some("generation") => {
                let Some(row) = row::<Generation>(&line) else { return };
                match self.generations.iter_mut().find(|known| known.id == row.id) {
                    // The first end counts.
                    Some(known) if known.status.is_terminal() => {}
                    Some(known) => *known = row,
                    None => self.generations.push(row),
                }
            }
            Some("toolCall") => {
                let Some(row) = row::<ToolCall>(&line) else { return };
                match self.calls.iter_mut().find(|known| known.id == row.id) {
                    // The first end counts, and so does the newest attempt.
                    Some(known) if admits_call(known, &row) => *known = row,
                    Some(_) => {}
                    None => self.calls.push(row),
                }
            }
            Some("claim") => self.claims.extend(row(&line).map(|row| (position, row))),
            Some("stop") => self.stops += u64::from(row::<Stop>(&line).is_some()),
            Some("runner") => self.runners.extend(row::<Runner>(&line)),
            _ => {}
        }
    }
}

fn row<R: DeserializeOwned>(line: &Value) -> Option<R> {
    serde_json::from_value(line["value"].clone()).ok()
}
