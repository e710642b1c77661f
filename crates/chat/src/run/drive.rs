//! The only part of this crate that awaits: it takes the machine's steps.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_core::future::BoxFuture;
use futures_util::{
    FutureExt as _, StreamExt as _,
    stream::{FuturesUnordered, iter},
};
use serde_json::json;
use sys::{Cancellation, Sys};
use tokio::sync::mpsc;

use super::middleware::{BeforeTool, Middleware};
use crate::{
    CallEnd, Conversation, Id, Model, ModelError, ModelErrorKind, Request, ToolContext, ToolEvent,
    ToolEvents, ToolOutcome, ToolResult, Toolbox,
    agui::{Content, Custom, Event, EventKind},
    caps::TOOL_EVENTS_WAITING_MAX,
    machine::{Call, Decision, Done, Failure, Input, Machine, Misfed, Step},
    tool::{shortened, words_of},
};

/// Decides on calls that need a decision.
pub(super) type Decide = Arc<dyn Fn(Call) -> BoxFuture<'static, Decision> + Send + Sync>;
/// Makes calls of the client.
pub(super) type ClientTool = Arc<dyn Fn(Call) -> BoxFuture<'static, ToolOutcome> + Send + Sync>;

/// All that takes steps.
pub(super) struct Driver {
    pub(super) sys: Sys,
    pub(super) model: Arc<dyn Model>,
    pub(super) tools: Toolbox,
    pub(super) tools_parallel: usize,
    pub(super) middleware: Vec<Arc<dyn Middleware>>,
    pub(super) decide: Option<Decide>,
    pub(super) client_tool: Option<ClientTool>,
    pub(super) cancellation: Cancellation,
    pub(super) events: mpsc::Sender<Event>,
    /// Whether the event that ends the run was sent.
    pub(super) has_ended: AtomicBool,
}

/// Nobody reads the events any more.
struct Gone;

impl Driver {
    /// Takes steps until the run is over or suspended. What was given to the run may panic: then
    /// the run fails, and nothing else does.
    pub(super) async fn drive(&self, machine: &mut Machine, first: Vec<Event>) {
        let driven = AssertUnwindSafe(self.take_all_steps(machine, first)).catch_unwind().await;
        if let Err(panic) = driven {
            self.give_up(machine, words_of(&*panic)).await;
        }
        if let Step::Done(done) = machine.next_step() {
            for each in &self.middleware {
                // It is over; the others hear of it whatever one of them does.
                let _ = catch_unwind(AssertUnwindSafe(|| match &done {
                    Done::Failed(failure) => each.on_error(failure),
                    done => each.on_finish(done),
                }));
            }
        }
    }

    async fn take_all_steps(&self, machine: &mut Machine, first: Vec<Event>) {
        if self.tell(first).await.is_err() || self.take_steps(machine).await.is_err() {
            // Whoever started the run has left; the run ends without being heard.
            let _ = machine.feed(Input::Cancel { reason: None }, &mut Vec::new());
        }
    }

    /// Ends a run that cannot go on, unless whoever reads it has been told of its end.
    async fn give_up(&self, machine: &mut Machine, why: &str) {
        if self.has_ended.load(Ordering::Relaxed) {
            return;
        }
        let mut events = Vec::new();
        machine.fail(Failure::Panicked { why: shortened(why.to_owned()) }, &mut events);
        for each in &self.middleware {
            let mut passed_on = Vec::with_capacity(events.len());
            for event in &events {
                let before = passed_on.len();
                let passed = AssertUnwindSafe(|| each.on_event(event.clone(), &mut passed_on));
                if catch_unwind(passed).is_err() {
                    passed_on.truncate(before);
                    passed_on.push(event.clone());
                }
            }
            events = passed_on;
        }
        let _ = self.send(events).await;
    }

    async fn take_steps(&self, machine: &mut Machine) -> Result<(), Gone> {
        loop {
            if self.cancellation.is_cancelled() {
                return self.cancel(machine, None).await;
            }
            match machine.next_step() {
                Step::CallModel(request) => self.call_model(machine, request).await?,
                Step::CallTools(calls) => self.call_tools(machine, calls).await?,
                Step::AwaitApproval(calls) => match &self.decide {
                    Some(decide) => self.ask(machine, calls, decide).await?,
                    None => return self.feed(machine, Input::Suspend).await,
                },
                Step::AwaitClientTools(calls) => match &self.client_tool {
                    Some(client) => self.call_client(machine, calls, client).await?,
                    None => return self.feed(machine, Input::Suspend).await,
                },
                Step::Done(_) => return Ok(()),
            }
        }
    }

    async fn call_model(&self, machine: &mut Machine, request: Arc<Request>) -> Result<(), Gone> {
        let mut request = Arc::unwrap_or_clone(request);
        for each in &self.middleware {
            each.on_request(&mut request);
        }
        let mut stream = self.model.call(Arc::new(request), self.cancellation.clone());
        let mut events = Vec::new();
        let end = loop {
            let streamed = tokio::select! {
                biased;
                () = self.cancellation.cancelled() => return self.cancel(machine, None).await,
                streamed = stream.next() => streamed,
            };
            let input = match streamed {
                Some(Ok(event)) => Input::Model(event),
                // The model may hear of it first; that does not make it a failure.
                Some(Err(error))
                    if error.kind == ModelErrorKind::Cancelled
                        && self.cancellation.is_cancelled() =>
                {
                    return self.cancel(machine, None).await;
                }
                Some(Err(error)) => break Input::ModelFailed(error),
                None => break Input::ModelEnded,
            };
            if let Err(misfed) = machine.feed(input, &mut events) {
                break Input::ModelFailed(self.blame(&misfed));
            }
            if !events.is_empty() {
                self.tell(std::mem::take(&mut events)).await?;
            }
        };
        // The connection goes with the stream.
        drop(stream);
        self.feed(machine, end).await?;
        for each in &self.middleware {
            each.on_usage(machine.usage());
        }
        Ok(())
    }

    /// A model that breaks the rules of blocks has failed.
    fn blame(&self, misfed: &Misfed) -> ModelError {
        let kind = match misfed {
            Misfed::Model(bad) => bad.kind(),
            _ => ModelErrorKind::Malformed,
        };
        ModelError::new(self.model.name().provider.clone(), kind, misfed.to_string())
    }

    /// Makes calls, several at a time; what they say before they are done is passed on.
    async fn call_tools(&self, machine: &mut Machine, calls: Vec<Call>) -> Result<(), Gone> {
        let (tool_events, mut said) = ToolEvents::new();
        let conversation = machine.messages().clone();
        let made = calls
            .into_iter()
            .map(|call| self.call_tool(call, tool_events.clone(), conversation.clone()));
        let mut made = iter(made).buffer_unordered(self.tools_parallel.max(1));
        loop {
            let ended = tokio::select! {
                biased;
                () = self.cancellation.cancelled() => return self.cancel(machine, None).await,
                Some(event) = said.next() => {
                    self.tell(vec![told(event)]).await?;
                    continue;
                }
                ended = made.next() => ended,
            };
            // What a tool said comes before its answer. Something it left behind may say more.
            for _ in 0..TOOL_EVENTS_WAITING_MAX {
                let Some(event) = said.next_waiting() else { break };
                self.tell(vec![told(event)]).await?;
            }
            match ended {
                None => return Ok(()),
                Some(Ok(result)) => self.feed(machine, Input::Tool(result)).await?,
                Some(Err(reason)) => return self.cancel(machine, Some(reason)).await,
            }
        }
    }

    /// Makes one call; `Err` if a middleware wants the run to stop.
    async fn call_tool(
        &self,
        mut call: Call,
        events: ToolEvents,
        conversation: Conversation,
    ) -> Result<ToolResult, String> {
        // A middleware may change anything but which call this is.
        let call_id = call.id.clone();
        let mut answered = None;
        for each in &self.middleware {
            match each.before_tool(&mut call).await {
                BeforeTool::Call => {}
                BeforeTool::Answer(result) => {
                    answered = Some(result);
                    break;
                }
                BeforeTool::Stop { reason } => return Err(reason),
            }
        }
        call.id = call_id.clone();
        let mut result = match (answered, self.tools.get(&call.name)) {
            (Some(result), _) => ToolResult { call_id: call.id.clone(), ..result },
            (None, Some(tool)) => {
                let context = ToolContext::new(call.id.clone(), self.cancellation.clone())
                    .with_conversation(conversation)
                    .with_events(events);
                let outcome = tool.call(call.arguments.clone(), context, &self.sys).await;
                outcome.into_result(call.id.clone())
            }
            (None, None) => missing(&call),
        };
        for each in self.middleware.iter().rev() {
            each.after_tool(&call, &mut result).await;
        }
        result.call_id = call_id;
        Ok(result)
    }

    async fn ask(
        &self,
        machine: &mut Machine,
        calls: Vec<Call>,
        decide: &Decide,
    ) -> Result<(), Gone> {
        let asked = calls.into_iter().map(|call| {
            let call_id = call.id.clone();
            decide(call).map(|decision| Input::Decided { call_id, decision })
        });
        self.feed_all(machine, asked.collect()).await
    }

    async fn call_client(
        &self,
        machine: &mut Machine,
        calls: Vec<Call>,
        client: &ClientTool,
    ) -> Result<(), Gone> {
        let asked = calls.into_iter().map(|call| {
            let call_id = call.id.clone();
            client(call).map(|outcome| Input::Tool(outcome.into_result(call_id)))
        });
        self.feed_all(machine, asked.collect()).await
    }

    /// Feeds what comes, as it comes.
    async fn feed_all(
        &self,
        machine: &mut Machine,
        mut inputs: FuturesUnordered<impl Future<Output = Input>>,
    ) -> Result<(), Gone> {
        loop {
            let input = tokio::select! {
                biased;
                () = self.cancellation.cancelled() => return self.cancel(machine, None).await,
                input = inputs.next() => input,
            };
            match input {
                None => return Ok(()),
                Some(input) => self.feed_or_refuse(machine, input).await?,
            }
        }
    }

    /// A decision that does not fit is a no: nobody may be asked for ever.
    async fn feed_or_refuse(&self, machine: &mut Machine, input: Input) -> Result<(), Gone> {
        let mut events = Vec::new();
        let call_id = match &input {
            Input::Decided { call_id, .. } => Some(call_id.clone()),
            _ => None,
        };
        if let (Err(misfed), Some(call_id)) = (machine.feed(input, &mut events), call_id) {
            let decision = Decision::Deny { answer: Some(misfed.to_string()) };
            let _ = machine.feed(Input::Decided { call_id, decision }, &mut events);
        }
        self.tell(events).await
    }

    async fn cancel(&self, machine: &mut Machine, reason: Option<String>) -> Result<(), Gone> {
        self.feed(machine, Input::Cancel { reason }).await
    }

    /// Feeds what the step asked for, so it fits.
    async fn feed(&self, machine: &mut Machine, input: Input) -> Result<(), Gone> {
        let mut events = Vec::new();
        let _ = machine.feed(input, &mut events);
        self.tell(events).await
    }

    async fn tell(&self, events: Vec<Event>) -> Result<(), Gone> {
        self.send(self.pass(events)).await
    }

    async fn send(&self, events: Vec<Event>) -> Result<(), Gone> {
        for event in events {
            let is_end = matches!(event.kind, EventKind::RunFinished(_) | EventKind::RunError(_));
            self.events.send(event).await.map_err(|_| Gone)?;
            self.has_ended.fetch_or(is_end, Ordering::Relaxed);
        }
        Ok(())
    }

    fn pass(&self, mut events: Vec<Event>) -> Vec<Event> {
        for each in &self.middleware {
            let mut passed_on = Vec::with_capacity(events.len());
            for event in events {
                each.on_event(event, &mut passed_on);
            }
            events = passed_on;
        }
        events
    }
}

fn missing(call: &Call) -> ToolResult {
    let content = Content::Text(format!("there is no tool {:?} here", call.name.as_str()));
    ToolResult { call_id: call.id.clone(), content, end: CallEnd::Failed }
}

/// What a tool says before it is done, as an event of the run.
fn told(event: ToolEvent) -> Event {
    let custom = |name: &str, call_id: Id, value| {
        let value = json!({ "toolCallId": call_id, "value": value });
        Event::from(Custom { name: name.to_owned(), value })
    };
    match event {
        ToolEvent::Progress { call_id, progress } => {
            custom("tool-progress", call_id, json!(progress))
        }
        ToolEvent::Custom { call_id, name, value } => custom(name.as_str(), call_id, value),
    }
}
