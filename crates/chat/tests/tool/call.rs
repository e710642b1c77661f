//! What becomes of a call.

use std::time::Duration;

use chat::{
    CallEnd, Message, Progress, Role, Tool, ToolContext, ToolError, ToolEvent, ToolEvents,
    ToolOutcome, agui::Content, caps::TOOL_EVENTS_WAITING_MAX,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{context, done, failed, simulated};

/// Calls a tool that does this.
async fn outcome<F, Fut, T>(work: F) -> ToolOutcome
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
    T: chat::IntoContent,
{
    let builder = Tool::builder("work", "").time_max(Duration::from_secs(5)).output_bytes_max(10);
    let tool = builder.run(work).unwrap();
    let (_canceller, context) = context();
    tool.call(json!({}), context, &simulated()).await
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_becomes_an_outcome() {
    assert_eq!(outcome(|_, _| async { Ok("fine") }).await, done("fine"));
    assert_eq!(outcome(|_, _| async { Ok(json!({"a": 1})) }).await, done("{\"a\":1}"));
    let error = outcome(|_, _| async { Ok("x".parse::<u8>()?) }).await;
    assert_eq!(error, failed("invalid digit found in string"));
    let long = outcome(|_, _| async { Ok("0123456789abc") }).await;
    assert_eq!(long, done("0123456789\n[cut: 3 of 13 bytes are missing]"));
    let slow = outcome(|_, _| async {
        std::future::pending::<()>().await;
        Ok(())
    });
    assert_eq!(slow.await, failed("the tool \"work\" has not answered in 5 seconds"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_only_the_call() {
    let panic = outcome(|arguments, _| async move {
        assert_ne!(arguments, json!({}), "nothing was given");
        Ok(())
    });
    let ToolOutcome::Failed { why } = panic.await else { panic!("it panicked") };
    assert!(why.starts_with("the tool \"work\" panicked: "), "{why}");
    assert!(why.contains("nothing was given"), "{why}");
    let at_once = outcome::<_, std::future::Ready<Result<(), _>>, _>(|_, _| panic!("at once"));
    assert_eq!(at_once.await, failed("the tool \"work\" panicked: at once"));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_dropped_and_what_it_spawned_hears_of_it() {
    let (started, has_started) = oneshot::channel();
    let started = std::sync::Mutex::new(Some(started));
    let tool = Tool::builder("work", "").run(move |_, context: ToolContext| {
        let started = started.lock().unwrap().take();
        async move {
            started.unwrap().send(context.cancellation().clone()).unwrap();
            std::future::pending::<()>().await;
            Ok(())
        }
    });
    let (canceller, context) = context();
    let (tool, sys) = (tool.unwrap(), simulated());
    let (outcome, spawned) = tokio::join!(tool.call(json!({}), context, &sys), async {
        let spawned = has_started.await.unwrap();
        assert!(!spawned.is_cancelled());
        canceller.cancel();
        spawned
    });
    assert_eq!(outcome, ToolOutcome::Cancelled);
    assert!(spawned.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_before_it_begins_does_not_begin() {
    let tool = Tool::builder("work", "").run(|_, _| async { Ok("ran") }).unwrap();
    let (canceller, context) = context();
    canceller.cancel();
    let late = context.clone().with_grace(Duration::from_secs(1));
    assert_eq!(tool.call(json!({}), context, &simulated()).await, ToolOutcome::Cancelled);
    assert_eq!(tool.call(json!({}), late, &simulated()).await, ToolOutcome::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_goes_on_for_as_long_as_it_is_left_and_what_it_answers_counts() {
    let check = async |ms: u64, expected: ToolOutcome| {
        let sys = simulated();
        let clock = sys.clock.clone();
        let tool = Tool::builder("work", "").run(move |_, context: ToolContext| {
            let clock = clock.clone();
            async move {
                context.cancellation().cancelled().await;
                clock.sleep(Duration::from_millis(ms)).await;
                Ok("cleared away")
            }
        });
        let (canceller, context) = context();
        let context = context.with_grace(Duration::from_secs(1));
        let cancel = async {
            sys.clock.sleep(Duration::from_secs(5)).await;
            canceller.cancel();
        };
        let tool = tool.unwrap();
        let (outcome, ()) = tokio::join!(tool.call(json!({}), context, &sys), cancel);
        assert_eq!(outcome, expected, "{ms} ms");
    };
    check(0, done("cleared away")).await;
    check(900, done("cleared away")).await;
    check(1_100, ToolOutcome::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn arguments_are_checked_again_when_it_runs() {
    let schema = json!({"type": "object", "required": ["city"]});
    let tool = Tool::builder("weather", "").input_schema(schema);
    let tool = tool.run(|_, _| async { Ok(()) }).unwrap();
    let (_canceller, context) = context();
    let why = "the arguments of \"weather\" do not fit: \"city\" is required";
    assert_eq!(tool.call(json!({}), context, &simulated()).await, failed(why));
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_the_client_does_not_run_here() {
    let tool = Tool::builder("locate", "").client().unwrap();
    let (_canceller, context) = context();
    let why = "\"locate\" does not run here, but with the client";
    assert_eq!(tool.call(json!({}), context, &simulated()).await, failed(why));
}

#[tokio::test(start_paused = true)]
async fn a_tool_knows_the_call_it_serves() {
    let tool = Tool::builder("work", "").run(|_, context: ToolContext| async move {
        let said: Vec<_> = context.messages().iter().map(|m| m.text_content()).collect();
        Ok(json!([
            context.tool().as_str(),
            context.call_id().as_str(),
            context.idempotency_key().as_str(),
            context.attempt(),
            said,
        ]))
    });
    let (_canceller, context) = context();
    let messages = [Message::text("m", Role::User, "hello")];
    let context = context.with_conversation(messages.into()).with_attempt(2);
    let context = context.with_idempotency_key("stream/call-1");
    let outcome = tool.unwrap().call(json!({}), context, &simulated()).await;
    assert_eq!(outcome, done(r#"["work","call-1","stream/call-1",2,["hello"]]"#));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_says_much_waits_for_whoever_listens() {
    const MANY: usize = TOOL_EVENTS_WAITING_MAX * 3;
    let tool = Tool::builder("work", "").run(|_, context: ToolContext| async move {
        context.progress("begins").await;
        for index in 0..MANY {
            context.custom("row", index).await;
        }
        context.progress(Progress::of(1.0, 1.0)).await;
        Ok(())
    });
    let (events, mut reader) = ToolEvents::new();
    let (_canceller, context) = context();
    let (tool, sys) = (tool.unwrap(), simulated());
    let call = tool.call(json!({}), context.with_events(events), &sys);
    let (outcome, heard) = tokio::join!(call, async {
        let mut heard = Vec::new();
        while let Some(event) = reader.next().await {
            heard.push(event);
        }
        heard
    });
    assert_eq!(outcome, done("null"));
    assert_eq!(heard.len(), MANY + 2);
    let progress = ToolEvent::Progress { call_id: "call-1".into(), progress: "begins".into() };
    assert_eq!(heard.first(), Some(&progress));
    let last =
        ToolEvent::Custom { call_id: "call-1".into(), name: "row".into(), value: json!(MANY - 1) };
    assert_eq!(heard.get(MANY), Some(&last));
}

#[test]
fn outcomes_travel_and_become_answers() {
    let check = |outcome: ToolOutcome, json: Value, end: CallEnd, text: &str| {
        assert_eq!(serde_json::to_value(&outcome).unwrap(), json);
        assert_eq!(serde_json::from_value::<ToolOutcome>(json).unwrap(), outcome);
        let result = outcome.into_result("call-1".into());
        assert_eq!((result.end, result.content), (end, Content::Text(text.to_owned())));
    };
    check(done("a"), json!({"end": "done", "content": "a"}), CallEnd::Done, "a");
    check(failed("b"), json!({"end": "failed", "why": "b"}), CallEnd::Failed, "b");
    let cancelled = "the call was cancelled";
    check(ToolOutcome::Cancelled, json!({"end": "cancelled"}), CallEnd::Cancelled, cancelled);
}
