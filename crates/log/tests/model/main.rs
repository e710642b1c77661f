//! Every engine answers like a model so simple that it must be right.
//!
//! proptest draws sequences of operations, the model predicts each answer, the engine gives its
//! own. A failure prints the seed, the shortest sequence that proptest could find, and where in it
//! the two disagree. `HEADWATER_MODEL_SEED=7 cargo test -p headwater-log --test model` replays seed
//! 7, `PROPTEST_CASES=100000` looks for rarer things.

mod answer;
mod engine;
mod model;
mod operation;
mod play;
mod stream;

use log::{MemoryLog, file::FileLog};

#[test]
fn the_memory_engine_answers_like_the_model() {
    play::check::<MemoryLog>();
}

#[test]
fn the_file_engine_answers_like_the_model_through_reopening() {
    play::check::<FileLog>();
}
