//! What a tool learns of the call it serves, and what it can say before it is done.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sys::{Cancellation, Canceller};
use tokio::sync::mpsc;

use crate::{Conversation, Id, caps::TOOL_EVENTS_WAITING_MAX};

/// The call that a tool serves. Cheap to clone.
#[derive(Clone)]
pub struct ToolContext {
    pub(super) tool: Id,
    call_id: Id,
    idempotency_key: Id,
    attempt: u32,
    pub(super) cancellation: Cancellation,
    pub(super) grace: Duration,
    conversation: Conversation,
    events: Option<ToolEvents>,
}

/// What a tool says before it is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum ToolEvent {
    /// How far it is.
    Progress {
        /// The call.
        call_id: Id,
        /// How far.
        progress: Progress,
    },
    /// Something that the application understands.
    Custom {
        /// The call.
        call_id: Id,
        /// What it is.
        name: Id,
        /// What it says.
        value: Value,
    },
}

/// How far a tool is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
    /// Out of how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Where events of tools go. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ToolEvents(mpsc::Sender<ToolEvent>);

/// Where events of tools come out.
#[derive(Debug)]
pub struct ToolEventsReader(mpsc::Receiver<ToolEvent>);

impl ToolContext {
    /// The first attempt at a call, whose key is its id.
    #[must_use]
    pub fn new(call_id: impl Into<Id>, cancellation: Cancellation) -> Self {
        let call_id = call_id.into();
        Self {
            tool: Id::default(),
            idempotency_key: call_id.clone(),
            call_id,
            attempt: 1,
            cancellation,
            grace: Duration::ZERO,
            conversation: Conversation::default(),
            events: None,
        }
    }

    /// The same with a key that the call keeps in every attempt and every process.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<Id>) -> Self {
        self.idempotency_key = key.into();
        self
    }

    /// The same for another attempt.
    #[must_use]
    pub const fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The same for a tool that may go on for so long after it was cancelled, to clear away what it
    /// has begun. What it answers meanwhile counts. Default: not at all.
    #[must_use]
    pub const fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The same with a conversation.
    #[must_use]
    pub fn with_conversation(mut self, conversation: Conversation) -> Self {
        self.conversation = conversation;
        self
    }

    /// The same with somebody who hears what the tool says.
    #[must_use]
    pub fn with_events(mut self, events: ToolEvents) -> Self {
        self.events = Some(events);
        self
    }

    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &Id {
        &self.tool
    }

    /// The call.
    #[must_use]
    pub const fn call_id(&self) -> &Id {
        &self.call_id
    }

    /// The key to give to whatever must not happen twice: the same in every attempt.
    #[must_use]
    pub const fn idempotency_key(&self) -> &Id {
        &self.idempotency_key
    }

    /// Which attempt this is, from 1.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Tells when the call is over: cancelled, out of time, or answered. The tool itself is
    /// dropped at its next await then, or a little later where whoever calls it leaves it time to
    /// clear away, as agents and executors do after a stop.
    #[must_use]
    pub const fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// The conversation up to the call.
    #[must_use]
    pub const fn messages(&self) -> &Conversation {
        &self.conversation
    }

    /// Says how far the tool is. Waits while too many events are on their way.
    pub async fn progress(&self, progress: impl Into<Progress>) {
        let progress = progress.into();
        self.say(ToolEvent::Progress { call_id: self.call_id.clone(), progress }).await;
    }

    /// Says something that the application understands. Waits while too many events are on their
    /// way.
    pub async fn custom(&self, name: impl Into<Id>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        self.say(ToolEvent::Custom { call_id: self.call_id.clone(), name, value }).await;
    }

    async fn say(&self, event: ToolEvent) {
        if let Some(ToolEvents(sender)) = &self.events {
            // Whoever has stopped listening misses nothing.
            let _ = sender.send(event).await;
        }
    }

    /// The same with an end of its own, which comes when the canceller goes.
    pub(super) fn with_own_end(mut self, tool: Id) -> (Self, Canceller) {
        let (canceller, cancellation) = Cancellation::new();
        self.tool = tool;
        self.cancellation = cancellation;
        (self, canceller)
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("tool", &self.tool)
            .field("call_id", &self.call_id)
            .field("idempotency_key", &self.idempotency_key)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl Progress {
    /// So much out of so much.
    #[must_use]
    pub const fn of(done: f64, total: f64) -> Self {
        Self { done: Some(done), total: Some(total), message: None }
    }

    /// The same with words for people.
    #[must_use]
    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

impl From<&str> for Progress {
    fn from(message: &str) -> Self {
        Self::default().saying(message)
    }
}

impl From<String> for Progress {
    fn from(message: String) -> Self {
        Self::default().saying(message)
    }
}

impl ToolEvents {
    /// Both ends; at most [`TOOL_EVENTS_WAITING_MAX`] events are between them.
    #[must_use]
    pub fn new() -> (Self, ToolEventsReader) {
        let (sender, receiver) = mpsc::channel(TOOL_EVENTS_WAITING_MAX);
        (Self(sender), ToolEventsReader(receiver))
    }
}

impl ToolEventsReader {
    /// The next event; none if nobody is left to say something.
    pub async fn next(&mut self) -> Option<ToolEvent> {
        self.0.recv().await
    }

    /// The next event that is there already.
    pub fn next_waiting(&mut self) -> Option<ToolEvent> {
        self.0.try_recv().ok()
    }
}
