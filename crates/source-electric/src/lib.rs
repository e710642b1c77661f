//! Collections that follow a shape: rows of a Postgres table, brought by Electric over HTTP.
//!
//! A [`Shape`] is a [`Source`](live::Source): give it to [`Db::collection`](live::Db::collection).
//! It reads the log of the shape from its start, shows what it has when the server says that this
//! is all, and follows the log from then on, whatever breaks in between. It is not a way to write:
//! send writes to your own service, and wait with [`ShapeHandle::await_txid`] until they come back.
//!
//! ```no_run
//! use live::{Db, Row};
//! use serde::{Deserialize, Serialize};
//! use source_electric::Shape;
//!
//! #[derive(Clone, Debug, Serialize, Deserialize, Row)]
//! struct Todo {
//!     id: i64,
//!     text: String,
//!     done: bool,
//! }
//!
//! # async fn follow(sys: sys::Sys) -> Result<(), Box<dyn std::error::Error>> {
//! let db = Db::new(&sys);
//! let shape = Shape::<Todo>::builder(&sys, "https://electric.example/v1/shape")
//!     .table("todos")
//!     .where_("owner = $1")
//!     .param("ada")
//!     .build()?;
//! let handle = shape.handle();
//! let todos = db.collection::<Todo>(shape)?;
//! todos.ready().await?;
//!
//! let txid = 721; // What the service says that stored a write for us.
//! handle.await_txid(txid, std::time::Duration::from_secs(10)).await?;
//! # Ok(()) }
//! ```
//!
//! Reading order: `shape` is the loop; `position` says what to ask for next, `transport` asks,
//! `message` and `schema` read the answer, `pending` holds rows until all of their batch is there.
//! `demand` is for shapes that are loaded on demand, `sql` what the server is asked for then.

mod builder;
pub mod caps;
mod demand;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod message;
mod pending;
mod position;
mod postgres;
mod schema;
mod seen;
mod shape;
mod snapshot;
mod sql;
mod sse;
mod transport;
mod wanted;

pub use builder::{BadShape, Following, Replica, ShapeBuilder};
pub use seen::{ShapeHandle, TxIdTimeout};
pub use shape::Shape;
