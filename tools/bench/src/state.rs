//! How fast the State Protocol is folded: events as they come from a stream, to rows, on one core.

use std::{fmt::Write as _, hint::black_box, time::Instant};

use ::state::{State, Ticks};
use anyhow::Result;
use serde_json::json;
use wire::Position;

/// Events of a round.
const EVENTS: usize = 1_000_000;

/// Writes the event of this number.
type Author = fn(usize) -> String;

/// Three kinds of traffic, each by its own name.
const KINDS: [(&str, Author); 3] = [
    ("inserts of chat chunks", chunk),
    ("updates of 10,000 rows", update),
    ("rows come and go", brief),
];

/// Folds each kind of events; the table of the medians.
pub(crate) fn play(rounds: u64) -> Result<String> {
    let mut table = String::from("| events | events/s |\n| --- | ---: |\n");
    for (name, event) in KINDS {
        let events: Vec<String> = (0..EVENTS).map(event).collect();
        let mut rates: Vec<f64> = (0..rounds).map(|_| fold(&events)).collect();
        rates.sort_by(f64::total_cmp);
        let rate = rates[rates.len() / 2];
        eprintln!("{name}: {rate:.0}/s");
        writeln!(table, "| {name}, {EVENTS} of {} B | {rate:.0} |", events[EVENTS / 2].len())?;
    }
    Ok(table)
}

fn fold(events: &[String]) -> f64 {
    let began = Instant::now();
    let mut state = State::new();
    let mut ticks = Ticks::new();
    for (position, event) in (0..).map(Position::new).zip(events) {
        if let Some(tick) = ticks.push(position, event.as_bytes()) {
            black_box(state.apply(tick));
        }
    }
    black_box(ticks.up_to_date().map(|tick| state.apply(tick)));
    black_box(state.len());
    events.len() as f64 / began.elapsed().as_secs_f64()
}

fn chunk(number: usize) -> String {
    let value =
        json!({ "id": number.to_string(), "message": "m1", "index": number, "text": "word " });
    event("chunk", &number.to_string(), "insert", &value, number / 8)
}

fn update(number: usize) -> String {
    let key = (number % 10_000).to_string();
    let value = json!({ "id": key, "status": "running", "step": number, "note": "as it stands" });
    event("run", &key, "update", &value, number)
}

fn brief(number: usize) -> String {
    let key = (number / 2).to_string();
    let operation = if number.is_multiple_of(2) { "insert" } else { "delete" };
    event("presence", &key, operation, &json!({ "id": key, "seen": number }), number)
}

fn event(kind: &str, key: &str, operation: &str, value: &serde_json::Value, txid: usize) -> String {
    let headers = json!({ "operation": operation, "txid": txid.to_string() });
    json!({ "type": kind, "key": key, "value": value, "headers": headers }).to_string()
}
