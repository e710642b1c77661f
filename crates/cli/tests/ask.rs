//! `headwater ask`, as people and scripts use it.
#![allow(clippy::disallowed_methods, reason = "processes, and what they leave behind, are real")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use serde_json::Value;
use support::Program;

const TWO_CITIES: &str = "What is the weather in Paris and Oslo?";

fn ask(args: &[&str]) -> Program {
    let mut ask = Program::in_dir(Path::new(".")).args(["ask"]).args(args);
    for key in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"] {
        ask = ask.env(key, "");
    }
    ask
}

#[test]
fn a_question_about_two_cities_is_answered_by_two_calls_at_once() {
    let output = ask(&[TWO_CITIES]).run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("Paris") && output.stdout.contains("Oslo"), "{}", output.stdout);
    assert!(output.stdout.ends_with('\n') && !output.stdout.contains('\x1b'));
    let calls: Vec<_> =
        output.stderr.lines().filter(|line| line.starts_with("→ weather")).collect();
    assert_eq!(calls.len(), 2, "{}", output.stderr);
    assert!(output.stderr.contains("← weather {\"city\":\"Paris\"} "), "{}", output.stderr);
}

#[test]
fn events_are_lines_of_json() {
    let told = ask(&["--events", TWO_CITIES]).run().ok();
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("RUN_STARTED", "RUN_FINISHED"));
    assert!(names.contains(&"REASONING_MESSAGE_CONTENT"));
    let first_result = names.iter().position(|name| *name == "TOOL_CALL_RESULT").unwrap();
    let calls = names[..first_result].iter().filter(|name| **name == "TOOL_CALL_END").count();
    assert_eq!(calls, 2, "{names:?}");
}

#[test]
fn a_question_may_come_by_a_pipe() {
    let told = ask(&[]).stdin("Hello there!").run().ok();
    assert!(!told.trim().is_empty());
}

#[test]
fn what_cannot_be_asked_is_told_with_a_way_out() {
    let told = ask(&[]).stdin(" \n").run().failed(2);
    assert!(told.contains("the question is empty"), "{told}");
    let told = ask(&["  "]).run().failed(2);
    assert!(told.contains("the question is empty"), "{told}");
    let told = ask(&["--turns", "1", TWO_CITIES]).run();
    assert!(told.code == 1 && told.stderr.contains("allow it more turns"), "{}", told.stderr);
    let told = ask(&["--model", "nobody:x", "Hi"]).run().failed(1);
    assert!(told.contains("anthropic:NAME"), "{told}");
    for (model, variable) in [
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("anthropic:claude-opus-4-5", "ANTHROPIC_API_KEY"),
        ("gemini:gemini-2.5-pro", "GEMINI_API_KEY"),
    ] {
        let told = ask(&["--model", model, "Hi"]).run().failed(1);
        let provider = model.split(':').next().unwrap();
        assert!(told.contains(provider) && told.contains(variable), "{told}");
    }
    let nobody = ask(&["--model", "ollama:none", "Hi"]).env("OLLAMA_HOST", "http://127.0.0.1:1");
    let told = nobody.run();
    assert_eq!(told.code, 1);
    assert!(told.stderr.contains("ollama"), "{}", told.stderr);
}
