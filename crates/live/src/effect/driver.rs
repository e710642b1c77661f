//! Calls handlers: some at a time, those of one row in order, again if they fail.

use std::{
    collections::{BTreeSet, VecDeque},
    future::Future,
    pin::Pin,
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use query::Key;
use sys::{Cancellation, Sys};

use super::{Context, Event, HandlerError, Handlers, Settings, acker::AckerHandle, mark::Mark};
use crate::{
    caps::{ATTEMPTS_DEFAULT, EVENTS_AHEAD_MAX, EVENTS_WAITING_MAX},
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
type Running = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// A handler that has ended: the events it was given, and whether they are done.
struct Ended {
    marks: Vec<Mark>,
    is_done: bool,
}

struct Driver<R> {
    handlers: Handlers<R>,
    settings: Settings,
    sys: Sys,
    cancellation: Cancellation,
    acker: Option<AckerHandle>,
    waiting: VecDeque<Event<R>>,
    busy: BTreeSet<Key>,
    running: FuturesUnordered<Running>,
    /// Events that were taken and are not done.
    open: BTreeSet<Mark>,
    /// Events that are done before one that came earlier.
    ahead: BTreeSet<Mark>,
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
        open: BTreeSet::new(),
        ahead: BTreeSet::new(),
    };
    let mut is_fed = true;
    while !cancellation.is_cancelled() && (is_fed || driver.has_work()) {
        driver.start_what_may();
        let has_room = is_fed && driver.waiting.len() < EVENTS_WAITING_MAX;
        tokio::select! {
            biased;
            () = cancellation.cancelled() => break,
            Some(ended) = driver.running.next(), if !driver.running.is_empty() => {
                driver.done(ended).await;
            }
            events = feed.next(), if has_room => match events {
                Some(events) => driver.take(events),
                None => is_fed = false,
            },
        }
    }
    while let Some(ended) = driver.running.next().await {
        driver.done(ended).await;
    }
}

impl<R: Send + 'static> Driver<R> {
    fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.running.is_empty()
    }

    /// Events that nobody handles are none.
    fn take(&mut self, events: Vec<Event<R>>) {
        let events = events.into_iter().filter(|event| self.handlers.handle(event.kind()));
        for event in events {
            if self.acker.is_some() {
                self.open.insert(event.mark());
            }
            self.waiting.push_back(event);
        }
    }

    async fn done(&mut self, Ended { marks, is_done }: Ended) {
        for mark in &marks {
            self.busy.remove(&mark.key);
        }
        // An effect that ends leaves what it did not finish to its next life.
        let (Some(acker), true) = (&self.acker, is_done) else { return };
        for mark in &marks {
            self.ahead.extend(self.open.take(mark));
        }
        match self.open.first() {
            Some(oldest) => self.ahead = self.ahead.split_off(oldest),
            None => self.ahead.clear(),
        }
        acker.done(marks).await;
    }

    /// False if so many events are done before an earlier one that a cursor cannot tell of more.
    fn has_room_ahead(&self) -> bool {
        self.ahead.len() + self.running.len() < EVENTS_AHEAD_MAX
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
        while index < self.waiting.len()
            && self.running.len() < self.settings.concurrency
            && self.has_room_ahead()
        {
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
        let marks = vec![event.mark()];
        let call = move |context: Context| {
            let (handler, own) = (handler.clone(), event.clone());
            let handled: super::Handled = Box::pin(async move { handler(own, context).await });
            (handled, vec![event.clone()])
        };
        self.running.push(self.attempts(marks, call));
    }

    fn start_batch(&self, events: Vec<Event<R>>) {
        let Some(handler) = self.handlers.batch.clone() else { return };
        let marks = events.iter().map(Event::mark).collect();
        let call = move |context: Context| {
            let (handler, own) = (handler.clone(), events.clone());
            let handled: super::Handled = Box::pin(async move { handler(own, context).await });
            (handled, events.clone())
        };
        self.running.push(self.attempts(marks, call));
    }

    /// Calls until it succeeds, or has failed too often.
    fn attempts(
        &self,
        marks: Vec<Mark>,
        call: impl Fn(Context) -> (super::Handled, Vec<Event<R>>) + Send + 'static,
    ) -> Running {
        let (sys, retry, cancellation) =
            (self.sys.clone(), self.settings.retry, self.cancellation.clone());
        let (dead_letter, acker) = (self.handlers.dead_letter.clone(), self.acker.clone());
        Box::pin(async move {
            let mut attempt: u32 = 0;
            loop {
                attempt = attempt.saturating_add(1);
                let (cancellation, acker) = (cancellation.clone(), acker.clone());
                let context = Context {
                    cancellation: cancellation.clone(),
                    attempt,
                    marks: marks.clone(),
                    acker: acker.clone(),
                };
                let (handled, events) = call(context);
                let handled = caught(handled).await;
                let panicked = |panic: Panicked| Err(HandlerError::new(panic));
                let Err(error) = handled.unwrap_or_else(panicked) else {
                    return Ended { marks, is_done: true };
                };
                let is_committed = match &acker {
                    Some(acker) => acker.are_done(marks.clone()).await,
                    None => Some(false),
                };
                if is_committed == Some(true) {
                    let event = events.first().map(|event| event.id().to_string());
                    tracing::warn!(event, %error, "a handler failed after its commit, which lasts");
                    return Ended { marks, is_done: true };
                }
                if is_committed.is_none() || cancellation.is_cancelled() {
                    return Ended { marks, is_done: false };
                }
                if retry.is_last(attempt) {
                    bury(dead_letter.as_deref(), events, &error);
                    return Ended { marks, is_done: true };
                }
                let pause = retry.pause(attempt, &sys.chance);
                tell(&events, attempt, &error, pause);
                if !cancellation.rest(pause, &sys).await {
                    return Ended { marks, is_done: false };
                }
            }
        })
    }
}

/// Says that a handler failed; loudly, if it does so again and again.
fn tell<R>(events: &[Event<R>], attempt: u32, error: &HandlerError, pause: Duration) {
    let event = events.first().map(|event| event.id().to_string());
    if attempt < ATTEMPTS_DEFAULT {
        tracing::debug!(event, attempt, %error, ?pause, "a handler failed");
    } else {
        tracing::warn!(event, attempt, %error, ?pause, "a handler fails again and again");
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
