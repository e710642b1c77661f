//! Request bodies: bounded each, bounded together, and bounded in time.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use log::Unavailable;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    caps::{LARGE_BODY_BYTES, LARGE_BODY_ROOM, REQUEST_BYTES},
    problem::{Kind, Problem},
    request::{
        Incoming,
        encoding::{self, Encoding},
    },
    service::Service,
    shares::{Account, Resource, Share},
};

/// What a client has too much of.
pub(super) const IN_FLIGHT: &str = "too many bytes of yours are in flight";

/// A body that is about to be read, and who sends it.
pub(crate) struct Upload<'a, 'b> {
    pub(crate) service: &'a Service,
    pub(crate) account: &'a Arc<Account>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: Incoming<'b>,
}

/// A body that was read, and its share of the bytes in flight: drop it when they are stored.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(super) share: Share,
    /// Of a body that takes long to do something with.
    pub(super) turn: Option<OwnedSemaphorePermit>,
}

/// Reads a body, or refuses it before a byte of it is read if it says that it is too large.
pub(crate) async fn receive(upload: Upload<'_, '_>) -> Result<Received, Problem> {
    let bytes_max = upload.service.settings.limits.body_bytes_max;
    receive_bound(upload, Bound { bytes_max, advice: "split it into several appends" }).await
}

/// The same, for a body that is smaller than any may be, with the advice for one that is not. What
/// is done with it is not for the log, and takes no turn.
pub(crate) async fn receive_at_most(
    upload: Upload<'_, '_>,
    bytes_max: usize,
    advice: &'static str,
) -> Result<Received, Problem> {
    let bytes_max = bytes_max.min(upload.service.settings.limits.body_bytes_max);
    let received = receive_bound(upload, Bound { bytes_max, advice }).await?;
    Ok(Received { turn: None, ..received })
}

async fn receive_bound(upload: Upload<'_, '_>, bound: Bound) -> Result<Received, Problem> {
    let Upload { service, account, headers, body } = upload;
    let encoding = Encoding::of(headers)?;
    let announced = usize::try_from(body.announced()).unwrap_or(usize::MAX);
    if announced > bound.bytes_max {
        return Err(bound.exceeded());
    }
    let share = account.share(Resource::Incoming);
    if body.is_done() {
        return Ok(Received { bytes: Bytes::new(), share, turn: None });
    }
    let mut received = arrive(service, account, body, share, announced, bound).await?;
    let length = received.bytes.len();
    let is_heavy = match encoding {
        Encoding::Identity => length >= LARGE_BODY_BYTES,
        Encoding::Gzip => length > encoding::INLINE_BYTES_MAX,
    };
    if is_heavy {
        // Not before all of it is there: a slow sender holds no turn.
        received.turn = Some(account.heavy_turn().await);
    }
    match encoding {
        Encoding::Identity => Ok(received),
        Encoding::Gzip => Box::pin(encoding::decode(service, received, bound)).await,
    }
}

impl Received {
    /// Does what stores it. If that takes long it goes on when the client leaves, and for so long
    /// its bytes count and its turn is taken: leaving early wins nothing.
    pub(crate) async fn store<T, E>(
        self,
        service: &Service,
        storing: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
    {
        if self.turn.is_none() {
            return storing.await;
        }
        let (tell, told) = oneshot::channel();
        service.sys.spawn.task("store", async move {
            let stored = storing.await;
            drop(self);
            // The client may have left.
            let _ = tell.send(stored);
        });
        told.await.unwrap_or_else(|_| Err(Unavailable::Closing.into()))
    }
}

async fn arrive(
    service: &Service,
    account: &Arc<Account>,
    body: Incoming<'_>,
    share: Share,
    announced: usize,
    bound: Bound,
) -> Result<Received, Problem> {
    let mut reading = pin!(collect(service, body, share, announced, bound));
    // A short body comes with its head, or right after it: no need for a timer.
    if let Some(received) = within_a_turn(reading.as_mut()).await {
        return received;
    }
    // From here on the request waits, and many that wait are not free, however little they sent.
    let waiting = account.take(Resource::Incoming, REQUEST_BYTES);
    let _waiting = waiting.ok_or_else(|| service.shed(IN_FLIGHT))?;
    match service.sys.clock.timeout(service.settings.limits.body_timeout, reading).await {
        Ok(received) => received,
        Err(_) => {
            let detail = "the body did not arrive in time; send it faster or in smaller parts";
            Err(Problem::new(Kind::RequestTimeout, detail))
        }
    }
}

/// Only what has come counts, and the room for it: who announces much and sends nothing keeps no
/// other client out.
async fn collect(
    service: &Service,
    mut body: Incoming<'_>,
    mut share: Share,
    announced: usize,
    bound: Bound,
) -> Result<Received, Problem> {
    let mut bytes = BytesMut::with_capacity(announced.min(REQUEST_BYTES));
    let mut counted = 0;
    while !body.is_done() {
        // It gets room as it comes, twice what came at most.
        if bytes.len() == bytes.capacity() && bytes.len() < announced {
            let more = (announced - bytes.len()).min(bytes.len().max(REQUEST_BYTES));
            bytes.reserve(if bytes.len() < LARGE_BODY_BYTES { more } else { LARGE_BODY_ROOM });
        }
        body.read(&mut bytes).await.map_err(|error| unreadable(&error))?;
        if bytes.len() > bound.bytes_max {
            return Err(bound.exceeded());
        }
        let room = bytes.capacity().min(announced.max(bytes.len())).min(2 * bytes.len());
        if room > counted && !share.grow(room - counted) {
            return Err(service.shed(IN_FLIGHT));
        }
        counted = counted.max(room);
    }
    service.metrics.received(bytes.len());
    Ok(Received { bytes: bytes.freeze(), share, turn: None })
}

fn unreadable(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Problem::bad_request("the body ended too early"),
        _ => Problem::bad_request(format!("the body cannot be read: {error}")),
    }
}

/// What the future comes to if everything else on its task gets one turn, or none.
async fn within_a_turn<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut turns = 0;
    poll_fn(|context| match (future.as_mut().poll(context), turns) {
        (Poll::Ready(output), _) => Poll::Ready(Some(output)),
        (Poll::Pending, 0) => {
            turns = 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
        (Poll::Pending, _) => Poll::Ready(None),
    })
    .await
}

/// How large a body may be, and what to do about one that is larger.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) bytes_max: usize,
    pub(super) advice: &'static str,
}

impl Bound {
    pub(super) fn exceeded(self) -> Problem {
        let Self { bytes_max, advice } = self;
        let detail = format!("the body must have at most {bytes_max} bytes; {advice}");
        Problem::new(Kind::TooLarge, detail)
    }
}
