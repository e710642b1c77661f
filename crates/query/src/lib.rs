//! Rows, queries over them, and answers that stay right while the rows change.
//!
//! A [`Database`] holds collections of rows, synced ones and writes on them that are not confirmed
//! yet. A [`Query`] is data: built in Rust or read from JSON. A live query is kept up to date by
//! work in proportion to what changed, and every change tells which rows entered, changed and
//! left. It is not a store and not a reader: it never awaits, has no clock, draws no chance.
//!
//! ```
//! use query::{Database, Query, Schema, Tick, Write};
//!
//! let mut db = Database::new();
//! let messages = db.collection("messages", Schema::open("id"))?;
//! let pending = Query::from_json(
//!     r#"{"from":{"col":"messages","as":"m"},
//!         "where":[{"fn":"eq","args":[{"ref":["m","processed"]},{"val":false}]}]}"#,
//! )?;
//! let pending = db.live(&pending)?;
//!
//! let row = db.record(messages, r#"{"id":"m1","text":"hi","processed":false}"#)?;
//! let writes = vec![(messages, Write::Put(row, Default::default()))];
//! let published = db.apply(Tick { writes, retires: vec![] })?;
//! assert_eq!(published.queries[0].0, pending);
//! assert_eq!(db.result_len(pending), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
pub mod caps;
mod catalog;
mod database;
mod definition;
mod dispatch;
mod engine;
mod error;
mod expr;
mod ir;
mod record;
pub mod row;
mod semantics;
mod store;
mod suggest;
mod tick;
mod transaction;
mod value;

// The derives name this crate as its users do.
extern crate self as query;

pub use builder::{
    Case, Column, Dynamic, Find, all, any, avg, collect, concat, count, count_distinct, count_rows,
    from, from_as, from_query, include, include_one, include_text, list, max, meta, min, object,
    sum, union_all, when,
};
pub use catalog::{CollectionId, ColumnDef, Kind, Schema};
pub use database::{Database, DuplicateName, Footprint, Published, QueryId};
pub use engine::{Change, ChangeKind};
pub use error::{BadJoin, QueryError, WriteError};
pub use ir::{
    BadQuery, Expr, Form, Include, Join, JoinKind, Order, Query, Rows, Source, Subset, View,
};
pub use macros::{Field, Row};
#[doc(hidden)]
pub use macros::{LiveField, LiveRow};
pub use record::{Columns, Entry, Key, Meta, Origin, Record, Shape, TooManyColumns, Tuple};
pub use row::{Field, Row};
pub use semantics::Semantics;
pub use tick::{Tick, Write};
pub use transaction::{Mutation, MutationKind, TransactionId};
pub use value::{BadValue, List, Rope, Value};
