//! What rows must be able to say for the primitives to work with them: one trait for each role.
//!
//! The rows of [`crate::rows`] fulfil them. A row of your own, with other names and more fields,
//! does so too once it says which of its fields plays which part:
//!
//! ```
//! use agent::{BrokenContract, contract::{CancelledBy, GenerationRow, GenerationStatus}};
//! use live::Row;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Debug, Serialize, Deserialize, Row)]
//! struct Request {
//!     id: String,
//!     prompt: String,
//!     state: String,
//! }
//!
//! impl GenerationRow for Request {
//!     fn id(&self) -> &str {
//!         &self.id
//!     }
//!
//!     fn status(&self) -> GenerationStatus {
//!         match self.state.as_str() {
//!             "new" => GenerationStatus::Pending,
//!             "busy" => GenerationStatus::Generating,
//!             "done" => GenerationStatus::Completed,
//!             "stopped" => GenerationStatus::Cancelled,
//!             _ => GenerationStatus::Failed,
//!         }
//!     }
//!
//!     fn set_generating(&mut self, _at: &str) {
//!         self.state = "busy".into();
//!     }
//!
//!     fn complete(&mut self, _at: &str) {
//!         self.state = "done".into();
//!     }
//!
//!     fn fail(&mut self, _why: &str, _at: &str) {
//!         self.state = "failed".into();
//!     }
//!
//!     fn cancel(&mut self, _by: CancelledBy, _why: &str, _at: &str) {
//!         self.state = "stopped".into();
//!     }
//! }
//! # let _ = |broken: BrokenContract| broken.is_retryable();
//! ```
//!
//! What a row must keep to is checked whenever one is written: an id that is not empty and stays,
//! the status that was set, and no way back from a terminal one. A row that breaks it is refused
//! with a [`BrokenContract`], and nothing is written.

use chat::agui::Content;
use live::{Field as _, Find, Key, Row, from};
use serde_json::Value;

pub use crate::rows::{CallStatus, CancelledBy, Effect, GenerationStatus};
use crate::{
    content::{from_result, to_result},
    rows,
};

/// A call that is to be asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCall {
    /// What the row is to be called: the same for the same call, also after a restart.
    pub id: String,
    /// What the model calls it.
    pub call_id: Option<String>,
    /// Its generation.
    pub generation_id: Option<String>,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub args: Value,
    /// What it means to run it twice.
    pub effect: Effect,
    /// Whether the model gets a job reference instead of waiting.
    pub is_background: bool,
    /// When it is asked for.
    pub at: String,
}

/// Somebody begins to run a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// Who runs it.
    pub executor: String,
    /// Until when the executor is to be believed alive.
    pub lease_until: Option<String>,
    /// When.
    pub at: String,
}

/// A row that is a tool call: pending → executing → completed, failed or cancelled.
pub trait ToolCallRow: Row {
    /// A call that somebody should run. Its key is the id of the call.
    fn pending(call: NewCall) -> Self;

    /// The call; also the key of the row.
    fn id(&self) -> &str;

    /// The tool.
    fn name(&self) -> &str;

    /// The arguments.
    fn args(&self) -> Value;

    /// How far it is.
    fn status(&self) -> CallStatus;

    /// Somebody runs it.
    fn set_executing(&mut self, start: &Start);

    /// The tool answered. [`result`](Self::result) gives the same back.
    fn complete(&mut self, answer: &Content, at: &str);

    /// The tool failed, or could not be called.
    fn fail(&mut self, why: &str, at: &str);

    /// Nobody waits for it any more. An answer that came late is given if it is to be kept.
    fn cancel(&mut self, by: CancelledBy, late: Option<&Content>, at: &str);

    /// The answer of a completed call, or one that came late.
    fn result(&self) -> Option<Content>;

    /// Why a call failed, or what the model is told instead of an answer.
    fn error(&self) -> Option<&str>;

    /// Nobody can tell whether it ran, and it must not run twice. Rows that have no word for it
    /// fail.
    fn park(&mut self, why: &str, at: &str) {
        self.fail(why, at);
    }

    /// A query of all calls that are pending or executing, of tools of these names or of any. A
    /// query of more rows works, too, and costs more.
    fn open(_names: Option<&[String]>) -> Find<Self> {
        from::<Self>()
    }

    /// Keeps an answer that came after the call was cancelled, and changes nothing else. Rows that
    /// have no place for one do nothing.
    fn keep_late(&mut self, _answer: &Content, _at: &str) {}

    /// Whether an answer was kept that came late.
    fn is_late(&self) -> bool {
        false
    }

    /// What the model calls it.
    fn call_id(&self) -> Option<&str> {
        None
    }

    /// Its generation, if the row knows.
    fn generation_id(&self) -> Option<&str> {
        None
    }

    /// How many attempts have begun.
    fn attempt(&self) -> u32 {
        0
    }

    /// What it means to run it twice, if the row knows. Otherwise the tool tells.
    fn effect(&self) -> Option<Effect> {
        None
    }

    /// Whether the model got a job reference.
    fn is_background(&self) -> bool {
        true
    }

    /// Whether this executor runs it, in this life or one before. Rows that do not say who runs
    /// them have but one.
    fn is_run_by(&self, _executor: &str) -> bool {
        true
    }
}

/// A row that asks for a generation: pending → generating → completed, failed or cancelled.
pub trait GenerationRow: Row {
    /// The generation; also the key of the row.
    fn id(&self) -> &str;

    /// How far it is.
    fn status(&self) -> GenerationStatus;

    /// It is under way.
    fn set_generating(&mut self, at: &str);

    /// It has said all.
    fn complete(&mut self, at: &str);

    /// It could not go on.
    fn fail(&mut self, why: &str, at: &str);

    /// It was stopped.
    fn cancel(&mut self, by: CancelledBy, why: &str, at: &str);

    /// Who cancelled it, if the row knows.
    fn cancelled_by(&self) -> Option<CancelledBy> {
        None
    }

    /// Whose it is, if the row knows: a stop may be meant for all of an agent.
    fn agent_name(&self) -> Option<&str> {
        None
    }
}

/// A row that is a piece of a growing text. Such rows are never changed.
pub trait ChunkRow: Row {
    /// The same piece as such a row, under the same id.
    fn of(piece: rows::Chunk) -> Self;

    /// The piece; also the key of the row.
    fn id(&self) -> &str;

    /// Its generation.
    fn generation_id(&self) -> &str;

    /// Its place in the generation, without gaps.
    fn index(&self) -> u64;

    /// Whether it is the last of its generation, if the row knows.
    fn is_final(&self) -> bool {
        false
    }
}

/// A row is not what its contract says. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the row {row:?} breaks the contract of a {role}: {why}")]
pub struct BrokenContract {
    /// What the row is to be.
    pub role: &'static str,
    /// Its id.
    pub row: String,
    /// What is wrong with it.
    pub why: String,
}

impl BrokenContract {
    /// Never: the code of the row must change.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        false
    }
}

const CALL: &str = "tool call";
const GENERATION: &str = "generation";
const CHUNK: &str = "chunk";

/// Whether a call may become another: the rule of calls for
/// [`StreamDbBuilder::admits`](live::StreamDbBuilder::admits), which `rows::session` has. An end
/// is for ever, but for an answer that is kept though it came late; and an attempt tells nothing
/// of a later one, however long its words were on their way. Whoever asked may cancel at any time.
pub fn admits_call<R: ToolCallRow>(old: &R, new: &R) -> bool {
    let is_cancelled = new.status() == CallStatus::Cancelled;
    if old.status().is_terminal() {
        let was_cancelled = old.status() == CallStatus::Cancelled;
        return was_cancelled && is_cancelled && new.is_late() && !old.is_late();
    }
    is_cancelled || new.attempt() >= old.attempt()
}

/// The same for generations: an end is for ever.
pub fn admits_generation<G: GenerationRow>(old: &G, _new: &G) -> bool {
    !is_over(old.status())
}

/// A pending row for a call.
pub(crate) fn new_call<R: ToolCallRow>(call: NewCall) -> Result<R, BrokenContract> {
    let (id, name) = (call.id.clone(), call.name.clone());
    let (args, generation) = (call.args.clone(), call.generation_id.clone());
    let row = R::pending(call);
    check_key(CALL, &id, row.id(), &row.key())?;
    let broken = |why: String| Err(BrokenContract { role: CALL, row: id.clone(), why });
    if row.status() != CallStatus::Pending {
        return broken(format!("`pending` made it {:?}", row.status()));
    }
    if row.name() != name || row.args() != args {
        return broken(format!("`pending` lost the name {name:?} or the arguments"));
    }
    match (row.generation_id(), generation) {
        (Some(kept), Some(given)) if kept != given => {
            broken(format!("`pending` made its generation {given:?} {kept:?}"))
        }
        _ => Ok(row),
    }
}

/// The row as it is after a step, if that is one which it may take.
pub(crate) fn step_call<R: ToolCallRow>(
    row: &R,
    to: &[CallStatus],
    step: impl FnOnce(&mut R),
) -> Result<R, BrokenContract> {
    let broken = |why: String| BrokenContract { role: CALL, row: row.id().to_owned(), why };
    if row.status().is_terminal() {
        return Err(broken(format!("it is {:?}, which is for ever", row.status())));
    }
    let mut next = row.clone();
    step(&mut next);
    check_key(CALL, row.id(), next.id(), &next.key())?;
    if !to.contains(&next.status()) {
        return Err(broken(format!("it was to become {to:?}, and is {:?}", next.status())));
    }
    Ok(next)
}

/// The row of a cancelled call with an answer that came late, if it has a place for one.
pub(crate) fn late_call<R: ToolCallRow>(row: &R, answer: &Content, at: &str) -> Option<R> {
    let mut next = row.clone();
    next.keep_late(answer, at);
    let is_same = next.key() == row.key() && next.status() == CallStatus::Cancelled;
    (is_same && admits_call(row, &next)).then_some(next)
}

/// A generation as it is after a step, if that is one which it may take.
pub(crate) fn step_generation<G: GenerationRow>(
    row: &G,
    to: GenerationStatus,
    step: impl FnOnce(&mut G),
) -> Result<G, BrokenContract> {
    let broken = |why: String| BrokenContract { role: GENERATION, row: row.id().to_owned(), why };
    if is_over(row.status()) {
        return Err(broken(format!("it is {:?}, which is for ever", row.status())));
    }
    let mut next = row.clone();
    step(&mut next);
    check_key(GENERATION, row.id(), next.id(), &next.key())?;
    if next.status() != to {
        return Err(broken(format!("it was to become {to:?}, and is {:?}", next.status())));
    }
    Ok(next)
}

/// The row of a piece.
pub(crate) fn new_chunk<R: ChunkRow>(piece: rows::Chunk) -> Result<R, BrokenContract> {
    let (id, generation, index) = (piece.id.clone(), piece.generation_id.clone(), piece.index);
    let row = R::of(piece);
    check_key(CHUNK, &id, row.id(), &row.key())?;
    let broken = |why: String| Err(BrokenContract { role: CHUNK, row: id.clone(), why });
    if row.index() != index {
        return broken(format!("its index is {}, and {index} would be the next", row.index()));
    }
    if row.generation_id() != generation {
        return broken(format!("it is of {:?}, not of {generation:?}", row.generation_id()));
    }
    Ok(row)
}

/// Whether nothing can become of a generation any more.
pub(crate) const fn is_over(status: GenerationStatus) -> bool {
    matches!(
        status,
        GenerationStatus::Completed | GenerationStatus::Failed | GenerationStatus::Cancelled
    )
}

fn check_key(
    role: &'static str,
    expected: &str,
    id: &str,
    key: &Key,
) -> Result<(), BrokenContract> {
    let broken = |why: String| Err(BrokenContract { role, row: expected.to_owned(), why });
    if expected.is_empty() || id.is_empty() {
        return broken("its id is empty".to_owned());
    }
    if id != expected {
        return broken(format!("its id became {id:?}"));
    }
    if key.as_text().is_none_or(|key| key != id) {
        return broken(format!("its key is {key}, but must be its id"));
    }
    Ok(())
}

impl ToolCallRow for rows::ToolCall {
    fn pending(call: NewCall) -> Self {
        Self {
            id: call.id,
            generation_id: call.generation_id,
            message_id: None,
            call_id: call.call_id,
            name: call.name,
            args: call.args,
            raw_args: None,
            status: CallStatus::Pending,
            effect: call.effect,
            is_background: call.is_background,
            attempt: 0,
            failures: 0,
            deaths: 0,
            executor: None,
            lease_until: None,
            result: None,
            result_parts: None,
            error: None,
            cancelled_by: None,
            is_late: false,
            created_at: call.at.clone(),
            updated_at: call.at,
            started_at: None,
            completed_at: None,
        }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn args(&self) -> Value {
        self.args.clone()
    }

    fn status(&self) -> CallStatus {
        self.status
    }

    fn set_executing(&mut self, start: &Start) {
        self.status = CallStatus::Executing;
        self.attempt = start.attempt;
        self.executor = Some(start.executor.clone());
        self.lease_until.clone_from(&start.lease_until);
        self.started_at = Some(start.at.clone());
        self.updated_at.clone_from(&start.at);
    }

    fn complete(&mut self, answer: &Content, at: &str) {
        (self.result, self.result_parts) = to_result(answer);
        self.end(CallStatus::Completed, at);
    }

    fn fail(&mut self, why: &str, at: &str) {
        self.error = Some(why.to_owned());
        self.end(CallStatus::Failed, at);
    }

    fn cancel(&mut self, by: CancelledBy, late: Option<&Content>, at: &str) {
        self.cancelled_by = Some(by);
        if let Some(late) = late {
            self.keep_late(late, at);
        }
        self.end(CallStatus::Cancelled, at);
    }

    fn keep_late(&mut self, answer: &Content, at: &str) {
        (self.result, self.result_parts) = to_result(answer);
        self.is_late = true;
        at.clone_into(&mut self.updated_at);
    }

    fn is_late(&self) -> bool {
        self.is_late
    }

    fn result(&self) -> Option<Content> {
        if self.result.is_none() && self.result_parts.is_none() {
            return None;
        }
        Some(from_result(self.result.as_ref(), self.result_parts.as_ref()))
    }

    fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    fn park(&mut self, why: &str, at: &str) {
        self.status = CallStatus::Parked;
        self.error = Some(why.to_owned());
        at.clone_into(&mut self.updated_at);
    }

    fn open(names: Option<&[String]>) -> Find<Self> {
        let open = [CallStatus::Pending, CallStatus::Executing];
        let query =
            from::<Self>().filter(Self::status.one_of(open.map(|status| status.to_value())));
        match names {
            Some(names) => query.filter(Self::name.one_of(names.iter().cloned())),
            None => query,
        }
    }

    fn call_id(&self) -> Option<&str> {
        self.call_id.as_deref()
    }

    fn generation_id(&self) -> Option<&str> {
        self.generation_id.as_deref()
    }

    fn attempt(&self) -> u32 {
        self.attempt
    }

    fn effect(&self) -> Option<Effect> {
        Some(self.effect)
    }

    fn is_background(&self) -> bool {
        self.is_background
    }

    fn is_run_by(&self, executor: &str) -> bool {
        self.executor.as_deref() == Some(executor)
    }
}

impl rows::ToolCall {
    fn end(&mut self, status: CallStatus, at: &str) {
        self.status = status;
        self.completed_at = Some(at.to_owned());
        at.clone_into(&mut self.updated_at);
    }
}

impl GenerationRow for rows::Generation {
    fn id(&self) -> &str {
        &self.id
    }

    fn status(&self) -> GenerationStatus {
        self.status
    }

    fn set_generating(&mut self, at: &str) {
        self.status = GenerationStatus::Generating;
        at.clone_into(&mut self.updated_at);
    }

    fn complete(&mut self, at: &str) {
        self.end(GenerationStatus::Completed, at);
    }

    fn fail(&mut self, why: &str, at: &str) {
        self.error = Some(why.to_owned());
        self.end(GenerationStatus::Failed, at);
    }

    fn cancel(&mut self, by: CancelledBy, why: &str, at: &str) {
        self.cancelled_by = Some(by);
        self.error = Some(why.to_owned());
        self.end(GenerationStatus::Cancelled, at);
    }

    fn cancelled_by(&self) -> Option<CancelledBy> {
        self.cancelled_by
    }

    fn agent_name(&self) -> Option<&str> {
        Some(&self.agent_name)
    }
}

impl rows::Generation {
    fn end(&mut self, status: GenerationStatus, at: &str) {
        self.status = status;
        self.completed_at = Some(at.to_owned());
        at.clone_into(&mut self.updated_at);
    }
}

impl ChunkRow for rows::Chunk {
    fn of(piece: rows::Chunk) -> Self {
        piece
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn generation_id(&self) -> &str {
        &self.generation_id
    }

    fn index(&self) -> u64 {
        self.index
    }

    fn is_final(&self) -> bool {
        self.is_final
    }
}
