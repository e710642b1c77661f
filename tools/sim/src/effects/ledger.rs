//! What a stream says must have happened, worked out from its messages alone.

use std::collections::{BTreeMap, BTreeSet};

use log::{Log, file::FileLog};
use serde::Deserialize;
use state::{Body, decode};
use wire::{Address, ReadFrom};

use super::life::NAME;
use crate::oracle::{Verdict, Violation, demand};

/// The transitions of a stream, and how often each was answered.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    expected: BTreeSet<String>,
    answers: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
struct Message {
    is_open: bool,
    edits: u64,
}

#[derive(Deserialize)]
struct Cursor {
    start: u64,
}

/// Messages of one transaction.
struct Tick<'a> {
    first: u64,
    txid: Option<String>,
    changes: Vec<(String, String, Option<&'a str>)>,
}

impl Ledger {
    /// Reads a stream from its start to its end.
    pub(super) async fn read(log: &FileLog, address: &Address) -> Verdict<Self> {
        let wrong = |error: &dyn std::fmt::Display| Violation(format!("reading: {error}"));
        let mut messages: Vec<Vec<u8>> = Vec::new();
        let mut from = ReadFrom::Start;
        loop {
            let chunk = log.read(address, from, 1 << 20).await.map_err(|error| wrong(&error))?;
            messages.extend(chunk.messages().map(<[u8]>::to_vec));
            if chunk.freshness != log::Freshness::Behind {
                return Ok(Self::of(&messages));
            }
            from = ReadFrom::At(chunk.next);
        }
    }

    fn of(messages: &[Vec<u8>]) -> Self {
        let ticks = ticks(messages);
        let mut ledger = Self::default();
        let Some(start) = ticks.iter().find_map(start_of) else { return ledger };
        let mut open: BTreeMap<String, Message> = BTreeMap::new();
        let mut has_begun = false;
        for tick in &ticks {
            if tick.first >= start && !has_begun {
                has_begun = true;
                ledger.expect("enter", open.keys(), start.saturating_sub(1));
            }
            let before = open.clone();
            for (kind, key, value) in &tick.changes {
                match (kind.as_str(), value.and_then(opened)) {
                    ("message", Some(row)) => drop(open.insert(key.clone(), row)),
                    ("message", None) => drop(open.remove(key)),
                    ("answer", _) => *ledger.answers.entry(key.clone()).or_default() += 1,
                    _ => {}
                }
            }
            if has_begun {
                let new = open.keys().filter(|key| !before.contains_key(*key));
                let gone = before.keys().filter(|key| !open.contains_key(*key));
                let differs = |(key, row): &(&String, &Message)| {
                    before.get(*key).is_some_and(|earlier| earlier != *row)
                };
                let other = open.iter().filter(differs).map(|(key, _)| key);
                ledger.expect("enter", new, tick.first);
                ledger.expect("exit", gone, tick.first);
                ledger.expect("update", other, tick.first);
            }
        }
        ledger
    }

    fn expect<'a>(&mut self, kind: &str, keys: impl Iterator<Item = &'a String>, position: u64) {
        self.expected.extend(keys.map(|key| format!("{kind} {key} {position}")));
    }

    /// Whether all is answered; an error if something was answered twice, or never happened.
    pub(super) fn is_complete(&self) -> Verdict<bool> {
        for (answer, count) in &self.answers {
            demand(*count == 1, || format!("{answer} was answered {count} times"))?;
            demand(self.expected.contains(answer), || format!("{answer} never happened"))?;
        }
        Ok(self.expected.len() == self.answers.len())
    }

    /// What is not answered.
    pub(super) fn left(&self) -> Vec<&String> {
        self.expected.iter().filter(|event| !self.answers.contains_key(*event)).collect()
    }
}

/// The row, if it is one that the effect looks at.
fn opened(value: &str) -> Option<Message> {
    serde_json::from_str::<Message>(value).ok().filter(|message| message.is_open)
}

/// Where the effect was started first, if this tick tells.
fn start_of(tick: &Tick<'_>) -> Option<u64> {
    let cursor =
        tick.changes.iter().find(|(kind, key, _)| kind == "headwater.cursor" && key == NAME);
    let (_, _, value) = cursor?;
    serde_json::from_str::<Cursor>((*value)?).ok().map(|cursor| cursor.start)
}

/// Adjacent messages with the same txid are one.
fn ticks(messages: &[Vec<u8>]) -> Vec<Tick<'_>> {
    let mut ticks: Vec<Tick<'_>> = Vec::new();
    for (position, message) in (0..).zip(messages) {
        let event = decode(message);
        let txid = event.headers.txid.as_deref().map(str::to_owned);
        let Body::Change(change) = event.body else { continue };
        let value = change.value.map(|raw| raw.get());
        let change = (change.type_name.into_owned(), change.key.into_owned(), value);
        match ticks.last_mut() {
            Some(last) if txid.is_some() && last.txid == txid => last.changes.push(change),
            _ => ticks.push(Tick { first: position, txid, changes: vec![change] }),
        }
    }
    ticks
}
