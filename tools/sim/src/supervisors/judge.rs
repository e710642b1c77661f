//! What must hold once faults have stopped.

use std::sync::Arc;

use agent::rows::{CancelledBy, Generation, GenerationStatus, Message, Runner, Stop};
use log::{Freshness, Log, ReadError, file::FileLog};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sessions::SessionId;
use state::{Place, Places, decode};
use wire::{Address, Position, ReadFrom};

use super::{Scene, process::AGENT};
use crate::oracle::{Verdict, Violation, demand};

/// A session as its stream tells it.
#[derive(Default)]
struct Told {
    /// Messages for the agent, by where they stand.
    asked: Vec<u64>,
    /// As they stand at last.
    generations: Vec<Generation>,
    stops: u64,
    /// Every row that a runner wrote, in order.
    runners: Vec<Runner>,
}

/// Sessions in which something is not answered yet, and what.
pub(super) async fn left(
    log: &FileLog,
    sessions: &[SessionId],
) -> Verdict<Vec<(SessionId, String)>> {
    let mut left = Vec::new();
    for session in sessions {
        let told = read(log, session).await?;
        let over = || told.generations.iter().filter(|it| it.status.is_terminal());
        let is_open = |position: &&u64| !over().any(|it| covers(it, **position));
        let open: Vec<_> = told.asked.iter().filter(is_open).collect();
        if !open.is_empty() {
            left.push((session.clone(), format!("{open:?} by {:?}", told.runners.last())));
        }
    }
    Ok(left)
}

/// Judges what has become of everything.
pub(super) async fn judge(scene: &Scene, log: &FileLog, sessions: &[SessionId]) -> Verdict {
    for session in sessions {
        let told = read(log, session).await?;
        for position in &told.asked {
            let answers = told.generations.iter().filter(|it| covers(it, *position)).count();
            demand(answers == 1, || format!("{session} {position} has {answers} answers"))?;
        }
        for generation in &told.generations {
            judge_end(scene, session, generation, told.stops)?;
        }
        judge_takeovers(scene, session, &told.runners)?;
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

async fn read(log: &FileLog, session: &SessionId) -> Verdict<Told> {
    let address = Address::from(session.path().clone());
    let log: Arc<dyn Log> = Arc::new(log.clone());
    let (mut from, mut told, mut places) = (ReadFrom::Start, Told::default(), Places::default());
    loop {
        let chunk = match log.read(&address, from, 1 << 20).await {
            Ok(chunk) => chunk,
            Err(ReadError::NotFound(_)) => return Ok(told),
            Err(error) => return Err(Violation(format!("{session} cannot be read: {error}"))),
        };
        for (lies, message) in (chunk.start.position.get()..).zip(chunk.messages()) {
            told.place(&mut places, Position::new(lies), message);
        }
        if chunk.freshness != Freshness::Behind {
            return Ok(told);
        }
        from = ReadFrom::At(chunk.next);
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
            Some("stop") => self.stops += u64::from(row::<Stop>(&line).is_some()),
            Some("runner") => self.runners.extend(row::<Runner>(&line)),
            _ => {}
        }
    }
}

fn row<R: DeserializeOwned>(line: &Value) -> Option<R> {
    serde_json::from_value(line["value"].clone()).ok()
}
