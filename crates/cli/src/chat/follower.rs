//! A session that is read as it grows, also through the absence of its server.

use std::{sync::Arc, time::Duration};

use log::{Freshness, Log, ReadError};
use sessions::SessionId;
use sys::{Clock, Sys};
use wire::{Address, Offset, ReadFrom, caps::CHUNK_BYTES_DEFAULT};

use super::{LOOK_EVERY, talk::Talk};
use crate::failure::Failure;

/// Reads a session.
pub(super) struct Follower {
    clock: Clock,
    log: Arc<dyn Log>,
    address: Address,
    next: Option<Offset>,
    away_since: Option<Duration>,
}

/// What came of waiting.
pub(super) enum Heard {
    More,
    /// The server does not answer any more.
    Left,
    /// It still does not.
    Away {
        since: Duration,
        why: String,
    },
    /// It answers again.
    Back,
}

impl Follower {
    pub(super) fn new(sys: &Sys, log: Arc<dyn Log>, session: &SessionId) -> Self {
        let address = Address::from(session.path().clone());
        Self { clock: sys.clock.clone(), log, address, next: None, away_since: None }
    }

    /// Reads all there is.
    pub(super) async fn catch_up(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        while self.read(talk).await.map_err(Failure::refused)? == Freshness::Behind {}
        Ok(())
    }

    /// Waits for more, and reads it.
    pub(super) async fn next(&mut self, talk: &mut Talk) -> Result<Heard, Failure> {
        if let Some(since) = self.away_since {
            return self.look(since).await;
        }
        match self.hear(talk).await {
            Ok(()) => Ok(Heard::More),
            Err(error) if error.is_retryable() => {
                self.away_since = Some(self.clock.elapsed());
                Ok(Heard::Left)
            }
            Err(error) => Err(Failure::refused(error)),
        }
    }

    /// Looks whether the server is back.
    async fn look(&mut self, since: Duration) -> Result<Heard, Failure> {
        self.clock.sleep(LOOK_EVERY).await;
        match self.log.head(&self.address).await {
            Ok(_) => {
                self.away_since = None;
                Ok(Heard::Back)
            }
            Err(error) if error.is_retryable() => Ok(Heard::Away { since, why: error.to_string() }),
            Err(error) => Err(Failure::refused(error)),
        }
    }

    async fn hear(&mut self, talk: &mut Talk) -> Result<(), ReadError> {
        if let Some(next) = self.next {
            self.log.tail(&self.address, next).await?;
        }
        self.read(talk).await.map(drop)
    }

    async fn read(&mut self, talk: &mut Talk) -> Result<Freshness, ReadError> {
        let from = self.next.map_or(ReadFrom::Start, ReadFrom::At);
        let chunk = self.log.read(&self.address, from, CHUNK_BYTES_DEFAULT).await?;
        for (position, message) in (chunk.start.position.get()..).zip(chunk.messages()) {
            talk.take(position, message);
        }
        self.next = Some(chunk.next);
        Ok(chunk.freshness)
    }
}
