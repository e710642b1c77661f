//! Agents of many sessions: started where there is something to do, ended where there is not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod deaths;
mod index;
mod leases;
mod starts;
mod support;
mod turns;
