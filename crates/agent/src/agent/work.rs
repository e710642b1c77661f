//! One generation under way: what it has written, and how each transition is written down.
//!
//! ```text
//!   begin ──► [generation, step 1 started]
//!   turn  ──► chunks … [chunks, message, step completed, calls | step n + 1 started | the end]
//!   tool  ──► [call completed | call completed, step n + 1 started]
//! ```
//!
//! Each bracket is one transaction, and nothing is acted on before it lasts.

use std::collections::BTreeMap;

use chat::{
    Done, ModelError, ModelErrorKind, Place, Usage,
    agui::Event,
    machine::{Input, Machine, Step},
};
use live::StreamDb;
use sys::{Cancellation, UnixMs};
use tokio::sync::watch;

use super::{
    Activity,
    core::Core,
    news::{News, Signal},
    pulse::Pulse,
    recovery::Parting,
};
use crate::{
    conversation::{args_of, call_row_id, parts_of, put_answer},
    journal::{Flight, Journal, JournalError, Writes},
    rows::{
        CallStatus, CancelledBy, Effect, Generation, GenerationStatus, Message, Role,
        Step as StepRow, StepStatus, ToolCall, now,
    },
    stream::Chunker,
};

/// A generation under way.
pub(super) struct Work<'a> {
    pub(super) core: &'a Core,
    pub(super) journal: &'a mut Journal,
    pub(super) machine: &'a mut Machine,
    pub(super) news: &'a mut News,
    pub(super) pulse: &'a mut Pulse,
    pub(super) db: &'a StreamDb,
    pub(super) cancellation: &'a Cancellation,
    pub(super) generation: Generation,
    /// The model call that is under way, or was last.
    pub(super) step: Option<StepRow>,
    /// The calls of the last turn, as the model calls them.
    pub(super) calls: BTreeMap<String, ToolCall>,
    pub(super) chunker: Chunker,
    /// Chunks before this one are on their way or written.
    pub(super) flushed: u64,
    /// Chunks that are there, of all its turns.
    pub(super) written: u64,
    pub(super) deadline: Option<UnixMs>,
    pub(super) cancelled: Option<Cancelled>,
    pub(super) notes: Notes,
    /// The request that this generation answers, until it has.
    pub(super) request: Option<String>,
    /// The last message that it wrote, while a request waits for its answer.
    pub(super) said: Option<Message>,
    pub(super) activity: &'a watch::Sender<Activity>,
}

/// Why a generation does not go on here.
#[derive(Debug)]
pub(super) enum Halt {
    /// The agent is to stop: the next runner goes on.
    Stopped,
    /// It cannot be written down.
    Journal(JournalError),
}

impl From<JournalError> for Halt {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

/// Who cancelled a generation.
#[derive(Clone, Debug)]
pub(super) struct Cancelled {
    pub(super) by: CancelledBy,
    pub(super) reason: Option<String>,
}

/// What a model says beside its message.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) model: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) stop: Option<chat::StopReason>,
}

impl Work<'_> {
    /// Takes steps until the generation is over.
    pub(super) async fn run(&mut self, mut step: Step) -> Result<(), Halt> {
        loop {
            step = match step {
                Step::Done(_) => return Ok(()),
                Step::CallModel(request) => self.call_model(request).await?,
                // Tools of agents ask for no approval, so all others are about tools.
                _ => self.call_tools().await?,
            };
        }
    }

    /// Writes down what comes next, and tells it.
    pub(super) fn advance(&mut self, writes: &mut Writes) -> Step {
        let step = self.machine.next_step();
        match &step {
            Step::CallModel(_) => self.begin_step(writes),
            Step::Done(done) => self.end(done, writes),
            _ => {}
        }
        step
    }

    fn begin_step(&mut self, writes: &mut Writes) {
        let turn = self.machine.turns() + 1;
        let step = StepRow {
            id: format!("{}:{turn}", self.generation.id),
            generation_id: self.generation.id.clone(),
            turn,
            status: StepStatus::Started,
            attempt: 1,
            failures: 0,
            deaths: 0,
            first_chunk: self.flushed,
            chunks: None,
            model: None,
            stop: None,
            usage: None,
            error: None,
            started_at: now(&self.core.sys),
            completed_at: None,
        };
        writes.insert(&step);
        self.step = Some(step);
        self.calls.clear();
    }

    /// The same step once more: what the attempt before has said was never said.
    pub(super) fn begin_attempt(&mut self, parting: Parting, dead: &[u64], writes: &mut Writes) {
        self.delete_chunks(dead.iter().rev().copied(), writes);
        self.chunker = Chunker::new(&self.generation.id, self.flushed);
        let (flushed, started_at) = (self.flushed, now(&self.core.sys));
        let Some(step) = &mut self.step else { return };
        step.attempt += 1;
        step.failures += u32::from(parting == Parting::Failed);
        step.deaths += u32::from(parting == Parting::Died);
        step.first_chunk = flushed;
        step.started_at = started_at;
        writes.update(step);
    }

    /// Chunks of an attempt that died, from the last to the first.
    pub(super) fn delete_chunks(
        &mut self,
        from_last: impl ExactSizeIterator<Item = u64>,
        writes: &mut Writes,
    ) {
        self.written = self.written.saturating_sub(from_last.len() as u64);
        writes.delete_chunks(&self.generation.id, from_last);
    }

    /// Writes what the model has said since the last time.
    pub(super) fn write_chunks(&mut self, writes: &mut Writes) {
        for chunk in self.chunker.drain() {
            writes.insert(&chunk);
            self.written += 1;
        }
        self.flushed = self.chunker.next_index();
    }

    fn end(&mut self, done: &Done, writes: &mut Writes) {
        let now = now(&self.core.sys);
        let generation = &mut self.generation;
        let (status, error) = match done {
            Done::Finished { .. } => (GenerationStatus::Completed, None),
            Done::TurnsExhausted => {
                let turns = self.machine.turns();
                (
                    GenerationStatus::Completed,
                    Some(format!("ended after {turns} turns, the most that this agent takes")),
                )
            }
            Done::Cancelled { .. } => {
                let cancelled = self.cancelled.take();
                generation.cancelled_by =
                    Some(cancelled.as_ref().map_or(CancelledBy::User, |it| it.by));
                (GenerationStatus::Cancelled, cancelled.and_then(|it| it.reason))
            }
            Done::Failed(failure) => (GenerationStatus::Failed, Some(failure.to_string())),
            _ => (
                GenerationStatus::Failed,
                Some("ended in a way that this version does not know".to_owned()),
            ),
        };
        // What was said last turns out to be the answer: no turn comes after its calls.
        if let (GenerationStatus::Completed, Some(request), Some(mut said)) =
            (status, self.request.take(), self.said.take())
        {
            said.in_reply_to = Some(request);
            writes.update(&said);
        }
        generation.status = status;
        generation.error = error;
        generation.updated_at.clone_from(&now);
        generation.completed_at = Some(now);
        writes.update(generation);
        let word = match status {
            GenerationStatus::Completed => "completed",
            GenerationStatus::Cancelled => "cancelled",
            _ => "failed",
        };
        writes.insert(&self.chunker.finish(word));
    }

    /// Feeds what ends a turn, and writes the turn down with what comes next.
    pub(super) fn end_turn(&mut self, input: Input) -> Result<(Step, Flight), JournalError> {
        let status = match &input {
            Input::ModelFailed(_) => StepStatus::Failed,
            Input::Cancel { .. } => StepStatus::Cancelled,
            _ => StepStatus::Completed,
        };
        let error = match &input {
            Input::ModelFailed(error) => Some(error.to_string()),
            _ => None,
        };
        let mut writes = Writes::default();
        if status != StepStatus::Completed && !self.core.keeps_partial {
            self.drop_partial(&mut writes);
        }
        let before = self.machine.messages().len();
        self.feed(input)?;
        self.write_chunks(&mut writes);
        self.write_message(before, &mut writes);
        let now = now(&self.core.sys);
        let notes = std::mem::take(&mut self.notes);
        if let Some(step) = &mut self.step {
            step.status = status;
            step.chunks = Some(self.flushed.saturating_sub(step.first_chunk));
            step.error = error;
            step.completed_at = Some(now);
            step.model = notes.model;
            step.stop = notes.stop.and_then(|stop| serde_json::to_value(stop).ok());
            step.usage = notes.usage.and_then(|usage| serde_json::to_value(usage).ok());
            writes.update(step);
        }
        if status == StepStatus::Completed {
            self.pulse.progress(&mut writes);
        }
        let next = self.advance(&mut writes);
        Ok((next, self.journal.append(writes)?))
    }

    /// What was said so far was never said.
    pub(super) fn drop_partial(&mut self, writes: &mut Writes) {
        let first = self.step.as_ref().map_or(self.flushed, |step| step.first_chunk);
        let said: Vec<_> = (first..self.flushed).rev().collect();
        self.delete_chunks(said.into_iter(), writes);
        self.chunker = Chunker::new(&self.generation.id, self.flushed);
        if let Some(step) = &mut self.step {
            step.first_chunk = self.flushed;
        }
        self.machine.ask_again();
    }

    /// Writes the message of the turn, and a row for each of its calls.
    fn write_message(&mut self, before: usize, writes: &mut Writes) {
        let Some(step) = &self.step else { return };
        let mut new = self.machine.messages().since(before);
        let Some(message) = new.find(|message| message.id.as_str() == step.id) else { return };
        let now = now(&self.core.sys);
        let (content, parts) = parts_of(message);
        let is_answer = || matches!(self.machine.next_step(), Step::Done(Done::Finished { .. }));
        let in_reply_to = self.request.take_if(|_| is_answer());
        let row = Message {
            id: step.id.clone(),
            role: Role::Assistant,
            content,
            parts,
            actor_id: self.generation.agent_name.clone(),
            target_agent: None,
            generation_id: Some(self.generation.id.clone()),
            request_id: None,
            in_reply_to,
            created_at: now.clone(),
        };
        writes.insert(&row);
        self.said = self.request.is_some().then(|| row.clone());
        self.calls.clear();
        for (index, call) in message.calls().enumerate() {
            let mut row = self.call_row(call_row_id(&row.id, index), call, &now);
            row.message_id = Some(step.id.clone());
            if let Some(answer) = self.machine.answer_to(&call.id) {
                put_answer(&mut row, answer, &now);
                row.cancelled_by = self
                    .cancelled
                    .as_ref()
                    .filter(|_| row.status == CallStatus::Cancelled)
                    .map(|it| it.by);
            }
            writes.insert(&row);
            self.calls.insert(call.id.to_string(), row);
        }
    }

    fn call_row(&self, id: String, call: &chat::ToolCall, now: &str) -> ToolCall {
        let spec = self.machine.tools().get(&call.name).map(chat::Tool::spec);
        let is_here = spec.is_none_or(|spec| spec.place == Place::Server);
        let (args, raw_args) = args_of(&call.arguments);
        ToolCall {
            id,
            generation_id: Some(self.generation.id.clone()),
            message_id: None,
            call_id: Some(call.id.to_string()),
            name: call.name.to_string(),
            args,
            raw_args,
            status: if is_here { CallStatus::Executing } else { CallStatus::Pending },
            effect: spec.map_or(Effect::Pure, |spec| spec.effect.into()),
            is_background: false,
            attempt: u32::from(is_here),
            failures: 0,
            deaths: 0,
            executor: is_here.then(|| self.core.runner.clone()),
            lease_until: None,
            result: None,
            result_parts: None,
            error: None,
            cancelled_by: None,
            is_late: false,
            created_at: now.to_owned(),
            updated_at: now.to_owned(),
            started_at: is_here.then(|| now.to_owned()),
            completed_at: None,
        }
    }

    /// Feeds what a step asked for. That it does not fit can only be a fault of ours, and then the
    /// generation must not go on as if nothing had happened.
    pub(super) fn feed(&mut self, input: Input) -> Result<Vec<Event>, JournalError> {
        let mut events = Vec::new();
        let fed = self.machine.feed(input, &mut events);
        fed.map_err(|misfed| JournalError::BadRow(misfed.to_string()))?;
        for event in &events {
            self.chunker.take(event);
        }
        Ok(events)
    }

    /// Says what the agent is doing: it works, or it only waits for calls that others make or
    /// decide on.
    pub(super) fn tell_activity(&self) {
        self.note_ages();
        self.pulse.written();
        let is_open = |row: &&ToolCall| !row.status.is_terminal();
        let runs_here = |row: &ToolCall| row.status == CallStatus::Executing && self.is_ours(row);
        let mut open = self.calls.values().filter(is_open).peekable();
        let waits = open.peek().is_some() && !open.any(runs_here);
        let doing = match waits {
            true => Activity::Waiting { until: self.waits_until() },
            false => Activity::Busy,
        };
        self.activity.send_if_modified(|before| {
            let is_new = *before != doing;
            *before = doing;
            is_new
        });
    }

    /// Renews the lease of this runner; tells of what has come meanwhile.
    pub(super) async fn beat(&mut self) -> Result<Option<Signal>, JournalError> {
        let signal = self.pulse.note_waiting(self.activity, self.db, self.news);
        let mut writes = Writes::default();
        self.pulse.beat(self.journal, &mut writes);
        self.journal.commit(writes).await?;
        Ok(signal)
    }

    /// When it goes on at the latest, even if nobody answers.
    fn waits_until(&self) -> Option<UnixMs> {
        let others = self.calls.values().filter_map(|row| self.open_until(row));
        others.chain(self.deadline).min()
    }

    /// A generation that was begun too often without getting anywhere.
    pub(super) fn worn_out(&self, why: &str) -> ModelError {
        let attempts = self.step.as_ref().map_or(0, |step| step.attempt);
        let provider = self.core.model.name().provider.clone();
        let message =
            format!("gave up after {attempts} attempts that got nowhere; the last: {why}");
        ModelError::new(provider, ModelErrorKind::Unavailable, message)
    }
}
