//! One call: its row is said to be executing, the tool is run, and the row is given its end.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use chat::{Tool, ToolContext, ToolOutcome, Toolbox, agui::Content};
use futures_util::FutureExt as _;
use serde_json::Value;
use sys::{Cancellation, Sys};
use wire::Timestamp;

use super::{Called, LatePolicy, parents::Parents};
use crate::{
    caps::{END_WRITE_PAUSE, END_WRITES_MAX, TOOL_GRACE},
    claims::{Claims, Known, Phase},
    contract::{
        BrokenContract, CallStatus, CancelledBy, Effect, Start, ToolCallRow, late_call, step_call,
    },
    foreman::{Job, Trade},
    rows::now,
    stops::{Stoppable, Stops},
    table::{Table, TableError},
};

/// Where calls are run.
pub(super) struct Bench<R> {
    pub(super) calls: Table<R>,
    pub(super) tools: Toolbox,
    /// Whether calls of tools that are not here are failed, or left to others.
    pub(super) answers_unknown: bool,
    pub(super) name: String,
    pub(super) claims: Option<Claims>,
    pub(super) key_prefix: String,
    pub(super) margin: Duration,
    pub(super) parents: Option<Arc<dyn Parents>>,
    pub(super) stops: Option<Stops>,
    pub(super) late: LatePolicy,
    pub(super) callbacks: Callbacks<R>,
    pub(super) sys: Sys,
}

type Callback<R> = Arc<dyn Fn(R) -> Called + Send + Sync>;
type CallbackWith<R, T> = Arc<dyn Fn(R, T) -> Called + Send + Sync>;

/// Who wants to know.
pub(super) struct Callbacks<R> {
    pub(super) executing: Option<Callback<R>>,
    pub(super) complete: Option<CallbackWith<R, Content>>,
    pub(super) error: Option<CallbackWith<R, String>>,
}

/// How a call ends.
enum End {
    Completed(Content),
    Failed(String),
    Cancelled(CancelledBy, Option<Content>),
    Parked(String),
}

impl<R: ToolCallRow> Trade for Bench<R> {
    type Row = R;

    fn id(row: &R) -> &str {
        row.id()
    }

    fn known(&self, row: &R) -> Known {
        let is_ours_to_answer = self.answers_unknown || self.tools.get(row.name()).is_some();
        let phase = match row.status() {
            _ if !is_ours_to_answer => Phase::Over,
            CallStatus::Pending => Phase::Open,
            CallStatus::Executing => Phase::UnderWay,
            CallStatus::Completed
            | CallStatus::Failed
            | CallStatus::Cancelled
            | CallStatus::Parked => Phase::Over,
        };
        Known { phase, attempt: row.attempt(), is_ours: row.is_run_by(&self.name) }
    }

    fn lease(&self, row: &R) -> Duration {
        let work = self.tools.get(row.name()).map(|tool| tool.spec().time_max);
        work.unwrap_or_default().saturating_add(self.margin)
    }

    async fn work(self: Arc<Self>, row: R, job: Job) -> Result<(), TableError> {
        let cancelled = match self.cancelled(&row) {
            Some(by) => Some(by),
            None => self.stopped(&row)?,
        };
        if let Some(by) = cancelled {
            return self.end(&row, job.turn.attempt, End::Cancelled(by, None)).await;
        }
        let Some(tool) = self.tools.get(row.name()).cloned() else {
            let known: Vec<_> = self.tools.specs().map(|spec| spec.name.as_str()).collect();
            let why = format!("there is no tool {:?}; here are: {}", row.name(), known.join(", "));
            return self.end(&row, job.turn.attempt, End::Failed(why)).await;
        };
        let is_once =
            tool.spec().effect == chat::Effect::Once || row.effect() == Some(Effect::Once);
        if job.turn.is_recovery && is_once {
            let why = "whoever ran it is gone, so it may have happened; it must not happen twice";
            return self.end(&row, job.turn.attempt, End::Parked(why.to_owned())).await;
        }
        let Some(row) = self.begin(row, &job).await? else { return Ok(()) };
        self.tell(self.callbacks.executing.as_ref().map(|callback| callback(row.clone()))).await;
        let end = self.run(&tool, &row, job.turn.attempt).await;
        self.end(&row, job.turn.attempt, end).await
    }
}

impl<R: ToolCallRow> Bench<R> {
    /// Says that the call is executing, and makes sure that it is ours still.
    async fn begin(&self, row: R, job: &Job) -> Result<Option<R>, TableError> {
        let start = Start {
            attempt: job.turn.attempt,
            executor: self.name.clone(),
            lease_until: job.until.map(|at| Timestamp::from_unix_ms(at.get()).to_string()),
            at: now(&self.sys),
        };
        let row = match step_call(&row, &[CallStatus::Executing], |row| row.set_executing(&start)) {
            Ok(row) => row,
            Err(broken) => return self.give_up(row, broken).await,
        };
        // What is written may be on its way for long, so nothing is that is too late already.
        if !self.is_ours(row.id(), job) {
            tracing::debug!(row = row.id(), "a claim has lapsed before its work began");
            return Ok(None);
        }
        self.calls.replace(row.clone()).await?;
        // Whoever has claimed a later attempt has seen a row that was not executing, so only now
        // is it certain that nobody else begins.
        let has_ended = self.calls.get(row.id())?.is_some_and(|row| row.status().is_terminal());
        Ok((!has_ended && self.is_ours(row.id(), job)).then_some(row))
    }

    /// Whether an attempt may be made still.
    fn is_ours(&self, id: &str, job: &Job) -> bool {
        self.is_newest(id, job.turn.attempt)
            && job.until.is_none_or(|until| self.sys.clock.unix_ms() < until)
    }

    /// A row that cannot say that it is executing is told so, if it can at least fail.
    async fn give_up(&self, row: R, broken: BrokenContract) -> Result<Option<R>, TableError> {
        let (why, at) = (broken.to_string(), now(&self.sys));
        if let Ok(failed) = step_call(&row, &[CallStatus::Failed], |row| row.fail(&why, &at)) {
            self.calls.replace(failed).await?;
        }
        Err(broken.into())
    }

    /// Runs the tool until it ends, its row does, or its generation does.
    async fn run(&self, tool: &Tool, row: &R, attempt: u32) -> End {
        let (canceller, cancellation) = Cancellation::new();
        let call_id = row.call_id().unwrap_or_else(|| row.id());
        let context = ToolContext::new(call_id, cancellation)
            .with_idempotency_key(format!("{}{}", self.key_prefix, row.id()))
            .with_attempt(attempt)
            .with_grace(TOOL_GRACE);
        let mut outcome = std::pin::pin!(tool.call(row.args(), context, &self.sys));
        let (outcome, by) = tokio::select! {
            biased;
            outcome = &mut outcome => (outcome, None),
            by = self.unwanted(row) => {
                canceller.cancel();
                (outcome.await, Some(by))
            }
        };
        drop(canceller);
        match (outcome, by) {
            (ToolOutcome::Done { content }, None) => match checked(tool, &content) {
                Ok(()) => End::Completed(content),
                Err(why) => End::Failed(why),
            },
            (ToolOutcome::Failed { why }, None) => End::Failed(why),
            // What a tool says once nobody waits is what it has cleared away.
            (_, by) => End::Cancelled(by.unwrap_or(CancelledBy::User), None),
        }
    }

    /// Waits until nobody waits for the call any more, by whom; for ever if its answer is kept all
    /// the same.
    async fn unwanted(&self, row: &R) -> CancelledBy {
        if self.late == LatePolicy::Store {
            return std::future::pending().await;
        }
        let ended = async {
            let ended = self.calls.wait_for(row.id(), |row| row.status().is_terminal()).await;
            if ended.is_err() {
                // Nobody can tell, so the tool goes on.
                std::future::pending::<()>().await;
            }
        };
        let cancelled = async {
            match (&self.parents, row.generation_id()) {
                (Some(parents), Some(id)) => parents.wait(id).await,
                _ => std::future::pending().await,
            }
        };
        let stopped = async {
            match (&self.stops, self.stoppable(row)) {
                (Some(stops), Ok(work)) => drop(stops.wait(&work).await),
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            by = cancelled => by,
            () = stopped => CancelledBy::User,
            // Its end is written already, by somebody who does not want to wait.
            () = ended => CancelledBy::User,
        }
    }

    /// Writes how a call ended, unless somebody else has done so or is about to.
    async fn end(&self, row: &R, attempt: u32, end: End) -> Result<(), TableError> {
        let end = self.judged(row, end);
        let mut tries = 1;
        let row = loop {
            let newest = self.calls.get(row.id())?;
            let Some(newest) = newest.filter(|row| !row.status().is_terminal()) else {
                return self.came_late(row, end).await;
            };
            if !self.is_newest(row.id(), attempt) {
                tracing::debug!(row = row.id(), "a later attempt was claimed, so this one ends");
                return Ok(());
            }
            // What is shown may be older than what we wrote, if a source brings it late.
            let base = if newest.status() == row.status() { &*newest } else { row };
            let ended = step_call(base, end.statuses(), |row| end.write(row, &now(&self.sys)))?;
            match self.calls.replace(ended.clone()).await {
                Ok(()) => break ended,
                Err(error) if error.is_retryable() && tries < END_WRITES_MAX => {
                    tries += 1;
                    self.sys.clock.sleep(END_WRITE_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        };
        // Somebody else's end may stand before it.
        let is_other =
            |newest: &R| newest.status().is_terminal() && newest.status() != row.status();
        if self.calls.get(row.id())?.is_some_and(|newest| is_other(&newest)) {
            return self.came_late(&row, end).await;
        }
        let told = match end {
            End::Completed(answer) => {
                self.callbacks.complete.as_ref().map(|callback| callback(row, answer))
            }
            End::Failed(why) | End::Parked(why) => {
                self.callbacks.error.as_ref().map(|callback| callback(row, why))
            }
            End::Cancelled(..) => None,
        };
        self.tell(told).await;
        Ok(())
    }

    /// What becomes of an end that nobody waits for: an answer is kept, if that is wanted.
    async fn came_late(&self, row: &R, end: End) -> Result<(), TableError> {
        tracing::debug!(row = row.id(), "an end came too late");
        let (End::Completed(answer) | End::Cancelled(_, Some(answer)), LatePolicy::Store) =
            (end, self.late)
        else {
            return Ok(());
        };
        let Some(cancelled) = self.calls.get(row.id())? else { return Ok(()) };
        match late_call(&*cancelled, &answer, &now(&self.sys)) {
            Some(late) => self.calls.replace(late).await,
            None => Ok(()),
        }
    }

    /// What an end is worth once the generation was cancelled.
    fn judged(&self, row: &R, end: End) -> End {
        let cancelled = self.cancelled(row).or_else(|| self.stopped(row).unwrap_or_default());
        match (cancelled, end, self.late) {
            (Some(by), End::Completed(answer), LatePolicy::Store) => {
                End::Cancelled(by, Some(answer))
            }
            (Some(by), End::Completed(_) | End::Failed(_), _) => End::Cancelled(by, None),
            (_, end, _) => end,
        }
    }

    fn cancelled(&self, row: &R) -> Option<CancelledBy> {
        self.parents.as_ref()?.cancelled(row.generation_id()?)
    }

    /// Whether somebody has said stop.
    fn stopped(&self, row: &R) -> Result<Option<CancelledBy>, TableError> {
        let Some(stops) = &self.stops else { return Ok(None) };
        Ok(stops.find(&self.stoppable(row)?)?.map(|_| CancelledBy::User))
    }

    /// What a stop must be about to be about this call. A background call goes on after its
    /// generation, so only a stop that names that is meant for it.
    fn stoppable(&self, row: &R) -> Result<Stoppable, TableError> {
        let generation = row.generation_id().map(str::to_owned);
        let is_waited_for = !row.is_background() || generation.is_none();
        let position = match is_waited_for {
            true => self.calls.get(row.id())?.and_then(|row| row.meta().position),
            false => None,
        };
        Ok(Stoppable { generation, agent: None, position })
    }

    fn is_newest(&self, id: &str, attempt: u32) -> bool {
        let Some(claims) = &self.claims else { return true };
        claims.is_newest(id, attempt).unwrap_or(false)
    }

    /// A callback that panics breaks nothing but itself.
    async fn tell(&self, called: Option<Called>) {
        if let Some(called) = called
            && AssertUnwindSafe(called).catch_unwind().await.is_err()
        {
            tracing::error!(executor = self.name, "a callback has panicked");
        }
    }
}

impl End {
    const fn statuses(&self) -> &'static [CallStatus] {
        match self {
            Self::Completed(_) => &[CallStatus::Completed],
            Self::Failed(_) => &[CallStatus::Failed],
            Self::Cancelled(..) => &[CallStatus::Cancelled],
            Self::Parked(_) => &[CallStatus::Parked, CallStatus::Failed],
        }
    }

    fn write<R: ToolCallRow>(&self, row: &mut R, at: &str) {
        match self {
            Self::Completed(answer) => row.complete(answer, at),
            Self::Failed(why) => row.fail(why, at),
            Self::Cancelled(by, late) => row.cancel(*by, late.as_ref(), at),
            Self::Parked(why) => row.park(why, at),
        }
    }
}

/// Whether an answer is what its tool promises.
pub(crate) fn checked(tool: &Tool, answer: &Content) -> Result<(), String> {
    let (Some(_), Content::Text(text)) = (&tool.spec().output, answer) else { return Ok(()) };
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
    tool.check_output(&value).map_err(|bad| bad.to_string())
}

impl<R> Default for Callbacks<R> {
    fn default() -> Self {
        Self { executing: None, complete: None, error: None }
    }
}
