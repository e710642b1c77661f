//! Carries requests to a provider and answers back: over TLS, with patience that ends, again where
//! nothing was shown yet, and no further once nobody waits.
//!
//! `settings` say how patient, `http` makes one request, `retry` knows when to make another,
//! `answer` reads what came, `signed` keeps apart what providers have signed.

mod answer;
mod http;
mod retry;
mod settings;
mod signed;

use std::{fmt, sync::Arc, time::Duration};

use chat::{
    Abilities, Id, Model, ModelError, ModelErrorKind, ModelEvent, ModelName, ModelStream, Request,
};
use futures_util::{StreamExt as _, stream};
use sys::{Cancellation, Sys};

pub(crate) use self::retry::pause;
pub(crate) use self::signed::{Marked, only_of};
use self::{
    answer::{Answer, Progress},
    http::{Failed, Http},
};
#[cfg(feature = "genai")]
pub(crate) use self::{retry::retry_after, settings::base_url};
pub use self::{
    settings::{PlainHttp, TransportSettings},
    signed::SIGNATURE_MARK,
};
use crate::{
    Key,
    wire::{Outgoing, Wire},
};

/// A model at the other end of a connection.
pub(crate) struct Remote<W> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    name: ModelName,
    abilities: Abilities,
    wire: W,
    http: Http,
}

/// Where a provider is, who we are to it, and how patient we are.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub provider: Id,
    pub base_url: String,
    pub key: Option<Key>,
    pub settings: TransportSettings,
}

impl<W: Wire> Remote<W> {
    /// A model that is asked over this wire.
    ///
    /// # Errors
    /// `Unsupported` if no request should go to the base URL.
    pub(crate) fn new(
        sys: &Sys,
        model: Id,
        abilities: Abilities,
        wire: W,
        access: Access,
    ) -> Result<Self, ModelError> {
        let Access { provider, base_url, key, settings } = access;
        let name = ModelName { provider: provider.clone(), model };
        let http = Http::new(sys, provider, &base_url, key, settings)?;
        Ok(Self { shared: Arc::new(Shared { name, abilities, wire, http }) })
    }
}

impl<W: Wire> Model for Remote<W> {
    fn name(&self) -> &ModelName {
        &self.shared.name
    }

    fn abilities(&self) -> Abilities {
        self.shared.abilities
    }

    fn call(&self, request: Arc<Request>, cancellation: Cancellation) -> ModelStream {
        let call = Call {
            shared: self.shared.clone(),
            request: only_of(&self.shared.http.provider, request),
            cancellation,
            since: self.shared.http.sys.clock.elapsed(),
            attempts: 0,
            phase: Phase::Asking(None),
            has_begun: false,
            marked: Marked::default(),
        };
        stream::unfold(call, |call| Box::pin(call.next())).flat_map(stream::iter).boxed()
    }
}

impl<W: Wire> fmt::Debug for Remote<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remote").field(&self.shared.name).finish_non_exhaustive()
    }
}

/// One call of a model.
struct Call<W: Wire> {
    shared: Arc<Shared<W>>,
    request: Arc<Request>,
    cancellation: Cancellation,
    /// When it began, by the clock that never steps.
    since: Duration,
    attempts: u32,
    phase: Phase<W>,
    /// Whether something was shown that cannot be taken back.
    has_begun: bool,
    marked: Marked,
}

enum Phase<W: Wire> {
    /// The request has not been answered; it is encoded once.
    Asking(Option<Outgoing>),
    Reading(Outgoing, Box<Answer<W>>),
    /// The answer is whole; its connection may serve again if it ends soon.
    Draining(Box<Answer<W>>),
    Over,
}

type Batch = Vec<Result<ModelEvent, ModelError>>;

impl<W: Wire> Call<W> {
    /// The events that come next; none after the last.
    async fn next(mut self) -> Option<(Batch, Self)> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Over => return None,
            Phase::Draining(mut answer) => {
                tokio::select! {
                    biased;
                    () = self.cancellation.cancelled() => {}
                    () = answer.drain(&self.shared.http) => {}
                }
                return None;
            }
            phase => self.phase = phase,
        }
        let mut events = Vec::new();
        let cancellation = self.cancellation.clone();
        let end = tokio::select! {
            biased;
            () = cancellation.cancelled() => {
                let provider = self.shared.http.provider.clone();
                let why = "nobody waits for the answer any more";
                Err(ModelError::new(provider, ModelErrorKind::Cancelled, why))
            }
            end = self.advance(&mut events) => end,
        };
        let provider = &self.shared.http.provider;
        events.iter_mut().for_each(|event| self.marked.mark(provider, event));
        let mut batch: Batch = events.into_iter().map(Ok).collect();
        if let Err(error) = end {
            self.phase = Phase::Over;
            batch.push(Err(self.shared.http.scrubbed(error)));
        }
        Some((batch, self))
    }

    /// Goes on until there are events, or until the answer ends.
    async fn advance(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let shared = self.shared.clone();
        loop {
            match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Asking(outgoing) => {
                    let outgoing = match outgoing {
                        Some(outgoing) => outgoing,
                        None => shared.wire.encode(&self.request)?,
                    };
                    self.attempts += 1;
                    match shared.http.open(&shared.wire, &outgoing).await {
                        Ok(body) => {
                            let answer = Box::new(Answer::new(&shared.wire, body));
                            self.phase = Phase::Reading(outgoing, answer);
                        }
                        Err(failed) => self.again(outgoing, failed).await?,
                    }
                }
                Phase::Reading(outgoing, mut answer) => {
                    let progress = answer.read(&shared.http, events).await;
                    self.has_begun |= events.iter().any(is_shown);
                    match progress {
                        Ok(Progress::Whole) => {
                            self.phase = Phase::Draining(answer);
                            return Ok(());
                        }
                        Ok(Progress::More) => {
                            self.phase = Phase::Reading(outgoing, answer);
                            if self.has_begun && !events.is_empty() {
                                return Ok(());
                            }
                        }
                        Err(error) if self.has_begun => return Err(error),
                        Err(error) => {
                            events.clear();
                            drop(answer);
                            let may_repeat = error.is_retryable();
                            self.again(outgoing, Failed { error, may_repeat }).await?;
                        }
                    }
                }
                Phase::Draining(_) | Phase::Over => return Ok(()),
            }
        }
    }

    /// Waits before another attempt, or gives up.
    async fn again(&mut self, outgoing: Outgoing, failed: Failed) -> Result<(), ModelError> {
        let Failed { error, may_repeat } = failed;
        let Http { sys, settings, provider, .. } = &self.shared.http;
        let pause = error.retry_after.unwrap_or_default().max(pause(self.attempts, &sys.chance));
        let spent = sys.clock.elapsed().saturating_sub(self.since);
        let has_time = spent.saturating_add(pause) <= settings.retry_time;
        if !may_repeat || self.attempts >= settings.attempts_max || !has_time {
            return Err(error);
        }
        let code = error.kind.code();
        tracing::debug!(%provider, code, attempts = self.attempts, ?pause, "asking again");
        sys.clock.sleep(pause).await;
        self.phase = Phase::Asking(Some(outgoing));
        Ok(())
    }
}

/// Whether an event shows something that another attempt could not take back.
fn is_shown(event: &ModelEvent) -> bool {
    !matches!(event, ModelEvent::Answering { .. } | ModelEvent::Usage(_))
}
