//! One runner at a time.

use std::{sync::Arc, time::Duration};

use agent::rows::{Chunk, GenerationStatus, Runner, Step};
use log::Fork;
use providers::scripted::{Pace, Turn};
use wire::StreamPath;

use crate::support::Session;

#[tokio::test(start_paused = true)]
async fn a_second_runner_takes_over_and_the_first_is_told() {
    let session = Session::new().await;
    let text = "word ".repeat(30);
    let model = session.model([Turn::new().text(text.as_str())]);
    let model = model.pace(Pace::per_word(Duration::from_millis(100)));
    let first = session.start(session.agent(&model)).await;
    session.say("m1", "talk").await;
    session.until::<Chunk>(|chunks| chunks.len() > 3).await;

    let second = session.start(session.agent(&model)).await;
    let error = first.ended().await.unwrap_err();
    assert!(error.is_taken_over(), "{error}");
    assert!(error.to_string().contains("another runner has taken this agent over"), "{error}");
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(session.chunk_text(), text);
    assert_eq!(session.rows::<Runner>()[0].epoch, 2);
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_runner_that_was_taken_over_writes_nothing_more() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("Once.")]);
    let first = session.start(session.agent(&model)).await;
    let second = session.start(session.agent(&model)).await;
    session.say("m1", "hi").await;
    assert!(first.ended().await.unwrap_err().is_taken_over());
    session.over(1).await;
    assert_eq!(session.transcript(), ["ada: hi", "assistant: Once."]);
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_that_a_fork_has_inherited_counts_as_cancelled() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("word ".repeat(50)), Turn::new().text("New.")]);
    let model = model.pace(Pace::per_word(Duration::from_millis(100)));
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "talk").await;
    session.until::<Chunk>(|chunks| chunks.len() > 3).await;
    let path: StreamPath = "main/sessions/fork".parse().unwrap();
    let _ =
        session.log.fork(&path.clone().into(), Fork::of(session.address.clone())).await.unwrap();

    let fork = Session::open(session.sys.clone(), Arc::clone(&session.log), path.into()).await;
    let other = fork.start(fork.agent(&model)).await;
    let (status, why) = fork.outcome().await;
    assert_eq!(status, GenerationStatus::Cancelled);
    assert!(why.as_ref().unwrap().contains("forked"), "{why:?}");
    assert_eq!(fork.chunk_text(), "");
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(session.rows::<Step>()[0].attempt, 1);
    other.stop().await.unwrap();
    agent.stop().await.unwrap();
}
