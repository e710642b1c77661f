//! A log that counts what is read from it, and a model that notes the count each time it is asked.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use chat::{Abilities, Model, ModelName, ModelStream, Request};
use log::{Answer, Layer, Log, ReadError};
use parking_lot::Mutex;
use providers::scripted::Scripted;
use sys::Cancellation;
use wire::{Address, ReadFrom};

/// A log that counts what is read from it.
#[derive(Debug)]
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
        let known = before.map(|before| before.messages.clone()).unwrap_or_default();
        let is_shared = |(now, before): &(&_, &_)| Arc::ptr_eq(now, before);
        let shared = request.messages.iter().zip(&known).take_while(is_shared).count();
        self.samples.lock().push(Sample {
            messages: self.log.messages.load(Ordering::Relaxed),
            bytes: self.log.bytes.load(Ordering::Relaxed),
            chunks: self.log.chunks.load(Ordering::Relaxed),
            made: request.messages.len() - shared,
        });
        self.model.call(request, cancellation)
    }
}

impl Layer for Counted {
    fn behind(&self) -> &dyn Log {
        &*self.inner
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
}
