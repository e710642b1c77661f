//! Following a stream: answers that wait for what is not there yet.

mod long_poll;
mod seat;
mod sse;

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use log::HeadError;
use wire::{Address, Cursor, Offset};

pub(crate) use long_poll::long_poll;
pub(crate) use seat::Seat;
pub(crate) use sse::sse;

use crate::{phase::Phase, service::Service};

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    /// There is more to read, or the stream is closed.
    Moved,
    /// Nothing happened for long enough.
    TimedOut,
    /// The server wants to end.
    Draining,
}

/// Waits until there is more than what lies before `after`.
async fn wait(
    service: &Service,
    address: &Address,
    after: Offset,
    patience: Duration,
) -> Result<Waited, HeadError> {
    let draining = pin!(service.phases.reached(Phase::Draining));
    let either = select(service.log.tail(address, after), draining);
    match service.sys.clock.timeout(patience, either).await {
        Ok(Either::Left((moved, _))) => moved.map(|_| Waited::Moved),
        Ok(Either::Right(_)) => Ok(Waited::Draining),
        Err(_) => Ok(Waited::TimedOut),
    }
}

/// The cursor for a client that sent `seen`.
fn cursor(service: &Service, seen: Option<&str>) -> Cursor {
    let now = service.sys.clock.unix_ms().get();
    Cursor::next(now, seen, |bound| service.sys.chance.below(bound))
}
