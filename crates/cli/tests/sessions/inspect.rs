//! `headwater inspect`.

use serde_json::Value;

use crate::world::{run, write_rounds};

#[test]
fn what_happened_is_told_to_people_and_to_programs() {
    let dir = tempfile::tempdir().unwrap();
    let chat = ["chat", "demo", "--data-dir", "data", "--model", "scripted"];
    run(dir.path(), &chat, "What is the weather in Oslo?\n").ok();
    let inspect = |args: &[&str]| {
        let place = ["inspect", "demo", "--data-dir", "data"];
        run(dir.path(), &[&place, args].concat(), "").ok().stdout
    };
    let told = inspect(&[]);
    for words in
        ["1 message of people", "turn 1", "turn 2", "weather {\"city\":\"Oslo\"}", "completed"]
    {
        assert!(told.contains(words), "{words:?} is not in\n{told}");
    }
    assert!(told.contains("runner assistant #1"), "{told}");
    let told: Value = serde_json::from_str(&inspect(&["--json"])).unwrap();
    let generation = &told["generations"][0];
    assert_eq!(generation["status"], "completed");
    assert_eq!(generation["steps"][0]["attempts"][0]["status"], "completed");
    assert!(generation["steps"][1]["attempts"][0]["durationMs"].is_u64());
    assert_eq!(generation["calls"][0]["name"], "weather");
    assert_eq!(generation["calls"][0]["attempts"][0]["attempt"], 1);
    assert!(told["runners"][0]["releasedAt"].is_string(), "{told}");
}

#[test]
fn a_session_that_is_not_there_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let chat = ["chat", "demo", "--data-dir", "data", "--model", "scripted"];
    run(dir.path(), &chat, "").ok();
    let output = run(dir.path(), &["inspect", "none", "--data-dir", "data"], "");
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("session none"), "{output:?}");
}

#[test]
fn a_session_that_was_compacted_is_told_with_all_its_turns() {
    let dir = tempfile::tempdir().unwrap();
    let chat = ["chat", "demo", "--data-dir", "data", "--model", "scripted"];
    run(dir.path(), &chat, "What is the weather in Oslo?\nhello\n").ok();
    let compact = ["stream", "compact", "main/sessions/demo", "--data-dir", "data"];
    let compacted = run(dir.path(), &compact, "").ok();
    assert!(compacted.stdout.contains("begins with a snapshot"), "{compacted:?}");
    for more in [&[][..], &["--all"]] {
        let place = ["inspect", "demo", "--data-dir", "data", "--json"];
        let told = run(dir.path(), &[&place, more].concat(), "").ok().stdout;
        let told: Value = serde_json::from_str(&told).unwrap();
        let turns = |generation: usize| told["generations"][generation]["steps"].as_array();
        assert_eq!(turns(0).map(Vec::len), Some(2), "{more:?}: {told:#}");
        assert_eq!(turns(1).map(Vec::len), Some(1), "{more:?}: {told:#}");
        assert_eq!(told["generations"][0]["calls"][0]["name"], "weather", "{told:#}");
    }
}

#[test]
fn of_a_long_session_the_newest_generations_are_told_unless_all_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    write_rounds(dir.path(), "demo", 3000);
    let inspect = |more: &[&str]| {
        let place = ["inspect", "demo", "--data-dir", "data"];
        run(dir.path(), &[&place, more].concat(), "").ok().stdout
    };
    let told = inspect(&[]);
    assert!(told.contains("20 messages of people, 20 generations"), "{told}");
    assert!(told.contains("--all") && told.contains("--last N"), "{told}");
    assert_eq!(told.matches("turn 1").count(), 20, "{told}");
    assert!(told.contains("assistant-17994  ") && !told.contains("assistant-0  "), "{told}");
    let few: Value = serde_json::from_str(&inspect(&["--last", "3", "--json"])).unwrap();
    assert_eq!(few["generations"].as_array().map(Vec::len), Some(3));
    assert_eq!(few["hasEarlier"], true);
    for whole in [&["--all", "--json"][..], &["--last", "3000", "--json"]] {
        let told: Value = serde_json::from_str(&inspect(whole)).unwrap();
        assert_eq!(told["messages"], 3000, "{whole:?}");
        assert_eq!(told["generations"].as_array().map(Vec::len), Some(3000), "{whole:?}");
        assert_eq!(told["hasEarlier"], false, "{whole:?}");
    }
    // Compacted, it says the same.
    let compact = ["stream", "compact", "main/sessions/demo", "--data-dir", "data"];
    run(dir.path(), &compact, "").ok();
    let told: Value = serde_json::from_str(&inspect(&["--last", "3", "--json"])).unwrap();
    assert_eq!(told, few);
}
