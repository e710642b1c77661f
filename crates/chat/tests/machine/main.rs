//! The turn machine, fed by hand and by chance.
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod breaking;
mod cases;
mod laws;
mod play;
