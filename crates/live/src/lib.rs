//! Collections that live: fed by a source, written optimistically, watched by queries and effects.
//!
//! [`Db`] holds collections and answers queries over them, once or for as long as somebody looks.
//! [`StreamDb`] is one whose rows come from a durable stream and whose writes go there.
//! [`Effect`]s run code when a row enters, changes in or leaves a query; durable ones go on after
//! a crash where they were. An [`Outbox`] keeps what cannot be sent now, and [`compact`] shortens a
//! stream and keeps all that it says. It is a thin shell: what is true is decided by `query`, and
//! this crate brings it time, tasks and the log.
//!
//! ```
//! use live::{Db, Row};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Debug, Serialize, Deserialize, Row)]
//! struct Todo {
//!     id: String,
//!     text: String,
//!     done: bool,
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let db = Db::new(&sys::Sys::real());
//! let todos = db.local::<Todo>()?;
//! let open = db.live(live::from::<Todo>().filter(Todo::done.eq(false)))?;
//!
//! todos.insert(Todo { id: "1".into(), text: "write docs".into(), done: false })?;
//! assert_eq!(open.rows()[0].text, "write docs");
//! todos.update("1", |todo| todo.done = true)?;
//! assert!(open.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The guide, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/live.md")]
pub struct Guide;

mod action;
pub mod caps;
mod changes;
mod collection;
mod compact;
mod db;
mod effect;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod live_query;
mod outbox;
mod pace;
mod panic;
mod retry;
mod row_ref;
mod source;
mod status;
mod stream;
mod transaction;

pub use action::Action;
pub use changes::Changes;
pub use collection::{Collection, SourceFailed};
pub use compact::{CompactError, Compacted, Compaction, EffectStatus, Size, compact, effects};
pub use db::Db;
pub use effect::{CommitError, Context, Effect, EffectBuilder, Event, EventId, HandlerError, Rows};
pub use error::{DbError, PersistError};
pub use live_query::LiveQuery;
pub use outbox::{Delivery, Outbox, OutboxBuilder, OutboxState, OutboxStatus};
pub use pace::{Pace, PacedAction};
pub use query::row::{Field, Row};
pub use query::{
    Case, Change, ChangeKind, Column, ColumnDef, Columns, Dynamic, Expr, Find, Key, Kind,
    LiveField as Field, LiveRow as Row, Order, Origin, Query, QueryError, Schema, Subset, Value,
    WriteError, all, any, avg, collect, concat, count, count_distinct, count_rows, from, from_as,
    from_query, include, include_one, include_text, list, max, meta, min, object, sum, union_all,
    when,
};
pub use retry::Retry;
pub use row_ref::RowRef;
pub use source::{
    Batch, Demand, Load, Loading, OnDemand, Polled, PolledHandle, Sink, Source, SourceError,
};
pub use status::Status;
pub use stream::{Since, StreamDb, StreamDbBuilder, TxIdTimeout};
pub use sys::Cancellation;
pub use transaction::{OpenTransaction, Transaction, TransactionState, Writes};
