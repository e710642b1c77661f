//! The words of the Durable Streams protocol, and their grammar.
//!
//! Every value that crosses the wire is parsed here, once, into a type that cannot hold a wrong
//! one; the rooms above trust those types. It is not a server and not a client, it never awaits,
//! and it keeps no state.
//!
//! ```
//! use wire::{Offset, StreamPath};
//!
//! let path: StreamPath = "chats/42".parse()?;
//! let offset: Offset = "0000000000000003_0000000000000120".parse()?;
//! assert_eq!(offset.position.get(), 3);
//! assert_eq!(path.to_string(), "chats/42");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod caps;
mod content_type;
mod cursor;
mod expiry;
pub mod framing;
mod glob;
pub mod headers;
pub mod json;
mod messages;
mod offset;
mod path;
mod producer;
pub mod sse;
mod stream_seq;

pub use content_type::{BadContentType, ContentType};
pub use cursor::Cursor;
pub use expiry::{BadExpiry, Expiry, Timestamp, Ttl};
pub use glob::{BadGlob, Glob, segment_matches};
pub use messages::{BadMessages, Messages};
pub use offset::{BadOffset, ByteOffset, Offset, Position, ReadFrom, SubOffset};
pub use path::{Address, BadPath, StreamPath, SystemPath, escaped};
pub use producer::{BadProducer, Epoch, Producer, ProducerId, ProducerSeq};
pub use stream_seq::{BadStreamSeq, StreamSeq};
