//! The example of the guide, run.
#![allow(clippy::unwrap_used, reason = "tests fail where they stand")]

#[allow(dead_code, unreachable_pub, reason = "its main is for the command line")]
#[path = "../../../examples/chat_tools.rs"]
mod chat_tools;

#[tokio::test]
async fn the_example_shows_calls_at_once_a_decision_and_a_typed_answer() {
    let mut out = Vec::new();
    chat_tools::show("scripted", &mut out).await.unwrap();
    let out = String::from_utf8(out).unwrap();
    let count = |what: &str| out.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!(count("calls weather"), 2, "{out}");
    // It needs approval, so it was asked for.
    assert_eq!((count("calls book_table"), count("hears a table for 2 at ")), (1, 1), "{out}");
    assert_eq!(count("umbrella: "), 1, "{out}");
}
