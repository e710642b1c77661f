//! The calls of one turn: run here, or waited for.

use std::{collections::BTreeSet, time::Duration};

use chat::{
    CallEnd, Conversation, Place, ToolContext, ToolOutcome, ToolResult,
    agui::Content,
    machine::{Input, Step},
};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use serde_json::Value;
use sys::{Cancellation, Canceller, UnixMs};
use wire::Timestamp;

use super::{
    news::Signal,
    work::{Cancelled, Halt, Work},
};
use crate::{
    caps::{
        ANSWER_BYTES_MAX, CLAIM_SLACK, ELSEWHERE_ATTEMPTS_MAX, LEASE_BELIEVED_MAX,
        LEASE_MARGIN_DEFAULT, RELIEF_PATIENCE, TOOL_GRACE, TOOLS_PATIENCE,
    },
    contract::admits_call,
    conversation::{answer_of, put_answer},
    executor::checked,
    journal::Writes,
    rows::{CallStatus, CancelledBy, Decision, Effect, Resolution, ToolCall, now},
};

/// Calls that run here.
type Running = FuturesUnordered<BoxFuture<'static, (String, ToolResult)>>;

/// A batch of calls while they are made.
struct Batch {
    running: Running,
    /// Ids of calls that run, or have run, in this process.
    begun: BTreeSet<String>,
    conversation: Conversation,
    /// Ends what runs when it goes.
    end: Canceller,
    cancellation: Cancellation,
}

impl Work<'_> {
    /// Makes the calls of the turn, writes down what comes of each, and tells what comes next.
    pub(super) async fn call_tools(&mut self) -> Result<Step, Halt> {
        let (end, cancellation) = Cancellation::new();
        let conversation = self.machine.messages().clone();
        let (running, begun) = (Running::new(), BTreeSet::new());
        let mut batch = Batch { running, begun, conversation, end, cancellation };
        loop {
            if let Some(cancelled) = self.is_stopped() {
                self.wind_up(&mut batch, cancelled.by).await?;
                return self.cancel_begun_calls(cancelled, Some(&batch.begun)).await;
            }
            self.note_ages();
            self.begin_calls(&mut batch);
            let wait = self.next_deadline();
            let clock = self.core.sys.clock.clone();
            let next = tokio::select! {
                biased;
                () = self.cancellation.cancelled() => return self.leave(batch).await,
                signal = self.news.next() => {
                    self.pulse.stirred();
                    self.take_signal(signal).await?
                }
                Some((call_id, result)) = batch.running.next(), if !batch.running.is_empty() => {
                    self.answer(&call_id, &result).await?
                }
                () = clock.sleep(wait) => self.give_up_on_others().await?,
                () = self.pulse.due(self.journal, &clock) => match self.beat().await? {
                    Some(signal) => self.take_signal(signal).await?,
                    None => None,
                },
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Begins calls that run here, as many as may run at a time.
    fn begin_calls(&self, batch: &mut Batch) {
        for (call_id, row) in &self.calls {
            if batch.running.len() >= self.core.tools_parallel {
                return;
            }
            let is_here = row.status == CallStatus::Executing && self.is_ours(row);
            if is_here && batch.begun.insert(turn_of(call_id, row)) {
                batch.running.push(self.run_call(call_id.clone(), row, batch));
            }
        }
    }

    /// Whether a call runs with the agent, and not with an executor somewhere.
    pub(super) fn is_ours(&self, row: &ToolCall) -> bool {
        let tool = self.machine.tools().get(&row.name);
        tool.is_none_or(|tool| tool.spec().place == Place::Server)
    }

    fn run_call(
        &self,
        call_id: String,
        row: &ToolCall,
        batch: &Batch,
    ) -> BoxFuture<'static, (String, ToolResult)> {
        let Some(tool) = self.machine.tools().get(&row.name).cloned() else {
            let why = format!("there is no tool {:?} here any more", row.name);
            let content = Content::Text(why);
            let result =
                ToolResult { call_id: call_id.as_str().into(), content, end: CallEnd::Failed };
            return async move { (call_id, result) }.boxed();
        };
        let context = ToolContext::new(call_id.as_str(), batch.cancellation.clone())
            .with_idempotency_key(self.core.key_of(&row.id))
            .with_attempt(row.attempt)
            .with_grace(TOOL_GRACE)
            .with_conversation(batch.conversation.clone());
        let (args, sys) = (row.args.clone(), self.core.sys.clone());
        async move {
            let outcome = match tool.call(args, context, &sys).await {
                ToolOutcome::Done { content } => match checked(&tool, &content) {
                    Ok(()) => ToolOutcome::Done { content },
                    Err(why) => ToolOutcome::Failed { why },
                },
                other => other,
            };
            let result = outcome.into_result(call_id.as_str().into());
            (call_id, result)
        }
        .boxed()
    }

    /// Writes down the answer to a call, and what comes next if it was the last one.
    async fn answer(&mut self, call_id: &str, result: &ToolResult) -> Result<Option<Step>, Halt> {
        let mut writes = Writes::default();
        self.settle(call_id, result, &mut writes)?;
        self.go_on(writes).await
    }

    /// Feeds the answer to a call, and writes it down with what else is.
    fn settle(
        &mut self,
        call_id: &str,
        result: &ToolResult,
        writes: &mut Writes,
    ) -> Result<(), Halt> {
        let (now, result) = (now(&self.core.sys), fitting(result));
        let Some(row) = self.calls.get_mut(call_id) else { return Ok(()) };
        put_answer(row, &result, &now);
        writes.update(row);
        self.pulse.progress(writes);
        self.feed_answer(result)
    }

    /// Feeds an answer whose row is among the writes, or stands in the stream already.
    fn feed_answer(&mut self, result: ToolResult) -> Result<(), Halt> {
        if self.machine.answer_to(&result.call_id).is_none() {
            self.feed(Input::Tool(result))?;
        }
        Ok(())
    }

    /// Writes down what comes next if every call has its answer.
    async fn go_on(&mut self, mut writes: Writes) -> Result<Option<Step>, Halt> {
        let next = self.advance(&mut writes);
        self.journal.commit_some(writes).await?;
        Ok((!matches!(next, Step::CallTools(_) | Step::AwaitClientTools(_))).then_some(next))
    }

    async fn take_signal(&mut self, signal: Signal) -> Result<Option<Step>, Halt> {
        match signal {
            Signal::Look => Ok(None),
            Signal::Calls(rows) => {
                let mut is_answer = false;
                for row in rows {
                    is_answer |= self.take_row(row)?;
                }
                match is_answer {
                    true => self.go_on(Writes::default()).await,
                    false => Ok(None),
                }
            }
            Signal::Resolved(resolutions) => {
                for resolution in resolutions {
                    if let Some(next) = self.resolve(resolution).await? {
                        return Ok(Some(next));
                    }
                }
                Ok(None)
            }
        }
    }

    /// An executor has begun, answered or parked a call that was left to others. Whether it is an
    /// answer.
    fn take_row(&mut self, row: ToolCall) -> Result<bool, Halt> {
        let is_own = |(_, own): &(&String, &ToolCall)| own.id == row.id;
        let Some((call_id, own)) = self.calls.iter().find(is_own) else { return Ok(false) };
        // What the agent wrote itself comes back, too, when it has gone on already.
        let is_echo = own.executor.as_deref() == Some(self.core.runner.as_str())
            || (self.is_ours(own) && !row.status.is_terminal());
        if is_echo || own.status.is_terminal() || !admits_call(own, &row) {
            return Ok(false);
        }
        let answer = answer_of(&row);
        self.calls.insert(call_id.clone(), row);
        let is_answer = answer.is_some();
        answer.map_or(Ok(()), |answer| self.feed_answer(answer))?;
        Ok(is_answer)
    }

    /// A person has decided on a parked call. The first decision on an attempt counts.
    async fn resolve(&mut self, resolution: Resolution) -> Result<Option<Step>, Halt> {
        let parked = |row: &ToolCall| {
            row.id == resolution.tool_call_id
                && row.attempt == resolution.attempt
                && row.status == CallStatus::Parked
        };
        let found = self.calls.iter().find(|(_, row)| parked(row));
        let Some(call_id) = found.map(|(call_id, _)| call_id.clone()) else { return Ok(None) };
        let result = |content, end| ToolResult { call_id: call_id.as_str().into(), content, end };
        match resolution.decision {
            Decision::Retry => {
                let mut writes = Writes::default();
                let runner = self.core.runner.clone();
                let now = now(&self.core.sys);
                let is_ours = self.calls.get(&call_id).is_some_and(|row| self.is_ours(row));
                if let Some(row) = self.calls.get_mut(&call_id) {
                    match is_ours {
                        true => begin_again(row, &runner, &now),
                        false => (row.status, row.executor) = (CallStatus::Pending, None),
                    }
                    row.updated_at = now;
                    writes.update(row);
                }
                self.journal.commit(writes).await?;
                Ok(None)
            }
            Decision::Complete => {
                let value = resolution.result.unwrap_or(Value::Null);
                let content = crate::content::from_result(Some(&value), None);
                self.answer(&call_id, &result(content, CallEnd::Done)).await
            }
            Decision::Fail => {
                let why = "A person says that this call has failed.".to_owned();
                self.answer(&call_id, &result(Content::Text(why), CallEnd::Failed)).await
            }
        }
    }

    /// Takes note of how far calls are.
    pub(super) fn note_ages(&self) {
        self.core.ages.note(self.calls.values(), self.core.sys.clock.unix_ms());
    }

    /// How long the calls that others make may take yet.
    fn next_deadline(&self) -> Duration {
        let clock = &self.core.sys.clock;
        let others = self.calls.values().filter_map(|row| self.time_left(row));
        let own = self.deadline.map(|at| at.since(clock.unix_ms()));
        others.chain(own).min().unwrap_or(Duration::from_hours(1))
    }

    /// How long a call that is made elsewhere may take yet, in this attempt.
    fn time_left(&self, row: &ToolCall) -> Option<Duration> {
        let until = self.open_until(row).filter(|_| !self.is_ours(row))?;
        Some(until.since(self.core.sys.clock.unix_ms()))
    }

    /// Until when an open call may stay as it is.
    pub(super) fn open_until(&self, row: &ToolCall) -> Option<UnixMs> {
        if !matches!(row.status, CallStatus::Pending | CallStatus::Executing) {
            return None;
        }
        let time_max = self.machine.tools().get(&row.name)?.spec().time_max;
        Some(self.core.ages.since(row)?.plus(patience(row, time_max)))
    }

    /// Cancels calls that nobody has answered in time.
    async fn give_up_on_others(&mut self) -> Result<Option<Step>, Halt> {
        let is_late = |row: &ToolCall| self.time_left(row).is_some_and(|left| left.is_zero());
        let late = self.calls.iter().filter(|(_, row)| is_late(row));
        let late: Vec<_> = late.map(|(call_id, _)| call_id.clone()).collect();
        if late.is_empty() {
            return Ok(None);
        }
        let why =
            |row: &ToolCall| format!("nobody has answered the call of {:?} in time", row.name);
        self.cancel_elsewhere(&late, CancelledBy::Timeout, why).await?;
        self.go_on(Writes::default()).await
    }

    /// Cancels calls that somebody else may be at. The first end in the stream counts, so the
    /// machine is fed what the rows say once that is known.
    async fn cancel_elsewhere(
        &mut self,
        call_ids: &[String],
        by: CancelledBy,
        why: impl Fn(&ToolCall) -> String,
    ) -> Result<(), Halt> {
        let now = now(&self.core.sys);
        let mut writes = Writes::default();
        for call_id in call_ids {
            let Some(own) = self.calls.get_mut(call_id) else { continue };
            // Somebody may have begun it meanwhile.
            if let Some(newest) = self.news.call(&own.id).filter(|row| admits_call(own, row)) {
                *own = newest;
            }
            if !own.status.is_terminal() {
                let content = Content::Text(why(own));
                let (call_id, end) = (call_id.as_str().into(), CallEnd::Cancelled);
                put_answer(own, &ToolResult { call_id, content, end }, &now);
                own.cancelled_by = Some(by);
                writes.update(own);
            }
        }
        self.journal.commit_some(writes).await?;
        for call_id in call_ids {
            let Some(own) = self.calls.get_mut(call_id) else { continue };
            tokio::select! {
                biased;
                ended = self.news.ended_call(&own.id) => {
                    if let Some(ended) = ended {
                        *own = ended;
                    }
                }
                () = self.cancellation.cancelled() => return Err(Halt::Stopped),
            }
            if let Some(answer) = answer_of(own) {
                self.feed_answer(answer)?;
            }
        }
        Ok(())
    }

    /// Tells the tools that run here that they are over, and gives them a moment to clear away.
    /// What they answer in it counts.
    async fn wind_up(&mut self, batch: &mut Batch, by: CancelledBy) -> Result<(), Halt> {
        batch.end.cancel();
        while let Some((call_id, mut result)) = batch.running.next().await {
            let mut writes = Writes::default();
            match result.end {
                CallEnd::Done => self.settle(&call_id, &result, &mut writes)?,
                // It says how it was stopped.
                CallEnd::Failed | CallEnd::Denied => {
                    result.end = CallEnd::Cancelled;
                    if let Some(row) = self.calls.get_mut(&call_id) {
                        row.cancelled_by = Some(by);
                    }
                    self.settle(&call_id, &result, &mut writes)?;
                }
                CallEnd::Cancelled => {}
            }
            self.journal.commit_some(writes).await?;
        }
        Ok(())
    }

    /// Ends the generation while calls are open.
    pub(super) async fn cancel_calls(&mut self, cancelled: Cancelled) -> Result<Step, Halt> {
        self.cancel_begun_calls(cancelled, None).await
    }

    /// The same; these calls have begun here, or nobody knows which.
    async fn cancel_begun_calls(
        &mut self,
        cancelled: Cancelled,
        begun: Option<&BTreeSet<String>>,
    ) -> Result<Step, Halt> {
        let (by, reason) = (cancelled.by, cancelled.reason.clone());
        // What others have answered before the stop stays answered.
        for row in self.news.changed_calls() {
            self.take_row(row)?;
        }
        let is_open = |row: &ToolCall| !row.status.is_terminal();
        let is_elsewhere = |row: &ToolCall| is_open(row) && !self.is_ours(row);
        let others = self.calls.iter().filter(|(_, row)| is_elsewhere(row));
        let others: Vec<_> = others.map(|(call_id, _)| call_id.clone()).collect();
        self.cancel_elsewhere(&others, by, |row| stopped(row).to_owned()).await?;
        let mut writes = Writes::default();
        for (call_id, text) in self.left_open(begun) {
            let content = Content::Text(text.to_owned());
            let end = CallEnd::Cancelled;
            let result = ToolResult { call_id: call_id.as_str().into(), content, end };
            if let Some(row) = self.calls.get_mut(&call_id) {
                row.cancelled_by = Some(by);
            }
            self.settle(&call_id, &result, &mut writes)?;
        }
        if !matches!(self.machine.next_step(), Step::Done(_)) {
            self.cancelled = Some(cancelled);
            self.feed(Input::Cancel { reason })?;
        }
        let next = self.advance(&mut writes);
        self.journal.commit(writes).await?;
        Ok(next)
    }

    /// Calls without an end, and what the model is told of them.
    fn left_open(&self, begun: Option<&BTreeSet<String>>) -> Vec<(String, &'static str)> {
        let open = self.calls.iter().filter(|(_, row)| !row.status.is_terminal());
        open.map(|(call_id, row)| {
            let has_begun = begun.is_none_or(|begun| begun.contains(&turn_of(call_id, row)));
            let may_have_run = has_begun || row.status == CallStatus::Parked;
            (call_id.clone(), if may_have_run { stopped(row) } else { NEVER_BEGUN })
        })
        .collect()
    }

    /// The agent is to stop: calls that run here may end, for a while; others go on without it.
    async fn leave(&mut self, mut batch: Batch) -> Result<Step, Halt> {
        let clock = self.core.sys.clock.clone();
        let until = clock.unix_ms().plus(TOOLS_PATIENCE);
        while !batch.running.is_empty() {
            tokio::select! {
                biased;
                Some((call_id, result)) = batch.running.next() => {
                    if let Some(next) = self.answer(&call_id, &result).await? {
                        return Ok(next);
                    }
                }
                () = clock.sleep_until(until) => break,
            }
        }
        Err(Halt::Stopped)
    }
}

/// The answer, or why it is none: a row has its bounds, whatever a tool was allowed to say.
fn fitting(result: &ToolResult) -> ToolResult {
    let bytes = match &result.content {
        Content::Text(text) => text.len(),
        parts @ Content::Parts(_) => serde_json::to_vec(parts).map_or(0, |parts| parts.len()),
    };
    if bytes <= ANSWER_BYTES_MAX {
        return result.clone();
    }
    let why = format!("answered {bytes} bytes, and {ANSWER_BYTES_MAX} is the most that is kept");
    ToolResult {
        call_id: result.call_id.clone(),
        content: Content::Text(why),
        end: CallEnd::Failed,
    }
}

/// What the model is told of a call that was stopped before it began.
const NEVER_BEGUN: &str = "This call was cancelled.";
/// The same of one whose outcome matters, and is not known.
const OUTCOME_UNKNOWN: &str = "This call was cancelled while it ran, and must not happen twice: \
                               whether it happened is not known.";

/// What the model is told of a call that was stopped.
fn stopped(row: &ToolCall) -> &'static str {
    let may_have_run = matches!(row.status, CallStatus::Executing | CallStatus::Parked);
    match may_have_run && row.effect == Effect::Once {
        true => OUTCOME_UNKNOWN,
        false => NEVER_BEGUN,
    }
}

/// One attempt at a call.
fn turn_of(call_id: &str, row: &ToolCall) -> String {
    format!("{call_id}#{}", row.attempt)
}

fn moment(time: &str) -> Option<UnixMs> {
    time.parse().ok().map(|time: Timestamp| UnixMs::new(time.unix_ms()))
}

/// How long a call elsewhere may stay as it is: whoever has it may be dead, and then its claim must
/// lapse before somebody else begins the next attempt.
fn patience(row: &ToolCall, time_max: Duration) -> Duration {
    let told = row.lease_until.as_deref().zip(row.started_at.as_deref());
    let told = told.and_then(|(until, at)| Some(moment(until)?.since(moment(at)?)));
    let told = told.unwrap_or_default().min(LEASE_BELIEVED_MAX);
    let lease = time_max.saturating_add(LEASE_MARGIN_DEFAULT).max(told);
    match row.attempt < ELSEWHERE_ATTEMPTS_MAX {
        true => lease.saturating_add(CLAIM_SLACK).saturating_add(RELIEF_PATIENCE),
        false => lease,
    }
}

/// Another attempt at a call, by this runner.
pub(super) fn begin_again(row: &mut ToolCall, runner: &str, now: &str) {
    row.attempt += 1;
    row.status = CallStatus::Executing;
    row.executor = Some(runner.to_owned());
    row.updated_at = now.to_owned();
    row.started_at = Some(now.to_owned());
}
