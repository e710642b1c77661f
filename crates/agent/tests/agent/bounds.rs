//! Bad input, and too much of it.

use std::{future::pending, sync::Arc, time::Duration};

use agent::{
    Agent, AgentError,
    caps::AGENT_TURN_BYTES_MAX,
    rows::{CallStatus, CancelledBy, GenerationStatus, ToolCall},
};
use chat::{Model, Strategy, Tool, ToolContext, ToolError};
use providers::scripted::{Call, Turn};
use serde_json::{Value, json};

use crate::support::Session;

fn tool(
    name: &str,
    work: impl Fn() -> Result<String, ToolError> + Clone + Send + Sync + 'static,
) -> Tool {
    Tool::builder(name, "Misbehaves.")
        .run(move |_: Value, _: ToolContext| {
            let work = work.clone();
            async move { work() }
        })
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn tools_that_panic_hang_or_say_too_much_fail_and_the_run_goes_on() {
    let session = Session::new().await;
    let hangs = Tool::builder("hang", "Hangs.")
        .time_max(Duration::from_secs(5))
        .run(|_: Value, _: ToolContext| pending::<Result<String, ToolError>>())
        .unwrap();
    let tools = [
        tool("panic", || panic!("out of cheese")),
        // A whole gigabyte.
        tool("flood", || Ok("x".repeat(1 << 30))),
        tool("fail", || Err(ToolError::new("no luck"))),
        hangs,
    ];
    let calls = ["panic", "flood", "fail", "hang"].map(|name| Call::new(name, json!({})));
    let model = session.model([Turn::new().calls(calls), Turn::new().text("Oh well.")]);
    let agent = session.start(session.agent(&model).tools(tools)).await;
    session.say("m1", "go").await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    let calls = session.rows::<ToolCall>();
    assert!(calls[0].error.as_ref().unwrap().contains("out of cheese"), "{:?}", calls[0]);
    let said = calls[1].result.as_ref().unwrap().as_str().unwrap().len();
    assert!(said < 300 * 1024, "{said} bytes of an endless answer were kept");
    assert!(calls[2].error.as_ref().unwrap().contains("no luck"));
    assert!(calls[3].error.as_ref().unwrap().contains("5 seconds"), "{:?}", calls[3].error);
    assert_eq!(calls[3].status, CallStatus::Failed);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_fits_no_row_is_a_failed_call() {
    let session = Session::new().await;
    let huge = Tool::builder("huge", "Says far too much.")
        .output_bytes_max(1 << 30)
        .run(|_: Value, _: ToolContext| async { Ok("x".repeat(64 * 1024 * 1024)) })
        .unwrap();
    let model = session.model([Turn::new().call("huge", json!({})), Turn::new().text("Oh.")]);
    let agent = session.start(session.agent(&model).tool(huge)).await;
    session.say("m1", "go").await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    let call = session.rows::<ToolCall>().remove(0);
    assert!(call.error.unwrap().contains("67108864 bytes"));
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_stops_calling_is_stopped_by_its_turns() {
    let session = Session::new().await;
    let again = || Turn::new().call("again", json!({}));
    let model = session.model((0..10).map(|_| again()));
    let again = tool("again", || Ok("more".to_owned()));
    let agent = session.agent(&model).tool(again).strategy(Strategy::TurnsMax(4));
    let agent = session.start(agent).await;
    session.say("m1", "go").await;
    let (status, note) = session.outcome().await;
    assert_eq!(status, GenerationStatus::Completed);
    assert!(note.as_ref().unwrap().contains("4 turns"), "{note:?}");
    assert_eq!(model.requests().len(), 4);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_stops_talking_is_cut_off() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("x".repeat(AGENT_TURN_BYTES_MAX + 1))]);
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "go").await;
    let (status, why) = session.outcome().await;
    assert_eq!(status, GenerationStatus::Failed);
    assert!(why.as_ref().unwrap().contains("said more than"), "{why:?}");
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_model_that_says_nothing_is_asked_again_and_then_given_up() {
    let session = Session::new().await;
    let model = session.model([Turn::new().pause_ms(10_000_000).text("late")]);
    let agent = session.agent(&model).silence_max(Duration::from_secs(20));
    let agent = session.start(agent).await;
    session.say("m1", "go").await;
    let (status, why) = session.outcome().await;
    assert_eq!(status, GenerationStatus::Failed);
    assert!(why.as_ref().unwrap().contains("said nothing for 20 seconds"), "{why:?}");
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_generation_that_takes_too_long_is_cancelled_by_timeout() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("half").pause_ms(100_000).text("late")]);
    let agent = session.agent(&model).time_max(Duration::from_secs(30));
    let agent = session.start(agent).await;
    session.say("m1", "go").await;
    let over = session.over(1).await.remove(0);
    assert_eq!(over.cancelled_by, Some(CancelledBy::Timeout));
    assert!(over.error.as_ref().unwrap().contains("30 seconds"), "{over:?}");
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_row_that_breaks_the_contract_is_left_out_and_the_agent_goes_on() {
    let session = Session::new().await;
    let value = json!({"id": "bad", "role": "pirate"});
    let headers = json!({"operation": "insert"});
    let bad = json!({"type": "message", "key": "bad", "value": value, "headers": headers});
    let bad = bad.to_string();
    let messages = wire::Messages::one(bad).unwrap();
    let _ = session.log.append(&session.address, log::Append::messages(messages)).await.unwrap();
    let model = session.model([Turn::new().text("Fine.")]);
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "hi").await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_built_says_why() {
    let session = Session::new().await;
    let model: Arc<dyn Model> = Arc::new(session.model([]));
    let start = |agent: agent::AgentBuilder| {
        let agent = agent.session(Arc::clone(&session.log), session.address.clone());
        let sys = session.sys.clone();
        async move { agent.start(&sys).await.unwrap_err() }
    };
    let unnamed = start(Agent::builder("a b").model(Arc::clone(&model))).await;
    assert!(unnamed.to_string().contains("cannot be called \"a b\""), "{unnamed}");
    let mute = start(Agent::builder("mute")).await;
    assert!(matches!(mute, AgentError::NoModel { .. }), "{mute}");
    let asks = Tool::builder("pay", "Pays.").needs_approval();
    let asks = asks.run(|_: Value, _: ToolContext| async { Ok("paid".to_owned()) }).unwrap();
    let asks = start(Agent::builder("a").model(Arc::clone(&model)).tool(asks)).await;
    assert!(asks.to_string().contains("\"pay\" asks for approval"), "{asks}");
    let nowhere: wire::StreamPath = "main/sessions/none".parse().unwrap();
    let nowhere = Agent::builder("a").model(model).session(Arc::clone(&session.log), nowhere);
    let nowhere = nowhere.start(&session.sys).await.unwrap_err();
    assert!(nowhere.to_string().contains("no such stream"), "{nowhere}");
}
