//! A log that does something else now and then.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};

use log::{
    Answer, Append, AppendError, Appended, Capabilities, Chunk, Layer, Log, ReadError, Unavailable,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use wire::{Address, ReadFrom};

/// Another log, and what becomes of calls on their way to it.
#[derive(Debug)]
pub(crate) struct Wrapped {
    inner: Arc<dyn Log>,
    pub(crate) capabilities: Capabilities,
    /// Messages that were read.
    pub(crate) read: AtomicUsize,
    /// One is taken for each read.
    pub(crate) reads: Semaphore,
    /// What happens to the next appends, the last one first.
    pub(crate) appends: Mutex<Vec<Fate>>,
    weather: AtomicU8,
    /// Messages of one chunk.
    chunk_max: usize,
    /// A position that no chunk goes past.
    cut: u64,
}

/// How the network to it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Weather {
    Fine,
    /// Nothing gets through.
    Down,
    /// Appends get through, and their answers do not.
    Deaf,
}

/// What happens to an append.
#[derive(Debug)]
pub(crate) enum Fate {
    Done,
    /// It does not happen.
    Fails,
    /// It happens, and nobody hears of it.
    Unheard,
    /// Somebody else appends first.
    After(Append),
    /// It waits at a gate.
    Held(Arc<Gate>),
    /// It is sent twice, since the first answer is lost, and the second one is told.
    Repeated,
    /// A server does not take it.
    Rejected,
    /// A server says so, and has taken it.
    Denied,
}

/// Where appends wait until they may go on.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) reached: Semaphore,
    pub(crate) open: Semaphore,
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { reached: Semaphore::new(0), open: Semaphore::new(0) })
    }

    /// Waits until somebody stands at it.
    pub(crate) async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }
}

impl Wrapped {
    pub(crate) fn new(inner: &Arc<dyn Log>) -> Self {
        Self {
            inner: inner.clone(),
            capabilities: inner.capabilities(),
            read: AtomicUsize::new(0),
            reads: Semaphore::new(Semaphore::MAX_PERMITS),
            appends: Mutex::default(),
            weather: AtomicU8::new(Weather::Fine as u8),
            chunk_max: usize::MAX,
            cut: 0,
        }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.weather.store(weather as u8, Ordering::SeqCst);
    }

    fn is(&self, weather: Weather) -> bool {
        self.weather.load(Ordering::SeqCst) == weather as u8
    }

    /// Gives chunks of so many messages at most.
    pub(crate) fn narrow(inner: &Arc<dyn Log>, chunk_max: usize) -> Self {
        Self { chunk_max, ..Self::new(inner) }
    }

    /// The same, and cuts one there.
    pub(crate) fn cutting(inner: &Arc<dyn Log>, chunk_max: usize, cut: u64) -> Arc<dyn Log> {
        Arc::new(Self { cut, ..Self::narrow(inner, chunk_max) })
    }

    /// Lets so many reads through, until others are allowed.
    pub(crate) fn gated(inner: &Arc<dyn Log>, reads: usize) -> Arc<Self> {
        Arc::new(Self { reads: Semaphore::new(reads), ..Self::new(inner) })
    }

    pub(crate) fn fated(inner: &Arc<dyn Log>, mut fates: Vec<Fate>) -> Arc<dyn Log> {
        fates.reverse();
        let this = Self::new(inner);
        *this.appends.lock() = fates;
        Arc::new(this)
    }
}

fn silence() -> Unavailable {
    Unavailable::Unreachable("the network is down".into())
}

impl Layer for Wrapped {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        let fate = self.appends.lock().pop().unwrap_or(Fate::Done);
        Box::pin(async move {
            if self.is(Weather::Down) {
                return Err(silence().into());
            }
            match fate {
                Fate::Done => {
                    let answer = self.inner.append(address, append).await;
                    if self.is(Weather::Deaf) { Err(silence().into()) } else { answer }
                }
                Fate::Fails => Err(Unavailable::Read("broken".into()).into()),
                Fate::Unheard => {
                    let _ = self.inner.append(address, append).await?;
                    Err(silence().into())
                }
                Fate::Held(gate) => {
                    gate.reached.add_permits(1);
                    gate.open.acquire().await.unwrap().forget();
                    self.inner.append(address, append).await
                }
                Fate::Repeated => {
                    let _ = self.inner.append(address, append.clone()).await?;
                    self.inner.append(address, append).await
                }
                Fate::Rejected => Err(Unavailable::Unreadable("413: too large".into()).into()),
                Fate::Denied => {
                    let _ = self.inner.append(address, append).await?;
                    Err(Unavailable::Unreadable("200: what?".into()).into())
                }
                Fate::After(other) => {
                    let _ = self.inner.append(address, other).await?;
                    self.inner.append(address, append).await
                }
            }
        })
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async move {
            if self.is(Weather::Down) {
                return Err(silence().into());
            }
            self.reads.acquire().await.unwrap().forget();
            let mut chunk = self.inner.read(address, from, bytes_max).await?;
            let start = chunk.start.position.get();
            let count = match self.cut.checked_sub(start) {
                Some(left @ 1..) => self.chunk_max.min(left as usize),
                _ => self.chunk_max,
            };
            if chunk.messages().count() > count {
                let bytes = chunk.messages().take(count).map(<[u8]>::len).sum();
                chunk = self.inner.read(address, from, bytes).await?;
                assert_eq!(chunk.messages().count(), count);
            }
            self.read.fetch_add(chunk.messages().count(), Ordering::Relaxed);
            Ok(chunk)
        })
    }
}
