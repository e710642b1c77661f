//! The official Durable Streams server suite, run against the real `headwater` binary.
//!
//! A [`Harness`] starts one server per run on a free port, waits until it is ready, points the
//! suite at it and reads the verdict. The suite itself is the npm package pinned in `node/`; beside
//! it stand a few tests that put the npm clients to work. This crate knows nothing of the protocol.
//!
//! ```no_run
//! use conformance::{Engine, Harness, Scope};
//!
//! let harness = Harness {
//!     server_binary: "target/debug/headwater".into(),
//!     node_dir: "tools/conformance/node".into(),
//!     scratch_dir: "target/conformance".into(),
//! };
//! let report = harness.run(Engine::File, &Scope::Whole)?;
//! assert!(report.faults.is_empty(), "{report}");
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! [`Harness::run_shapes`] lets Electric's client and our source read one server of shapes,
//! [`Harness::run_models`] the vendors' SDKs and our providers one server of model wires.
//! [`Harness::run_page`] opens the page of a session, which is `web/`, in a browser.
//! [`differential`] holds our live queries against those of another npm package, @tanstack/db.
//!
//! Reading order: `harness` tells a run from start to end, `server` and `suite` are its two child
//! processes, `report` is what the second one found out about the first.
#![allow(
    clippy::disallowed_methods,
    reason = "this drives real processes on real time and a real disk"
)]

mod child;
pub mod differential;
mod engine;
mod harness;
mod report;
mod server;
mod suite;

pub use engine::{Engine, UnknownEngine};
pub use harness::{Harness, install_packages};
pub use report::{Fault, Report};
pub use suite::{
    INTEROP_EXPECTED, MODELS_EXPECTED, PAGE_EXPECTED, SHAPES_EXPECTED, Scope, TESTS_EXPECTED,
};
