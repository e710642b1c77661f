//! `headwater dev`.

use serde_json::json;

use crate::world::{Dev, answer_in, has_ended, rows, run};

#[test]
fn a_stranger_opens_the_page_and_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path());
    let first = dev.welcome.find("http://").unwrap();
    assert!(dev.welcome[first..].starts_with(&format!("{}/s/", dev.url())), "{}", dev.welcome);
    assert!(dev.welcome.contains("scripted, as you said"), "{}", dev.welcome);
    let page = dev.ask("GET", &format!("/s/{}", dev.session), "", "");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("text/html") && page.head.contains("content-security-policy"));
    let root = dev.ask("GET", "/", "", "");
    assert_eq!(root.status, 303);
    assert!(root.head.contains("location: /s/"), "{}", root.head);

    let token = dev.token(&dev.session);
    let said = dev.say(&dev.session, &token, "m1", "What is the weather in Paris and Oslo?");
    assert_eq!(said.status, 201, "{said:?}");
    let messages = dev.until(&dev.session, |messages| has_ended(messages, 1));
    let answer = answer_in(&messages);
    assert!(answer.contains("Paris: ") && answer.contains("Oslo: "), "{answer}");
    let calls = rows(&messages, "toolCall");
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call["status"] == "completed"), "{calls:?}");
    assert_eq!(rows(&messages, "generation")[0]["status"], "completed");

    // The same again is the same; the next is answered, too.
    assert_eq!(dev.say(&dev.session, &token, "m1", "other").status, 409);
    assert_eq!(dev.say(&dev.session, &token, "m2", "What time is it?").status, 201);
    let messages = dev.until(&dev.session, |messages| has_ended(messages, 2));
    assert!(answer_in(&messages).contains("clock says: 2"), "{}", answer_in(&messages));
    // The page's token cannot write to the stream.
    let stream = format!("/v1/stream/main/sessions/{}", dev.session);
    assert_eq!(dev.ask("POST", &stream, &token, "{}").status, 403);
    dev.stop();
}

#[test]
fn a_server_that_was_killed_in_the_middle_of_an_answer_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path());
    let session = dev.session.clone();
    let token = dev.token(&session);
    assert_eq!(dev.say(&session, &token, "m1", "Why is the sky blue?").status, 201);
    let is_text = |message: &&serde_json::Value| message["value"]["type"] == "text";
    dev.until(&session, |messages| messages.iter().filter(is_text).count() > 3);
    dev.kill();

    let dev = Dev::start(dir.path());
    let messages = dev.until(&session, |messages| has_ended(messages, 1));
    let answer = answer_in(&messages);
    assert!(answer.starts_with("You said: “Why is the sky blue?”"), "{answer}");
    let said = rows(&messages, "message");
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(rows(&messages, "step")[0]["attempt"], 2);
    // The token is of this data directory, not of one life; and nothing is said twice.
    assert_eq!(dev.say(&session, &token, "m1", "Why is the sky blue?").status, 200);

    let told = run(dir.path(), &["inspect", &session, "--url", &dev.url()], "").ok().stdout;
    for words in ["abandoned, attempt 1", "completed, attempt 2", "#2 took over", "assistant #2"] {
        assert!(told.contains(words), "{words:?} is not in\n{told}");
    }
    dev.stop();
}

#[test]
fn a_long_answer_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path());
    let token = dev.token(&dev.session);
    dev.say(&dev.session, &token, "m1", "Tell me a long story");
    let is_text = |message: &serde_json::Value| message["value"]["type"] == "text";
    dev.until(&dev.session, |messages| messages.iter().any(is_text));
    let stop = format!("/v1/sessions/{}/stop", dev.session);
    let stopped = dev.ask("POST", &stop, &token, &json!({"reason": "enough"}).to_string());
    assert_eq!(stopped.status, 201, "{stopped:?}");
    let messages = dev.until(&dev.session, |messages| has_ended(messages, 1));
    let generation = &rows(&messages, "generation")[0];
    assert_eq!(
        (&generation["status"], &generation["cancelledBy"]),
        (&json!("cancelled"), &json!("user"))
    );
    dev.stop();
}

#[test]
fn a_model_that_nobody_knows_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["dev", "--model", "nobody:x"], "");
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("there is no such provider"), "{output:?}");
}
