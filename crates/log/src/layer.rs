//! Logs that stand before another.

use std::{fmt, sync::Arc};

use wire::{Address, Glob, Offset, ReadFrom};

use crate::{
    Answer, Append, AppendError, Appended, Capabilities, Chunk, Create, CreateError, Created,
    Delete, DeleteError, Fork, ForkError, Head, HeadError, List, ListError, Log, Page, ReadError,
    TrimError, Watch, WatchError,
};

/// A log before another: it counts, refuses, delays or looks at some calls, and all others go
/// through to the one behind it. Whatever is a layer is a [`Log`].
///
/// ```
/// use log::{Answer, Append, AppendError, Appended, Layer, Log, MemoryLog, Unavailable};
///
/// /// Lets nothing be written.
/// #[derive(Debug)]
/// struct ReadOnly(MemoryLog);
///
/// impl Layer for ReadOnly {
///     fn behind(&self) -> &dyn Log {
///         &self.0
///     }
///
///     fn append<'a>(
///         &'a self,
///         _: &'a wire::Address,
///         _: Append,
///     ) -> Answer<'a, Result<Appended, AppendError>> {
///         let why = Unavailable::Denied("nothing is written here".into());
///         Box::pin(async { Err(why.into()) })
///     }
/// }
///
/// fn is_a_log<L: Log>() {}
/// is_a_log::<ReadOnly>();
/// ```
pub trait Layer: Send + Sync + fmt::Debug + 'static {
    /// The log behind it.
    fn behind(&self) -> &dyn Log;

    /// As [`Log::capabilities`].
    fn capabilities(&self) -> Capabilities {
        self.behind().capabilities()
    }

    /// As [`Log::create`].
    fn create<'a>(
        &'a self,
        address: &'a Address,
        create: Create,
    ) -> Answer<'a, Result<Created, CreateError>> {
        self.behind().create(address, create)
    }

    /// As [`Log::fork`].
    fn fork<'a>(
        &'a self,
        address: &'a Address,
        fork: Fork,
    ) -> Answer<'a, Result<Created, ForkError>> {
        self.behind().fork(address, fork)
    }

    /// As [`Log::append`]; [`Log::close`] comes here, too.
    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        self.behind().append(address, append)
    }

    /// As [`Log::read`].
    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        self.behind().read(address, from, bytes_max)
    }

    /// As [`Log::tail`].
    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        self.behind().tail(address, after)
    }

    /// As [`Log::watch`].
    #[expect(clippy::missing_errors_doc, reason = "they are told there")]
    fn watch(&self, glob: Glob) -> Result<Watch, WatchError> {
        self.behind().watch(glob)
    }

    /// As [`Log::head`].
    fn head<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Head, HeadError>> {
        self.behind().head(address)
    }

    /// As [`Log::trim`].
    fn trim<'a>(
        &'a self,
        address: &'a Address,
        before: Offset,
    ) -> Answer<'a, Result<Head, TrimError>> {
        self.behind().trim(address, before)
    }

    /// As [`Log::delete`].
    fn delete<'a>(
        &'a self,
        address: &'a Address,
        delete: Delete,
    ) -> Answer<'a, Result<(), DeleteError>> {
        self.behind().delete(address, delete)
    }

    /// As [`Log::erase_within`].
    fn erase_within<'a>(
        &'a self,
        address: &'a Address,
        within: Arc<[Glob]>,
    ) -> Answer<'a, Result<(), DeleteError>> {
        self.behind().erase_within(address, within)
    }

    /// As [`Log::list`].
    fn list<'a>(&'a self, list: List) -> Answer<'a, Result<Page, ListError>> {
        self.behind().list(list)
    }
}

impl<L: Layer> Log for L {
    fn capabilities(&self) -> Capabilities {
        Layer::capabilities(self)
    }

    fn create<'a>(
        &'a self,
        address: &'a Address,
        create: Create,
    ) -> Answer<'a, Result<Created, CreateError>> {
        Layer::create(self, address, create)
    }

    fn fork<'a>(
        &'a self,
        address: &'a Address,
        fork: Fork,
    ) -> Answer<'a, Result<Created, ForkError>> {
        Layer::fork(self, address, fork)
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Layer::append(self, address, append)
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Layer::read(self, address, from, bytes_max)
    }

    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        Layer::tail(self, address, after)
    }

    fn watch(&self, glob: Glob) -> Result<Watch, WatchError> {
        Layer::watch(self, glob)
    }

    fn head<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Head, HeadError>> {
        Layer::head(self, address)
    }

    fn trim<'a>(
        &'a self,
        address: &'a Address,
        before: Offset,
    ) -> Answer<'a, Result<Head, TrimError>> {
        Layer::trim(self, address, before)
    }

    fn delete<'a>(
        &'a self,
        address: &'a Address,
        delete: Delete,
    ) -> Answer<'a, Result<(), DeleteError>> {
        Layer::delete(self, address, delete)
    }

    fn erase_within<'a>(
        &'a self,
        address: &'a Address,
        within: Arc<[Glob]>,
    ) -> Answer<'a, Result<(), DeleteError>> {
        Layer::erase_within(self, address, within)
    }

    fn list<'a>(&'a self, list: List) -> Answer<'a, Result<Page, ListError>> {
        Layer::list(self, list)
    }
}
