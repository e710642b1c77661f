//! A stream up to a place, and what must be known of it before anything is written.

use std::collections::BTreeMap;

use log::Chunk;
use state::{Body, Draft, Json, Place, Places, Skip, decode};
use sys::{Sys, UnixMs};
use wire::{Offset, Position, ReadFrom};

use super::CompactError;
use crate::{
    caps::{EFFECT_AGE_MAX, EFFECT_BEAT, READ_BYTES},
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
    /// Durable effects, by their names.
    effects: BTreeMap<String, Rows>,
}

/// What a stream holds of a durable effect.
#[derive(Default)]
struct Rows {
    cursor: Option<Json>,
    claim: Option<Claimed>,
}

/// That an effect was claimed.
struct Claimed {
    /// Where that was done first: an effect that has no cursor begins there.
    first: Position,
    /// The last claim.
    row: Json,
}

impl Rows {
    /// The cursor, unless it is no object: no version of a cursor is anything else, so an effect
    /// passes over it, too.
    fn cursor(&self) -> Option<&Json> {
        self.cursor.as_ref().filter(|cursor| cursor.as_str().trim_start().starts_with('{'))
    }

    /// The rows that hold history, by their types.
    fn holders(&self) -> impl Iterator<Item = (&'static str, &Json)> {
        let claim = self.claim.as_ref().map(|claim| (effect::CLAIM_TYPE, &claim.row));
        self.cursor().map(|cursor| (effect::CURSOR_TYPE, cursor)).into_iter().chain(claim)
    }

    /// When its runner was seen last, as it says.
    fn last_seen(&self) -> Option<UnixMs> {
        self.holders().filter_map(|(_, row)| effect::seen_at(row)).max()
    }

    /// The same rows with this time, where they tell none that can be believed.
    fn stamps(&self, effect: &str, now: UnixMs) -> Vec<Draft> {
        let is_ahead =
            |row: &Json| effect::seen_at(row).is_some_and(|seen| seen.since(now) > EFFECT_BEAT);
        let is_untold = self.last_seen().is_none();
        let untold = self.holders().take(usize::from(is_untold));
        let ahead = self.holders().filter(|(_, row)| is_ahead(row));
        let stamped = |(name, row)| effect::stamped(name, effect, row, now);
        untold.chain(ahead).filter_map(stamped).collect()
    }
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
        survey.effects.retain(|_, rows| rows.cursor.is_some() || rows.claim.is_some());
        Ok(survey)
    }

    fn note(&mut self, position: Position, body: Body<'_>) {
        match body {
            Body::Skipped(reason) if self.odd.is_none() => self.odd = Some((position, reason)),
            // A reset voids rows, but no effect forgets where it was.
            Body::Change(change) if change.type_name == effect::CURSOR_TYPE => {
                let rows = self.effects.entry(change.key.into_owned()).or_default();
                rows.cursor = change.value.map(Json::from);
                if rows.cursor.is_none() {
                    rows.claim = None;
                }
            }
            Body::Change(change) if change.type_name == effect::CLAIM_TYPE => {
                let rows = self.effects.entry(change.key.into_owned()).or_default();
                match change.value.map(Json::from) {
                    Some(row) if effect::is_claim(&row) => {
                        let first = rows.claim.as_ref().map_or(position, |claim| claim.first);
                        rows.claim = Some(Claimed { first, row });
                    }
                    Some(_) => {}
                    None => rows.claim = None,
                }
            }
            Body::Change(_) | Body::Control(_) | Body::Skipped(_) => {}
        }
    }

    /// Effects of the stream: how far each has come, and when it was seen last.
    pub(super) fn effects(&self) -> impl Iterator<Item = (&str, Option<Position>, Option<UnixMs>)> {
        self.effects.iter().map(|(effect, rows)| {
            let position = rows.cursor.as_ref().and_then(effect::cursor_position);
            (effect.as_str(), position, rows.last_seen())
        })
    }

    /// Forgets effects that were not seen for too long, and tells which. What is from the future,
    /// or does not tell its time, is taken to be there.
    pub(super) fn forget_gone(&mut self, now: UnixMs) -> Vec<String> {
        let is_gone =
            |rows: &Rows| rows.last_seen().is_some_and(|seen| now.since(seen) > EFFECT_AGE_MAX);
        let gone = self.effects.extract_if(.., |_, rows| is_gone(rows));
        gone.map(|(effect, _)| effect).collect()
    }

    /// What makes rows tell this time that tell none which can be believed: from then on they age
    /// as others do, so that nothing holds history for ever.
    pub(super) fn stamps(&self, now: UnixMs) -> Vec<Draft> {
        self.effects.iter().flat_map(|(effect, rows)| rows.stamps(effect, now)).collect()
    }

    /// What effects still need: from which position on, and who.
    pub(super) fn needs(&self) -> Result<Vec<(Position, &str)>, CompactError> {
        let mut needs = Vec::new();
        for (effect, rows) in &self.effects {
            let position = match (rows.cursor(), &rows.claim) {
                (Some(cursor), _) => effect::cursor_position(cursor)
                    .ok_or_else(|| CompactError::BadCursor { effect: effect.clone() })?,
                // The rows that match when an effect begins stand right before its claim.
                (None, Some(claim)) => Position::new(claim.first.get().saturating_sub(1)),
                (None, None) => continue,
            };
            needs.push((position, effect.as_str()));
        }
        Ok(needs)
    }
}
