//! Targets: where streams are, and the few things that commands ask of that place.

mod http;
mod local;
mod remote;

use std::{env, path::PathBuf, sync::Arc};

use client::Retry;
use log::{Append, Create, Delete, Fork, Freshness, List, Log, Outcome};
use sys::Sys;
use wire::{ContentType, Messages, Offset, ReadFrom, StreamPath};

use self::local::Local;
pub(crate) use self::remote::Remote;
use super::{args::PlaceArgs, summary::Summary};
use crate::{config::DATA_DIR_DEFAULT, failure::Failure};

/// Streams in a directory, or on a server.
#[derive(Debug)]
pub(crate) enum Target {
    Local(Local),
    Remote(Box<Remote>),
}

/// What must be in a directory before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// It is made if it is missing.
    Nothing,
    /// Something to work with: a misspelt name must not make an empty one.
    Data,
}

/// A stream that was made, or found as it should be.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) outcome: Outcome,
    pub(super) content_type: String,
    pub(super) tail: Offset,
    pub(super) closed: bool,
}

/// Messages that were stored, now or before.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) outcome: Outcome,
    pub(super) tail: Offset,
    pub(super) closed: bool,
}

/// Messages, and where the reader stands after them.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) content_type: ContentType,
    pub(super) runs: Vec<Messages>,
    pub(super) next: Offset,
    pub(super) freshness: Freshness,
}

/// One page of streams, and where the next one begins.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) streams: Vec<Summary>,
    pub(super) next: Option<StreamPath>,
}

/// Which place was chosen.
enum Place {
    Directory(PathBuf),
    Server(String),
}

impl Target {
    /// Opens the place that the command line or the environment names.
    pub(crate) async fn open(sys: &Sys, args: PlaceArgs, needs: Needs) -> Result<Self, Failure> {
        let PlaceArgs { data_dir, url, token } = args;
        match choose(data_dir, url) {
            Place::Directory(dir) => Local::open(sys, &dir, needs).await.map(Self::Local),
            Place::Server(url) => {
                let token = token.or_else(|| variable("HEADWATER_TOKEN"));
                Remote::new(&url, token.as_deref()).map(|remote| Self::Remote(Box::new(remote)))
            }
        }
    }

    /// All that can be done there.
    pub(crate) async fn log(&self, sys: &Sys) -> Result<Arc<dyn Log>, Failure> {
        self.log_with(sys, Retry::default()).await
    }

    /// The same, for whoever has a say in how often a request is made again.
    pub(super) async fn log_with(&self, sys: &Sys, retry: Retry) -> Result<Arc<dyn Log>, Failure> {
        match self {
            Self::Local(local) => Ok(local.log()),
            Self::Remote(remote) => remote.log(sys, retry).await,
        }
    }

    /// The server, if it is one.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Local(_) => None,
            Self::Remote(remote) => Some(remote),
        }
    }

    /// Lets go of the place.
    pub(crate) async fn close(self) {
        match self {
            Self::Local(local) => local.close().await,
            Self::Remote(_) => {}
        }
    }

    pub(super) async fn create(&self, path: &StreamPath, create: Create) -> Result<Made, Failure> {
        match self {
            Self::Local(local) => local.create(path, create).await,
            Self::Remote(remote) => remote.create(path, &create).await,
        }
    }

    pub(super) async fn fork(&self, path: &StreamPath, fork: Fork) -> Result<Made, Failure> {
        match self {
            Self::Local(local) => local.fork(path, fork).await,
            Self::Remote(remote) => remote.fork(path, &fork).await,
        }
    }

    pub(super) async fn append(
        &self,
        path: &StreamPath,
        append: Append,
    ) -> Result<Stored, Failure> {
        match self {
            Self::Local(local) => local.append(path, append).await,
            Self::Remote(remote) => remote.append(path, &append).await,
        }
    }

    /// The messages from `from`, as many as come in one answer.
    pub(super) async fn read(&self, path: &StreamPath, from: ReadFrom) -> Result<Part, Failure> {
        match self {
            Self::Local(local) => local.read(path, from).await,
            Self::Remote(remote) => remote.read(path, from).await,
        }
    }

    /// Waits for messages after `after`. The wait may end without any.
    pub(super) async fn follow(&self, path: &StreamPath, after: Offset) -> Result<Part, Failure> {
        match self {
            Self::Local(local) => local.follow(path, after).await,
            Self::Remote(remote) => remote.follow(path, after).await,
        }
    }

    pub(super) async fn head(&self, path: &StreamPath) -> Result<Summary, Failure> {
        match self {
            Self::Local(local) => local.head(path).await,
            Self::Remote(remote) => remote.head(path).await,
        }
    }

    pub(super) async fn trim(&self, path: &StreamPath, before: Offset) -> Result<(), Failure> {
        match self {
            Self::Local(local) => local.trim(path, before).await,
            Self::Remote(remote) => remote.trim(path, before).await,
        }
    }

    pub(super) async fn delete(&self, path: &StreamPath, delete: Delete) -> Result<(), Failure> {
        match self {
            Self::Local(local) => local.delete(path, delete).await,
            Self::Remote(remote) => remote.delete(path, delete).await,
        }
    }

    pub(super) async fn list(&self, list: List) -> Result<Page, Failure> {
        match self {
            Self::Local(local) => local.list(list).await,
            Self::Remote(remote) => remote.list(&list).await,
        }
    }
}

impl Part {
    pub(super) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.runs.iter().flat_map(Messages::iter)
    }
}

/// What is typed wins over the environment; a server wins over a directory.
fn choose(data_dir: Option<PathBuf>, url: Option<String>) -> Place {
    if let Some(url) = url {
        return Place::Server(url);
    }
    if let Some(dir) = data_dir {
        return Place::Directory(dir);
    }
    if let Some(url) = variable("HEADWATER_URL") {
        return Place::Server(url);
    }
    let dir = env::var_os("HEADWATER_DATA_DIR").unwrap_or_else(|| DATA_DIR_DEFAULT.into());
    Place::Directory(dir.into())
}

/// A variable's value; an empty one is how many tools write one that is not set.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
