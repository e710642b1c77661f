//! The calls of one turn: run here, or waited for.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use chat::{
    CallEnd, Conversation, Message, Place, Request, ToolContext, ToolResult,
    agui::Content,
    machine::{Input, Step},
};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use serde_json::Value;
use sys::{Cancellation, Canceller};

use super::{
    news::Signal,
    work::{Cancelled, Halt, Work},
};
use crate::{
    caps::{ANSWER_BYTES_MAX, TOOLS_PATIENCE},
    conversation::{answer_of, put_answer},
    journal::Writes,
    rows::{CallStatus, CancelledBy, Decision, Resolution, ToolCall, now},
};

/// Calls that run here.
type Running = FuturesUnordered<BoxFuture<'static, (String, ToolResult)>>;

/// A batch of calls while they are made.
struct Batch {
    running: Running,
    /// Ids of calls that run, or have run, in this process.
    begun: BTreeSet<String>,
    conversation: Arc<dyn Conversation>,
    /// Ends what runs when it goes.
    end: Canceller,
    cancellation: Cancellation,
}

/// What the model was asked, and what was said since.
struct Asked {
    asked: Arc<Request>,
    since: Vec<Arc<Message>>,
}

impl Conversation for Asked {
    fn messages(&self) -> Vec<Arc<Message>> {
        self.asked.messages.iter().chain(&self.since).cloned().collect()
    }
}

impl Work<'_> {
    /// Makes the calls of the turn, writes down what comes of each, and tells what comes next.
    pub(super) async fn call_tools(&mut self) -> Result<Step, Halt> {
        let (end, cancellation) = Cancellation::new();
        let conversation = self.conversation();
        let (running, begun) = (Running::new(), BTreeSet::new());
        let mut batch = Batch { running, begun, conversation, end, cancellation };
        loop {
            if let Some(cancelled) = self.is_stopped() {
                batch.end.cancel();
                return self.cancel_calls(cancelled).await;
            }
            self.begin_calls(&mut batch);
            let wait = self.next_deadline();
            let clock = self.core.sys.clock.clone();
            let next = tokio::select! {
                biased;
                () = self.cancellation.cancelled() => return self.leave(batch).await,
                signal = self.news.next() => self.take_signal(signal).await?,
                Some((call_id, result)) = batch.running.next(), if !batch.running.is_empty() => {
                    self.answer(&call_id, &result).await?
                }
                () = clock.sleep(wait) => self.give_up_on_others().await?,
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// The conversation up to the calls. Nothing is copied unless a tool wants to read it.
    fn conversation(&self) -> Arc<dyn Conversation> {
        let (asked, all) = (self.asked.clone(), self.machine.messages());
        match asked.filter(|asked| asked.messages.len() <= all.len()) {
            Some(asked) => {
                let since = all[asked.messages.len()..].to_vec();
                Arc::new(Asked { asked, since })
            }
            None => Arc::new(all.to_vec()),
        }
    }

    /// Begins calls that run here, as many as may run at a time.
    fn begin_calls(&self, batch: &mut Batch) {
        for (call_id, row) in &self.calls {
            if batch.running.len() >= self.core.tools_parallel {
                return;
            }
            let is_here = row.status == CallStatus::Executing && self.is_ours(row);
            let turn = format!("{call_id}#{}", row.attempt);
            if is_here && batch.begun.insert(turn) {
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
            .with_conversation(Arc::clone(&batch.conversation));
        let (args, sys) = (row.args.clone(), self.core.sys.clone());
        async move {
            let outcome = tool.call(args, context, &sys).await;
            let result = outcome.into_result(call_id.as_str().into());
            (call_id, result)
        }
        .boxed()
    }

    /// Writes down the answer to a call, and what comes next if it was the last one.
    async fn answer(&mut self, call_id: &str, result: &ToolResult) -> Result<Option<Step>, Halt> {
        let now = now(&self.core.sys);
        let result = fitting(result);
        let Some(row) = self.calls.get_mut(call_id) else { return Ok(None) };
        put_answer(row, &result, &now);
        let mut writes = Writes::default();
        writes.update(row);
        self.go_on(result, writes).await
    }

    /// Feeds an answer whose row is among the writes, or stands in the stream already.
    async fn go_on(
        &mut self,
        result: ToolResult,
        mut writes: Writes,
    ) -> Result<Option<Step>, Halt> {
        if self.machine.answer_to(&result.call_id).is_none() {
            self.feed(Input::Tool(result))?;
        }
        let next = self.advance(&mut writes);
        if !writes.is_empty() {
            self.journal.commit(writes).await?;
        }
        Ok((!matches!(next, Step::CallTools(_) | Step::AwaitClientTools(_))).then_some(next))
    }

    async fn take_signal(&mut self, signal: Signal) -> Result<Option<Step>, Halt> {
        match signal {
            Signal::Look => Ok(None),
            Signal::Answered(rows) => {
                for row in rows {
                    if let Some(next) = self.take_answer(row).await? {
                        return Ok(Some(next));
                    }
                }
                Ok(None)
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

    /// An executor has answered a call that was left to others.
    async fn take_answer(&mut self, row: ToolCall) -> Result<Option<Step>, Halt> {
        let own = self.calls.values_mut().find(|own| own.id == row.id);
        let Some(own) = own.filter(|own| !own.status.is_terminal()) else { return Ok(None) };
        // What the agent wrote itself comes back, too; and whoever parks a call says no answer.
        if own.executor.as_deref() == Some(self.core.runner.as_str()) {
            return Ok(None);
        }
        *own = row;
        match answer_of(own) {
            Some(answer) => self.go_on(answer, Writes::default()).await,
            None => Ok(None),
        }
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

    /// How long the calls that others make may take yet.
    fn next_deadline(&self) -> Duration {
        let clock = &self.core.sys.clock;
        let others = self.calls.values().filter_map(|row| self.time_left(row));
        let own = self.deadline.map(|at| at.since(clock.unix_ms()));
        others.chain(own).min().unwrap_or(Duration::from_hours(1))
    }

    /// How long a call that somebody else makes may take yet.
    fn time_left(&self, row: &ToolCall) -> Option<Duration> {
        let is_open = matches!(row.status, CallStatus::Pending | CallStatus::Executing);
        if !is_open || self.is_ours(row) {
            return None;
        }
        let time_max = self.machine.tools().get(&row.name)?.spec().time_max;
        // A call that was parked has its time again.
        let since = match row.status {
            CallStatus::Pending => &row.updated_at,
            _ => row.started_at.as_ref().unwrap_or(&row.updated_at),
        };
        let asked: wire::Timestamp = since.parse().ok()?;
        let until = sys::UnixMs::new(asked.unix_ms()).plus(time_max);
        Some(until.since(self.core.sys.clock.unix_ms()))
    }

    /// Cancels calls that nobody has answered in time.
    async fn give_up_on_others(&mut self) -> Result<Option<Step>, Halt> {
        let is_late = |row: &ToolCall| self.time_left(row).is_some_and(|left| left.is_zero());
        let late = self.calls.iter().find(|(_, row)| is_late(row));
        let Some((call_id, row)) = late.map(|(id, row)| (id.clone(), row.clone())) else {
            return Ok(None);
        };
        let why = format!("nobody has answered the call of {:?} in time", row.name);
        let content = Content::Text(why);
        let result =
            ToolResult { call_id: call_id.as_str().into(), content, end: CallEnd::Cancelled };
        if let Some(row) = self.calls.get_mut(&call_id) {
            row.cancelled_by = Some(CancelledBy::Timeout);
        }
        self.answer(&call_id, &result).await
    }

    /// Ends the generation while calls are open.
    pub(super) async fn cancel_calls(&mut self, cancelled: Cancelled) -> Result<Step, Halt> {
        let (by, reason) = (cancelled.by, cancelled.reason.clone());
        // What others have answered before the stop stays answered.
        for row in self.news.answered() {
            if let Some(next) = self.take_answer(row).await? {
                return Ok(next);
            }
        }
        self.cancelled = Some(cancelled);
        self.feed(Input::Cancel { reason })?;
        let now = now(&self.core.sys);
        let mut writes = Writes::default();
        for (call_id, row) in &mut self.calls {
            let Some(answer) = self.machine.answer_to(call_id) else { continue };
            if !row.status.is_terminal() {
                put_answer(row, answer, &now);
                row.cancelled_by = Some(by);
                writes.update(row);
            }
        }
        let next = self.advance(&mut writes);
        self.journal.commit(writes).await?;
        Ok(next)
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

/// Another attempt at a call, by this runner.
pub(super) fn begin_again(row: &mut ToolCall, runner: &str, now: &str) {
    row.attempt += 1;
    row.status = CallStatus::Executing;
    row.executor = Some(runner.to_owned());
    row.updated_at = now.to_owned();
    row.started_at = Some(now.to_owned());
}
