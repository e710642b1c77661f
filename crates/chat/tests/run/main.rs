//! Runs in memory: streams of events, texts, typed values; tools, decisions, middleware, stops.
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod breaking;
mod stand_in;

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use chat::{
    BadChat, BeforeTool, CallEnd, Chat, ChatError, Middleware, ModelError, ModelErrorKind, Request,
    Role, Structured, Tool, ToolContext, ToolError, ToolOutcome, ToolResult, Verifier,
    agui::{Content, Event},
    chat,
    machine::{Call, Decision, Done, Failure},
    summarize,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sys::{Cancellation, Sys};

use self::stand_in::{Line, StandIn, call, text};

fn add() -> Tool {
    #[derive(Deserialize, JsonSchema)]
    struct Numbers {
        a: i64,
        b: i64,
    }
    let add = Tool::builder("add", "Adds two numbers.").input::<Numbers>();
    add.run(|numbers, context: ToolContext| async move {
        context.progress("adding").await;
        Ok((numbers.a + numbers.b).to_string())
    })
    .unwrap()
}

fn ask(lines: Vec<Vec<Line>>) -> Chat {
    chat(Arc::new(StandIn::new(lines))).user("How much is 2 and 3?").run_id("run")
}

async fn events(chat: Chat) -> Vec<Event> {
    let mut run = chat.stream(&Sys::real()).unwrap();
    let (mut events, mut verifier) = (Vec::new(), Verifier::new());
    while let Some(event) = run.next().await {
        verifier.push(&event).unwrap();
        events.push(event);
    }
    verifier.finish().unwrap();
    events
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(Event::name).collect()
}

#[tokio::test]
async fn a_tool_is_called_and_its_answer_told() {
    let lines = vec![vec![call("add", "{\"a\":2,\"b\":3}")], vec![text("It is 5.")]];
    let seen = events(ask(lines.clone()).tool(add())).await;
    let expected = [
        "RUN_STARTED",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "CUSTOM",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ];
    assert_eq!(names(&seen), expected);
    assert_eq!(ask(lines).tool(add()).text(&Sys::real()).await.unwrap(), "It is 5.");
}

#[tokio::test]
async fn tools_of_a_batch_run_together_within_a_bound() {
    let running = Arc::new(Mutex::new((0, 0)));
    let counted = Arc::clone(&running);
    let wait = Tool::builder("wait", "Waits.").input_schema(json!({ "type": "object" }));
    let wait = wait
        .run(move |_, _| {
            let counted = Arc::clone(&counted);
            async move {
                {
                    let mut now = counted.lock().unwrap();
                    now.0 += 1;
                    now.1 = now.1.max(now.0);
                }
                // The others get their turn before this one is done.
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                counted.lock().unwrap().0 -= 1;
                Ok("waited")
            }
        })
        .unwrap();
    let calls = (0..10).map(|_| call("wait", "{}")).collect();
    let run = ask(vec![calls]).tool(wait).tools_parallel(3).stream(&Sys::real()).unwrap();
    let finished = run.finish().await;
    let results = finished.messages.iter().flat_map(|message| message.results()).count();
    assert_eq!((results, running.lock().unwrap().1), (10, 3));
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Sum {
    total: i64,
}

#[tokio::test]
async fn a_typed_value_is_asked_for_and_mended() {
    for how in [Structured::Combined, Structured::Final, Structured::Prompted] {
        let lines = vec![vec![text("{\"total\":\"five\"}")], vec![text("{\"total\":5}")]];
        let model = Arc::new(StandIn::new(lines).structured(how));
        let sum: Sum = chat(model).user("2 and 3?").typed(&Sys::real()).await.unwrap();
        assert_eq!(sum, Sum { total: 5 });
    }
}

#[tokio::test]
async fn somebody_decides_in_the_run() {
    let lines = vec![vec![call("pay", "{}"), call("pay", "{}")], vec![text("Done.")]];
    let pay = Tool::builder("pay", "Pays.").input_schema(json!({ "type": "object" }));
    let pay = pay.needs_approval().run(|_, _| async { Ok("paid") }).unwrap();
    let decided = ask(lines).tool(pay).decide(|call: Call| async move {
        match call.id.as_str() {
            "call_0_0" => Decision::Approve { edited: None },
            _ => Decision::Deny { answer: None },
        }
    });
    let finished = decided.stream(&Sys::real()).unwrap().finish().await;
    let ends: Vec<_> =
        finished.messages.iter().flat_map(|message| message.results()).map(|r| r.end).collect();
    assert_eq!(ends, [CallEnd::Done, CallEnd::Denied]);
}

#[tokio::test]
async fn a_run_that_waits_is_saved_and_resumed() {
    let pay = Tool::builder("pay", "Pays.").input_schema(json!({ "type": "object" }));
    let pay = pay.needs_approval().run(|_, _| async { Ok("paid") }).unwrap();
    let screen = Tool::builder("screen", "Shows.").input_schema(json!({ "type": "object" }));
    let screen = screen.client().unwrap();
    // The free call waits for the decision on the other, as the whole batch does.
    let calls = vec![call("pay", "{}"), call("screen", "{}"), call("add", "{\"a\":1,\"b\":1}")];
    let chat = |lines| ask(lines).tools([pay.clone(), screen.clone(), add()]);
    let error = chat(vec![calls.clone()]).text(&Sys::real()).await.unwrap_err();
    assert_eq!(error, ChatError::Suspended);
    let finished = chat(vec![calls]).stream(&Sys::real()).unwrap().finish().await;
    let ids: Vec<_> = finished.interrupts.iter().map(|open| open.id.as_str()).collect();
    assert_eq!(ids, ["approval_call_0_0", "client_tool_call_0_1"]);
    let answers = [finished.interrupts[0].approve(), finished.interrupts[1].resolve("shown")];
    let saved = finished.saved.unwrap();
    let model = || Arc::new(StandIn::new(vec![vec![text("Paid.")]]));
    let forgetful = crate::chat(model()).resume(saved.clone(), &answers, &Sys::real());
    let why = forgetful.unwrap_err().to_string();
    assert!(why.contains("waits for the tool \"pay\""), "{why}");
    let run = crate::chat(model()).tools([pay, screen, add()]).run_id("run2");
    let more = run.clone().user("And?").resume(saved.clone(), &answers, &Sys::real());
    assert_eq!(more.unwrap_err(), BadChat::MessagesOnResume);
    let finished = run.resume(saved, &answers, &Sys::real()).unwrap().finish().await;
    assert_eq!(finished.text(), "Paid.");
    let ends: Vec<_> =
        finished.messages.iter().flat_map(|message| message.results()).map(|r| r.end).collect();
    assert_eq!(ends, [CallEnd::Done; 3]);
}

#[tokio::test]
async fn a_failing_model_ends_the_run() {
    let error = ModelError::new("stand-in", ModelErrorKind::Truncated, "it broke off");
    let lines = vec![vec![text("Well"), Line::Fail(error.clone())]];
    let seen = events(ask(lines.clone())).await;
    assert_eq!(names(&seen)[3..], ["TEXT_MESSAGE_END", "RUN_ERROR"]);
    let failed = ask(lines).text(&Sys::real()).await.unwrap_err();
    assert_eq!(failed, ChatError::Failed(Failure::Model(error)));
}

#[tokio::test]
async fn a_run_is_stopped_wherever_it_is() {
    let slow = Tool::builder("slow", "Never ends.").input_schema(json!({ "type": "object" }));
    let slow = slow.run(|_, _| pending::<Result<String, ToolError>>()).unwrap();
    for lines in [vec![vec![text("Well"), Line::Hang]], vec![vec![call("slow", "{}")]]] {
        let (canceller, outer) = Cancellation::new();
        let run = ask(lines).tool(slow.clone()).cancellation(outer);
        let mut run = run.stream(&Sys::real()).unwrap();
        while let Some(event) = run.next().await {
            if ["TEXT_MESSAGE_CONTENT", "TOOL_CALL_END"].contains(&event.name()) {
                canceller.cancel();
            }
        }
        let finished = run.finish().await;
        assert_eq!(finished.done, Some(Done::Cancelled { reason: None }));
        let calls = finished.messages.iter().flat_map(|message| message.calls()).count();
        let results = finished.messages.iter().flat_map(|message| message.results()).count();
        assert_eq!(calls, results);
    }
}

#[tokio::test]
async fn a_run_ends_when_nobody_reads_it() {
    let model = Arc::new(StandIn::new(vec![vec![text("Well"), Line::Hang]]));
    let mut run = chat(Arc::clone(&model) as _).user("Hi").stream(&Sys::real()).unwrap();
    run.next().await.unwrap();
    drop(run);
    model.hung_up().await;
}

#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl Middleware for Notes {
    fn on_request(&self, request: &mut Request) {
        request.system.push("Be brief.".to_owned());
        self.0.lock().unwrap().push(format!("request of {}", request.messages.len()));
    }

    fn on_event(&self, event: Event, pass_on: &mut Vec<Event>) {
        if event.name() != "CUSTOM" {
            pass_on.push(event);
        }
    }

    fn before_tool<'a>(&'a self, call: &'a mut Call) -> BoxFuture<'a, BeforeTool> {
        async move {
            if call.arguments["a"] == 13 {
                let content = Content::Text("unlucky".to_owned());
                let result = ToolResult { call_id: call.id.clone(), content, end: CallEnd::Failed };
                return BeforeTool::Answer(result);
            }
            call.arguments["b"] = json!(40);
            BeforeTool::Call
        }
        .boxed()
    }

    fn after_tool<'a>(&'a self, call: &'a Call, result: &'a mut ToolResult) -> BoxFuture<'a, ()> {
        async move {
            let note = format!("{} {:?}", call.arguments, result.content);
            self.0.lock().unwrap().push(note);
        }
        .boxed()
    }

    fn on_finish(&self, done: &Done) {
        self.0.lock().unwrap().push(format!("{done:?}"));
    }

    fn on_error(&self, failure: &Failure) {
        self.0.lock().unwrap().push(failure.to_string());
    }
}

#[tokio::test]
async fn middleware_sees_and_changes_everything() {
    let notes = Arc::new(Notes::default());
    let calls = vec![call("add", "{\"a\":2,\"b\":3}"), call("add", "{\"a\":13,\"b\":3}")];
    let run = ask(vec![calls, vec![text("Done.")]]).tool(add()).tools_parallel(1);
    let seen = events(run.middleware(Arc::clone(&notes) as _)).await;
    assert!(!names(&seen).contains(&"CUSTOM"));
    let notes = notes.0.lock().unwrap();
    let expected = [
        "request of 1",
        "{\"a\":2,\"b\":40} Text(\"42\")",
        "{\"a\":13,\"b\":3} Text(\"unlucky\")",
        "request of 4",
        "Finished { stop: Some(End), output: None }",
    ];
    assert_eq!(*notes, expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_takes_too_long_fails() {
    let slow = Tool::builder("slow", "Never ends.").input_schema(json!({ "type": "object" }));
    let slow = slow.time_max(Duration::from_secs(5));
    let slow = slow.run(|_, _| pending::<Result<String, ToolError>>()).unwrap();
    let run = ask(vec![vec![call("slow", "{}")], vec![text("Too bad.")]]).tool(slow);
    let finished = run.stream(&Sys::real()).unwrap().finish().await;
    let result = finished.messages.iter().flat_map(|message| message.results()).next().unwrap();
    assert_eq!(result.end, CallEnd::Failed);
    assert_eq!(finished.text(), "Too bad.");
}

#[tokio::test]
async fn client_tools_are_made_by_whoever_says_so() {
    let screen = Tool::builder("screen", "Shows.").input_schema(json!({ "type": "object" }));
    let run = ask(vec![vec![call("screen", "{}")], vec![text("Shown.")]]);
    let run = run.tool(screen.client().unwrap()).client_tools(|call: Call| async move {
        ToolOutcome::Done { content: Content::Text(format!("{} shown", call.name)) }
    });
    let finished = run.stream(&Sys::real()).unwrap().finish().await;
    assert_eq!(finished.messages[2].role, Role::Tool);
    assert_eq!(finished.text(), "Shown.");
}

#[tokio::test]
async fn a_text_is_summarized() {
    let model = Arc::new(StandIn::new(vec![vec![text("It rained.")]]));
    let asked = summarize(Arc::clone(&model) as _, "It rained for days.").focus("the weather");
    assert_eq!(asked.text(&Sys::real()).await.unwrap().text, "It rained.");
    let request = model.last_request();
    assert!(request.system[0].contains("Do not leave out: the weather."), "{:?}", request.system);
    assert!(summarize(model, " ").text(&Sys::real()).await.is_err());
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let sys = Sys::real();
    let model = || Arc::new(StandIn::new(Vec::new()));
    let empty = chat(model()).text(&sys).await.unwrap_err().to_string();
    assert_eq!(empty, "there are no messages; give at least one, such as what the user said");
    let twice = ask(Vec::new()).tools([add(), add()]).text(&sys).await.unwrap_err().to_string();
    assert!(twice.contains("two tools named \"add\""), "{twice}");
    let schema = json!({ "type": "no type" });
    let bad = ask(Vec::new()).output(chat::OutputSpec { name: "sum".into(), schema });
    let bad = bad.text(&sys).await.unwrap_err().to_string();
    assert!(bad.contains("the schema of the output \"sum\""), "{bad}");
}
