//! A chat whose calls and whose text are rows.

use std::{fmt, sync::Arc, time::Duration};

use chat::{BadChat, BadTool, Chat, Model, Tool};
use sys::{Cancellation, Sys};

use crate::{
    contract::{CancelledBy, ChunkRow, ToolCallRow},
    durable_tool::{Asking, ToolExt as _, cancel_calls},
    stream::{StreamEnd, StreamError, StreamTo, Streamed, stream_to_collection},
    table::{Table, TableError},
};

/// A run of this model for a generation: what it says becomes chunks, and what it wants to be
/// called becomes rows that an executor runs.
///
/// It is [`chat::chat`], [`ToolExt::durable`](crate::ToolExt::durable) and
/// [`stream_to_collection`] in one.
pub fn durable_chat<R: ToolCallRow, C: ChunkRow>(
    model: Arc<dyn Model>,
    generation_id: impl Into<String>,
    calls: impl Into<Table<R>>,
    chunks: impl Into<Table<C>>,
) -> DurableChat<R, C> {
    let generation_id = generation_id.into();
    DurableChat {
        chat: chat::chat(model).run_id(generation_id.as_str()),
        calls: calls.into(),
        chunks: chunks.into(),
        asking: Asking::of_generation(generation_id.clone()),
        streaming: StreamTo::generation(generation_id.clone()),
        durable: Vec::new(),
        background: Vec::new(),
        generation_id,
    }
}

/// A durable chat that is being set up.
#[must_use = "a run does nothing before it is started"]
pub struct DurableChat<R, C> {
    chat: Chat,
    generation_id: String,
    calls: Table<R>,
    chunks: Table<C>,
    asking: Asking,
    streaming: StreamTo,
    durable: Vec<Tool>,
    background: Vec<Tool>,
}

/// A durable chat that could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurableChatError {
    /// A tool cannot be made durable.
    #[error(transparent)]
    Tool(#[from] BadTool),
    /// It could not be started.
    #[error(transparent)]
    Chat(#[from] BadChat),
    /// What it said could not be written.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Its calls could not be cancelled.
    #[error(transparent)]
    Calls(#[from] TableError),
}

impl DurableChatError {
    /// True if the same may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Tool(_) | Self::Chat(_) => false,
            Self::Stream(error) => error.is_retryable(),
            Self::Calls(error) => error.is_retryable(),
        }
    }
}

impl<R: ToolCallRow, C: ChunkRow> DurableChat<R, C> {
    /// Sets up everything else: messages, system prompts, settings, tools that run here.
    pub fn chat(mut self, set_up: impl FnOnce(Chat) -> Chat) -> Self {
        self.chat = set_up(self.chat);
        self
    }

    /// Tools whose calls are rows, and are waited for.
    pub fn durable(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.durable.extend(tools);
        self
    }

    /// Tools whose calls are rows that nobody waits for.
    pub fn background(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.background.extend(tools);
        self
    }

    /// How long a durable call is waited for.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.asking = self.asking.patience(patience);
        self
    }

    /// Sets up how chunks are written.
    pub fn streaming(mut self, set_up: impl FnOnce(StreamTo) -> StreamTo) -> Self {
        self.streaming = set_up(self.streaming);
        self
    }

    /// Stops the run when this is over.
    pub fn cancellation(self, cancellation: Cancellation) -> Self {
        self.chat(|chat| chat.cancellation(cancellation))
    }

    /// Runs to the end. If it was cancelled or failed, so are the calls that have not ended.
    ///
    /// # Errors
    /// If it cannot be started, or its rows cannot be written.
    pub async fn run(self, sys: &Sys) -> Result<Streamed, DurableChatError> {
        let mut chat = self.chat;
        for tool in &self.durable {
            chat = chat.tool(tool.durable(&self.calls, &self.asking)?);
        }
        for tool in &self.background {
            chat = chat.tool(tool.background(&self.calls, &self.asking)?);
        }
        let streamed =
            stream_to_collection(chat.stream(sys)?, &self.chunks, self.streaming).await?;
        let by = match streamed.end {
            StreamEnd::Completed => return Ok(streamed),
            StreamEnd::Cancelled => CancelledBy::User,
            StreamEnd::Failed { .. } => CancelledBy::Error,
        };
        cancel_calls(&self.calls, &self.generation_id, by).await?;
        Ok(streamed)
    }
}

impl<R, C> fmt::Debug for DurableChat<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableChat")
            .field("generation_id", &self.generation_id)
            .finish_non_exhaustive()
    }
}
