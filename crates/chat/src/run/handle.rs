//! A run that goes on, and one that has ended.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use serde_json::Value;
use sys::Canceller;
use tokio::sync::{mpsc, oneshot};

use super::ChatError;
use crate::{
    Conversation, Role, Usage,
    agui::{Event, Interrupt},
    machine::{Done, Machine, Saved, Step},
};

/// A run that goes on: a stream of its events. The run is at most
/// [`EVENTS_WAITING_MAX`](crate::caps::EVENTS_WAITING_MAX) events ahead of whoever reads them, and
/// is stopped when this is dropped.
#[derive(Debug)]
pub struct Run {
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) ended: oneshot::Receiver<Machine>,
    pub(super) canceller: Arc<Canceller>,
}

/// A run that has ended, or waits for somebody.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The conversation.
    pub messages: Conversation,
    /// What the run has cost, by model.
    pub usage: Vec<Usage>,
    /// How it ended; `None` if it waits for somebody.
    pub done: Option<Done>,
    /// What it waits for.
    pub interrupts: Vec<Interrupt>,
    /// The run as data, for [`Chat::resume`](super::Chat::resume).
    pub saved: Option<Saved>,
}

impl Run {
    /// The next event; `None` once the run has ended or waits for somebody.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Stops the run, unless it has come to its end already. Its last event says which.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Lets the run go on to its end, passing over what events are left.
    pub async fn finish(mut self) -> Finished {
        while self.next().await.is_some() {}
        match self.ended.await {
            Ok(machine) => Finished::of(&machine),
            // The runtime shuts down.
            Err(_) => Finished::lost(),
        }
    }
}

impl Stream for Run {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_recv(context)
    }
}

impl Finished {
    fn of(machine: &Machine) -> Self {
        let done = match machine.next_step() {
            Step::Done(done) => Some(done),
            _ => None,
        };
        Self {
            messages: machine.messages().clone(),
            usage: machine.usage().to_vec(),
            interrupts: machine.interrupts(),
            saved: done.is_none().then(|| machine.save()),
            done,
        }
    }

    fn lost() -> Self {
        let reason = Some("its runtime has shut down".to_owned());
        Self {
            messages: Conversation::default(),
            usage: Vec::new(),
            interrupts: Vec::new(),
            saved: None,
            done: Some(Done::Cancelled { reason }),
        }
    }

    /// What the model said last; nothing if it has not answered.
    #[must_use]
    pub fn text(&self) -> String {
        let last = self.messages.last().filter(|message| message.role == Role::Assistant);
        last.map(|message| message.text_content()).unwrap_or_default()
    }

    /// The output, if one was asked for.
    ///
    /// # Errors
    /// If the run did not come to its end.
    pub fn check(self) -> Result<Option<Value>, ChatError> {
        match self.done {
            Some(Done::Finished { output, .. }) => Ok(output),
            Some(Done::TurnsExhausted) => Err(ChatError::TurnsExhausted),
            Some(Done::Cancelled { .. }) => Err(ChatError::Cancelled),
            Some(Done::Failed(failure)) => Err(failure.into()),
            None => Err(ChatError::Suspended),
        }
    }
}
