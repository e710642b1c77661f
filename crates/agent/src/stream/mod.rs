//! The text of a run as rows, while it grows.

mod chunker;
mod writer;

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use chat::{
    Message, Role, Transcript,
    agui::{Event, EventKind, Outcome},
};
use futures_util::stream::{Stream, StreamExt as _};
use live::from;

pub(crate) use self::chunker::Chunker;
use self::writer::Pen;
use crate::{
    agent::Partial,
    caps::{CHUNKS_WAITING_MAX, FLUSH_PATIENCE, FLUSH_PATIENCE_ECONOMY},
    contract::{BrokenContract, ChunkRow, new_chunk},
    rows::{Chunk, ChunkType},
    table::{Table, TableError},
};

type Filter = Arc<dyn Fn(&Event) -> bool + Send + Sync>;
type Transform = Arc<dyn Fn(Event) -> Event + Send + Sync>;

/// How the events of a run become chunks.
#[derive(Clone)]
#[must_use]
pub struct StreamTo {
    generation_id: String,
    first_index: u64,
    pace: Pace,
    partial: Partial,
    filter: Option<Filter>,
    transform: Option<Transform>,
}

/// When chunks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// At once, if nothing is on its way; else when it has arrived, or after [`FLUSH_PATIENCE`].
    Adaptive,
    /// After [`FLUSH_PATIENCE_ECONOMY`].
    Economy,
    /// When the run has ended.
    FinalOnly,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Streamed {
    /// The text of the last message.
    pub text: String,
    /// All messages that the run has added.
    pub messages: Vec<Message>,
    /// How it ended.
    pub end: StreamEnd,
    /// The index that a further chunk would have.
    pub next_index: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEnd {
    /// It said all, or waits for somebody.
    Completed,
    /// It could not go on.
    Failed {
        /// Why.
        why: String,
    },
    /// It was stopped, or its events ended in the middle.
    Cancelled,
}

/// Chunks could not be written. Those that were stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct StreamError(#[from] TableError);

impl StreamError {
    /// True if the same may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.is_retryable()
    }
}

impl From<BrokenContract> for StreamError {
    fn from(broken: BrokenContract) -> Self {
        Self(broken.into())
    }
}

impl StreamTo {
    /// Chunks of this generation, from the first on, written as soon as they can be.
    pub fn generation(id: impl Into<String>) -> Self {
        Self {
            generation_id: id.into(),
            first_index: 0,
            pace: Pace::Adaptive,
            partial: Partial::default(),
            filter: None,
            transform: None,
        }
    }

    /// Goes on counting here: the generation has chunks already.
    pub const fn from_index(mut self, index: u64) -> Self {
        self.first_index = index;
        self
    }

    /// Writes less often: every [`FLUSH_PATIENCE_ECONOMY`].
    pub const fn economy(mut self) -> Self {
        self.pace = Pace::Economy;
        self
    }

    /// Writes everything at once, when the run has ended.
    pub const fn final_only(mut self) -> Self {
        self.pace = Pace::FinalOnly;
        self
    }

    /// What becomes of the chunks of a run that did not come to its end.
    pub const fn partial(mut self, partial: Partial) -> Self {
        self.partial = partial;
        self
    }

    /// Writes chunks of such events alone. Indexes have no gaps all the same.
    pub fn filter(mut self, filter: impl Fn(&Event) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Changes events before they become chunks.
    pub fn transform(mut self, transform: impl Fn(Event) -> Event + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    const fn wait(&self) -> Option<Duration> {
        match self.pace {
            Pace::Adaptive => Some(FLUSH_PATIENCE),
            Pace::Economy => Some(FLUSH_PATIENCE_ECONOMY),
            Pace::FinalOnly => None,
        }
    }
}

impl fmt::Debug for StreamTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamTo")
            .field("generation_id", &self.generation_id)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

/// Writes the text of a run as chunks while it grows, and tells what it came to once all of them
/// last. A [`chat::Run`] is such a stream; so are events of others.
///
/// # Errors
/// If chunks cannot be written. The run is stopped then, as it is dropped.
pub async fn stream_to_collection<R: ChunkRow>(
    events: impl Stream<Item = Event>,
    chunks: impl Into<Table<R>>,
    how: StreamTo,
) -> Result<Streamed, StreamError> {
    let mut events = pin!(events);
    let mut pen = Pen::new(chunks.into(), how.pace, how.wait());
    let mut chunker = Chunker::new(how.generation_id.clone(), how.first_index);
    let mut transcript = Transcript::new();
    let mut end = StreamEnd::Cancelled;
    loop {
        pen.write_what_may(&mut chunker)?;
        let has_room = chunker.len() < CHUNKS_WAITING_MAX || how.pace == Pace::FinalOnly;
        tokio::select! {
            biased;
            written = pen.turn(!chunker.is_empty()) => written?,
            event = events.next(), if has_room => {
                let Some(event) = event else { break };
                end = end_of(&event).unwrap_or(end);
                // A run of others may be out of order; its text is written all the same.
                let _ = transcript.push(&event);
                if how.filter.as_ref().is_none_or(|filter| filter(&event)) {
                    match &how.transform {
                        Some(transform) => chunker.take(&transform(event)),
                        None => chunker.take(&event),
                    }
                }
            }
        }
    }
    let mut rest = chunker.drain();
    if end == StreamEnd::Completed || how.partial == Partial::Keep {
        rest.push(chunker.finish(end.word()));
        pen.finish(rest).await?;
    } else {
        pen.finish(Vec::new()).await?;
        pen.erase().await?;
    }
    let messages = transcript.into_messages();
    let last = messages.iter().rev().find(|message| message.role == Role::Assistant);
    let text = last.map(Message::text_content).unwrap_or_default();
    Ok(Streamed { text, messages, end, next_index: chunker.next_index() })
}

/// Ends the chunks of a generation whose writer is gone: the last one says how it ended, or all of
/// them are deleted. Nothing happens if they have an end already.
///
/// # Errors
/// If that cannot be written.
pub async fn end_chunks<R: ChunkRow>(
    chunks: impl Into<Table<R>>,
    generation_id: &str,
    status: &str,
    partial: Partial,
) -> Result<(), StreamError> {
    let chunks = chunks.into();
    let rows = chunks.db().once_ready(from::<R>().synced()).await.map_err(TableError::from)?;
    let mut own: Vec<_> = rows.iter().filter(|row| row.generation_id() == generation_id).collect();
    if own.iter().any(|row| row.is_final()) {
        return Ok(());
    }
    match partial {
        Partial::Delete => {
            own.sort_by_key(|row| row.index());
            writer::delete(&chunks, own.iter().map(|row| row.key().clone()).collect()).await?;
        }
        Partial::Keep => {
            let next = own.iter().map(|row| row.index() + 1).max().unwrap_or(0);
            let end = Chunker::new(generation_id, next).finish(status);
            chunks.insert(vec![new_chunk(end)?]).await?;
        }
    }
    Ok(())
}

impl StreamEnd {
    /// What the last chunk says.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

fn end_of(event: &Event) -> Option<StreamEnd> {
    match &event.kind {
        EventKind::RunFinished(run) => Some(match run.outcome {
            Some(Outcome::Cancelled) => StreamEnd::Cancelled,
            _ => StreamEnd::Completed,
        }),
        EventKind::RunError(error) => Some(StreamEnd::Failed { why: error.message.clone() }),
        EventKind::RunStarted(_) => Some(StreamEnd::Cancelled),
        _ => None,
    }
}

/// What was said, from the chunks of one generation in any order.
#[must_use]
pub fn text_of<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> String {
    let mut texts: Vec<_> =
        chunks.into_iter().filter(|chunk| chunk.kind == ChunkType::Text).collect();
    texts.sort_by_key(|chunk| chunk.index);
    texts.into_iter().map(|chunk| chunk.content.as_str()).collect()
}
