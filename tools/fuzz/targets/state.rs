//! No message makes the fold of the State Protocol panic, and where a stream is cut into chunks
//! does not change what it comes to.

#![no_main]

use libfuzzer_sys::fuzz_target;
use state::{State, Ticks};
use wire::Position;

fuzz_target!(|messages: Vec<&[u8]>| {
    let (mut whole, mut ticks) = (State::new(), Ticks::new());
    for (position, message) in messages.iter().enumerate() {
        let _ = state::decode(message);
        if let Some(tick) = ticks.push(Position::new(position as u64), message) {
            whole.apply(tick);
        }
    }
    if let Some(tick) = ticks.up_to_date() {
        whole.apply(tick);
    }
    let (mut cut, mut ticks) = (State::new(), Ticks::new());
    for (position, message) in messages.iter().enumerate() {
        let pushed = ticks.push(Position::new(position as u64), message);
        for tick in [pushed, ticks.up_to_date()].into_iter().flatten() {
            cut.apply(tick);
        }
    }
    assert_eq!(cut.len(), whole.len());
});
