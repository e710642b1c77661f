//! A timeline for people: aligned, one line for each thing that happened.

use std::{collections::HashMap, fmt::Write as _};

use sessions::SessionId;

use super::timeline::{Answered, Attempt, Called, Takeover, Timeline, duration_ms, word};
use crate::{failure::Failure, output};

/// Characters of arguments and answers that are shown.
const SHOWN_LEN_MAX: usize = 60;

pub(super) fn show(session: &SessionId, timeline: &Timeline) -> Result<(), Failure> {
    output::raw(text(session, timeline).as_bytes())
}

fn text(session: &SessionId, timeline: &Timeline) -> String {
    let mut page = String::new();
    let messages = counted(timeline.messages, "message");
    let generations = counted(timeline.generations.len(), "generation");
    line(&mut page, &format!("session {session}: {messages} of people, {generations}"));
    if timeline.has_earlier {
        line(&mut page, "  what was before is not shown: --last N shows more, --all all of it");
    }
    show_runners(&mut page, &timeline.runners);
    for generation in &timeline.generations {
        show_generation(&mut page, generation);
    }
    for stop in &timeline.stops {
        let what = stop.generation_id.as_deref().unwrap_or("whatever is under way");
        let why = stop.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        line(&mut page, &format!("stop {}  by {} of {what}{why}", stop.created_at, stop.actor_id));
    }
    for decided in &timeline.resolutions {
        let (call, attempt) = (&decided.tool_call_id, decided.attempt);
        let (what, who) = (word(&decided.decision), &decided.actor_id);
        let at = &decided.created_at;
        line(&mut page, &format!("decision {at}  {what} {call} attempt {attempt}, by {who}"));
    }
    page
}

fn show_runners(page: &mut String, runners: &[Takeover]) {
    // Who took over from whom is known from behind, in one pass.
    let mut later: HashMap<&str, u64> = HashMap::new();
    let ends = runners.iter().rev().map(|runner| {
        let next = later.insert(&runner.agent, runner.epoch);
        match (&runner.released_at, next) {
            (Some(at), _) => format!("released {at}"),
            (None, Some(next)) => format!("killed, or cut off: #{next} took over"),
            (None, None) => "runs, or was killed".to_owned(),
        }
    });
    let ends: Vec<String> = ends.collect();
    for (runner, end) in runners.iter().zip(ends.iter().rev()) {
        let (agent, epoch) = (&runner.agent, runner.epoch);
        line(page, &format!("  runner {agent} #{epoch}  {}  {end}", runner.claimed_at));
    }
}

fn show_generation(page: &mut String, generation: &Answered) {
    let row = &generation.row;
    let took = duration_ms(Some(&row.created_at), row.completed_at.as_deref());
    let by = row.cancelled_by.map(|by| format!(" by {}", word(&by))).unwrap_or_default();
    let why = row.error.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let status = format!("{}{by}", word(&row.status));
    page.push('\n');
    line(page, &format!("{}  {}  {}  {}", row.id, row.created_at, row.model, status + &why));
    line(page, &format!("  {:<44} {:>10}", "in all", shown(took)));
    let mut calls: HashMap<&str, Vec<&Called>> = HashMap::new();
    for call in &generation.calls {
        calls.entry(call.message_id.as_deref().unwrap_or_default()).or_default().push(call);
    }
    for step in &generation.steps {
        for attempt in &step.attempts {
            let name = format!("turn {}", step.turn);
            show_attempt(page, &name, attempt);
        }
        for call in calls.get(step.id.as_str()).into_iter().flatten() {
            show_call(page, call);
        }
    }
}

fn show_call(page: &mut String, call: &Called) {
    let name = format!("  {} {}", call.name, shortened(&call.args.to_string()));
    if call.attempts.is_empty() {
        let status = call.status.as_str().unwrap_or_default();
        line(page, &format!("  {name:<44} {:>10}  {status}", ""));
    }
    for attempt in &call.attempts {
        show_attempt(page, &name, attempt);
    }
    if let Some(result) = &call.result {
        line(page, &format!("      = {}", shortened(&result.to_string())));
    }
}

fn show_attempt(page: &mut String, name: &str, attempt: &Attempt) {
    let mut said = attempt.status.clone();
    if attempt.attempt > 1 || attempt.status == "abandoned" {
        let _ = write!(said, ", attempt {}", attempt.attempt);
    }
    if attempt.chunks > 0 {
        let _ = write!(said, ", {}", counted(attempt.chunks as usize, "chunk"));
    }
    if let Some(error) = &attempt.error {
        let _ = write!(said, ": {error}");
    }
    line(page, &format!("  {name:<44} {:>10}  {said}", shown(attempt.duration_ms)));
}

fn shown(duration_ms: Option<u64>) -> String {
    match duration_ms {
        None => "-".to_owned(),
        Some(ms @ 0..1000) => format!("{ms} ms"),
        Some(ms) => format!("{:.2} s", ms as f64 / 1000.0),
    }
}

fn counted(count: usize, thing: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{ending}")
}

/// The start of a text, on one line and without what a terminal would obey.
fn shortened(text: &str) -> String {
    let plain: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    match plain.char_indices().nth(SHOWN_LEN_MAX) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain,
    }
}

fn line(page: &mut String, text: &str) {
    // Names and reasons are written by others, and a terminal must not obey them.
    page.extend(text.chars().map(|it| if it.is_control() { ' ' } else { it }));
    page.push('\n');
}
