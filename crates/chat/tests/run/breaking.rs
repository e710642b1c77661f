//! Helpers of a run that do what they should not.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use chat::{
    Abilities, BeforeTool, CallEnd, Chat, Middleware, Model, ModelError, ModelErrorKind, ModelName,
    ModelStream, Request, Structured, Tool, ToolContext, ToolResult, Usage, Verifier,
    agui::{Content, Event},
    caps::{CUT_NOTE_BYTES_MAX, TOOL_OUTPUT_BYTES_DEFAULT},
    chat,
    machine::{Call, Decision, Done, Failure},
};
use futures_util::{FutureExt as _, future::BoxFuture, stream};
use serde_json::{Value, json};
use sys::{Cancellation, Sys};
use tokio::sync::Notify;

use super::{Line, ask, call, names, text};

/// Takes one call for another.
#[derive(Debug)]
struct Confused;

impl Middleware for Confused {
    fn before_tool<'a>(&'a self, call: &'a mut Call) -> BoxFuture<'a, BeforeTool> {
        call.id = "another".into();
        async { BeforeTool::Call }.boxed()
    }

    fn after_tool<'a>(&'a self, _: &'a Call, result: &'a mut ToolResult) -> BoxFuture<'a, ()> {
        result.call_id = "a third".into();
        async {}.boxed()
    }
}

#[tokio::test]
async fn a_middleware_cannot_have_a_tool_run_for_ever() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let tool = Tool::builder("count", "Counts.").run(move |_: Value, context: ToolContext| {
        assert_eq!(counted.fetch_add(1, Ordering::SeqCst), 0, "it runs again");
        async move { Ok(context.call_id().to_string()) }
    });
    let chat = ask(vec![vec![call("count", "{}")], vec![text("Done.")]]);
    let run = chat.tool(tool.unwrap()).middleware(Arc::new(Confused)).stream(&Sys::real()).unwrap();
    let finished = run.finish().await;
    assert_eq!(finished.text(), "Done.");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let result = finished.messages[2].results().next().unwrap();
    assert_eq!(result.content, "call_0_0".into());
}

/// Where a middleware panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Request,
    /// An event of this name.
    Event(&'static str),
    BeforeTool,
    AfterTool,
    Usage,
    Finish,
}

#[derive(Debug)]
struct Panics(Place);

impl Middleware for Panics {
    fn on_request(&self, _: &mut Request) {
        assert_ne!(self.0, Place::Request);
    }

    fn on_event(&self, event: Event, pass_on: &mut Vec<Event>) {
        assert!(!matches!(self.0, Place::Event(name) if name == event.name()), "not this event");
        pass_on.push(event);
    }

    fn before_tool<'a>(&'a self, _: &'a mut Call) -> BoxFuture<'a, BeforeTool> {
        assert_ne!(self.0, Place::BeforeTool);
        async { BeforeTool::Call }.boxed()
    }

    fn after_tool<'a>(&'a self, _: &'a Call, _: &'a mut ToolResult) -> BoxFuture<'a, ()> {
        async { assert_ne!(self.0, Place::AfterTool) }.boxed()
    }

    fn on_usage(&self, _: &[Usage]) {
        assert_ne!(self.0, Place::Usage);
    }

    fn on_finish(&self, _: &Done) {
        assert_ne!(self.0, Place::Finish);
    }
}

/// Hears of costs and ends.
#[derive(Debug, Default)]
struct Ears(Mutex<Vec<String>>);

impl Middleware for Ears {
    fn on_usage(&self, usage: &[Usage]) {
        let tokens = usage.iter().filter_map(|usage| usage.output_tokens).sum::<u64>();
        self.0.lock().unwrap().push(format!("{tokens} tokens"));
    }

    fn on_finish(&self, done: &Done) {
        self.0.lock().unwrap().push(format!("finished: {done:?}"));
    }

    fn on_error(&self, failure: &Failure) {
        self.0.lock().unwrap().push(format!("failed: {}", failure.code()));
    }
}

/// The names of the events of a run in their right order, how it ended, and what was heard of it.
async fn heard(chat: Chat) -> (Vec<String>, Option<Done>, Vec<String>) {
    let ears = Arc::new(Ears::default());
    let mut run = chat.middleware(Arc::clone(&ears) as _).stream(&Sys::real()).unwrap();
    let (mut seen, mut verifier) = (Vec::new(), Verifier::new());
    while let Some(event) = run.next().await {
        verifier.push(&event).unwrap();
        seen.push(event);
    }
    verifier.finish().unwrap();
    let done = run.finish().await.done;
    let heard = ears.0.lock().unwrap().clone();
    (names(&seen).into_iter().map(str::to_owned).collect(), done, heard)
}

fn is_end(name: &&String) -> bool {
    ["RUN_FINISHED", "RUN_ERROR"].contains(&name.as_str())
}

fn with_tool() -> Chat {
    let chat = ask(vec![vec![text("Well."), call("count", "{}")], vec![text("Done.")]]);
    let tool = Tool::builder("count", "Counts.");
    chat.tool(tool.run(|_: Value, _: ToolContext| async { Ok("1") }).unwrap())
}

#[tokio::test]
async fn a_middleware_that_panics_anywhere_fails_its_run_with_one_end() {
    let events = ["RUN_STARTED", "TEXT_MESSAGE_END", "TOOL_CALL_RESULT", "RUN_FINISHED"];
    let events = events.map(Place::Event);
    let others = [Place::Request, Place::BeforeTool, Place::AfterTool, Place::Usage];
    for place in events.into_iter().chain(others) {
        let (seen, done, heard) = heard(with_tool().middleware(Arc::new(Panics(place)))).await;
        assert_eq!(seen.iter().filter(is_end).count(), 1, "{place:?}: {seen:?}");
        assert_eq!(seen.last().unwrap(), "RUN_ERROR", "{place:?}");
        assert!(
            matches!(done, Some(Done::Failed(Failure::Panicked { .. }))),
            "{place:?}: {done:?}"
        );
        assert_eq!(heard.last().unwrap(), "failed: panicked", "{place:?}");
    }
}

#[tokio::test]
async fn a_panic_after_the_end_changes_it_no_more() {
    let last = ask(vec![vec![text("Done.")]]);
    for place in [Place::Usage, Place::Finish] {
        let (seen, done, heard) = heard(last.clone().middleware(Arc::new(Panics(place)))).await;
        assert_eq!(seen.iter().filter(is_end).count(), 1, "{place:?}: {seen:?}");
        assert_eq!(seen.last().unwrap(), "RUN_FINISHED", "{place:?}");
        assert!(matches!(done, Some(Done::Finished { .. })), "{place:?}: {done:?}");
        assert!(heard.last().unwrap().starts_with("finished: "), "{place:?}: {heard:?}");
    }
}

/// A model that panics, in its stream or before.
#[derive(Debug)]
struct Faulty(ModelName, bool);

impl Model for Faulty {
    fn name(&self) -> &ModelName {
        &self.0
    }

    fn abilities(&self) -> Abilities {
        Abilities { structured: Structured::Prompted }
    }

    fn call(&self, _: Arc<Request>, _: Cancellation) -> ModelStream {
        assert!(self.1, "a model that cannot be called");
        stream::once(async { panic!("a stream that breaks") }).boxed()
    }
}

trait Boxed {
    fn boxed(self) -> ModelStream;
}

impl<S: stream::Stream<Item = Result<chat::ModelEvent, ModelError>> + Send + 'static> Boxed for S {
    fn boxed(self) -> ModelStream {
        Box::pin(self)
    }
}

#[tokio::test]
async fn whoever_else_panics_fails_the_run_with_one_end() {
    let name = || ModelName { provider: "faulty".into(), model: "m".into() };
    let faulty = |streams| chat(Arc::new(Faulty(name(), streams))).user("Hi");
    let pay = Tool::builder("pay", "Pays.").needs_approval();
    let pay = pay.run(|_: Value, _: ToolContext| async { Ok("paid") }).unwrap();
    let asks = || ask(vec![vec![call("pay", "{}")]]).tool(pay.clone());
    let screen = Tool::builder("screen", "Shows.").input_schema(json!({ "type": "object" }));
    let screen = ask(vec![vec![call("screen", "{}")]]).tool(screen.client().unwrap());
    for run in [
        faulty(false),
        faulty(true),
        asks().decide(|_| async { panic!("nobody decides") }),
        asks().decide(|call: Call| -> std::future::Ready<Decision> { panic!("not {call:?}") }),
        screen.client_tools(|_| async { panic!("no screen") }),
    ] {
        let (seen, done, heard) = heard(run).await;
        assert_eq!(seen.iter().filter(is_end).count(), 1, "{seen:?}");
        assert_eq!(seen.last().unwrap(), "RUN_ERROR");
        assert!(matches!(done, Some(Done::Failed(Failure::Panicked { .. }))), "{done:?}");
        assert_eq!(heard.last().unwrap(), "failed: panicked");
    }
}

/// Stops the run that asks it, and says so before the run can notice.
#[derive(Debug)]
struct Stopper(ModelName, Arc<Mutex<Option<chat::Run>>>, Arc<Notify>);

impl Model for Stopper {
    fn name(&self) -> &ModelName {
        &self.0
    }

    fn abilities(&self) -> Abilities {
        Abilities { structured: Structured::Prompted }
    }

    fn call(&self, _: Arc<Request>, cancellation: Cancellation) -> ModelStream {
        let (slot, done) = (Arc::clone(&self.1), Arc::clone(&self.2));
        let stream = async move {
            while slot.lock().unwrap().is_none() {
                tokio::task::yield_now().await;
            }
            slot.lock().unwrap().as_ref().unwrap().cancel();
            assert!(cancellation.is_cancelled());
            done.notify_one();
            Err(ModelError::new("stopper", ModelErrorKind::Cancelled, "nobody waits"))
        };
        stream::once(stream).boxed()
    }
}

#[tokio::test]
async fn a_model_that_hears_first_of_the_end_has_not_failed() {
    let (slot, done) = (Arc::new(Mutex::new(None)), Arc::new(Notify::new()));
    let name = ModelName { provider: "stopper".into(), model: "m".into() };
    let model = Stopper(name, Arc::clone(&slot), Arc::clone(&done));
    let run = chat(Arc::new(model)).user("Hi").stream(&Sys::real()).unwrap();
    *slot.lock().unwrap() = Some(run);
    done.notified().await;
    let run = slot.lock().unwrap().take().unwrap();
    assert_eq!(run.finish().await.done, Some(Done::Cancelled { reason: None }));
}

#[tokio::test]
async fn a_rule_that_panics_has_not_said_that_nobody_need_agree() {
    let pay = Tool::builder("pay", "Pays.").approve_when(|_| panic!("no rule"));
    let pay = pay.run(|_: Value, _: ToolContext| async { Ok("paid") }).unwrap();
    let run = ask(vec![vec![call("pay", "{}")]]).tool(pay).stream(&Sys::real()).unwrap();
    assert_eq!(run.finish().await.interrupts.len(), 1);
}

#[tokio::test]
async fn middleware_hears_of_costs_and_failures() {
    let usage = |tokens| Line::Usage(Usage { output_tokens: Some(tokens), ..Usage::default() });
    let error = ModelError::new("stand-in", ModelErrorKind::Truncated, "it broke off");
    let lines =
        vec![vec![call("count", "{}"), usage(3)], vec![text("Well"), usage(4), Line::Fail(error)]];
    let tool = Tool::builder("count", "Counts.");
    let run = ask(lines).tool(tool.run(|_: Value, _: ToolContext| async { Ok("1") }).unwrap());
    let (_, _, heard) = heard(run).await;
    assert_eq!(heard, ["3 tokens", "7 tokens", "failed: truncated"]);
}

/// Stops the run before any tool is called.
#[derive(Debug)]
struct Stops;

impl Middleware for Stops {
    fn before_tool<'a>(&'a self, call: &'a mut Call) -> BoxFuture<'a, BeforeTool> {
        let reason = format!("{} is not to be called", call.name);
        async { BeforeTool::Stop { reason } }.boxed()
    }
}

#[tokio::test]
async fn a_middleware_can_stop_the_run_before_a_tool_is_called() {
    let (seen, done, heard) = heard(with_tool().middleware(Arc::new(Stops))).await;
    let reason = Some("count is not to be called".to_owned());
    assert_eq!(done, Some(Done::Cancelled { reason }));
    assert_eq!(seen[seen.len() - 2..], ["TOOL_CALL_RESULT", "RUN_FINISHED"]);
    assert!(heard.last().unwrap().starts_with("finished: Cancelled"), "{heard:?}");
}

#[tokio::test]
async fn nobody_answers_with_more_than_a_tool_may() {
    let long = || "x".repeat(3 * TOOL_OUTPUT_BYTES_DEFAULT);
    let tool = |name: &str| Tool::builder(name, "Says much.");
    let fails = tool("fails").run(move |_: Value, _: ToolContext| async move {
        Err::<String, _>(chat::ToolError::new(long()))
    });
    let panics = tool("panics").run(move |_: Value, _: ToolContext| async move {
        assert!(long().is_empty(), "{}", long());
        Ok("")
    });
    let screen = tool("screen").input_schema(json!({ "type": "object" })).client().unwrap();
    let asks = tool("asks").needs_approval();
    let asks = asks.run(|_: Value, _: ToolContext| async { Ok("") }).unwrap();
    let names = ["fails", "panics", "screen", "asks"];
    let run = ask(vec![names.map(|name| call(name, "{}")).to_vec(), vec![text("Much.")]]);
    let run = run
        .tools([fails.unwrap(), panics.unwrap(), screen, asks])
        .decide(move |_| async move { Decision::Deny { answer: Some(long()) } })
        .client_tools(move |_| async move {
            chat::ToolOutcome::Done { content: Content::Text(long()) }
        });
    let finished = run.stream(&Sys::real()).unwrap().finish().await;
    let results: Vec<_> = finished.messages.iter().flat_map(|message| message.results()).collect();
    let ends: Vec<_> = results.iter().map(|result| result.end).collect();
    assert_eq!(ends, [CallEnd::Failed, CallEnd::Failed, CallEnd::Done, CallEnd::Denied]);
    for result in results {
        let Content::Text(text) = &result.content else { panic!("{result:?}") };
        assert!(text.len() > TOOL_OUTPUT_BYTES_DEFAULT, "all that may be said is");
        assert!(text.len() <= TOOL_OUTPUT_BYTES_DEFAULT + CUT_NOTE_BYTES_MAX, "{}", text.len());
        assert_eq!(text.matches("[cut: ").count(), 1, "it is cut once");
    }
    assert_eq!(finished.text(), "Much.");
}
