//! Calls handlers: some at a time, those of one row in order, again if they fail.

use std::{
    collections::{BTreeSet, VecDeque},
    future::Future,
    pin::Pin,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use query::Key;
use sys::{Cancellation, Sys};

use super::{Context, Event, EventId, HandlerError, Handlers, Settings, acker::AckerHandle};
use crate::{
    caps::EVENTS_WAITING_MAX,
    panic::{Panicked, caught},
};

/// Where events come from.
pub(super) trait Feed<R>: Send + 'static {
    /// The next events; none when there will be no more. May be dropped while it waits.
    fn next(&mut self) -> impl Future<Output = Option<Vec<Event<R>>>> + Send;

    /// What takes acknowledgements, if anybody does.
    fn acker(&self) -> Option<AckerHandle>;
}

/// A handler under way: the events it was given, and how it ends.
type Running = Pin<Box<dyn Future<Output = Vec<EventId>> + Send>>;

struct Driver<R> {
    handlers: Handlers<R>,
    settings: Settings,
    sys: Sys,
    cancellation: Cancellation,
    acker: Option<AckerHandle>,
    waiting: VecDeque<Event<R>>,
    busy: BTreeSet<Key>,
    running: FuturesUnordered<Running>,
}

/// Works until the feed ends or the effect is disposed of; handlers under way are waited for.
pub(super) async fn run<R: Send + 'static>(
    mut feed: impl Feed<R>,
    handlers: Handlers<R>,
    settings: Settings,
    sys: Sys,
    cancellation: Cancellation,
) {
    let acker = feed.acker();
    let mut driver = Driver {
        handlers,
        settings,
        sys,
        cancellation: cancellation.clone(),
        acker,
        waiting: VecDeque::new(),
        busy: BTreeSet::new(),
        running: FuturesUnordered::new(),
    };
    let mut is_fed = true;
    while !cancellation.is_cancelled() && (is_fed || driver.has_work()) {
        driver.start_what_may();
        let has_room = is_fed && driver.waiting.len() < EVENTS_WAITING_MAX;
        tokio::select! {
            biased;
            () = cancellation.cancelled() => break,
            Some(ids) = driver.running.next(), if !driver.running.is_empty() => {
                driver.done(ids).await;
            }
            events = feed.next(), if has_room => match events {
                Some(events) => driver.take(events).await,
                None => is_fed = false,
            },
        }
    }
    while let Some(ids) = driver.running.next().await {
        driver.done(ids).await;
    }
}

impl<R: Send + 'static> Driver<R> {
    fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.running.is_empty()
    }

    /// Events that nobody handles are done at once.
    async fn take(&mut self, events: Vec<Event<R>>) {
        let mut passed = Vec::new();
        for event in events {
            if self.handlers.batch.is_some() || self.handlers.of(event.kind()).is_some() {
                self.waiting.push_back(event);
            } else {
                passed.push(event.id().clone());
            }
        }
        if let (Some(acker), false) = (&self.acker, passed.is_empty()) {
            acker.done(passed).await;
        }
    }

    async fn done(&mut self, ids: Vec<EventId>) {
        for id in &ids {
            self.busy.remove(&id.key);
        }
        // An effect that ends leaves what it did not finish to its next life.
        if let Some(acker) = &self.acker {
            acker.done(ids).await;
        }
    }

    fn start_what_may(&mut self) {
        if self.handlers.batch.is_some() {
            if self.running.is_empty() && !self.waiting.is_empty() {
                let events: Vec<_> = self.waiting.drain(..).collect();
                self.start_batch(events);
            }
            return;
        }
        let mut index = 0;
        // An event waits for earlier ones of its row, also for those that wait themselves.
        let mut held = BTreeSet::new();
        while index < self.waiting.len() && self.running.len() < self.settings.concurrency {
            let key = self.waiting[index].key().clone();
            if self.busy.contains(&key) || held.contains(&key) {
                held.insert(key);
                index += 1;
            } else if let Some(event) = self.waiting.remove(index) {
                self.busy.insert(key);
                self.start(event);
            }
        }
    }

    fn start(&self, event: Event<R>) {
        let Some(handler) = self.handlers.of(event.kind()).cloned() else { return };
        let ids = vec![event.id().clone()];
        let call = move |context: Context| {
            let (handler, own) = (handler.clone(), event.clone());
            let handled: super::Handled = Box::pin(async move { handler(own, context).await });
            (handled, vec![event.clone()])
        };
        self.running.push(self.attempts(ids, call));
    }

    fn start_batch(&self, events: Vec<Event<R>>) {
        let Some(handler) = self.handlers.batch.clone() else { return };
        let ids = events.iter().map(|event| event.id().clone()).collect();
        let call = move |context: Context| {
            let (handler, own) = (handler.clone(), events.clone());
            let handled: super::Handled = Box::pin(async move { handler(own, context).await });
            (handled, events.clone())
        };
        self.running.push(self.attempts(ids, call));
    }

    /// Calls until it succeeds, or has failed too often. Answers which events are done.
    fn attempts(
        &self,
        ids: Vec<EventId>,
        call: impl Fn(Context) -> (super::Handled, Vec<Event<R>>) + Send + 'static,
    ) -> Running {
        let (sys, retry, cancellation) =
            (self.sys.clone(), self.settings.retry, self.cancellation.clone());
        let (dead_letter, acker) = (self.handlers.dead_letter.clone(), self.acker.clone());
        Box::pin(async move {
            let mut attempt = 0;
            loop {
                attempt += 1;
                let (acker, events) = (acker.clone(), ids.clone());
                let cancelled = cancellation.clone();
                let context = Context { cancellation: cancelled, attempt, events, acker };
                let (handled, events) = call(context);
                let handled = caught(handled).await;
                let panicked = |panic: Panicked| Err(HandlerError::new(panic));
                let Err(error) = handled.unwrap_or_else(panicked) else { return ids };
                if cancellation.is_cancelled() {
                    return Vec::new();
                }
                if attempt >= retry.attempts_max {
                    bury(dead_letter.as_deref(), events, &error);
                    return ids;
                }
                let pause = retry.pause(attempt, &sys.chance);
                tracing::debug!(event = %ids[0], attempt, %error, ?pause, "a handler failed");
                if !cancellation.rest(pause, &sys).await {
                    return Vec::new();
                }
            }
        })
    }
}

fn bury<R>(
    dead_letter: Option<&(dyn Fn(Event<R>, HandlerError) + Send + Sync)>,
    events: Vec<Event<R>>,
    error: &HandlerError,
) {
    for event in events {
        match dead_letter {
            Some(dead_letter) => dead_letter(event, HandlerError::new(error)),
            None => tracing::error!(event = %event.id(), %error, "an event is given up"),
        }
    }
}
