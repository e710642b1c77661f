//! Following a stream: answers that wait for what is not there yet.

mod long_poll;
mod seat;
mod sse;
mod watch;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use log::HeadError;
use wire::{Address, Cursor, Offset};

pub(crate) use long_poll::long_poll;
pub(crate) use seat::Seat;
pub(crate) use sse::sse;
pub(crate) use watch::watch;

use crate::{call::Call, phase::Phase, problem::Problem, service::Service};

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

/// What may end a wait besides the stream. It lasts for many waits, so that a busy stream sets no
/// timer for each append.
type Interrupt = Pin<Box<dyn Future<Output = Waited> + Send + Sync>>;

fn interrupt(service: &Arc<Service>, patience: Duration) -> Interrupt {
    let service = service.clone();
    Box::pin(async move {
        let draining = service.phases.reached(Phase::Draining);
        match service.sys.clock.timeout(patience, draining).await {
            Ok(()) => Waited::Draining,
            Err(_) => Waited::TimedOut,
        }
    })
}

/// Waits until there is more than what lies before `after`.
async fn wait(
    service: &Service,
    address: &Address,
    after: Offset,
    interrupt: &mut Interrupt,
) -> Result<Waited, HeadError> {
    match select(service.log.tail(address, after), interrupt).await {
        Either::Left((moved, _)) => moved.map(|_| Waited::Moved),
        Either::Right((waited, _)) => Ok(waited),
    }
}

/// Waits until the tail is past `after`, or as long as a long-poll would.
pub(crate) async fn tail(call: &Call<'_>, address: &Address, after: Offset) -> Result<(), Problem> {
    let _seat = Seat::take(call)?;
    let mut interrupt = interrupt(call.service, call.service.settings.long_poll_timeout);
    wait(call.service, address, after, &mut interrupt).await?;
    Ok(())
}

/// The cursor for a client that sent `seen`.
fn cursor(service: &Service, seen: Option<&str>) -> Cursor {
    let now = service.sys.clock.unix_ms().get();
    Cursor::next(now, seen, |bound| service.sys.chance.below(bound))
}
