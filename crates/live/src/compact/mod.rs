//! Compaction: a stream that forgets how its rows came to be, and nothing else.
//!
//! ```text
//! before   a  b  a' c  b'  a' …                     T
//! after    ─── trimmed ────────────────────────────│ start │ rows before h │ copies h..T │ end │
//! ```
//!
//! The rows are those of the position `h`, the oldest that anybody still needs; what came after it
//! is copied. Every message says where it stood ([`state::Places`]), so a reader that is connected
//! passes over the snapshot, and one that begins there sees the old positions. A crash before the
//! trim changes nothing for anybody.

mod drops;
mod error;
mod fold;
mod history;
mod pen;

use std::{ops::Range, sync::Arc};

use log::{Append, AppendError, Head, Log};
use query::Row;
use sys::{Sys, UnixMs};
use wire::{Address, Offset, Position};

pub use self::error::CompactError;
use self::{
    drops::{Drops, Rule as DropRule},
    fold::Fold,
    history::{History, Survey},
    pen::Pen,
};
use crate::{
    effect,
    stream::{Rule, Rules, Stream},
};

/// Begins to compact a stream of State Protocol messages: [`Compaction::run`] does it.
///
/// ```
/// # use log::Log;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let sys = sys::Sys::real();
/// # let log: std::sync::Arc<dyn Log> = std::sync::Arc::new(log::MemoryLog::new(&sys));
/// # let stream: wire::Address = "chats/1".parse::<wire::StreamPath>()?.into();
/// # let content_type = Some("application/json".parse()?);
/// # let _ = log.create(&stream, log::Create { content_type, ..Default::default() }).await?;
/// # for n in 0..100 {
/// #     let headers = r#"{"operation":"upsert"}"#;
/// #     let put = format!(r#"{{"type":"n","key":"n","value":{n},"headers":{headers}}}"#);
/// #     let _ = log.append(&stream, log::Append::messages(wire::Messages::one(put)?)).await?;
/// # }
/// let compacted = live::compact(&log, stream, &sys).run().await?;
/// assert_eq!((compacted.rows, compacted.before.messages), (1, 100));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compact(log: &Arc<dyn Log>, address: impl Into<Address>, sys: &Sys) -> Compaction {
    let stream = Stream { log: log.clone(), address: address.into() };
    Compaction {
        stream,
        sys: sys.clone(),
        hold: None,
        odd: Odd::Refused,
        rules: Rules::default(),
        drops: Vec::new(),
    }
}

/// The durable effects of a stream, by their names, whether they run or not.
///
/// # Errors
/// If the stream cannot be read, or is none of State Protocol messages.
pub async fn effects(
    log: &Arc<dyn Log>,
    address: impl Into<Address>,
    sys: &Sys,
) -> Result<Vec<EffectStatus>, CompactError> {
    let stream = Stream { log: log.clone(), address: address.into() };
    let head = log.head(&stream.address).await?;
    if !head.content_type.is_json() {
        return Err(CompactError::NotJson(head.content_type));
    }
    let survey = Survey::of(History::new(&stream, sys, head.tail)).await?;
    let status = |(name, position, last_seen): (&str, Option<Position>, Option<UnixMs>)| {
        let lag = position.map(|position| head.tail.position.get().saturating_sub(position.get()));
        EffectStatus { name: name.to_owned(), position, lag, last_seen }
    };
    let mut effects: Vec<_> = survey.effects().map(status).collect();
    effects.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(effects)
}

/// How far a durable effect is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectStatus {
    /// What it is called.
    pub name: String,
    /// Everything before is done; none if it was claimed and did nothing yet.
    pub position: Option<Position>,
    /// Messages from there to the end of the stream, its own cursors among them.
    pub lag: Option<u64>,
    /// When it was claimed or wrote its cursor last, by the clock of its runner, which it does at
    /// least once a day while it runs; none if it does not tell.
    pub last_seen: Option<UnixMs>,
}

/// A compaction on its way.
#[derive(Debug)]
#[must_use = "nothing happens before it is run"]
pub struct Compaction {
    stream: Stream,
    sys: Sys,
    hold: Option<Position>,
    odd: Odd,
    rules: Rules,
    drops: Vec<DropRule>,
}

/// What becomes of messages that are none of the State Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    /// The stream is left alone.
    Refused,
    /// They are lost.
    Dropped,
}

/// What a compaction came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// Rows that stand for all that was before [`reach`](Self::reach).
    pub rows: u64,
    /// Where history begins now: no event before it can be told again.
    pub reach: Position,
    /// The durable effect that needs the history from there on, if one does. One that nobody runs
    /// any more is let go with [`StreamDb::forget_effect`](crate::StreamDb::forget_effect).
    pub held_by: Option<String>,
    /// What the stream held.
    pub before: Size,
    /// What it holds; the same if there was nothing to gain, and so nothing was done.
    pub after: Size,
    /// Where the snapshot stands: what was read up to its start need not read it.
    pub snapshot: Option<Range<Offset>>,
}

/// What a stream holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// In messages.
    pub messages: u64,
    /// In bytes.
    pub bytes: u64,
}

impl Compaction {
    /// Keeps everything from this position on as it is. The lowest one counts, and cursors of
    /// durable effects hold by themselves.
    pub fn hold(mut self, position: Position) -> Self {
        self.hold = Some(self.hold.map_or(position, |other| other.min(position)));
        self
    }

    /// Keeps rows of this type as readers see them who have this rule
    /// ([`StreamDbBuilder::admits`](crate::StreamDbBuilder::admits)): what came too late is
    /// forgotten.
    pub fn admits<R: Row>(mut self, rule: fn(&R, &R) -> bool) -> Self {
        self.rules.insert(R::NAME.into(), Rule::of(rule));
        self
    }

    /// Leaves rows of this type out that no reader needs any more, by this rule: it is given a row
    /// and all rows of other types, as they were at the position up to which the snapshot reaches.
    pub fn drops<R: Row>(
        mut self,
        is_over: impl Fn(&R, &state::State) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.drops.push(DropRule::of(is_over));
        self
    }

    /// Goes on even if there are messages that are none of the State Protocol, and loses them.
    pub fn drop_unreadable(mut self) -> Self {
        self.odd = Odd::Dropped;
        self
    }

    /// Tells what it would come to, and does nothing.
    ///
    /// # Errors
    /// If the stream cannot be compacted.
    pub async fn plan(&self) -> Result<Compacted, CompactError> {
        let head = self.head().await?;
        let mut survey = self.survey(&head).await?;
        survey.forget_gone(self.sys.clock.unix_ms());
        let pen = Pen::dry(head.tail);
        Ok(self.write(&head, &survey, pen).await?.0)
    }

    /// Does it: writes the snapshot, then trims the stream to it.
    ///
    /// # Errors
    /// If the stream cannot be compacted, or was written to meanwhile. What the stream says is the
    /// same in any case.
    pub async fn run(self) -> Result<Compacted, CompactError> {
        let mut head = self.head().await?;
        let mut survey = self.survey(&head).await?;
        if self.tend_effects(&head, &mut survey).await? {
            head = self.head().await?;
            survey = self.survey(&head).await?;
        }
        let pen = Pen::wet(&self.stream, &self.sys, head.tail);
        let (compacted, outcome) = self.write(&head, &survey, pen).await?;
        if outcome == Outcome::Written {
            let trimmed = self.stream.log.trim(&self.stream.address, head.tail).await;
            trimmed.map_err(CompactError::Trim)?;
        }
        Ok(compacted)
    }

    /// Forgets effects that were not seen for too long
    /// ([`EFFECT_AGE_MAX`](crate::caps::EFFECT_AGE_MAX)), as
    /// [`StreamDb::forget_effect`](crate::StreamDb::forget_effect) does, and writes the time into
    /// rows of others that tell none; true if there were some. Only if nothing was written
    /// meanwhile: one that shows itself at the last moment stays.
    async fn tend_effects(&self, head: &Head, survey: &mut Survey) -> Result<bool, CompactError> {
        let now = self.sys.clock.unix_ms();
        let gone = survey.forget_gone(now);
        let mut drafts: Vec<_> = gone.iter().flat_map(|effect| effect::forgotten(effect)).collect();
        drafts.extend(survey.stamps(now));
        let txid = format!("forget.{:x}.{:016x}", now.get(), self.sys.chance.u64()).parse();
        let (false, Ok(txid)) = (drafts.is_empty(), txid) else { return Ok(false) };
        let Ok(messages) = state::transaction(&txid, drafts) else { return Ok(false) };
        if !gone.is_empty() {
            tracing::info!(stream = %self.stream.address, ?gone, "effects are gone: forgotten");
        }
        let append = Append { expected: Some(head.tail), ..Append::messages(messages) };
        match self.stream.log.append(&self.stream.address, append).await {
            Ok(_) => Ok(true),
            Err(AppendError::ExpectedOffset(_)) => Err(CompactError::Moved),
            Err(error) => Err(CompactError::Append(error)),
        }
    }

    async fn survey(&self, head: &Head) -> Result<Survey, CompactError> {
        Survey::of(History::new(&self.stream, &self.sys, head.tail)).await
    }

    /// The stream, if it can be compacted at all.
    async fn head(&self) -> Result<Head, CompactError> {
        let capabilities = self.stream.log.capabilities();
        if !capabilities.trim || !capabilities.expected_offset {
            return Err(CompactError::Unsupported);
        }
        let head = self.stream.log.head(&self.stream.address).await?;
        if head.closed {
            return Err(CompactError::Closed);
        }
        if !head.content_type.is_json() {
            return Err(CompactError::NotJson(head.content_type));
        }
        Ok(head)
    }

    async fn write(
        &self,
        head: &Head,
        survey: &Survey,
        mut pen: Pen,
    ) -> Result<(Compacted, Outcome), CompactError> {
        if let (Odd::Refused, Some((position, reason))) = (self.odd, survey.odd) {
            return Err(CompactError::NotState { position, reason });
        }
        let oldest_need = survey.needs()?.into_iter().min();
        let need = oldest_need.map(|(position, _)| position);
        let limit = need.into_iter().chain(self.hold).min().unwrap_or(head.tail.position);
        let holder = oldest_need.filter(|(position, _)| *position == limit);
        let held_by = holder.map(|(_, effect)| effect.to_owned());
        let before = between(head.earliest, head.tail);
        let mut history = History::new(&self.stream, &self.sys, head.tail);
        let rules = (self.rules.clone(), Drops::new(&self.drops));
        let mut fold = Fold::new(limit.min(head.tail.position), head.tail, rules);
        while let Some(chunk) = history.next().await? {
            for (lies, message) in history::lying(&chunk) {
                fold.take(lies, message);
                fold.write(&mut pen).await?;
            }
            if fold.is_in_vain() {
                break;
            }
        }
        fold.end();
        fold.write(&mut pen).await?;
        let (rows, reach) = (fold.rows(), fold.reach());
        let vain = Compacted { rows, reach, held_by, before, after: before, snapshot: None };
        if fold.is_in_vain() {
            return Ok((vain, Outcome::InVain));
        }
        let after = pen.finish().await?;
        let end = head.tail.after(after.messages, after.bytes);
        Ok((Compacted { after, snapshot: Some(head.tail..end), ..vain }, Outcome::Written))
    }
}

/// Whether there was anything to gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Written,
    InVain,
}

fn between(start: Offset, end: Offset) -> Size {
    Size {
        messages: end.position.get() - start.position.get(),
        bytes: end.byte.get() - start.byte.get(),
    }
}
