//! A stream up to a place, and what must be known of it before anything is written.

use std::collections::BTreeMap;

use log::Chunk;
use state::{Body, Json, Place, Places, Skip, decode};
use sys::{Sys, UnixMs};
use wire::{Offset, Position, ReadFrom};

use super::CompactError;
use crate::{
    caps::{EFFECT_AGE_MAX, READ_BYTES},
    effect,
    retry::Retry,
    stream::Stream,
};

/// Reads a stream from its start to a certain end.
pub(super) struct History<'a> {
    stream: &'a Stream,
    sys: &'a Sys,
    next: Option<Offset>,
    end: Offset,
}

impl<'a> History<'a> {
    pub(super) fn new(stream: &'a Stream, sys: &'a Sys, end: Offset) -> Self {
        Self { stream, sys, next: None, end }
    }

    /// The next messages; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Chunk>, CompactError> {
        if self.next == Some(self.end) {
            return Ok(None);
        }
        let chunk = self.read().await?;
        if chunk.next > self.end {
            return Err(CompactError::Moved);
        }
        self.next = Some(chunk.next);
        Ok(Some(chunk))
    }

    async fn read(&self) -> Result<Chunk, CompactError> {
        let from = self.next.map_or(ReadFrom::Start, ReadFrom::At);
        let (retry, mut failures) = (Retry::default(), 0);
        loop {
            match self.stream.log.read(&self.stream.address, from, READ_BYTES).await {
                Err(error) if error.is_retryable() && failures < retry.attempts_max => {
                    failures += 1;
                    self.sys.clock.sleep(retry.pause(failures, &self.sys.chance)).await;
                }
                answer => return Ok(answer?),
            }
        }
    }
}

/// The messages of a chunk, and where they lie.
pub(super) fn lying(chunk: &Chunk) -> impl Iterator<Item = (Position, &[u8])> {
    (chunk.start.position.get()..).map(Position::new).zip(chunk.messages())
}

/// What must be known of a stream before it is compacted.
#[derive(Default)]
pub(super) struct Survey {
    /// The first message that is none of the State Protocol.
    pub(super) odd: Option<(Position, Skip)>,
    /// The cursors of durable effects, by their names.
    cursors: BTreeMap<String, Json>,
    /// Where effects were claimed first: those that have no cursor yet begin there.
    claims: BTreeMap<String, Position>,
}

impl Survey {
    pub(super) async fn of(mut history: History<'_>) -> Result<Self, CompactError> {
        let (mut survey, mut places) = (Self::default(), Places::default());
        while let Some(chunk) = history.next().await? {
            for (lies, message) in lying(&chunk) {
                let event = decode(message);
                match places.place(lies, &event) {
                    Place::At(position) | Place::Row(position) => survey.note(position, event.body),
                    Place::Anew(_) | Place::Known => {}
                }
            }
        }
        Ok(survey)
    }

    fn note(&mut self, position: Position, body: Body<'_>) {
        match body {
            Body::Skipped(reason) if self.odd.is_none() => self.odd = Some((position, reason)),
            // A reset voids rows, but no effect forgets where it was.
            Body::Change(change) if change.type_name == effect::CURSOR_TYPE => match change.value {
                Some(value) => {
                    self.cursors.insert(change.key.into_owned(), Json::from(value));
                }
                None => {
                    self.cursors.remove(&*change.key);
                    self.claims.remove(&*change.key);
                }
            },
            Body::Change(change) if change.type_name == effect::CLAIM_TYPE => match change.value {
                Some(value) if effect::is_claim(&Json::from(value)) => {
                    self.claims.entry(change.key.into_owned()).or_insert(position);
                }
                Some(_) => {}
                None => drop(self.claims.remove(&*change.key)),
            },
            Body::Change(_) | Body::Control(_) | Body::Skipped(_) => {}
        }
    }

    /// Effects of the stream, as they are found there.
    pub(super) fn effects(&self) -> impl Iterator<Item = (&str, Option<&Json>)> {
        let begun = self.claims.keys().filter(|effect| !self.cursors.contains_key(*effect));
        let begun = begun.map(|effect| (effect.as_str(), None));
        begun.chain(self.cursors.iter().map(|(effect, cursor)| (effect.as_str(), Some(cursor))))
    }

    /// Forgets effects that were not seen for too long, and tells which. What is from the future,
    /// or does not tell its time, is taken to be there.
    pub(super) fn forget_gone(&mut self, now: UnixMs) -> Vec<String> {
        let is_gone = |cursor: &Json| {
            effect::seen_at(cursor).is_some_and(|seen| now.since(seen) > EFFECT_AGE_MAX)
        };
        let gone = self.cursors.iter().filter(|(_, cursor)| is_gone(cursor));
        let gone: Vec<_> = gone.map(|(effect, _)| effect.clone()).collect();
        for effect in &gone {
            self.cursors.remove(effect);
            self.claims.remove(effect);
        }
        gone
    }

    /// What effects still need: from which position on, and who.
    pub(super) fn needs(&self) -> Result<Vec<(Position, &str)>, CompactError> {
        let position = |(effect, cursor): (&'_ String, &'_ Json)| {
            let position = effect::cursor_position(cursor);
            position.ok_or_else(|| CompactError::BadCursor { effect: effect.clone() })
        };
        let begun = self.claims.iter().filter(|(effect, _)| !self.cursors.contains_key(*effect));
        // The rows that match when an effect begins stand right before its claim.
        let begun = begun
            .map(|(effect, claim)| (Position::new(claim.get().saturating_sub(1)), effect.as_str()));
        let mut needs: Vec<_> = begun.collect();
        for entry in &self.cursors {
            needs.push((position(entry)?, entry.0.as_str()));
        }
        Ok(needs)
    }
}
