//! `headwater chat`.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use serde_json::Value;

use crate::world::{Dev, Running, has_ended, rows, run, run_with, write_rounds};

const LOCAL: [&str; 6] = ["chat", "demo", "--data-dir", "data", "--model", "scripted"];

#[test]
fn each_line_of_a_pipe_is_answered_and_the_next_run_remembers() {
    let dir = tempfile::tempdir().unwrap();
    let first = run(dir.path(), &LOCAL, "What is the weather in Oslo?\n\nhello\n").ok();
    let (asked, greeted) = first.stdout.split_once("Hello!").unwrap();
    assert!(asked.contains("Oslo: ") && asked.ends_with('\n'), "{asked}");
    assert!(greeted.ends_with('\n'), "{greeted}");
    // Only answers are on the standard output.
    for beside in ["> What is the weather in Oslo?\n", "> hello\n", "← weather"] {
        assert!(first.stderr.contains(beside) && !first.stdout.contains(beside), "{first:?}");
    }
    assert!(first.stderr.contains("→ weather {\"city\":\"Oslo\"}"), "{}", first.stderr);

    let second = run(dir.path(), &LOCAL, "").ok();
    assert_eq!(second.stdout, "");
    assert!(second.stderr.contains("> hello\nHello!"), "{second:?}");

    let told = run(dir.path(), &["inspect", "demo", "--data-dir", "data"], "").ok().stdout;
    assert!(told.contains("2 messages of people, 2 generations"), "{told}");
}

#[test]
fn a_server_is_reached_by_its_url() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path());
    let url = dev.url();
    let args = ["chat", &dev.session, "--url", &url];
    let said = run(dir.path(), &args, "hello\n").ok();
    assert!(said.stdout.starts_with("Hello!"), "{said:?}");
    let again = run(dir.path(), &[&args[..], &["--model", "scripted"]].concat(), "").ok();
    assert!(again.stderr.contains("> hello\nHello!"), "{again:?}");
    assert!(again.stderr.contains("the agent of the server answers, not scripted"), "{again:?}");
    // The directory is the server's.
    let refused = run(dir.path(), &LOCAL, "hello\n");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--url"), "{refused:?}");
    dev.stop();
}

#[test]
fn a_server_that_goes_away_is_waited_for_and_nothing_typed_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path());
    let (session, address) = (dev.session.clone(), dev.address.clone());
    let mut chat = Running::start(dir.path(), &["chat", &session, "--url", &dev.url()]);
    chat.until("the agent of the server answers");
    dev.kill();
    chat.until("the server is away; waiting for it");
    chat.type_in("hello\n");
    chat.until("not sent yet: ");
    let dev = Dev::start_on(dir.path(), &address);
    chat.until("the server is back");
    chat.until("> hello");
    chat.type_in("Why is the sky blue?\n");
    chat.until("> Why is the sky blue?");
    dev.until(&session, |messages| {
        let generations = rows(messages, "generation");
        let is_piece = |message: &&Value, of: &Value| {
            message["value"]["type"] == "text" && message["value"]["generationId"] == of["id"]
        };
        let pieces = |of| messages.iter().filter(|message| is_piece(message, of)).count();
        generations.get(1).is_some_and(|second| pieces(second) > 3)
    });
    dev.kill();
    let dev = Dev::start_on(dir.path(), &address);
    let said = chat.end().ok();
    assert!(said.stdout.starts_with("Hello!"), "{said:?}");
    assert_eq!(said.stdout.matches("You said: ").count(), 1, "whole, and once: {said:?}");
    let messages = dev.until(&session, |messages| has_ended(messages, 2));
    assert_eq!(rows(&messages, "message").len(), 4, "said once: {messages:?}");
    dev.stop();
}

#[test]
fn a_session_that_was_compacted_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &LOCAL, "hello\nWhat is the weather in Oslo?\n").ok();
    let compact = ["stream", "compact", "main/sessions/demo", "--data-dir", "data"];
    let compacted = run(dir.path(), &compact, "").ok();
    assert!(compacted.stdout.contains("begins with a snapshot"), "{compacted:?}");
    let said = run(dir.path(), &LOCAL, "hello\n").ok();
    assert!(said.stdout.starts_with("Hello!"), "{said:?}");
    let told = run(dir.path(), &["inspect", "demo", "--data-dir", "data"], "").ok().stdout;
    assert!(told.contains("3 messages of people, 3 generations"), "{told}");
}

#[test]
fn a_long_session_opens_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    write_rounds(dir.path(), "demo", 3000);
    let said = run(dir.path(), &LOCAL, "").ok();
    assert!(said.stderr.contains("older messages are not shown"), "{}", &said.stderr[..500]);
    assert!(said.stderr.contains("> Question 2999?\nAnswer 2999.\n"));
    let shown = said.stderr.matches("> Question ").count();
    assert!((20..1500).contains(&shown), "{shown} of 3,000 are shown");
    // A short one is shown whole, and says nothing of that.
    write_rounds(dir.path(), "short", 3);
    let short = ["chat", "short", "--data-dir", "data", "--model", "scripted"];
    let said = run(dir.path(), &short, "").ok();
    assert_eq!(said.stderr.matches("> Question ").count(), 3, "{said:?}");
    assert!(!said.stderr.contains("older messages"), "{said:?}");
}

#[test]
fn an_answer_that_failed_is_told_to_programs_by_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let model = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}", model.local_addr().unwrap());
    let refusals = thread::spawn(move || {
        let (mut socket, _) = model.accept().unwrap();
        let _ = socket.read(&mut [0; 64 * 1024]).unwrap();
        let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        socket.write_all(answer.as_bytes()).unwrap();
    });
    let args = ["chat", "demo", "--data-dir", "data", "--model", "ollama:none"];
    let failed = run_with(dir.path(), &args, &[("OLLAMA_HOST", &place)], "hello\n");
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.contains("the answer failed: "), "{failed:?}");
    refusals.join().unwrap();
    // What failed before is no failure of this visit.
    run(dir.path(), &LOCAL, "").ok();
}

#[test]
fn what_cannot_be_a_session_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["chat", "a/b", "--model", "scripted"], "");
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.stderr.contains("a session is named by"), "{output:?}");
}
