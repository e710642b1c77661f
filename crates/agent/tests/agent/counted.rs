//! A log that counts what is read from it, and a model that notes the count each time it is asked.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use chat::{Abilities, Model, ModelName, ModelStream, Request};
use log::{
    Answer, Append, AppendError, Appended, Capabilities, Create, CreateError, Created, Delete,
    DeleteError, Fork, ForkError, Head, HeadError, List, ListError, Log, Page, ReadError,
    TrimError, Watch, WatchError,
};
use parking_lot::Mutex;
use providers::scripted::Scripted;
use sys::Cancellation;
use wire::{Address, Glob, Offset, ReadFrom};

/// A log that counts what is read from it.
pub(crate) struct Counted {
    inner: Arc<dyn Log>,
    messages: AtomicUsize,
    bytes: AtomicUsize,
    chunks: AtomicUsize,
}

/// What an agent had done when its model was asked.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Messages read from the log, without chunks.
    pub(crate) messages: usize,
    /// Bytes of these.
    pub(crate) bytes: usize,
    /// Chunks read from the log.
    pub(crate) chunks: usize,
    /// Messages of the request that were not in the request before, or were made anew for it.
    pub(crate) made: usize,
}

/// A model that takes a sample each time it is asked.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub(crate) model: Scripted,
    pub(crate) log: Arc<Counted>,
    pub(crate) samples: Mutex<Vec<Sample>>,
    pub(crate) before: Mutex<Option<Arc<Request>>>,
}

/// Whether a message of the stream is a piece of a text.
pub(crate) fn is_chunk(message: &[u8]) -> bool {
    message.starts_with(br#"{"type":"chunk""#)
}

impl Counted {
    pub(crate) fn new(inner: Arc<dyn Log>) -> Arc<Self> {
        let [messages, bytes, chunks] = [0; 3].map(AtomicUsize::new);
        Arc::new(Self { inner, messages, bytes, chunks })
    }
}

impl Sampler {
    pub(crate) fn new(model: Scripted, log: Arc<Counted>) -> Arc<Self> {
        Arc::new(Self { model, log, samples: Mutex::default(), before: Mutex::default() })
    }
}

impl Model for Sampler {
    fn name(&self) -> &ModelName {
        self.model.name()
    }

    fn abilities(&self) -> Abilities {
        self.model.abilities()
    }

    fn call(&self, request: Arc<Request>, cancellation: Cancellation) -> ModelStream {
        let before = self.before.lock().replace(Arc::clone(&request));
        let known = before.as_ref().map(|before| before.messages.as_slice()).unwrap_or_default();
        let is_shared = |(now, before): &(&_, &_)| Arc::ptr_eq(now, before);
        let shared = request.messages.iter().zip(known).take_while(is_shared).count();
        self.samples.lock().push(Sample {
            messages: self.log.messages.load(Ordering::Relaxed),
            bytes: self.log.bytes.load(Ordering::Relaxed),
            chunks: self.log.chunks.load(Ordering::Relaxed),
            made: request.messages.len() - shared,
        });
        self.model.call(request, cancellation)
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counted")
    }
}

impl Log for Counted {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn create<'a>(
        &'a self,
        address: &'a Address,
        create: Create,
    ) -> Answer<'a, Result<Created, CreateError>> {
        self.inner.create(address, create)
    }

    fn fork<'a>(
        &'a self,
        address: &'a Address,
        fork: Fork,
    ) -> Answer<'a, Result<Created, ForkError>> {
        self.inner.fork(address, fork)
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        self.inner.append(address, append)
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<log::Chunk, ReadError>> {
        Box::pin(async move {
            let chunk = self.inner.read(address, from, bytes_max).await?;
            for message in chunk.messages() {
                if is_chunk(message) {
                    self.chunks.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                self.messages.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(message.len(), Ordering::Relaxed);
            }
            Ok(chunk)
        })
    }

    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        self.inner.tail(address, after)
    }

    fn watch(&self, glob: Glob) -> Result<Watch, WatchError> {
        self.inner.watch(glob)
    }

    fn head<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Head, HeadError>> {
        self.inner.head(address)
    }

    fn trim<'a>(
        &'a self,
        address: &'a Address,
        before: Offset,
    ) -> Answer<'a, Result<Head, TrimError>> {
        self.inner.trim(address, before)
    }

    fn delete<'a>(
        &'a self,
        address: &'a Address,
        delete: Delete,
    ) -> Answer<'a, Result<(), DeleteError>> {
        self.inner.delete(address, delete)
    }

    fn list<'a>(&'a self, list: List) -> Answer<'a, Result<Page, ListError>> {
        self.inner.list(list)
    }
}
