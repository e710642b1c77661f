//! One call: asked again while nothing was shown, and no further once nobody waits.

use std::{sync::Arc, time::Duration};

use ::genai::chat::ChatStream;
use chat::{ModelError, ModelErrorKind, ModelEvent, Request};
use futures_util::StreamExt as _;
use sys::Cancellation;

use super::{
    PROVIDER, Shared,
    events::{Reader, broke_off},
    failed,
    failure::meaning,
    request::encode,
};
use crate::transport::{Marked, only_of, pause};

/// One call of a model.
pub(super) struct Call {
    shared: Arc<Shared>,
    request: Arc<Request>,
    cancellation: Cancellation,
    /// When it began, by the clock that never steps.
    since: Duration,
    attempts: u32,
    phase: Phase,
    marked: Marked,
}

enum Phase {
    Asking,
    Reading(Box<Answer>),
    Over,
}

type Answer = (ChatStream, Reader);

type Batch = Vec<Result<ModelEvent, ModelError>>;

impl Call {
    pub(super) fn new(
        shared: Arc<Shared>,
        request: Arc<Request>,
        cancellation: Cancellation,
    ) -> Self {
        let since = shared.sys.clock.elapsed();
        let request = only_of(&signer(&shared), request);
        let (attempts, phase, marked) = (0, Phase::Asking, Marked::default());
        Self { shared, request, cancellation, since, attempts, phase, marked }
    }

    /// The events that come next; none after the last.
    pub(super) async fn next(mut self) -> Option<(Batch, Self)> {
        if matches!(self.phase, Phase::Over) {
            return None;
        }
        let mut events = Vec::new();
        let cancellation = self.cancellation.clone();
        let end = tokio::select! {
            biased;
            () = cancellation.cancelled() => {
                let why = "nobody waits for the answer any more";
                Err(failed(ModelErrorKind::Cancelled, why))
            }
            end = self.advance(&mut events) => end,
        };
        let signer = signer(&self.shared);
        events.iter_mut().for_each(|event| self.marked.mark(&signer, event));
        let mut batch: Batch = events.into_iter().map(Ok).collect();
        if let Err(mut error) = end {
            // What it holds of the connection goes with it.
            self.phase = Phase::Over;
            if let Some(key) = &self.shared.key {
                error.message = key.scrub(error.message);
            }
            batch.push(Err(error));
        }
        Some((batch, self))
    }

    /// Goes on until there are events, or until the answer ends.
    async fn advance(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let shared = self.shared.clone();
        loop {
            match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return Ok(()),
                Phase::Asking => {
                    self.attempts += 1;
                    let mut answer = open(&shared, &self.request).await?;
                    let first = shared.settings.first_byte_time;
                    match read(&shared, &mut answer, first, events).await {
                        Ok(()) => self.keep(answer),
                        Err(error) if !events.is_empty() => return Err(error),
                        Err(error) => {
                            drop(answer);
                            self.again(error).await?;
                        }
                    }
                }
                Phase::Reading(mut answer) => {
                    let idle = shared.settings.idle_time;
                    read(&shared, &mut answer, idle, events).await?;
                    self.keep(answer);
                }
            }
            if !events.is_empty() {
                return Ok(());
            }
        }
    }

    fn keep(&mut self, answer: Box<Answer>) {
        if !answer.1.is_whole() {
            self.phase = Phase::Reading(answer);
        }
    }

    /// Waits before another attempt, or gives up. Nothing was shown yet.
    async fn again(&mut self, error: ModelError) -> Result<(), ModelError> {
        let shared = self.shared.clone();
        let Shared { sys, settings, .. } = &*shared;
        let pause = error.retry_after.unwrap_or_default().max(pause(self.attempts, &sys.chance));
        let spent = sys.clock.elapsed().saturating_sub(self.since);
        let has_time = spent.saturating_add(pause) <= settings.retry_time;
        if !error.is_retryable() || self.attempts >= settings.attempts_max || !has_time {
            return Err(error);
        }
        let code = error.kind.code();
        tracing::debug!(code, attempts = self.attempts, ?pause, "asking genai again");
        sys.clock.sleep(pause).await;
        self.phase = Phase::Asking;
        Ok(())
    }
}

/// Who signs: one of the many that are reached through `genai`.
fn signer(shared: &Shared) -> String {
    format!("{PROVIDER}-{}", shared.kind.as_lower_str())
}

async fn open(shared: &Shared, request: &Request) -> Result<Box<Answer>, ModelError> {
    let Shared { kind, client, name, sys, .. } = shared;
    let (request, options) = encode(*kind, request)?;
    let opened = client.exec_chat_stream(name.model.as_str(), request, Some(&options)).await;
    match opened {
        Ok(opened) => Ok(Box::new((opened.stream, Reader::new(*kind)))),
        Err(error) => Err(meaning(&error, sys.clock.unix_ms())),
    }
}

/// Reads until something is shown, or until the answer is whole.
async fn read(
    shared: &Shared,
    answer: &mut Answer,
    patience: Duration,
    events: &mut Vec<ModelEvent>,
) -> Result<(), ModelError> {
    let clock = &shared.sys.clock;
    let (stream, reader) = answer;
    while events.is_empty() && !reader.is_whole() {
        let next = tokio::select! {
            biased;
            next = stream.next() => next,
            () = clock.sleep(patience) => {
                let why = format!("nothing came for {patience:?}; ask again");
                return Err(failed(ModelErrorKind::TimedOut, why));
            }
        };
        match next {
            Some(Ok(event)) => reader.push(event, events)?,
            Some(Err(error)) => return Err(meaning(&error, clock.unix_ms())),
            None => return Err(broke_off()),
        }
    }
    Ok(())
}
