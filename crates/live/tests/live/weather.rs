//! A log behind a network that comes and goes.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use log::{
    Answer, Append, AppendError, Appended, Capabilities, Chunk, Create, CreateError, Created,
    Delete, DeleteError, Fork, ForkError, Head, HeadError, List, ListError, Log, Page, ReadError,
    TrimError, Unavailable, Watch, WatchError,
};
use wire::{Address, Glob, Offset, ReadFrom};

/// How the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Weather {
    Fine,
    /// Nothing gets through.
    Down,
    /// Appends get through, and their answers do not.
    Deaf,
}

#[derive(Debug)]
pub(crate) struct Distant {
    log: Arc<dyn Log>,
    weather: AtomicU8,
}

impl Distant {
    pub(crate) fn new(log: &Arc<dyn Log>) -> Arc<Self> {
        Arc::new(Self { log: log.clone(), weather: AtomicU8::new(0) })
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.weather.store(weather as u8, Ordering::SeqCst);
    }

    fn is(&self, weather: Weather) -> bool {
        self.weather.load(Ordering::SeqCst) == weather as u8
    }
}

fn silence() -> Unavailable {
    Unavailable::Unreachable("the network is down".into())
}

impl Log for Distant {
    fn capabilities(&self) -> Capabilities {
        self.log.capabilities()
    }

    fn create<'a>(
        &'a self,
        address: &'a Address,
        create: Create,
    ) -> Answer<'a, Result<Created, CreateError>> {
        self.log.create(address, create)
    }

    fn fork<'a>(
        &'a self,
        address: &'a Address,
        fork: Fork,
    ) -> Answer<'a, Result<Created, ForkError>> {
        self.log.fork(address, fork)
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            if self.is(Weather::Down) {
                return Err(silence().into());
            }
            let answer = self.log.append(address, append).await;
            if self.is(Weather::Deaf) { Err(silence().into()) } else { answer }
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
            self.log.read(address, from, bytes_max).await
        })
    }

    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        self.log.tail(address, after)
    }

    fn watch(&self, glob: Glob) -> Result<Watch, WatchError> {
        self.log.watch(glob)
    }

    fn head<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Head, HeadError>> {
        self.log.head(address)
    }

    fn trim<'a>(
        &'a self,
        address: &'a Address,
        before: Offset,
    ) -> Answer<'a, Result<Head, TrimError>> {
        self.log.trim(address, before)
    }

    fn delete<'a>(
        &'a self,
        address: &'a Address,
        delete: Delete,
    ) -> Answer<'a, Result<(), DeleteError>> {
        self.log.delete(address, delete)
    }

    fn list(&self, list: List) -> Answer<'_, Result<Page, ListError>> {
        self.log.list(list)
    }
}
