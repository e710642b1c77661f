//! Whoever takes an agent over goes on where it was.

use std::{sync::Arc, time::Duration};

use agent::rows::{
    CallStatus, Chunk, Decision, GenerationStatus, Resolution, Runner, Step, ToolCall, now,
};
use chat::{ModelErrorKind, Tool, ToolContext};
use parking_lot::Mutex;
use providers::scripted::{Order, Pace, Scripted, Turn};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{support::Session, tools::noted};

const SLOW: Pace = Pace::per_word(Duration::from_millis(100));

#[tokio::test(start_paused = true)]
async fn an_attempt_that_died_was_never_said() {
    let session = Session::new().await;
    let text = "word ".repeat(30);
    let model = session.model([Turn::new().text(text.as_str())]).pace(SLOW);
    let first = session.start(session.agent(&model)).await;
    session.say("m1", "talk").await;
    session.until::<Chunk>(|chunks| chunks.len() > 3).await;
    first.abort();

    let second = session.start(session.agent(&model)).await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(session.chunk_text(), text);
    let step = session.rows::<Step>().remove(0);
    assert_eq!((step.attempt, step.failures), (2, 1));
    let indexes: Vec<_> = session.rows::<Chunk>().iter().map(|chunk| chunk.index).collect();
    assert!(indexes.iter().all(|index| *index >= step.first_chunk), "{indexes:?}");
    assert_eq!(model.requests().len(), 2);
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_finished_turn_is_not_asked_for_again_and_a_finished_tool_not_run_again() {
    let session = Session::new().await;
    let (notes, gate) = (Arc::default(), Arc::new(Notify::new()));
    let waits = {
        let gate = Arc::clone(&gate);
        Tool::builder("wait", "Waits.")
            .effect(chat::Effect::Idempotent)
            .run(move |_: Value, context: ToolContext| {
                let (gate, attempt) = (Arc::clone(&gate), context.attempt());
                async move {
                    if attempt == 1 {
                        gate.notified().await;
                    }
                    Ok("waited".to_owned())
                }
            })
            .unwrap()
    };
    let model = session.model([
        Turn::new()
            .think("Two things.")
            .text("Both.")
            .call("note", json!({"n": 1}))
            .call("wait", json!({})),
        Turn::new().text("Done."),
    ]);
    let tools = [noted("note", chat::Effect::Once, &notes), waits];
    let first = session.start(session.agent(&model).tools(tools.clone())).await;
    session.say("m1", "go").await;
    session
        .until::<ToolCall>(|calls| calls.iter().any(|call| call.status == CallStatus::Completed))
        .await;
    first.abort();

    let second = session.start(session.agent(&model).tools(tools)).await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(notes.lock().len(), 1, "a tool that answered is not run again");
    assert_eq!(model.requests().len(), 2, "a turn that ended is not asked for again");
    let calls = session.rows::<ToolCall>();
    assert_eq!((calls[0].attempt, calls[1].attempt), (1, 2));
    let asked = model.requests().pop().unwrap();
    assert_eq!(asked.messages[1].parts.len(), 4, "thoughts, text and calls are as they were");
    second.stop().await.unwrap();
}

/// A tool that must run once, and hangs in its first attempt.
fn hangs_once(ran: &Arc<Mutex<u32>>) -> Tool {
    let ran = Arc::clone(ran);
    Tool::builder("pay", "Pays.")
        .effect(chat::Effect::Once)
        .run(move |_: Value, context: ToolContext| {
            *ran.lock() += 1;
            async move {
                if context.attempt() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok("paid".to_owned())
            }
        })
        .unwrap()
}

async fn parked(session: &Session, ran: &Arc<Mutex<u32>>) -> (agent::RunningAgent, ToolCall) {
    let model =
        session.model([Turn::new().call("pay", json!({"sum": 7})), Turn::new().text("Settled.")]);
    let agent = session.agent(&model).tool(hangs_once(ran));
    let first = session.start(agent.clone()).await;
    session.say("m1", "pay").await;
    session.until::<ToolCall>(|calls| !calls.is_empty()).await;
    session.sys.clock.sleep(Duration::from_secs(1)).await;
    first.abort();
    let second = session.start(agent).await;
    let is_parked = |calls: &[ToolCall]| calls.iter().any(|it| it.status == CallStatus::Parked);
    let call = session.until::<ToolCall>(is_parked).await.remove(0);
    assert_eq!(*ran.lock(), 1, "it is not run again");
    (second, call)
}

async fn decide(session: &Session, call: &ToolCall, decision: Decision, result: Option<Value>) {
    let resolution = Resolution {
        id: "r1".to_owned(),
        tool_call_id: call.id.clone(),
        attempt: call.attempt,
        decision,
        result,
        actor_id: "ada".to_owned(),
        created_at: now(&session.sys),
    };
    session.insert(resolution).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_must_not_run_twice_is_parked_until_a_person_says_what_happened() {
    let (session, ran) = (Session::new().await, Arc::default());
    let (agent, call) = parked(&session, &ran).await;
    decide(&session, &call, Decision::Complete, Some(json!("paid by hand"))).await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(*ran.lock(), 1);
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!((call.status, call.result), (CallStatus::Completed, Some(json!("paid by hand"))));
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_runs_again_if_a_person_says_so() {
    let (session, ran) = (Session::new().await, Arc::default());
    let (agent, call) = parked(&session, &ran).await;
    decide(&session, &call, Decision::Retry, None).await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(*ran.lock(), 2);
    assert_eq!(session.rows::<ToolCall>()[0].attempt, 2);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_fails_if_a_person_says_so() {
    let (session, ran) = (Session::new().await, Arc::default());
    let (agent, call) = parked(&session, &ran).await;
    decide(&session, &call, Decision::Fail, None).await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(session.rows::<ToolCall>()[0].status, CallStatus::Failed);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deploy_is_no_failure() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("word ".repeat(200))]).pace(SLOW);
    let mut agent = session.start(session.agent(&model)).await;
    session.say("m1", "talk").await;
    for _ in 0..8 {
        session.until::<Chunk>(|chunks| chunks.len() > 3).await;
        agent.stop().await.unwrap();
        assert!(session.until::<Runner>(|it| it[0].released_at.is_some()).await.len() == 1);
        agent = session.start(session.agent(&model)).await;
    }
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    let step = session.rows::<Step>().remove(0);
    assert_eq!((step.attempt, step.failures), (9, 0));
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_step_that_never_gets_anywhere_is_given_up() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("word ".repeat(200))]).pace(SLOW);
    let mut agent = session.start(session.agent(&model)).await;
    session.say("m1", "talk").await;
    for _ in 0..agent::caps::FAILURES_PER_STEP_MAX {
        session.until::<Step>(|steps| !steps.is_empty()).await;
        session.sys.clock.sleep(Duration::from_secs(1)).await;
        agent.abort();
        agent = session.start(session.agent(&model)).await;
    }
    let (status, error) = session.outcome().await;
    assert_eq!(status, GenerationStatus::Failed);
    assert!(error.as_ref().unwrap().contains("attempts that got nowhere"), "{error:?}");
    assert_eq!(session.chunk_text(), "");
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_model_that_breaks_off_is_asked_again_and_its_half_was_never_said() {
    let session = Session::new().await;
    let turns = [
        Turn::new().text("half an ans").disconnect(),
        Turn::new().text("half").fail(ModelErrorKind::Unavailable),
        Turn::new().text("A whole answer."),
    ];
    let script = turns.into_iter().collect();
    let model = Scripted::ordered(script, Order::ByCall, session.sys.clone()).recording();
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "hi").await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(session.chunk_text(), "A whole answer.");
    assert_eq!(session.transcript(), ["ada: hi", "assistant: A whole answer."]);
    assert_eq!(session.rows::<Step>()[0].attempt, 3);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_conversation_is_the_same_after_a_restart() {
    let session = Session::new().await;
    let notes = Arc::default();
    let model = session.model([
        Turn::new().think("Hm.").text("One.").call("note", json!({"a": [1, 2.5, "x"]})),
        Turn::new().text("Two."),
        Turn::new().text("Three."),
        Turn::new().text("Four."),
    ]);
    let agent = session.agent(&model).tool(noted("note", chat::Effect::Pure, &notes));
    let first = session.start(agent.clone()).await;
    session.say("m1", "a").await;
    session.over(1).await;
    session.say("m2", "b").await;
    session.over(2).await;
    first.stop().await.unwrap();
    let second = session.start(agent).await;
    session.say("m3", "c").await;
    session.over(3).await;

    let requests = model.requests();
    let (before, after) = (&requests[2].messages, &requests[3].messages);
    let again = after.iter().take(before.len());
    assert!(before.iter().eq(again), "what the model was told is told again exactly");
    assert_eq!(after.len(), before.len() + 2);
    second.stop().await.unwrap();
}
