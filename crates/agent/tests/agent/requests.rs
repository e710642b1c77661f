//! Messages that ask for an answer by name.

use std::time::Duration;

use agent::rows::{CallStatus, Chunk, GenerationStatus, Message, Step, ToolCall};
use chat::{Strategy, Tool};
use providers::scripted::{Pace, Turn};
use serde_json::json;

use crate::support::{AGENT, Session};

const SLOW: Pace = Pace::per_word(Duration::from_millis(100));

async fn ask(session: &Session, id: &str, request: &str) {
    let mut row = Message::to_agent(AGENT, "planner", id, &session.sys);
    id.clone_into(&mut row.id);
    row.request_id = Some(request.to_owned());
    session.insert(row).await;
}

/// What the agent said in each generation, and what that answers.
fn replies(session: &Session) -> Vec<(String, Option<String>)> {
    let mut said = session.rows::<Message>();
    said.retain(|row| row.actor_id == AGENT);
    let turn = |id: &str| -> (u64, u32) {
        let (generation, turn) = id.rsplit_once(':').unwrap();
        (generation.rsplit_once('-').unwrap().1.parse().unwrap(), turn.parse().unwrap())
    };
    said.sort_by_key(|row| turn(&row.id));
    said.into_iter().map(|row| (row.content, row.in_reply_to)).collect()
}

fn reply(text: &str, to: &str) -> (String, Option<String>) {
    (text.to_owned(), (!to.is_empty()).then(|| to.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn every_request_has_an_answer_of_its_own_that_names_it() {
    let session = Session::new().await;
    session.say("m1", "hello").await;
    session.say("m2", "hello again").await;
    ask(&session, "a1", "r1").await;
    ask(&session, "a2", "r2").await;
    session.say("m3", "bye").await;
    let said = ["hello both", "to r1", "to r2", "bye"];
    let model = session.model(said.map(|text| Turn::new().text(text)));
    let agent = session.start(session.agent(&model)).await;
    session.over(4).await;
    let expected =
        [reply("hello both", ""), reply("to r1", "r1"), reply("to r2", "r2"), reply("bye", "")];
    assert_eq!(replies(&session), expected);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_names_its_request_after_a_crash_too_and_only_the_last_message_is_it() {
    let session = Session::new().await;
    let notes = std::sync::Arc::default();
    let text = "word ".repeat(20);
    let model = session.model([
        Turn::new().text("I look.").call("note", json!({})),
        Turn::new().text(text.as_str()),
    ]);
    let model = model.pace(SLOW);
    let tool = crate::tools::noted("note", chat::Effect::Pure, &notes);
    let first = session.start(session.agent(&model).tool(tool.clone())).await;
    ask(&session, "a1", "r1").await;
    session.until::<Step>(|steps| steps.len() == 2).await;
    session.until::<Chunk>(|chunks| chunks.len() > 8).await;
    first.abort();
    let second = session.start(session.agent(&model).tool(tool)).await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(replies(&session), [reply("I look.", ""), reply(&text, "r1")]);
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_last_of_all_turns_is_the_answer_even_if_that_is_known_only_later() {
    for crashes in [false, true] {
        let session = Session::new().await;
        let model = session.model([Turn::new().text("I measure.").call("measure", json!({}))]);
        let tool = Tool::builder("measure", "Runs elsewhere.").client().unwrap();
        let agent = session.agent(&model).tool(tool).strategy(Strategy::TurnsMax(1));
        let mut running = session.start(agent.clone()).await;
        ask(&session, "a1", "r1").await;
        let calls = session.until::<ToolCall>(|calls| !calls.is_empty()).await;
        assert_eq!(replies(&session), [reply("I measure.", "")]);
        if crashes {
            running.abort();
            running = session.start(agent).await;
        }
        let rows = session.db.rows::<ToolCall>().unwrap();
        let answered = rows.update(calls[0].id.as_str(), |row| {
            row.status = CallStatus::Completed;
            row.result = Some(json!("3 mm"));
        });
        answered.unwrap().settled().await.unwrap();
        assert_eq!(session.outcome().await.0, GenerationStatus::Completed);
        assert_eq!(replies(&session), [reply("I measure.", "r1")], "crashes: {crashes}");
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_is_no_answer() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("word ".repeat(50))]).pace(SLOW);
    let agent = session.start(session.agent(&model)).await;
    ask(&session, "a1", "r1").await;
    session.until::<Chunk>(|chunks| chunks.len() > 3).await;
    session.stop(None).await;
    assert_eq!(session.outcome().await.0, GenerationStatus::Cancelled);
    assert!(replies(&session).iter().all(|(_, request)| request.is_none()));
    agent.stop().await.unwrap();
}
