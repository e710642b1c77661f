//! Calls: made here, or left to others.

use std::{sync::Arc, time::Duration};

use agent::rows::{CallStatus, CancelledBy, Effect, GenerationStatus, ToolCall};
use chat::{Tool, ToolContext};
use parking_lot::Mutex;
use providers::scripted::{Call, Turn};
use serde_json::{Value, json};

use crate::support::Session;

/// A tool that notes its keys and attempts.
pub(crate) fn noted(name: &str, effect: chat::Effect, notes: &Arc<Mutex<Vec<String>>>) -> Tool {
    let notes = Arc::clone(notes);
    Tool::builder(name, "Notes that it was called.")
        .effect(effect)
        .run(move |args: Value, context: ToolContext| {
            notes.lock().push(format!("{} #{}", context.idempotency_key(), context.attempt()));
            async move { Ok(format!("{args} done")) }
        })
        .unwrap()
}

/// A tool that somebody else runs.
fn elsewhere(name: &str) -> Tool {
    Tool::builder(name, "Runs elsewhere.").time_max(Duration::from_secs(30)).client().unwrap()
}

#[tokio::test(start_paused = true)]
async fn calls_are_written_down_before_they_run_and_answered_in_order() {
    let session = Session::new().await;
    let notes = Arc::default();
    let model = session.model([
        Turn::new()
            .text("Looking.")
            .calls([Call::new("look", json!({"at": "a"})), Call::new("look", json!({"at": "b"}))]),
        Turn::new().text("Both seen."),
    ]);
    let tool = noted("look", chat::Effect::Idempotent, &notes);
    let agent = session.start(session.agent(&model).tool(tool)).await;
    session.say("m1", "look").await;
    session.over(1).await;

    let calls = session.rows::<ToolCall>();
    assert_eq!(calls.len(), 2);
    for (index, call) in calls.iter().enumerate() {
        assert_eq!(call.id, format!("assistant-1:1:{index}"));
        assert_eq!((call.status, call.effect), (CallStatus::Completed, Effect::Idempotent));
        assert_eq!(call.attempt, 1);
    }
    assert_eq!(notes.lock().len(), 2);
    assert!(notes.lock()[0].ends_with("/assistant-1:1:0 #1"), "{:?}", notes.lock());
    let last = model.requests().pop().unwrap();
    let answers: Vec<_> = last.messages.iter().flat_map(|it| it.results()).collect();
    assert_eq!(answers.len(), 2);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_elsewhere_is_a_pending_row_until_somebody_answers() {
    let session = Session::new().await;
    let model = session.model([
        Turn::new().call("measure", json!({"what": "rain"})),
        Turn::new().text("It rains."),
    ]);
    let agent = session.start(session.agent(&model).tool(elsewhere("measure"))).await;
    session.say("m1", "rain?").await;
    let calls = session.until::<ToolCall>(|calls| !calls.is_empty()).await;
    assert_eq!((calls[0].status, calls[0].attempt), (CallStatus::Pending, 0));

    let answered = session.db.rows::<ToolCall>().unwrap().update(calls[0].id.as_str(), |row| {
        row.status = CallStatus::Completed;
        row.executor = Some("gauge".to_owned());
        row.result = Some(json!({"mm": 3}));
    });
    answered.unwrap().settled().await.unwrap();
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    let last = model.requests().pop().unwrap();
    let answer = last.messages.last().unwrap().results().next().unwrap().content.clone();
    assert_eq!(answer, chat::agui::Content::Text(r#"{"mm":3}"#.to_owned()));
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_answers_is_cancelled_by_timeout_and_the_model_is_told() {
    let session = Session::new().await;
    let model = session
        .model([Turn::new().call("measure", json!({})), Turn::new().text("Nobody measures.")]);
    let agent = session.start(session.agent(&model).tool(elsewhere("measure"))).await;
    session.say("m1", "rain?").await;
    session.over(1).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!(
        (call.status, call.cancelled_by),
        (CallStatus::Cancelled, Some(CancelledBy::Timeout))
    );
    assert!(call.error.unwrap().contains("\"measure\""));
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_and_unknown_tools_are_failed_rows_and_go_back_to_the_model() {
    let session = Session::new().await;
    let notes = Arc::default();
    let strict = Tool::builder("strict", "Wants a number.")
        .input_schema(
            json!({"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}),
        )
        .run(|_: Value, _: ToolContext| async { Ok("never".to_owned()) })
        .unwrap();
    let model = session.model([
        Turn::new().calls([
            Call::new("strict", json!({"n": "x"})),
            Call::new("gone", json!({})),
            Call::new("look", json!({})),
        ]),
        Turn::new().text("Sorry."),
    ]);
    let look = noted("look", chat::Effect::Pure, &notes);
    let agent = session.start(session.agent(&model).tools([strict, look])).await;
    session.say("m1", "go").await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    let calls = session.rows::<ToolCall>();
    let states: Vec<_> = calls.iter().map(|call| call.status).collect();
    assert_eq!(states, [CallStatus::Failed, CallStatus::Failed, CallStatus::Completed]);
    assert!(calls[0].error.as_ref().unwrap().contains('n'), "{:?}", calls[0].error);
    assert!(calls[1].error.as_ref().unwrap().contains("there is no tool \"gone\""));
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_what_its_tool_promises_is_a_failed_call() {
    let session = Session::new().await;
    let liar = Tool::builder("count", "Promises a number.")
        .output_schema(json!({"type": "number"}))
        .run(|args: Value, _: ToolContext| async move { Ok(args["say"].clone()) })
        .unwrap();
    let model = session.model([
        Turn::new().calls([
            Call::new("count", json!({"say": 3})),
            Call::new("count", json!({"say": "three"})),
        ]),
        Turn::new().text("Hm."),
    ]);
    let agent = session.start(session.agent(&model).tool(liar)).await;
    session.say("m1", "count").await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    let calls = session.rows::<ToolCall>();
    let ends: Vec<_> = calls.iter().map(|call| call.status).collect();
    assert_eq!(ends, [CallStatus::Completed, CallStatus::Failed]);
    let why = calls[1].error.as_deref().unwrap();
    assert!(why.starts_with(r#"the answer of "count" does not fit"#), "{why}");
    agent.stop().await.unwrap();
}
