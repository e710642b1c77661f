//! The story: a little of everything, long enough to fill segments and have them regrouped.

use crate::step::{BYTES, Guard, JSON, Step};

/// Every path in it.
pub(crate) const PATHS: [&str; 6] = ["chat", "fork", "twig", "file", "old", "log"];

/// Large enough that a few of them fill a segment.
const PADDING_BYTES: usize = 900;

pub(crate) fn story() -> Vec<Step> {
    let mut steps = Vec::new();
    beginnings(&mut steps);
    middle(&mut steps);
    ends(&mut steps);
    steps
}

fn beginnings(steps: &mut Vec<Step>) {
    steps.push(create("chat", JSON));
    steps.push(Step::Create { path: "file", content_type: BYTES, first: Some(bytes(0)) });
    for number in 0..6 {
        steps.push(append("chat", json(number), producer("p", 0, number)));
        steps.push(append("file", bytes(number + 1), producer("q", 7, number)));
    }
    steps.push(create("old", JSON));
    steps.push(append("old", json(0), Guard::StreamSeq("a")));
    steps.push(append("old", json(1), Guard::StreamSeq("b")));
}

fn middle(steps: &mut Vec<Step>) {
    steps.push(Step::Fork { source: "chat", path: "fork", position: 4 });
    steps.push(append("fork", json(100), producer("p", 0, 0)));
    steps.push(Step::Fork { source: "fork", path: "twig", position: 5 });
    steps.push(Step::Trim { path: "file", position: 3 });
    for number in 6..10 {
        steps.push(append("chat", json(number), producer("p", 0, number)));
        steps.push(append("file", bytes(number + 1), Guard::None));
    }
    // A new life of the producer takes over.
    steps.push(append("chat", json(10), producer("p", 1, 0)));
    steps.push(append("chat", json(11), producer("other", 0, 0)));
    steps.push(Step::Delete { path: "old" });
    steps.push(Step::Create { path: "old", content_type: BYTES, first: None });
    steps.push(append("old", bytes(50), Guard::ExpectedOffset));
    steps.push(append("old", bytes(51), Guard::ExpectedOffset));
}

fn ends(steps: &mut Vec<Step>) {
    // Deleted, and gone only when its forks are.
    steps.push(Step::Delete { path: "fork" });
    steps.push(append("twig", json(200), Guard::StreamSeq("1")));
    steps.push(Step::Close { path: "file" });
    steps.push(create("log", JSON));
    for number in 0..8 {
        steps.push(append("log", json(number), producer("l", 0, number)));
    }
    let last = append("log", json(8), producer("l", 0, 8));
    steps.push(closing(last));
    steps.push(Step::Delete { path: "twig" });
    steps.push(Step::Trim { path: "chat", position: 8 });
    steps.push(Step::Erase { path: "old" });
    for number in 1..4 {
        steps.push(append("chat", json(20 + number), producer("p", 1, number)));
    }
}

fn create(path: &'static str, content_type: &'static str) -> Step {
    Step::Create { path, content_type, first: None }
}

fn append(path: &'static str, message: String, guard: Guard) -> Step {
    Step::Append { path, message, guard, closing: false }
}

fn closing(step: Step) -> Step {
    match step {
        Step::Append { path, message, guard, .. } => {
            Step::Append { path, message, guard, closing: true }
        }
        other => other,
    }
}

fn producer(id: &'static str, epoch: u64, seq: u64) -> Guard {
    Guard::Producer { id, epoch, seq }
}

fn json(number: u64) -> String {
    format!("{{\"number\":{number},\"padding\":\"{}\"}}", "j".repeat(PADDING_BYTES))
}

fn bytes(number: u64) -> String {
    format!("<{number}{}>", "b".repeat(PADDING_BYTES))
}
