//! The State Protocol: a stream of changes, and the rows they come to.
//!
//! [`decode`] reads a message and [`Draft`] writes one. [`Ticks`] splits a stream into
//! transactions, and [`State`] folds them, one at a time, into collections of rows; each fold
//! answers with the rows that differ, which is all that a query above needs. [`Collection`] gives
//! rows their Rust types. [`Places`] says where a message stands that a compaction wrote again, so
//! that positions stay what they were. It is not a reader and not a database: it never awaits, has
//! no clock, and is told every position and every id.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use state::{Collection, State, Ticks, TxId, transaction};
//! use wire::Position;
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct User {
//!     id: String,
//!     name: String,
//! }
//!
//! let users = Collection::<User>::new("user", |user| user.id.as_str().into())?;
//! let ada = User { id: "1".into(), name: "Ada".into() };
//! let bob = User { id: "2".into(), name: "Bob".into() };
//! let messages = transaction(&TxId::new("t1")?, [users.insert(&ada)?, users.insert(&bob)?])?;
//!
//! let (mut ticks, mut state) = (Ticks::new(), State::new());
//! for (position, message) in (0..).map(Position::new).zip(messages.iter()) {
//!     if let Some(tick) = ticks.push(position, message) {
//!         state.apply(tick);
//!     }
//! }
//! let tick = ticks.up_to_date().expect("the last transaction waits to be finished");
//! assert_eq!(state.apply(tick).deltas().len(), 2);
//! assert_eq!(users.get(&state, "1").unwrap()?, ada);
//!
//! // The row keeps fields that this program does not know.
//! let row = &state.get("user", "2").unwrap().value;
//! users.patch(&"2".parse()?, row, &serde_json::json!({"name": "Bobby"}))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod caps;
mod delta;
mod event;
mod fold;
mod json;
mod name;
mod place;
mod schema;
#[cfg(test)]
mod testing;
mod tick;

pub use delta::{Applied, Delta, DeltaKind};
pub use event::{
    BadHeader, Body, Change, Control, Draft, Event, Headers, Operation, Skip, decode, transaction,
};
pub use fold::{Row, State};
pub use json::{BadJson, BadPatch, Json};
pub use name::{BadName, Key, TxId, TypeName};
pub use place::{Place, Places, snapshot_copy, snapshot_row, snapshot_start};
pub use schema::{BadRow, Collection, DuplicateType, Schema};
pub use tick::{End, Entry, Past, Start, Tick, Ticks, Write};
