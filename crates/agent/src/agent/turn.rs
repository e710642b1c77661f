//! One call of the model: what it streams is written down while it streams.

use std::{sync::Arc, time::Duration};

use chat::{
    ModelError, ModelErrorKind, ModelEvent, Request,
    machine::{Input, Misfed, Step},
};
use futures_util::{StreamExt as _, stream::FuturesOrdered};
use sys::{Cancellation, UnixMs};

use super::{
    recovery::Parting,
    work::{Cancelled, Halt, Work},
};
use crate::{
    caps::{
        AGENT_TURN_BYTES_MAX, FAILURES_PER_STEP_MAX, FLIGHTS_MAX, MODEL_PAUSE_FIRST,
        MODEL_PAUSE_MAX, RETRY_AFTER_MAX, TEXT_WAITING_BYTES_MAX,
    },
    journal::{Flight, JournalError, Writes},
    rows::CancelledBy,
};

/// How a model call ended.
enum Heard {
    Whole,
    Failed(ModelError),
    Cancelled(Cancelled),
}

/// What has been said and is not written yet.
#[derive(Default)]
struct Pending {
    /// Since when; as the time since the process began.
    since: Option<Duration>,
    bytes: usize,
    /// Bytes of the whole turn.
    said: usize,
}

type Flights = FuturesOrdered<Flight>;

impl Work<'_> {
    /// Asks the model, writes down what it says, and tells what comes next.
    pub(super) async fn call_model(&mut self, request: Arc<Request>) -> Result<Step, Halt> {
        let mut flights = Flights::new();
        let heard = match self.listen(request, &mut flights).await {
            Ok(heard) => heard,
            Err(Halt::Stopped) => {
                // What is under way lands first: whatever is written next has a later number.
                land(flights).await?;
                return Err(Halt::Stopped);
            }
            Err(halt) => return Err(halt),
        };
        let input = match heard {
            Heard::Whole => Input::ModelEnded,
            Heard::Cancelled(cancelled) => {
                let reason = cancelled.reason.clone();
                self.cancelled = Some(cancelled);
                Input::Cancel { reason }
            }
            Heard::Failed(error) => {
                let failures = self.step.as_ref().map_or(0, |step| step.failures);
                if error.is_retryable() && failures + 1 < FAILURES_PER_STEP_MAX {
                    land(flights).await?;
                    return self.try_again(&error, failures + 1).await;
                }
                Input::ModelFailed(error)
            }
        };
        let (next, flight) = self.end_turn(input)?;
        flights.push_back(flight);
        land(flights).await?;
        Ok(next)
    }

    /// Asks the model once more, after a while. What it has said was never said.
    async fn try_again(&mut self, error: &ModelError, failures: u32) -> Result<Step, Halt> {
        tracing::warn!(%error, failures, generation = self.generation.id, "a model is asked again");
        let doubled = MODEL_PAUSE_FIRST.saturating_mul(1 << (failures - 1).min(16));
        let asked = error.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        let pause = doubled.min(MODEL_PAUSE_MAX).max(asked);
        let until = self.core.sys.clock.unix_ms().plus(pause);
        let until = self.deadline.map_or(until, |over| over.min(until));
        let heard = self.wait_until(until).await?;
        let mut writes = Writes::default();
        self.drop_partial(&mut writes);
        self.notes = super::work::Notes::default();
        if let Some(cancelled) = heard.or_else(|| self.is_stopped()) {
            self.journal.commit_some(writes).await?;
            let reason = cancelled.reason.clone();
            self.cancelled = Some(cancelled);
            let (next, flight) = self.end_turn(Input::Cancel { reason })?;
            flight.await?;
            return Ok(next);
        }
        self.begin_attempt(Parting::Failed, &[], &mut writes);
        self.journal.commit(writes).await?;
        Ok(self.machine.next_step())
    }

    /// Rests, unless the generation is stopped meanwhile.
    async fn wait_until(&mut self, until: UnixMs) -> Result<Option<Cancelled>, Halt> {
        loop {
            if let Some(cancelled) = self.is_stopped() {
                return Ok(Some(cancelled));
            }
            tokio::select! {
                biased;
                () = self.cancellation.cancelled() => return Err(Halt::Stopped),
                _ = self.news.next() => {}
                () = self.core.sys.clock.sleep_until(until) => return Ok(None),
                () = self.pulse.due(self.journal, &self.core.sys.clock) => {
                    self.beat().await?;
                }
            }
        }
    }

    /// Who has stopped the generation, or what. Everybody asks before it waits for something, so
    /// this is also where it is told what the agent is doing.
    pub(super) fn is_stopped(&mut self) -> Option<Cancelled> {
        self.tell_activity();
        let generation = &self.generation;
        if let Some(stop) = self.news.stop_of(&generation.id, generation.read_up_to) {
            return Some(Cancelled { by: CancelledBy::User, reason: stop.reason });
        }
        let is_late = self.deadline.is_some_and(|at| self.core.sys.clock.unix_ms() >= at);
        is_late.then(|| self.out_of_time())
    }

    fn out_of_time(&self) -> Cancelled {
        let seconds = self.core.time_max.unwrap_or_default().as_secs_f64();
        let reason = Some(format!("has not ended in {seconds} seconds"));
        Cancelled { by: CancelledBy::Timeout, reason }
    }

    /// Listens to the model until it has said all, it fails, or the generation is stopped.
    async fn listen(
        &mut self,
        request: Arc<Request>,
        flights: &mut Flights,
    ) -> Result<Heard, Halt> {
        if let Some(cancelled) = self.is_stopped() {
            return Ok(Heard::Cancelled(cancelled));
        }
        if self.cancellation.is_cancelled() {
            return Err(Halt::Stopped);
        }
        let (_hangs_up, call) = Cancellation::new();
        let mut stream = self.core.model.call(request, call);
        let clock = self.core.sys.clock.clone();
        let mut pending = Pending::default();
        let mut heard_at = clock.elapsed();
        loop {
            if let Some(cancelled) = self.is_stopped() {
                return Ok(Heard::Cancelled(cancelled));
            }
            let now = clock.elapsed();
            if self.is_due(&pending, flights, now) {
                self.flush(&mut pending, flights)?;
            }
            if flights.len() < FLIGHTS_MAX && self.pulse.is_due(self.journal, &clock) {
                let mut writes = Writes::default();
                // It works, so there is nothing to take into account.
                let _ = self.pulse.note_waiting(self.activity, self.db, self.news);
                self.pulse.beat(self.journal, &mut writes);
                flights.push_back(self.journal.append(writes)?);
            }
            let wake_at = self.wake_at(&pending, flights, heard_at);
            tokio::select! {
                biased;
                Some(landed) = flights.next(), if !flights.is_empty() => landed?,
                () = self.cancellation.cancelled() => return Err(Halt::Stopped),
                _ = self.news.next() => {}
                said = stream.next(), if pending.bytes < TEXT_WAITING_BYTES_MAX => {
                    heard_at = clock.elapsed();
                    let Some(said) = said else { return Ok(Heard::Whole) };
                    let taken = said.and_then(|event| self.hear(event, &mut pending, heard_at));
                    if let Err(error) = taken {
                        return Ok(Heard::Failed(error));
                    }
                }
                () = self.pulse.due(self.journal, &clock), if flights.len() < FLIGHTS_MAX => {}
                () = clock.sleep(wake_at.saturating_sub(now)) => {
                    if clock.elapsed() >= heard_at + self.core.silence_max {
                        return Ok(Heard::Failed(self.silent()));
                    }
                }
            }
        }
    }

    /// Takes what the model says.
    fn hear(
        &mut self,
        event: ModelEvent,
        pending: &mut Pending,
        now: Duration,
    ) -> Result<(), ModelError> {
        match &event {
            ModelEvent::Answering { model } => self.notes.model = Some(model.to_string()),
            ModelEvent::Usage(usage) => self.notes.usage = Some(usage.clone()),
            ModelEvent::Stop(stop) => self.notes.stop = Some(stop.clone()),
            ModelEvent::More { delta, .. } => {
                pending.bytes += delta.len();
                pending.said += delta.len();
            }
            _ => {}
        }
        if pending.said > AGENT_TURN_BYTES_MAX {
            let why = format!("said more than {AGENT_TURN_BYTES_MAX} bytes in one turn");
            return Err(self.blame(ModelErrorKind::TooLarge, why));
        }
        let mut events = Vec::new();
        if let Err(misfed) = self.machine.feed(Input::Model(event), &mut events) {
            let kind = match &misfed {
                Misfed::Model(bad) => bad.kind(),
                _ => ModelErrorKind::Malformed,
            };
            return Err(self.blame(kind, misfed.to_string()));
        }
        for event in &events {
            self.chunker.take(event);
        }
        if pending.since.is_none() && !self.chunker.is_empty() {
            pending.since = Some(now);
        }
        Ok(())
    }

    /// Whether what was said is to be written now, if it is worth it: at once if nothing is under
    /// way, else as soon as that has landed or the patience is over.
    fn is_due(&self, pending: &Pending, flights: &Flights, now: Duration) -> bool {
        let Some(since) = pending.since else { return false };
        if !self.chunker.is_worth_writing(self.written) {
            return false;
        }
        let is_late = now >= since + self.core.flush_patience();
        let is_free = flights.is_empty() && self.core.flushes_at_once();
        is_free || (is_late && flights.len() < FLIGHTS_MAX)
    }

    fn flush(&mut self, pending: &mut Pending, flights: &mut Flights) -> Result<(), JournalError> {
        let mut writes = Writes::default();
        self.write_chunks(&mut writes);
        (pending.since, pending.bytes) = (None, 0);
        if !writes.is_empty() {
            flights.push_back(self.journal.append(writes)?);
        }
        Ok(())
    }

    /// When to look again, whatever happens.
    fn wake_at(&self, pending: &Pending, flights: &Flights, heard_at: Duration) -> Duration {
        let silent_at = heard_at + self.core.silence_max;
        let clock = &self.core.sys.clock;
        let over = self.deadline.map(|at| clock.elapsed() + at.since(clock.unix_ms()));
        let is_waiting = flights.len() < FLIGHTS_MAX && self.chunker.is_worth_writing(self.written);
        let flush_at =
            pending.since.filter(|_| is_waiting).map(|at| at + self.core.flush_patience());
        [over, flush_at].into_iter().flatten().fold(silent_at, Duration::min)
    }

    fn silent(&self) -> ModelError {
        let seconds = self.core.silence_max.as_secs_f64();
        self.blame(ModelErrorKind::TimedOut, format!("has said nothing for {seconds} seconds"))
    }

    fn blame(&self, kind: ModelErrorKind, why: String) -> ModelError {
        ModelError::new(self.core.model.name().provider.clone(), kind, why)
    }
}

/// Waits until all that is under way lasts.
async fn land(mut flights: Flights) -> Result<(), JournalError> {
    while let Some(landed) = flights.next().await {
        landed?;
    }
    Ok(())
}
