//! A log that is far away: after so many appends the network to it is gone, until it is back.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use log::{
    Answer, Append, AppendError, Appended, Capabilities, Chunk, Create, CreateError, Created,
    Delete, DeleteError, Fork, ForkError, Head, HeadError, List, ListError, Log, Page, ReadError,
    TrimError, Watch, WatchError,
};
use tokio::sync::watch;
use wire::{Address, Glob, Offset, ReadFrom};

/// Appends beyond the first ones are on their way until the network is back. Reads get through.
pub(crate) struct Cut {
    inner: Arc<dyn Log>,
    appends_left: AtomicUsize,
    is_back: watch::Sender<bool>,
}

impl Cut {
    pub(crate) fn after(appends: usize, inner: &Arc<dyn Log>) -> Arc<Self> {
        let (appends_left, is_back) = (AtomicUsize::new(appends), watch::Sender::new(false));
        Arc::new(Self { inner: inner.clone(), appends_left, is_back })
    }

    /// What was on its way arrives.
    pub(crate) fn mend(&self) {
        self.is_back.send_replace(true);
    }
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cut")
    }
}

impl Log for Cut {
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
        let less = |left: usize| left.checked_sub(1);
        let passed = self.appends_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        Box::pin(async move {
            if passed.is_err() {
                let _ = self.is_back.subscribe().wait_for(|is_back| *is_back).await;
            }
            self.inner.append(address, append).await
        })
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        self.inner.read(address, from, bytes_max)
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
