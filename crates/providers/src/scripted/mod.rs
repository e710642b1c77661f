//! A model that needs no key and no network: it follows a script, or a few rules.
//!
//! It is what tests and examples run against, and what the command line uses without a key. By
//! rules, one conversation always gives the same answer; a script goes on with each call, or by
//! what the conversation holds ([`Order`]).
//!
//! ```
//! use chat::Model;
//! use providers::scripted::{Scripted, Turn};
//! use serde_json::json;
//!
//! let sys = sys::Sys::real();
//! let model = Scripted::script(
//!     [
//!         Turn::new().think("Oslo, then.").call("weather", json!({"city": "Oslo"})),
//!         Turn::new().text("It is sunny in Oslo."),
//!     ],
//!     sys.clone(),
//! );
//! assert_eq!(model.name().to_string(), "scripted:script");
//!
//! // Knows how to ask a tool for the weather, and says what it is otherwise.
//! let demo = Scripted::demo(sys);
//! assert_eq!(demo.name().to_string(), "scripted:demo");
//! ```

mod caps;
mod companion;
mod demo;
mod fill;
mod model;
mod places;
mod plan;
mod script;

pub use fill::fill;
pub use model::{Order, Pace, Scripted};
pub use script::{Call, Fail, Say, Script, Turn};
