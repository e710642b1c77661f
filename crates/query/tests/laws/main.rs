//! What must hold whatever the rows, the queries and the order of events: the engine against an
//! evaluator that knows nothing of it, and the defects of others, by name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bounds;
mod choices;
mod definitions;
mod effects;
mod filling;
mod generate;
mod indexes;
mod laws;
mod model;
mod naive;
mod optimistic;
mod refusals;
mod shape;
mod sizes;
mod values;
mod world;
