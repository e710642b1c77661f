//! The streams as their owner knows them, and as everybody else sees them.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use parking_lot::RwLock;
use sys::UnixMs;
use wire::Address;

use super::{
    place::{Extent, Place},
    stream::{Published, Stream},
};
use crate::{
    HeadError, Incarnation, List, Listed, Page, StreamNotFound,
    table::{Change, Meta, Table},
    watch::Watchers,
};

/// What the committer owns.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) table: Table,
    pub(super) streams: BTreeMap<Incarnation, Arc<Stream>>,
}

/// What readers share.
#[derive(Debug, Default)]
pub(super) struct Registry {
    // Held to look a stream up, or for one page of a list.
    streams: RwLock<BTreeMap<Address, Arc<Stream>>>,
    pub(super) watchers: Watchers,
    /// Set once by a failed write: nothing is accepted any more.
    pub(super) poisoned: OnceLock<String>,
}

impl Registry {
    pub(super) fn find(&self, address: &Address) -> Result<Arc<Stream>, HeadError> {
        self.streams.read().get(address).cloned().ok_or(StreamNotFound.into())
    }

    pub(super) fn list(&self, list: &List, now: UnixMs) -> Page {
        let limit = list.page_size();
        let streams = self.streams.read();
        let mut found = streams
            .range(list.first()..)
            .filter_map(|(address, stream)| Some((address.stream()?, stream)))
            .take_while(|(path, _)| path.as_str().starts_with(&list.prefix))
            .filter(|(path, _)| list.after.as_ref() != Some(path))
            .filter_map(|(path, stream)| {
                Some(Listed { path: path.clone(), head: stream.head(now).ok()? })
            });
        let page: Vec<Listed> = found.by_ref().take(limit).collect();
        let next = found.next().and_then(|_| page.last().map(|last| last.path.clone()));
        Page { streams: page, next }
    }

    fn insert(&self, stream: Arc<Stream>) {
        self.streams.write().insert(stream.address.clone(), stream);
    }

    fn remove(&self, stream: &Stream) {
        let mut streams = self.streams.write();
        // The name may belong to a newer stream by now.
        if streams.get(&stream.address).is_some_and(|found| found.id == stream.id) {
            streams.remove(&stream.address);
        }
    }
}

impl State {
    /// Folds a change in, before it is durable.
    pub(super) fn stage(&mut self, change: &Change, place: Place) {
        self.table.apply(change);
        if self.table.get(change.id()).is_some() {
            self.table.meta_mut(change.id()).applied = place.sequence();
        }
    }

    /// Shows a durable change to everybody.
    pub(super) fn publish(
        &mut self,
        registry: &Registry,
        change: &Change,
        place: Place,
        length: u32,
    ) {
        let extent = change.messages().map(|(start, _)| Extent { start, place, length });
        let id = change.id();
        let stream = match (change, self.streams.get(&id)) {
            (Change::Create(new), _) => {
                let mut meta = Meta::new(new);
                if let Some(owned) = self.table.get(id) {
                    meta.touched = owned.touched.clone();
                }
                self.show(registry, id, &meta, extent.into_iter().collect())
            }
            (_, Some(stream)) => stream.clone(),
            (_, None) => unreachable!("changes speak of streams that exist"),
        };
        let tail = match change {
            Change::Create(new) => Meta::new(new).tail,
            Change::Append(new) => {
                let (count, bytes) = (new.messages.len(), new.messages.data().len());
                let tail = new.start.after(count as u64, bytes as u64);
                stream.publish_append(extent, &Published { tail, closed: new.close, at: new.at });
                tail
            }
            Change::Touch { at, .. } => return stream.publish_touch(*at),
            Change::Trim { before, .. } => return stream.publish_trim(*before),
            Change::Retire { .. } => {
                stream.publish_retired();
                wire::Offset::START
            }
            Change::Drop { .. } => {
                self.streams.remove(&id);
                registry.remove(&stream);
                stream.publish_dropped();
                if let Some(parent) = &stream.origin {
                    parent.stream.publish_fork_dropped();
                }
                wire::Offset::START
            }
        };
        registry.watchers.moved(&stream.address, tail, id);
    }

    /// Makes a stream visible.
    pub(super) fn show(
        &mut self,
        registry: &Registry,
        id: Incarnation,
        meta: &Meta,
        extents: Vec<Extent>,
    ) -> Arc<Stream> {
        let parent = meta.origin.as_ref().map(|origin| self.streams[&origin.parent].clone());
        if let Some(parent) = &parent {
            parent.publish_fork();
        }
        let stream = Arc::new(Stream::new(id, meta, parent, extents));
        self.streams.insert(id, stream.clone());
        registry.insert(stream.clone());
        stream
    }
}
