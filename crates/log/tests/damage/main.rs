//! Damage is told truly, costs only what was hit, and its repair loses nothing that can be read.
//!
//! Everything runs on the simulated disk and clock; `place` makes a log and breaks its files.

mod checkpoint;
mod erase;
mod full;
mod pack;
mod place;
mod repair;
