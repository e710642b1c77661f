//! The contract every engine keeps.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use wire::{Address, Glob, Messages, Offset, ReadFrom};

use crate::{
    Append, AppendError, Appended, Capabilities, Chunk, Closing, Create, CreateError, Created,
    Delete, DeleteError, Fork, ForkError, Head, HeadError, List, ListError, Page, ReadError,
    TrimError, Unsupported, Watch, WatchError,
};

/// The future an engine answers with.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Durable append-only streams.
///
/// ```text
///            trimmed          kept, durable            in flight
///        ┌─────────────┬──────────────────────────┬──────────────┐
/// pos    0             earliest                    tail
///        └─ read: 410 ─┴─ read: messages ─────────┴─ nobody sees it
/// ```
///
/// - **Durable, then visible, then acknowledged.** A reader, a refusal and an answer only ever
///   tell what a crash cannot take back. An append that was refused changed nothing.
/// - **One order.** The appends of a stream are totally ordered; a reader sees a prefix of that
///   order. Appends by one caller that waits for each answer keep the caller's order.
/// - **Exactly once.** An append with a [`wire::Producer`] may be sent again, also after a crash
///   of either side: it is stored once, and the answer says so. (Once another append has closed the
///   stream, the protocol answers every retry but the closer's with [`crate::StreamClosed`].)
/// - **Messages are whole.** No read cuts a message; boundaries are those of the append.
/// - **Cancel at will.** Dropping a future leaves the stream in one of two states: as before, or
///   as if it had completed.
///
/// Every method may be called from any task at any time; none holds another up for longer than
/// one write to the disk.
pub trait Log: Send + Sync + fmt::Debug + 'static {
    /// What this implementation can do beyond the Durable Streams protocol.
    fn capabilities(&self) -> Capabilities;

    /// Makes a stream, or confirms that one with the same settings exists.
    fn create<'a>(
        &'a self,
        address: &'a Address,
        create: Create,
    ) -> Answer<'a, Result<Created, CreateError>>;

    /// Makes a stream that begins as a prefix of another, or confirms that it exists.
    fn fork<'a>(
        &'a self,
        address: &'a Address,
        fork: Fork,
    ) -> Answer<'a, Result<Created, ForkError>>;

    /// Appends messages, closes the stream, or both at once.
    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>>;

    /// Closes the stream: nothing can follow. Closing again is no error.
    fn close<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Appended, AppendError>> {
        let append = Append { closing: Closing::Close, ..Append::messages(Messages::none()) };
        self.append(address, append)
    }

    /// Reads whole messages from `from`: at least one if there is one, and no further one that
    /// would take the chunk past `bytes_max`. An offset past the tail is answered with an empty
    /// chunk that ends at the tail: [`Chunk::overshoot`] tells. A read backwards
    /// ([`ReadFrom::Last`], [`ReadFrom::Before`]) keeps the newest messages and the order of the
    /// stream; the page before it ends at [`Chunk::start`], and the earliest message was read when
    /// that is [`Head::earliest`].
    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>>;

    /// Waits until the durable tail is past `after` or the stream is closed, and tells where it is.
    ///
    /// # Errors
    /// Also when the stream is deleted meanwhile.
    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>>;

    /// Hints at streams whose tails moved, from now on. Hints may repeat; a watcher that lags gets
    /// [`crate::Moved::Resync`] and must look for itself. So does the watcher of a log that is
    /// elsewhere, as soon as it is heard there.
    fn watch(&self, glob: Glob) -> Result<Watch, WatchError>;

    /// What is known of the stream. Does not prolong its life.
    fn head<'a>(&'a self, address: &'a Address) -> Answer<'a, Result<Head, HeadError>>;

    /// Forgets all messages before `before`; trimming less than before is no error.
    fn trim<'a>(
        &'a self,
        address: &'a Address,
        before: Offset,
    ) -> Answer<'a, Result<Head, TrimError>>;

    /// Deletes the stream. While forks need its data it is gone for everybody but them.
    fn delete<'a>(
        &'a self,
        address: &'a Address,
        delete: Delete,
    ) -> Answer<'a, Result<(), DeleteError>>;

    /// Erases the stream as [`Delete::Erase`] does, if each stream that this takes along has a path
    /// that one of `within` matches; forks that were deleted before need none. Looking and erasing
    /// are one step: no fork comes between.
    ///
    /// # Errors
    /// [`crate::ForkedElsewhere`] if there is another fork; then nothing changes.
    fn erase_within<'a>(
        &'a self,
        _address: &'a Address,
        _within: Arc<[Glob]>,
    ) -> Answer<'a, Result<(), DeleteError>> {
        Box::pin(async { Err(Unsupported { what: "bound what an erase takes along" }.into()) })
    }

    /// One page of the user's streams, in order of their paths.
    fn list<'a>(&'a self, list: List) -> Answer<'a, Result<Page, ListError>>;
}
