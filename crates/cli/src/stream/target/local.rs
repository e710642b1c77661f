//! Streams in a data directory, without a server in between.

use std::{path::Path, sync::Arc};

use log::{
    Append, Create, Created, Delete, Fork, List, Log,
    file::{FileLog, OpenError, Settings},
};
use sys::Sys;
use wire::{Address, Offset, ReadFrom, StreamPath, caps::CHUNK_BYTES_DEFAULT};

use super::{Made, Needs, Page, Part, Stored};
use crate::{failure::Failure, stream::summary::Summary};

/// A command writes little and should not wait for the disk to make room for much.
const SEGMENT_BYTES: u32 = 1024 * 1024;
/// A segment holds many commits.
const COMMIT_BYTES_MAX: usize = SEGMENT_BYTES as usize / 16;

/// What every data directory has.
const FORMAT_FILE: &str = "FORMAT";

/// An open data directory.
#[derive(Debug)]
pub(crate) struct Local {
    log: FileLog,
}

impl Local {
    pub(super) async fn open(sys: &Sys, dir: &Path, needs: Needs) -> Result<Self, Failure> {
        if needs == Needs::Data && !dir.join(FORMAT_FILE).is_file() {
            let advice = "there are no streams here; create one, or name the place with \
                          --data-dir or --url";
            return Err(Failure::about(dir.display(), advice));
        }
        let settings = Settings {
            segment_bytes: SEGMENT_BYTES,
            commit_bytes_max: COMMIT_BYTES_MAX,
            ..Settings::default()
        };
        match FileLog::open(sys, dir, settings).await {
            Ok(log) => Ok(Self { log }),
            Err(OpenError::Locked(dir)) => {
                let advice = "a server is running on this directory; go through it with --url, \
                              such as --url http://127.0.0.1:4437";
                Err(Failure::about(dir.display(), advice))
            }
            Err(error) => Err(Failure::refused(error)),
        }
    }

    pub(super) fn log(&self) -> Arc<dyn Log> {
        Arc::new(self.log.clone())
    }

    pub(super) async fn close(self) {
        self.log.close().await;
    }

    pub(super) async fn create(&self, path: &StreamPath, create: Create) -> Result<Made, Failure> {
        let created = self.log.create(&address(path), create).await;
        created.map(Made::from).map_err(|error| Failure::about(path, error))
    }

    pub(super) async fn fork(&self, path: &StreamPath, fork: Fork) -> Result<Made, Failure> {
        let created = self.log.fork(&address(path), fork).await;
        created.map(Made::from).map_err(|error| Failure::about(path, error))
    }

    pub(super) async fn append(
        &self,
        path: &StreamPath,
        append: Append,
    ) -> Result<Stored, Failure> {
        let appended = self.log.append(&address(path), append).await;
        let appended = appended.map_err(|error| Failure::about(path, error))?;
        Ok(Stored { outcome: appended.outcome, tail: appended.tail, closed: appended.closed })
    }

    pub(super) async fn read(&self, path: &StreamPath, from: ReadFrom) -> Result<Part, Failure> {
        let chunk = self.log.read(&address(path), from, CHUNK_BYTES_DEFAULT).await;
        let chunk = chunk.map_err(|error| Failure::about(path, error))?;
        Ok(Part {
            content_type: chunk.content_type,
            runs: chunk.runs,
            next: chunk.next,
            freshness: chunk.freshness,
        })
    }

    pub(super) async fn follow(&self, path: &StreamPath, after: Offset) -> Result<Part, Failure> {
        let moved = self.log.tail(&address(path), after).await;
        moved.map_err(|error| Failure::about(path, error))?;
        self.read(path, ReadFrom::At(after)).await
    }

    pub(super) async fn head(&self, path: &StreamPath) -> Result<Summary, Failure> {
        let head = self.log.head(&address(path)).await;
        head.map(|head| Summary::new(path, &head)).map_err(|error| Failure::about(path, error))
    }

    pub(super) async fn trim(&self, path: &StreamPath, before: Offset) -> Result<(), Failure> {
        let trimmed = self.log.trim(&address(path), before).await;
        trimmed.map(|_| ()).map_err(|error| Failure::about(path, error))
    }

    pub(super) async fn delete(&self, path: &StreamPath, delete: Delete) -> Result<(), Failure> {
        let deleted = self.log.delete(&address(path), delete).await;
        deleted.map_err(|error| Failure::about(path, error))
    }

    pub(super) async fn list(&self, list: List) -> Result<Page, Failure> {
        let page = self.log.list(list).await.map_err(Failure::refused)?;
        let streams = page.streams.iter().map(|one| Summary::new(&one.path, &one.head));
        Ok(Page { streams: streams.collect(), next: page.next })
    }
}

impl From<Created> for Made {
    fn from(created: Created) -> Self {
        let Created { outcome, head } = created;
        let content_type = head.content_type.to_string();
        Self { outcome, content_type, tail: head.tail, closed: head.closed }
    }
}

fn address(path: &StreamPath) -> Address {
    path.clone().into()
}
