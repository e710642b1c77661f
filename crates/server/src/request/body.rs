//! Request bodies: bounded each, bounded together, and bounded in time.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    task::Poll,
};

use bytes::{Bytes, BytesMut};

use crate::{
    budget::Share,
    problem::{Kind, Problem},
    request::Incoming,
    service::Service,
};

/// A body that was read, and its share of the bytes in flight: drop it when they are stored.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub(crate) bytes: Bytes,
    _share: Share<'a>,
}

/// Reads a body, or refuses it before a byte of it is read if it says that it is too large.
pub(crate) async fn receive<'a>(
    service: &'a Service,
    body: Incoming<'_>,
) -> Result<Received<'a>, Problem> {
    let bytes_max = service.settings.limits.body_bytes_max;
    receive_at_most(service, body, bytes_max, "split it into several appends").await
}

/// The same, for a body that is smaller than any may be, with the advice for one that is not.
pub(crate) async fn receive_at_most<'a>(
    service: &'a Service,
    body: Incoming<'_>,
    bytes_max: usize,
    advice: &'static str,
) -> Result<Received<'a>, Problem> {
    let limits = &service.settings.limits;
    let bound = Bound { bytes_max: bytes_max.min(limits.body_bytes_max), advice };
    let announced = usize::try_from(body.announced()).unwrap_or(usize::MAX);
    if announced > bound.bytes_max {
        return Err(bound.exceeded());
    }
    let share = service.inflight.share();
    if body.is_done() {
        return Ok(Received { bytes: Bytes::new(), _share: share });
    }
    let mut reading = pin!(collect(service, body, share, announced, bound));
    // A short body comes with its head, or right after it: no need for a timer.
    if let Some(received) = within_a_turn(reading.as_mut()).await {
        return received;
    }
    match service.sys.clock.timeout(limits.body_timeout, reading).await {
        Ok(received) => received,
        Err(_) => {
            let detail = "the body did not arrive in time; send it faster or in smaller parts";
            Err(Problem::new(Kind::RequestTimeout, detail))
        }
    }
}

/// Only what has come counts: who announces much and sends nothing keeps nobody else out.
async fn collect<'a>(
    service: &'a Service,
    mut body: Incoming<'_>,
    mut share: Share<'a>,
    announced: usize,
    bound: Bound,
) -> Result<Received<'a>, Problem> {
    let mut bytes = BytesMut::with_capacity(announced);
    while !body.is_done() {
        let before = bytes.len();
        body.read(&mut bytes).await.map_err(|error| unreadable(&error))?;
        if bytes.len() > bound.bytes_max {
            return Err(bound.exceeded());
        }
        grow(service, &mut share, bytes.len() - before)?;
    }
    service.metrics.received(bytes.len());
    Ok(Received { bytes: bytes.freeze(), _share: share })
}

fn unreadable(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Problem::bad_request("the body ended too early"),
        _ => Problem::bad_request(format!("the body cannot be read: {error}")),
    }
}

fn grow(service: &Service, share: &mut Share<'_>, bytes: usize) -> Result<(), Problem> {
    if share.grow(bytes) {
        return Ok(());
    }
    service.metrics.shed();
    Err(Problem::overloaded("too many bytes are in flight; retry after a second"))
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
struct Bound {
    bytes_max: usize,
    advice: &'static str,
}

impl Bound {
    fn exceeded(self) -> Problem {
        let Self { bytes_max, advice } = self;
        let detail = format!("the body must have at most {bytes_max} bytes; {advice}");
        Problem::new(Kind::TooLarge, detail)
    }
}
