//! What waits in the inbox is answered.

use std::time::Duration;

use agent::rows::{Chunk, GenerationStatus, Step, StepStatus};
use providers::scripted::{Pace, Turn};

use crate::support::Session;

#[tokio::test(start_paused = true)]
async fn a_message_is_answered_and_the_agent_idles() {
    let session = Session::new().await;
    let model = session.model([Turn::new().think("Hm.").text("Hello there, Ada.")]);
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "hi").await;

    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    agent.idle().await.unwrap();
    assert_eq!(session.transcript(), ["ada: hi", "assistant: Hello there, Ada."]);
    assert_eq!(session.chunk_text(), "Hello there, Ada.");
    let steps = session.rows::<Step>();
    assert_eq!((steps.len(), steps[0].status, steps[0].attempt), (1, StepStatus::Completed, 1));
    assert_eq!(steps[0].id, "assistant-1:1");
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn chunks_are_dense_and_the_last_one_is_marked() {
    let session = Session::new().await;
    let words = "one two three four five six seven eight nine ten ".repeat(20);
    let model = session.model([Turn::new().text(words.as_str())]);
    let model = model.pace(Pace::per_word(Duration::from_millis(3)));
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "count").await;
    session.over(1).await;

    let mut chunks = session.rows::<Chunk>();
    chunks.sort_by_key(|chunk| chunk.index);
    assert!(chunks.len() > 20, "{} chunks: the text is written while it grows", chunks.len());
    for (index, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk.index, index as u64);
        assert_eq!(chunk.id, format!("{}:c{index}", chunk.generation_id));
        assert_eq!(chunk.is_final, index + 1 == chunks.len());
    }
    assert_eq!(session.chunk_text(), words);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_answered_together_and_what_comes_meanwhile_next() {
    let session = Session::new().await;
    session.say("m1", "first").await;
    session.say("m2", "second").await;
    let model = session.model([Turn::new().text("both"), Turn::new().text("the third")]);
    let model = model.pace(Pace::per_word(Duration::from_millis(50)));
    let agent = session.start(session.agent(&model)).await;
    session.until::<Step>(|steps| steps.len() == 1).await;
    session.say("m3", "third").await;
    let generations = session.over(2).await;

    assert_eq!(generations[0].read_after, None);
    assert_eq!(generations[1].read_after, Some(generations[0].read_up_to));
    let asked: Vec<Vec<String>> = model
        .requests()
        .iter()
        .map(|request| request.messages.iter().map(|message| message.text_content()).collect())
        .collect();
    assert_eq!(asked[0], ["first", "second"]);
    assert_eq!(asked[1], ["first", "second", "both", "third"]);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn messages_for_others_are_left_alone() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("for me")]);
    let agent = session.start(session.agent(&model)).await;
    let mut other = session_message("x1");
    other.target_agent = Some("somebody-else".to_owned());
    session.insert(other).await;
    session.say("m1", "hi").await;
    session.over(1).await;
    let said: Vec<_> = model.requests()[0].messages.iter().map(|it| it.text_content()).collect();
    assert_eq!(said, ["hi"]);
    agent.stop().await.unwrap();
}

fn session_message(id: &str) -> agent::rows::Message {
    agent::rows::Message {
        id: id.to_owned(),
        role: agent::rows::Role::User,
        content: "not for you".to_owned(),
        parts: None,
        actor_id: "ada".to_owned(),
        target_agent: None,
        generation_id: None,
        request_id: None,
        in_reply_to: None,
        created_at: "2026-01-01T00:00:00.000Z".to_owned(),
    }
}
