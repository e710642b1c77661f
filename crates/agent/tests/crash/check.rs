//! What is left, with nobody at work.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use agent::rows::{CallStatus, Chunk, ChunkType, Message, Step, StepStatus, ToolCall};
use live::Row;
use log::{Freshness, Log};
use serde_json::Value;
use sys::Sys;
use wire::ReadFrom;

use crate::life::{address, log};

/// A row as a message of the stream tells it: none if it is deleted.
type Told = (String, String, Option<Value>);

/// The session as it stands.
fn history(dir: &Path) -> Vec<(String, Told)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let log = log(dir, &Sys::real()).await;
        let told = read(&log).await;
        log.close().await;
        told
    })
}

async fn read(log: &dyn Log) -> Vec<(String, Told)> {
    let (mut told, mut from) = (Vec::new(), ReadFrom::Start);
    loop {
        let chunk = log.read(&address(), from, 1 << 20).await.unwrap();
        for message in chunk.messages() {
            let message: Value = serde_json::from_slice(message).unwrap();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let txid = text(&message["headers"]["txid"]);
            let value = message.get("value").cloned();
            told.push((txid, (text(&message["type"]), text(&message["key"]), value)));
        }
        if chunk.freshness != Freshness::Behind {
            return told;
        }
        from = ReadFrom::At(chunk.next);
    }
}

/// Rows, by type and key.
#[derive(Default)]
struct Fold(BTreeMap<(String, String), Value>);

impl Fold {
    fn apply(&mut self, (kind, key, value): Told) {
        match value {
            Some(value) => self.0.insert((kind, key), value),
            None => self.0.remove(&(kind, key)),
        };
    }

    fn rows<R: Row>(&self) -> Vec<R> {
        let rows = self.0.iter().filter(|((kind, _), _)| kind == R::NAME);
        rows.map(|(_, value)| serde_json::from_value(value.clone()).unwrap()).collect()
    }

    /// What a reader shows of each message: its text, or what it has grown to.
    fn shown(&self) -> BTreeMap<String, String> {
        let mut chunks = self.rows::<Chunk>();
        chunks.sort_by_key(|chunk| chunk.index);
        let mut shown = BTreeMap::<String, String>::new();
        for chunk in chunks.into_iter().filter(|chunk| chunk.kind == ChunkType::Text) {
            shown.entry(chunk.message_id.unwrap()).or_default().push_str(&chunk.content);
        }
        for message in self.rows::<Message>() {
            shown.insert(message.id, message.content);
        }
        shown
    }
}

/// What a reader shows of each message while it grows, kept up piece by piece.
#[derive(Default)]
struct Screen {
    /// By index: the message and the piece.
    pieces: BTreeMap<u64, (String, String)>,
    whole: BTreeMap<String, String>,
}

/// What a message of the stream does to a screen.
enum Stroke {
    Piece(u64, String, String),
    Gone(u64),
    Whole(String, String),
}

impl Stroke {
    fn of((kind, key, value): &Told) -> Option<Self> {
        let index = || key.rsplit_once(":c").and_then(|(_, index)| index.parse().ok());
        match (kind.as_str(), value) {
            (Chunk::NAME, None) => Some(Self::Gone(index()?)),
            (Chunk::NAME, Some(value)) if value["type"] == "text" => {
                let text = |name: &str| value[name].as_str().unwrap().to_owned();
                Some(Self::Piece(index()?, text("messageId"), text("content")))
            }
            (Message::NAME, Some(value)) => {
                Some(Self::Whole(key.clone(), value["content"].as_str().unwrap().to_owned()))
            }
            _ => None,
        }
    }
}

impl Screen {
    /// Shows it, and tells the text of the message that has changed.
    fn show(&mut self, stroke: &Stroke) -> Option<(String, String)> {
        let message = match stroke {
            Stroke::Piece(index, message, piece) => {
                self.pieces.insert(*index, (message.clone(), piece.clone()));
                message.clone()
            }
            Stroke::Gone(index) => self.pieces.remove(index)?.0,
            Stroke::Whole(message, text) => {
                self.whole.insert(message.clone(), text.clone());
                message.clone()
            }
        };
        let grown = self.pieces.values().filter(|(of, _)| *of == message);
        let grown = || grown.map(|(_, piece)| piece.as_str()).collect();
        let text = self.whole.get(&message).cloned().unwrap_or_else(grown);
        Some((message, text))
    }
}

/// No reader ever sees text twice, or text that goes away: neither one that folds the stream
/// message by message from its begin, nor one that began to read at any other place of it.
fn never_doubled(history: &[(String, Told)], last: &BTreeMap<String, String>, what: &str) {
    let strokes: Vec<_> = history.iter().filter_map(|(_, told)| Stroke::of(told)).collect();
    for start in 0..strokes.len() {
        let mut screen = Screen::default();
        for stroke in &strokes[start..] {
            let Some((message, text)) = screen.show(stroke) else { continue };
            let end = &last[&message];
            let is_good = if start == 0 { end.starts_with(&text) } else { end.contains(&text) };
            assert!(is_good, "{what}: who began at {start} saw {text:?} of {end:?}");
        }
    }
}

/// The session for people: messages, calls and answers, without times and attempts.
fn transcript_of(fold: &Fold) -> Vec<String> {
    let messages = fold
        .rows::<Message>()
        .into_iter()
        .map(|it| format!("{} {} {} {:?}", it.id, it.actor_id, it.content, it.parts));
    let calls = fold
        .rows::<ToolCall>()
        .into_iter()
        .map(|it| format!("{} {} {} {:?} {:?}", it.id, it.name, it.args, it.status, it.result));
    messages.chain(calls).collect()
}

/// Nothing is lost, nothing ran twice that must not, nothing was shown that went away. Tells the
/// transcript, which must be the expected one.
pub(crate) fn whole(dir: &Path, expected: Option<&[String]>, what: &str) -> Vec<String> {
    let history = history(dir);
    let mut fold = Fold::default();
    let mut seen = Vec::new();
    let mut steps = BTreeMap::<String, Vec<StepStatus>>::new();
    let mut parked = BTreeSet::new();
    for (index, (txid, told)) in history.iter().enumerate() {
        if let (Step::NAME, Some(value)) = (told.0.as_str(), &told.2) {
            let step: Step = serde_json::from_value(value.clone()).unwrap();
            steps.entry(step.id).or_default().push(step.status);
        }
        if let (ToolCall::NAME, Some(value)) = (told.0.as_str(), &told.2) {
            let call: ToolCall = serde_json::from_value(value.clone()).unwrap();
            parked.extend((call.status == CallStatus::Parked).then_some(call.name));
        }
        fold.apply(told.clone());
        let is_end = history.get(index + 1).is_none_or(|(next, _)| next != txid);
        if is_end {
            seen.push(fold.shown());
        }
    }
    let transcript = transcript_of(&fold);
    assert_eq!(transcript, expected.unwrap_or(&transcript), "{what}");

    let last = seen.last().unwrap().clone();
    for shown in &seen {
        for (message, text) in shown {
            let end = &last[message];
            assert!(end.starts_with(text), "{what}: a reader saw {text:?} of {end:?}");
        }
    }
    never_doubled(&history, &last, what);
    for (step, states) in &steps {
        let done = states.iter().position(|status| *status == StepStatus::Completed);
        assert_eq!(done, Some(states.len() - 1), "{what}: {step} ended once, and last: {states:?}");
    }
    let requests = lines(dir, "requests");
    for (number, states) in (1..).zip(steps.values()) {
        let asked = requests.iter().filter(|turn| **turn == format!("{number}")).count();
        assert!(asked < states.len(), "{what}: turn {number} asked for {asked} times: {states:?}");
    }
    let counted: BTreeSet<_> = lines(dir, "counted").into_iter().collect();
    assert_eq!(counted.len(), 1, "{what}: one key however often it ran: {counted:?}");
    assert!(lines(dir, "paid").len() <= 1, "{what}: what must run once ran twice");
    assert!(parked.iter().all(|name| name == "pay"), "{what}: {parked:?} were parked");
    if lines(dir, "paid").is_empty() {
        assert!(parked.contains("pay"), "{what}: nobody paid, and nobody was asked");
    }
    transcript
}

fn lines(dir: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
