//! What was left unfinished goes on: the machine is fed what was written down, and what was under
//! way is begun again, parked, or given up.

use chat::{
    CallEnd, ModelEvent, ToolResult,
    agui::Content,
    machine::{Input, Step},
};

use super::{
    past::Turn,
    tools::begin_again,
    work::{Cancelled, Halt, Work},
};
use crate::{
    caps::FAILURES_PER_STEP_MAX,
    conversation::{answer_of, call_id_of, put_answer},
    journal::{JournalError, Writes},
    lease::Lease,
    rows::{CallStatus, CancelledBy, Effect, Runner, StepStatus, ToolCall, now},
    stream::Chunker,
};

/// What the runner before has left.
pub(super) struct Left {
    /// Chunks of an attempt that died, first to last.
    pub(super) dead: Vec<u64>,
    /// How it has ended.
    pub(super) parting: Parting,
    /// Whether it worked in the stream that this one was forked from.
    pub(super) was_forked: bool,
}

/// How an attempt has ended that came to no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    /// Its runner stopped in peace.
    Released,
    /// It failed, or its process ended while nothing else worked in it.
    Failed,
    /// Its process ended while others worked in it, too: any of them may have ended it.
    Died,
}

impl Parting {
    /// How the runner before has ended.
    pub(super) fn of(before: Option<&Runner>, lease: Option<&Lease>) -> Self {
        let Some(before) = before.filter(|it| it.released_at.is_none()) else {
            return Self::Released;
        };
        let same = lease.is_some_and(|it| before.supervisor.as_ref() == Some(&it.supervisor));
        match before.is_shared && !same {
            true => Self::Died,
            // Its supervisor lives, so its process has not ended.
            false => Self::Failed,
        }
    }
}

impl Work<'_> {
    /// Feeds the machine a turn that was written down.
    pub(super) fn take_up(&mut self, turn: Turn) -> Result<(), JournalError> {
        let Turn { step, said, calls } = turn;
        self.step = Some(step.clone());
        if step.status != StepStatus::Completed {
            return Ok(());
        }
        let mut events = said.first().map(ModelEvent::saying).unwrap_or_default();
        let usage = step.usage.and_then(|usage| serde_json::from_value(usage).ok());
        let stop = step.stop.and_then(|stop| serde_json::from_value(stop).ok());
        events.extend(step.model.map(|model| ModelEvent::Answering { model: model.into() }));
        events.extend(usage.map(ModelEvent::Usage));
        events.extend(stop.map(ModelEvent::Stop));
        for event in events {
            self.feed(Input::Model(event))?;
        }
        let recorded = calls.iter().map(|row| (call_id_of(row).into(), answer_of(row))).collect();
        let ended = self.machine.end_turn_as(&recorded, &mut Vec::new());
        ended.map_err(|misfed| JournalError::BadRow(misfed.to_string()))?;
        self.calls = calls.into_iter().map(|row| (call_id_of(&row).to_owned(), row)).collect();
        // What was fed is in the stream already.
        self.chunker = Chunker::new(&self.generation.id, self.flushed);
        Ok(())
    }

    /// Writes down that the work goes on here, and what becomes of what was under way.
    pub(super) async fn begin_where_it_was(&mut self, left: &Left) -> Result<Step, Halt> {
        let is_asking = self.step.as_ref().is_some_and(|step| step.status == StepStatus::Started);
        let mut writes = Writes::default();
        let step = match is_asking {
            true => self.machine.next_step(),
            // As a rule it is there; but an agent may be given another limit of turns.
            false => self.advance(&mut writes),
        };
        match &step {
            Step::CallModel(_) if is_asking => {
                let failures = self.step.as_ref().map_or(0, |step| step.failures);
                let is_worn_out =
                    left.parting == Parting::Failed && failures + 1 >= FAILURES_PER_STEP_MAX;
                if is_worn_out || left.was_forked {
                    return self.end_dead_attempt(left).await;
                }
                self.begin_attempt(left.parting, &left.dead, &mut writes);
            }
            Step::CallTools(_) | Step::AwaitClientTools(_) if left.was_forked => {
                return self.cancel_calls(forked()).await;
            }
            Step::CallTools(_) => self.begin_calls_again(left.parting, &mut writes)?,
            _ => {}
        }
        if !writes.is_empty() {
            self.journal.commit(writes).await?;
        }
        Ok(self.machine.next_step())
    }

    /// Ends a generation whose last attempt died: too often, or in another stream.
    async fn end_dead_attempt(&mut self, left: &Left) -> Result<Step, Halt> {
        let mut writes = Writes::default();
        self.delete_chunks(left.dead.iter().rev().copied(), &mut writes);
        if let Some(step) = &mut self.step {
            step.first_chunk = self.flushed;
        }
        if !writes.is_empty() {
            self.journal.commit(writes).await?;
        }
        let input = match left.was_forked {
            true => {
                let cancelled = forked();
                let reason = cancelled.reason.clone();
                self.cancelled = Some(cancelled);
                Input::Cancel { reason }
            }
            false => {
                Input::ModelFailed(self.worn_out("the process ended while nothing else ran in it"))
            }
        };
        let (next, flight) = self.end_turn(input)?;
        flight.await?;
        Ok(next)
    }

    /// Calls whose runner is gone: what may run again does, what must not is parked.
    fn begin_calls_again(
        &mut self,
        parting: Parting,
        writes: &mut Writes,
    ) -> Result<(), JournalError> {
        let (runner, now) = (self.core.runner.clone(), now(&self.core.sys));
        let is_open = |row: &ToolCall| row.status == CallStatus::Executing && self.is_ours(row);
        let open = self.calls.iter().filter(|(_, row)| is_open(row));
        let open: Vec<_> = open.map(|(call_id, _)| call_id.clone()).collect();
        for call_id in open {
            let Some(row) = self.calls.get_mut(&call_id) else { continue };
            row.failures += u32::from(parting == Parting::Failed);
            row.deaths += u32::from(parting == Parting::Died);
            if row.effect == Effect::Once {
                row.status = CallStatus::Parked;
                row.updated_at.clone_from(&now);
            } else if parting != Parting::Failed || row.failures < FAILURES_PER_STEP_MAX {
                begin_again(row, &runner, &now);
            } else {
                let why = format!("the process ended {} times while this ran alone", row.failures);
                let content = Content::Text(why);
                let call_id = call_id.as_str().into();
                let answer = ToolResult { call_id, content, end: CallEnd::Failed };
                put_answer(row, &answer, &now);
                writes.update(row);
                self.feed(Input::Tool(answer))?;
                continue;
            }
            writes.update(row);
        }
        let _ = self.advance_unless_waiting(writes);
        Ok(())
    }

    /// Begins the next step if every call has its answer now.
    fn advance_unless_waiting(&mut self, writes: &mut Writes) -> Option<Step> {
        let waits =
            matches!(self.machine.next_step(), Step::CallTools(_) | Step::AwaitClientTools(_));
        (!waits).then(|| self.advance(writes))
    }
}

fn forked() -> Cancelled {
    let reason = Some("the session was forked while this was under way".to_owned());
    Cancelled { by: CancelledBy::Error, reason }
}
