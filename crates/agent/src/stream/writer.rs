//! When chunks are written, and which of them were.

use std::{future::Future, pin::Pin, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use live::Key;

use super::{Chunker, Pace, StreamError};
use crate::{
    caps::{CHUNK_WRITES_MAX, CHUNKS_PER_APPEND_MAX, DELETES_PER_APPEND_MAX},
    contract::{ChunkRow, new_chunk},
    rows::Chunk,
    table::{Table, TableError, Write, Written},
};

/// Writes chunks in their order.
pub(super) struct Pen<R> {
    table: Table<R>,
    pace: Pace,
    /// How long chunks may wait; for ever if none.
    wait: Option<Duration>,
    writing: FuturesUnordered<Written>,
    /// When the chunks that wait must be written.
    due: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_due: bool,
    keys: Vec<Key>,
}

impl<R: ChunkRow> Pen<R> {
    pub(super) fn new(table: Table<R>, pace: Pace, wait: Option<Duration>) -> Self {
        let writing = FuturesUnordered::new();
        Self { table, pace, wait, writing, due: None, is_due: false, keys: Vec::new() }
    }

    pub(super) fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// Whether no further write may begin. Only writes of our own keep their order while several
    /// are on their way.
    pub(super) fn is_full(&self) -> bool {
        let max = if self.table.is_written_elsewhere() { 1 } else { CHUNK_WRITES_MAX };
        self.writing.len() >= max
    }

    /// Waits until a write has ended.
    async fn written(&mut self) -> Result<(), StreamError> {
        match self.writing.next().await {
            Some(Err(error)) => Err(TableError::from(error).into()),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Waits until a write has ended, or what waits must be written. May be dropped meanwhile.
    pub(super) async fn turn(&mut self, is_any_waiting: bool) -> Result<(), StreamError> {
        let may_begin = is_any_waiting && !self.is_full() && !self.is_due;
        let due = self.due.as_mut().filter(|_| may_begin);
        let is_time = async {
            match due {
                Some(due) => due.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(written) = self.writing.next(), if !self.writing.is_empty() => {
                return written.map_err(|error| TableError::from(error).into());
            }
            () = is_time => {}
        }
        self.is_due = true;
        Ok(())
    }

    /// Begins to write what waits, if it is time.
    pub(super) fn write_what_may(&mut self, chunker: &mut Chunker) -> Result<(), StreamError> {
        // Some of a generation's chunks may be of a run before this one.
        let written = chunker.next_index() - chunker.len() as u64;
        if !chunker.is_worth_writing(written) {
            return Ok(());
        }
        if self.due.is_none()
            && let Some(wait) = self.wait
        {
            let clock = self.table.sys().clock.clone();
            self.due = Some(Box::pin(async move { clock.sleep(wait).await }));
        }
        let is_time = match self.pace {
            Pace::Adaptive => !self.is_writing() || self.is_due,
            Pace::Economy => self.is_due,
            Pace::FinalOnly => false,
        };
        if is_time && !self.is_full() { self.write(chunker.drain()) } else { Ok(()) }
    }

    fn write(&mut self, chunks: Vec<Chunk>) -> Result<(), StreamError> {
        (self.due, self.is_due) = (None, false);
        if chunks.is_empty() {
            return Ok(());
        }
        let rows: Vec<R> = chunks.into_iter().map(new_chunk).collect::<Result<_, _>>()?;
        self.keys.extend(rows.iter().map(live::Row::key));
        self.writing.push(self.table.begin(Write::Insert(rows))?);
        Ok(())
    }

    /// Writes the rest, and waits for everything.
    pub(super) async fn finish(&mut self, rest: Vec<Chunk>) -> Result<(), StreamError> {
        let mut rest = rest.into_iter();
        while rest.len() > 0 {
            while self.is_full() {
                self.written().await?;
            }
            self.write(rest.by_ref().take(CHUNKS_PER_APPEND_MAX).collect())?;
        }
        while self.is_writing() {
            self.written().await?;
        }
        Ok(())
    }

    /// Takes back all that was written.
    pub(super) async fn erase(&mut self) -> Result<(), StreamError> {
        delete(&self.table, std::mem::take(&mut self.keys)).await
    }
}

/// Deletes chunks, given first to last, from the last on: whoever reads meanwhile shows a begin.
pub(super) async fn delete<R: ChunkRow>(
    table: &Table<R>,
    mut keys: Vec<Key>,
) -> Result<(), StreamError> {
    while !keys.is_empty() {
        let mut last = keys.split_off(keys.len().saturating_sub(DELETES_PER_APPEND_MAX));
        last.reverse();
        table.delete(last).await?;
    }
    Ok(())
}
