//! A server of shapes for tests, as much of Electric as its clients can see of one table.
//!
//! It keeps a table in memory and serves its shapes as the service does: handles, offsets, pages,
//! long-polls, events, both replicas, logs that are given up. It can be told to fail. That it is
//! like the service is shown by the service's own client: `tools/conformance` lets that one and
//! our source read the same server, and both must come to the rows of the table.
//!
//! Reading order: `table` is what happens, `shape` is what of it a client is told, `server` tells.

mod params;
mod server;
mod shape;
mod subset;
mod table;
mod todo;

pub use server::{Fault, Fixture};
pub use table::{Cells, Operation, Table};
pub use todo::Todo;
