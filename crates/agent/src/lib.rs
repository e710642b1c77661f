//! What agents are made of. So far that is their [`lifecycle`]: how a runner that was woken takes
//! its wake, keeps it while it works, says how far it has come, and gives it back.
//!
//! It runs over any `wake::Subscriptions` and any `log::Log`, in one process or far away from
//! both, and knows no HTTP.

pub mod caps;
pub mod lifecycle;
