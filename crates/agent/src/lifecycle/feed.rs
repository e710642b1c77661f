//! The feed: waits for the next wake of subscriptions that are pulled.

use std::{collections::VecDeque, sync::Arc};

use log::{HeadError, Log, ReadError};
use thiserror::Error;
use wake::Announcement;
use wire::{Address, Offset, ReadFrom, StreamPath};

use crate::caps::FEED_BYTES;

/// Follows a wake stream. Open it before the first claim: then no wake falls between the two.
///
/// An announcement is a hint. It may come twice, and somebody else may have claimed the work;
/// who claims, knows.
#[derive(Debug)]
pub struct WakeFeed {
    log: Arc<dyn Log>,
    stream: Address,
    /// Everything before it was told or is in `heard`.
    at: Offset,
    /// At most as many as one read holds.
    heard: VecDeque<Announcement>,
}

/// Why there is no next announcement.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The wake stream cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The wake stream is closed.
    #[error("the wake stream is closed; nothing is announced there any more")]
    Closed,
}

impl WakeFeed {
    /// Follows `stream` from its tail.
    ///
    /// # Errors
    /// [`HeadError`] if there is no such stream.
    pub async fn open(log: Arc<dyn Log>, stream: StreamPath) -> Result<Self, HeadError> {
        let stream = Address::from(stream);
        let at = log.head(&stream).await?.tail;
        Ok(Self { log, stream, at, heard: VecDeque::new() })
    }

    /// Waits for the next announcement. Messages that announce nothing are passed over. May be
    /// dropped at any time without missing one.
    ///
    /// # Errors
    /// [`FeedError`] if the stream cannot be followed.
    pub async fn next(&mut self) -> Result<Announcement, FeedError> {
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return Ok(heard);
            }
            let head = self.log.tail(&self.stream, self.at).await.map_err(ReadError::from)?;
            if head.closed && head.tail <= self.at {
                return Err(FeedError::Closed);
            }
            let from = ReadFrom::At(self.at);
            match self.log.read(&self.stream, from, FEED_BYTES).await {
                Ok(chunk) => {
                    let heard = chunk.messages().filter_map(|said| Announcement::parse(said).ok());
                    self.heard.extend(heard);
                    self.at = chunk.next;
                }
                // What was trimmed was announced to others; whoever claims misses nothing.
                Err(ReadError::Trimmed(fact)) => self.at = fact.earliest,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
