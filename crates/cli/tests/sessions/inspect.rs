//! `headwater inspect`.

use serde_json::Value;

use crate::world::run;

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
