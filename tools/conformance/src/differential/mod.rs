//! Random queries and writes, answered by @tanstack/db and by our engine, compared at every step.
//!
//! Both sides are programs that read one JSON command a line and answer each with one line:
//!
//! ```text
//! {"op":"reset"}                                    forget everything
//! {"op":"collection","name":"a","key":"id","init":[ROW..]}
//! {"op":"query","name":"q0","ir":IR}                a query, kept up to date from now on
//! {"op":"effect","name":"e0","ir":IR}               not used here: known to be wrong on the left
//! {"op":"sync","col":"a","truncate":false,"writes":[{"type":"insert|update","value":ROW}
//!                                                  |{"type":"delete","key":K}]}
//! {"op":"begin","tx":"t1"}                          an optimistic transaction
//! {"op":"mutate","tx":"t1","muts":[{"col":"a","type":"insert","value":ROW}
//!                                 |{"col":"a","type":"update","key":K,"set":{..}}
//!                                 |{"col":"a","type":"delete","key":K}]}
//! {"op":"commit","tx":"t1"} {"op":"settle","tx":"t1","ok":true} {"op":"rollback","tx":"t1"}
//! {"op":"dump","what":["a","q0"]}                   -> {"rows":{"a":[ROW..],"q0":[ROW..]}}
//!
//! IR:   {"from":SOURCE,"join":[{"type":"inner|left|right|full",..SOURCE,"on":[[EXPR,EXPR]..]}],
//!        "where":[EXPR..],"groupBy":[EXPR..],"having":[EXPR..],"select":{NAME:EXPR},
//!        "distinct":true,"orderBy":[{"expr":EXPR,"dir":"asc|desc","nulls":"first|last"}],
//!        "limit":N,"offset":N}
//! SOURCE: {"col":"a","as":"m"} | {"query":IR,"as":"m"}
//! EXPR: {"ref":["m","field"..]} | {"val":JSON} | {"fn":NAME,"args":[EXPR..]}
//!       | {"agg":NAME,"args":[EXPR]}
//! ```
//!
//! A refused command is answered `{"error":CLASS}` and changes nothing. A field that is missing is
//! absent from a dump, one that is no finite number is null. Compared are the class of a refusal,
//! the state of a transaction, and after every command all rows of all collections and queries:
//! in their order where the query has one, else as multisets. In the end every query is asked
//! anew, and must find what the one that was kept up to date has.
//!
//! The left side is believed only where it agrees with itself. Some queries of @tanstack/db 0.15.2
//! go wrong over time, joins of a collection with itself above all: asked anew, it finds other
//! rows. If these are what our side has, the left side is not believed about that query any more,
//! and the verdict names it; so it may be with a few queries of a hundred. Our side is never
//! excused: in the end it must find what it has kept, whatever the left side has.
//!
//! # Agreed deviations
//!
//! What follows differs by design, so no trace contains it:
//!
//! - *Two writers on a row.* @tanstack/db overlays whole rows as they were at the time of writing,
//!   we rebase the changed fields; here a row has one open transaction at most, and no sync writes
//!   to it meanwhile. With that, rolling back never takes another transaction along either.
//! - *Sync during a commit.* @tanstack/db holds all sync of a collection back while one of its
//!   transactions is on its way, we never do; here such a collection only syncs what one of these
//!   transactions wrote, which looks the same before and after.
//! - *Settling.* @tanstack/db drops the overlay when the server has accepted, we do when the change
//!   comes back; the driver of our side takes `settle` for the proof that it did.
//! - *Truncating under an open update.* @tanstack/db keeps the updated row, as a snapshot; to us an
//!   update of nothing is nothing. Here a truncated collection has open inserts at most.
//! - *An empty transaction* counts as complete when committed; here none is committed.
//! - *Groups by one key that may be null or missing*: the result of @tanstack/db keeps groups that
//!   are gone and loses others, because it cannot compare their keys. Here such a key has a value.
//! - *Results without one right order or value*: keys of `distinct` (random there), order by
//!   columns of several types, `min` and `max` over texts and null, identity of lists and objects.
//! - *Effects*, which @tanstack/db classifies wrongly; they have tests of their own.
//!
//! Reading order: `run` is the whole of it; `trace` is what is run, made by `schema`, `query` with
//! `expression`, and `world`; `side` asks, `compare` judges, `shrink` explains, with the help of
//! `simplify`; `liar` proves that all this would notice.

mod compare;
mod expression;
mod liar;
mod query;
mod random;
mod run;
mod schema;
mod shrink;
mod side;
mod simplify;
mod trace;
mod world;

pub use expression::Taste;
pub use run::{CONTRADICTIONS_PERCENT_MAX, Contradiction, Differential, Mismatch, Plan, Verdict};
pub use side::Program;
