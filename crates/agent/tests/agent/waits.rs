//! What an agent says of what it is doing.

use std::time::Duration;

use agent::{
    Activity,
    caps::{CLAIM_SLACK, LEASE_MARGIN_DEFAULT, RELIEF_PATIENCE},
    rows::{CallStatus, Chunk, Decision, Message, Resolution, ToolCall, now},
};
use chat::{Tool, ToolContext};
use providers::scripted::{Pace, Turn};
use serde_json::{Value, json};

use crate::support::Session;

async fn waits(agent: &agent::RunningAgent) -> Activity {
    let mut activity = agent.activity();
    while !matches!(activity, Activity::Waiting { .. }) {
        assert!(!matches!(activity, Activity::Ended(_)), "{activity:?}");
        activity = agent.activity_after(&activity).await;
    }
    activity
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_only_waits_for_an_executor_says_so_and_until_when() {
    let session = Session::new().await;
    let here = Tool::builder("here", "Runs here.")
        .run(|_: Value, context: ToolContext| async move {
            let clock = sys::Sys::real().clock;
            clock.sleep(Duration::from_secs(5)).await;
            Ok(context.tool().to_owned())
        })
        .unwrap();
    let time_max = Duration::from_secs(30);
    let there = Tool::builder("there", "Runs there.").time_max(time_max).client().unwrap();
    let model = session.model([
        Turn::new().call("here", json!({})).call("there", json!({})),
        Turn::new().text("word ".repeat(20)),
    ]);
    let model = model.pace(Pace::per_word(Duration::from_millis(100)));
    let agent = session.start(session.agent(&model).tools([here, there])).await;
    session.say("m1", "go").await;
    let calls = session.until::<ToolCall>(|calls| calls.len() == 2).await;
    let asked = session.sys.clock.unix_ms();
    assert_eq!(agent.activity(), Activity::Busy, "a tool runs here");
    let waiting = waits(&agent).await;
    // Whoever takes it may die, and then somebody else may yet begin once the claim has lapsed.
    let patience = time_max + LEASE_MARGIN_DEFAULT + CLAIM_SLACK + RELIEF_PATIENCE;
    assert_eq!(waiting, Activity::Waiting { until: Some(asked.plus(patience)) });
    assert_eq!(session.sys.clock.unix_ms().since(asked), Duration::from_secs(5));

    let rows = session.db.rows::<ToolCall>().unwrap();
    let there = calls.iter().find(|call| call.name == "there").unwrap();
    let answered = rows.update(there.id.as_str(), |row| {
        row.status = CallStatus::Completed;
        row.result = Some(json!("there"));
    });
    answered.unwrap().settled().await.unwrap();
    assert_eq!(agent.activity_after(&waiting).await, Activity::Busy);
    agent.idle().await.unwrap();
    assert_eq!(agent.activity(), Activity::Idle);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_call_is_parked_waits_for_as_long_as_it_takes() {
    let session = Session::new().await;
    let pay = Tool::builder("pay", "Pays.")
        .effect(chat::Effect::Once)
        .run(|_: Value, context: ToolContext| async move {
            if context.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            Ok("paid".to_owned())
        })
        .unwrap();
    let model = session.model([Turn::new().call("pay", json!({})), Turn::new().text("Settled.")]);
    let agent = session.agent(&model).tool(pay);
    let first = session.start(agent.clone()).await;
    session.say("m1", "pay").await;
    session.until::<ToolCall>(|calls| !calls.is_empty()).await;
    first.abort();
    let second = session.start(agent).await;
    assert_eq!(waits(&second).await, Activity::Waiting { until: None });
    session.sys.clock.sleep(Duration::from_hours(48)).await;
    let call = session.rows::<ToolCall>().remove(0);
    let resolution = Resolution {
        id: "r1".to_owned(),
        tool_call_id: call.id,
        attempt: call.attempt,
        decision: Decision::Retry,
        result: None,
        actor_id: "ada".to_owned(),
        created_at: now(&session.sys),
    };
    session.insert(resolution).await;
    second.idle().await.unwrap();
    assert_eq!(session.transcript().last().unwrap(), "assistant: Settled.");
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_deleted_before_it_is_read_is_not_answered() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("word ".repeat(20)), Turn::new().text("third")]);
    let model = model.pace(Pace::per_word(Duration::from_millis(100)));
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "first").await;
    session.until::<Chunk>(|chunks| !chunks.is_empty()).await;
    session.say("m2", "second").await;
    session.say("m3", "third").await;
    let rows = session.db.rows::<Message>().unwrap();
    rows.delete("m2").unwrap().settled().await.unwrap();
    session.over(2).await;
    let asked: Vec<_> = model.requests()[1].messages.iter().map(|it| it.text_content()).collect();
    assert_eq!(asked.last().unwrap(), "third");
    assert!(!asked.contains(&"second".to_owned()), "{asked:?}");
    agent.stop().await.unwrap();
}
