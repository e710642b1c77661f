//! An append-only log per stream: the waist that every room above stands on.
//!
//! [`Log`] is the contract. [`MemoryLog`] keeps it in memory, `FileLog` on one disk; the
//! HTTP client and the distributed engines keep it elsewhere, and the suite certifies them all.
//! It is not a server, it knows no HTTP, and it never looks inside a message.
//!
//! ```
//! use log::{Append, Create, Log, MemoryLog};
//! use wire::{Messages, ReadFrom, caps::CHUNK_BYTES_DEFAULT};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let log = MemoryLog::new(&sys::Sys::real());
//! let chat = wire::StreamPath::from_url("chats/42")?.into();
//! log.create(&chat, Create::default()).await?;
//! log.append(&chat, Append::messages(Messages::one("hello")?)).await?;
//!
//! let chunk = log.read(&chat, ReadFrom::Start, CHUNK_BYTES_DEFAULT).await?;
//! assert_eq!(chunk.bytes(), "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod contract;
mod error;
mod layer;
mod ops;
mod reading;
mod table;
mod watch;

#[cfg(feature = "file")]
pub mod file;
mod memory;
#[cfg(feature = "suite")]
pub mod suite;

pub use contract::{Answer, Log};
pub use error::{
    AppendError, ContentTypeMismatch, CreateError, DeleteError, ExpectedOffsetConflict, ForkError,
    ForkedElsewhere, HeadError, ListError, MessagesDamaged, OffsetBeyondTail, OffsetTrimmed,
    OffsetUnknown, ProducerEpochStart, ProducerFenced, ProducerGap, ReadError, StreamClosed,
    StreamExists, StreamGone, StreamNotFound, StreamSeqConflict, TooManyProducers, TrimError,
    Unavailable, Unsupported, WatchError,
};
pub use layer::Layer;
pub use memory::MemoryLog;
pub use ops::{
    Append, Appended, Capabilities, Chunk, Closing, Create, Created, Delete, Fork, Freshness, Head,
    Incarnation, Lifetime, List, Listed, Outcome, Page, ProducerState,
};
pub use watch::{Hints, Moved, WATCHERS_MAX, Watch};
