//! Watching: one answer that goes on, a hint at a time.

use bytes::Bytes;
use futures_util::{
    future::{Either, select},
    stream,
};
use http::{Response, StatusCode, header};
use log::{Moved, Watch};
use serde::Serialize;
use wire::{Glob, sse::KEEP_ALIVE};

use crate::{
    call::Call,
    follow::{Interrupt, Seat, Waited, interrupt},
    names,
    problem::Problem,
    response::{Body, Matter, Reply},
    shares::{Resource, Share},
};

/// What is told of a stream that moved.
#[derive(Serialize)]
struct Hint<'a> {
    path: &'a str,
    tail: String,
    incarnation: u64,
}

/// One who watches.
struct Watcher {
    watch: Watch,
    /// Fires when it is time to show a sign of life.
    interrupt: Interrupt,
    seat: Seat,
    _share: Share,
    has_begun: bool,
}

/// Answers `GET /v1/stream/?watch={glob}`: what moves from now on.
pub(crate) fn watch(call: &Call<'_>, glob: Glob) -> Result<Response<Body>, Problem> {
    let service = call.service;
    let seat = Seat::take(call)?;
    let share = call.account.take(Resource::Watchers, 1);
    let share = share.ok_or_else(|| service.shed("too many watches of yours"))?;
    let watcher = Box::new(Watcher {
        seat,
        _share: share,
        watch: service.log.watch(glob)?,
        interrupt: interrupt(service, service.settings.sse_keep_alive),
        has_begun: false,
    });
    Ok(Reply::new(StatusCode::OK)
        .header(&header::CONTENT_TYPE, names::EVENT_STREAM.clone())
        .header(&header::CACHE_CONTROL, names::NO_CACHE.clone())
        .body(Matter::Frames(Box::pin(stream::unfold(watcher, Watcher::next_frame))))
        .into_response())
}

impl Watcher {
    async fn next_frame(mut self: Box<Self>) -> Option<(Bytes, Box<Self>)> {
        if !self.has_begun {
            // From here on nothing is missed, and whoever asked should know.
            self.has_begun = true;
            return Some((Bytes::from_static(KEEP_ALIVE), self));
        }
        let frame = match self.hint().await {
            Ok(hint) => event(&hint?),
            Err(Waited::Draining) => return None,
            Err(Waited::Moved | Waited::TimedOut) => {
                let service = self.seat.service();
                self.interrupt = interrupt(service, service.settings.sse_keep_alive);
                Bytes::from_static(KEEP_ALIVE)
            }
        };
        Some((frame, self))
    }

    /// What moved, or what came between.
    async fn hint(&mut self) -> Result<Option<Moved>, Waited> {
        let next = std::pin::pin!(self.watch.next());
        match select(next, &mut self.interrupt).await {
            Either::Left((hint, _)) => Ok(hint),
            Either::Right((waited, _)) => Err(waited),
        }
    }
}

fn event(hint: &Moved) -> Bytes {
    match hint {
        Moved::Stream(path, tail, life) => {
            let (path, tail) = (path.as_str(), tail.to_string());
            let hint = Hint { path, tail, incarnation: life.get() };
            let json = serde_json::to_string(&hint).unwrap_or_default();
            format!("event: moved\ndata:{json}\n\n").into()
        }
        Moved::Resync => Bytes::from_static(b"event: resync\ndata:{}\n\n"),
    }
}
