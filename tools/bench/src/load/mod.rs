//! A lean HTTP/1.1 load generator: one thread, one `epoll`, requests built before they are timed.
//!
//! On a small machine the generator and the server compete for the same cores, so every
//! instruction here is one the server does not get. There is no async runtime, no header map and
//! no copy of a response body.
//!
//! - [`request`] builds the bytes of a request once.
//! - [`response`] reads a response, keeping only what the rows ask for.
//! - [`connection`] is one keep-alive connection with at most one request under way.
//! - [`poller`] says which connections can move.
//! - [`driver`] runs a closed loop of them and takes the time.
//! - [`histogram`] and [`random`] are the small tools they need.

pub(crate) mod connection;
pub(crate) mod driver;
mod histogram;
pub(crate) mod poller;
pub(crate) mod random;
pub(crate) mod request;
pub(crate) mod response;

pub(crate) use driver::{Sample, Step, Timing, Workload, run_timed, run_to_end};
pub(crate) use histogram::Histogram;
pub(crate) use request::Request;
pub(crate) use response::Response;
