//! A stop is a row, and nothing is left behind.

use std::{future::pending, sync::Arc, time::Duration};

use agent::{
    Partial,
    rows::{
        CallStatus, CancelledBy, Chunk, ChunkType, GenerationStatus, Message, Step, StepStatus,
        ToolCall,
    },
};
use chat::{Tool, ToolContext};
use parking_lot::Mutex;
use providers::scripted::{Call, Pace, Turn};
use serde_json::{Value, json};

use crate::support::Session;

const SLOW: Pace = Pace::per_word(Duration::from_millis(100));

async fn said_something(session: &Session) {
    session.until::<Chunk>(|chunks| chunks.len() > 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_model_call_and_keeps_what_was_said() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("word ".repeat(100)), Turn::new().text("Fine.")]);
    let model = model.pace(SLOW);
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "talk").await;
    said_something(&session).await;
    session.stop(None).await;

    let over = session.over(1).await.remove(0);
    assert_eq!(over.status, GenerationStatus::Cancelled);
    assert_eq!(
        (over.cancelled_by, over.error.as_deref()),
        (Some(CancelledBy::User), Some("enough"))
    );
    assert_eq!(session.rows::<Step>()[0].status, StepStatus::Cancelled);
    let kept = session.db.rows::<Message>().unwrap().get("assistant-1:1").unwrap();
    assert!(kept.content.starts_with("word word") && kept.content.len() < 500, "{}", kept.content);
    assert_eq!(session.chunk_text(), kept.content);
    let last = session.rows::<Chunk>().into_iter().max_by_key(|chunk| chunk.index).unwrap();
    assert_eq!(
        (last.kind, last.content.as_str(), last.is_final),
        (ChunkType::End, "cancelled", true)
    );

    // The conversation goes on, and the model sees how far it had come.
    session.say("m2", "sorry").await;
    session.over(2).await;
    let asked = model.requests().pop().unwrap();
    assert_eq!(asked.messages[1].text_content(), kept.content);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_said_before_a_stop_is_deleted_if_that_is_wanted() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("word ".repeat(100))]).pace(SLOW);
    let agent = session.start(session.agent(&model).partial(Partial::Delete)).await;
    session.say("m1", "talk").await;
    said_something(&session).await;
    session.stop(None).await;
    session.over(1).await;
    assert_eq!(session.chunk_text(), "");
    assert_eq!(session.transcript(), ["ada: talk"]);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_cancels_tools_that_run() {
    let session = Session::new().await;
    let ended = Arc::new(Mutex::new(Vec::new()));
    let (noted, sys) = (Arc::clone(&ended), session.sys.clone());
    let hangs = Tool::builder("hang", "Never answers.")
        .run(move |_: Value, context: ToolContext| {
            let (noted, cancellation) = (Arc::clone(&noted), context.cancellation().clone());
            sys.spawn.task("hears of the end", async move {
                cancellation.cancelled().await;
                noted.lock().push("told");
            });
            pending::<Result<String, chat::ToolError>>()
        })
        .unwrap();
    let model = session.model([Turn::new().text("Wait.").call("hang", json!({}))]);
    let agent = session.start(session.agent(&model).tool(hangs)).await;
    session.say("m1", "go").await;
    session.until::<ToolCall>(|calls| !calls.is_empty()).await;
    session.stop(Some("assistant-1")).await;
    session.over(1).await;

    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!((call.status, call.cancelled_by), (CallStatus::Cancelled, Some(CancelledBy::User)));
    agent.idle().await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(*ended.lock(), ["told"]);
    agent.stop().await.unwrap();
}

/// A tool that takes a while, and does something about it when it is told to end.
fn careful(name: &str, effect: chat::Effect, session: &Session, notes: &Notes) -> Tool {
    let (notes, sys) = (Arc::clone(notes), session.sys.clone());
    Tool::builder(name, "Clears away.")
        .effect(effect)
        .run(move |args: Value, context: ToolContext| {
            let (notes, sys) = (Arc::clone(&notes), sys.clone());
            async move {
                context.cancellation().cancelled().await;
                let ms = args["ms"].as_u64().unwrap_or_default();
                sys.clock.sleep(Duration::from_millis(ms)).await;
                notes.lock().push(ms);
                match args["fails"].as_bool() {
                    Some(true) => Err(chat::ToolError::new("gave up half way")),
                    _ => Ok("half of it is done"),
                }
            }
        })
        .unwrap()
}

type Notes = Arc<Mutex<Vec<u64>>>;

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_stopped_may_clear_away_and_what_it_says_meanwhile_counts() {
    let session = Session::new().await;
    let notes = Notes::default();
    let model = session.model([Turn::new().calls([
        Call::new("careful", json!({"ms": 100})),
        Call::new("careful", json!({"ms": 200, "fails": true})),
        Call::new("careful", json!({"ms": 3_600_000})),
        Call::new("once", json!({"ms": 3_600_000})),
    ])]);
    let tools = [("careful", chat::Effect::Pure), ("once", chat::Effect::Once)];
    let tools = tools.map(|(name, effect)| careful(name, effect, &session, &notes));
    let agent = session.start(session.agent(&model).tools(tools)).await;
    session.say("m1", "go").await;
    session.until::<ToolCall>(|calls| calls.len() == 4).await;
    session.stop(None).await;
    let over = session.over(1).await.remove(0);
    assert_eq!(
        (over.status, over.cancelled_by),
        (GenerationStatus::Cancelled, Some(CancelledBy::User))
    );
    assert_eq!(*notes.lock(), [100, 200], "the others had their time");
    let calls = session.rows::<ToolCall>();
    let ends: Vec<_> = calls.iter().map(|call| (call.status, call.cancelled_by)).collect();
    let cancelled = (CallStatus::Cancelled, Some(CancelledBy::User));
    assert_eq!(ends, [(CallStatus::Completed, None), cancelled, cancelled, cancelled]);
    assert_eq!(calls[0].result, Some(json!("half of it is done")));
    let errors: Vec<_> = calls.iter().filter_map(|call| call.error.as_deref()).collect();
    assert_eq!(errors[..2], ["gave up half way", "This call was cancelled."]);
    assert!(errors[2].contains("whether it happened is not known"), "{errors:?}");
    assert!(session.rows::<Step>().len() == 1, "nothing more was begun");
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_comes_before_the_agent_ends_what_it_would_have_begun() {
    let session = Session::new().await;
    session.say("m1", "talk").await;
    session.stop(None).await;
    let model = session.model([Turn::new().text("never said")]);
    let agent = session.start(session.agent(&model)).await;
    assert_eq!(session.outcome().await.0, GenerationStatus::Cancelled);
    assert!(model.requests().is_empty(), "nobody was asked");
    session.say("m2", "now").await;
    assert_eq!(session.over(2).await[1].status, GenerationStatus::Completed);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_another_generation_ends_nothing() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("word ".repeat(20))]).pace(SLOW);
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "talk").await;
    said_something(&session).await;
    session.stop(Some("somebody-7")).await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    agent.stop().await.unwrap();
}
