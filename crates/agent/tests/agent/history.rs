//! How much of a conversation a model is told, and what it costs to open a long one.

use agent::{History, rows::Generation};
use providers::scripted::Turn;

use crate::support::Session;

/// A script that answers whatever it is asked.
fn answers() -> impl Iterator<Item = Turn> {
    (0..400).map(|number| Turn::new().text(format!("Answer {number}.")))
}

fn last(generations: &[Generation]) -> &Generation {
    generations.last().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_long_conversation_is_cut_to_half_and_stays_so_until_it_is_long_again() {
    let session = Session::new().await;
    let model = session.model(answers());
    let running = session.start(session.agent(&model).history(History::last(10))).await;
    let mut told = Vec::new();
    for number in 0..14 {
        session.say(&format!("m{number}"), &format!("Question {number}?")).await;
        session.over(number + 1).await;
        told.push(model.requests().last().unwrap().messages.len());
    }
    assert_eq!(told, [1, 3, 5, 7, 9, 11, 5, 7, 9, 11, 5, 7, 9, 11]);
    let first = model.requests().last().unwrap().messages[0].text_content();
    assert_eq!(first, "Question 8?", "whole exchanges go");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_takes_over_tells_the_model_the_same() {
    let session = Session::new().await;
    let model = session.model(answers());
    let agent = || session.agent(&model).history(History::last(10));
    let mut told = Vec::new();
    for number in 0..14 {
        let running = session.start(agent()).await;
        session.say(&format!("m{number}"), &format!("Question {number}?")).await;
        session.over(number + 1).await;
        told.push(model.requests().last().unwrap().messages.len());
        running.stop().await.unwrap();
    }
    assert_eq!(told, [1, 3, 5, 7, 9, 11, 5, 7, 9, 11, 5, 7, 9, 11]);
    let generations = session.over(14).await;
    let began = last(&generations).history_from.unwrap();
    assert!(generations[7].read_up_to < began && began <= generations[8].read_up_to);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_begun_again_is_told_the_same_to_the_byte() {
    let session = Session::new().await;
    let model = session.model(answers());
    let agent = || session.agent(&model).history(History::last(10));
    let running = session.start(agent()).await;
    for number in 0..8 {
        session.say(&format!("m{number}"), &format!("Question {number}?")).await;
        session.over(number + 1).await;
    }
    running.stop().await.unwrap();
    let slow = session
        .model(answers())
        .pace(providers::scripted::Pace::per_word(std::time::Duration::from_secs(10)));
    let running = session.start(session.agent(&slow).history(History::last(10))).await;
    session.say("m8", "Question 8?").await;
    while slow.requests().is_empty() {
        session.sys.clock.sleep(std::time::Duration::from_secs(1)).await;
    }
    running.abort();
    let again = session.start(agent()).await;
    session.over(9).await;
    let (asked, again_asked) = (slow.requests(), model.requests());
    let texts = |request: &chat::Request| {
        request.messages.iter().map(|message| message.text_content()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&asked[0]), texts(again_asked.last().unwrap()));
    again.stop().await.unwrap();
}
