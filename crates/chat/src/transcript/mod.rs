//! Events, folded into the messages that they tell of.
//!
//! ```
//! use chat::{Transcript, agui::{TextMessageContent, TextMessageEnd, TextMessageStart}};
//!
//! let mut transcript = Transcript::new();
//! let start = TextMessageStart { message_id: "m".into(), role: None, name: None };
//! transcript.push(&start.into())?;
//! for delta in ["Hel", "lo"] {
//!     let more = TextMessageContent { message_id: "m".into(), delta: delta.into() };
//!     transcript.push(&more.into())?;
//! }
//! transcript.push(&TextMessageEnd { message_id: "m".into() }.into())?;
//! let said: Vec<_> = transcript.messages().map(chat::Message::text_content).collect();
//! assert_eq!(said, ["Hello"]);
//! # Ok::<(), chat::TranscriptError>(())
//! ```

mod fold;
mod turns;

use crate::{
    Id, Message, Role,
    agui::{BadChunk, Chunks, Event, Expanded, Upgrade},
    caps::{TRANSCRIPT_BYTES_MAX, TRANSCRIPT_MESSAGES_MAX, TRANSCRIPT_PARTS_MAX},
};

use turns::Turns;

/// The messages that events tell of.
///
/// The texts, thoughts and calls of one turn of a model are one message, in the order in which they
/// began. The answers of its tools stand right after it, one message each, in the order of the
/// calls, however they arrived. Events of others, which do not say what belongs together, are read
/// as AG-UI's own client reads them, but that thoughts belong to what their model says next, and
/// that a text that says nothing is no part.
///
/// Activities and state are passed over. Metadata of events that make a message become its own, but
/// what `headwater` and `tanstack` say of events there.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    turns: Turns,
    chunks: Chunks,
    upgrade: Upgrade,
}

/// An event that tells of nothing that is known. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TranscriptError {
    /// Nothing of that id was started.
    #[error("{event}: there is no {what} {id:?}; start it first")]
    Unknown {
        /// The type of the event.
        event: &'static str,
        /// What is missing.
        what: &'static str,
        /// Which one.
        id: Id,
    },
    /// A message is by somebody else.
    #[error("{event}: the message {id:?} is by {role:?}; give the new one an id of its own")]
    WrongRole {
        /// The type of the event.
        event: &'static str,
        /// The message.
        id: Id,
        /// Who it is by.
        role: Role,
    },
    /// A call was answered before, otherwise.
    #[error("TOOL_CALL_RESULT: the call {id:?} has another answer already")]
    AnsweredTwice {
        /// The call.
        id: Id,
    },
    /// A chunk that continues nothing.
    #[error(transparent)]
    Chunk(#[from] BadChunk),
    /// There are too many messages.
    #[error("a transcript holds {TRANSCRIPT_MESSAGES_MAX} messages; begin another one")]
    TooManyMessages,
    /// A message has too many parts.
    #[error("the message {id:?} has {TRANSCRIPT_PARTS_MAX} parts; begin another one")]
    TooManyParts {
        /// The message.
        id: Id,
    },
    /// The messages are too long.
    #[error("a transcript holds {TRANSCRIPT_BYTES_MAX} bytes of text; begin another one")]
    TooLong,
}

impl Transcript {
    /// Nothing was said yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was said before.
    ///
    /// # Errors
    /// If it is more than a transcript holds.
    pub fn with(messages: impl IntoIterator<Item = Message>) -> Result<Self, TranscriptError> {
        let mut transcript = Self::new();
        transcript.turns.add(messages)?;
        Ok(transcript)
    }

    /// Takes the next event. A delta costs the same however much was said before.
    ///
    /// # Errors
    /// If it tells of something that was never started, or of too much. Nothing is changed then.
    pub fn push(&mut self, event: &Event) -> Result<(), TranscriptError> {
        let upgrade = self.upgrade;
        let upgraded = self.upgrade.read(event);
        self.expanded(upgraded.as_ref().unwrap_or(event)).inspect_err(|_| self.upgrade = upgrade)
    }

    /// The messages, in order.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.turns.messages()
    }

    /// The messages, in order.
    #[must_use]
    pub fn into_messages(self) -> Vec<Message> {
        self.turns.into_messages()
    }

    fn expanded(&mut self, event: &Event) -> Result<(), TranscriptError> {
        let (mut written, lanes) = (Vec::new(), self.chunks.clone());
        let expanded = self.chunks.expand(event, &mut written)?;
        let mut all = written.iter().chain((expanded == Expanded::Kept).then_some(event));
        self.turns.emptied.clear();
        // Of the events that stand for one only the one that starts something can fail once there
        // is room, and nothing but ends stand before it.
        let room = self.turns.has_room(event);
        room.and_then(|()| all.try_for_each(|one| self.turns.apply(one))).inspect_err(|_| {
            self.chunks = lanes;
            self.turns.put_back();
        })
    }
}

impl TranscriptError {
    /// Whether the same event may fare better later: never.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        false
    }
}
