//! Request bodies: bounded each, bounded together, and bounded in time.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::{
    budget::Share,
    problem::{Kind, Problem},
    service::Service,
};

/// A body that was read, and its share of the bytes in flight: drop it when they are stored.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub(crate) bytes: Bytes,
    _share: Share<'a>,
}

/// Reads a body, or refuses it before a byte of it is read if it says that it is too large.
pub(crate) async fn receive(service: &Service, body: Incoming) -> Result<Received<'_>, Problem> {
    let limits = &service.settings.limits;
    if body.size_hint().lower() > limits.body_bytes_max as u64 {
        return Err(too_large(service));
    }
    if body.is_end_stream() {
        return Ok(Received { bytes: Bytes::new(), _share: service.inflight.share() });
    }
    let mut reading = pin!(collect(service, body));
    // A short body comes with its head: the connection's next turn brings it, without a timer.
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

async fn collect(service: &Service, mut body: Incoming) -> Result<Received<'_>, Problem> {
    // The frames are slices of the connection's buffer: a copy of the exact size lets it go.
    let mut bytes = BytesMut::with_capacity(body.size_hint().lower() as usize);
    let mut share = service.inflight.share();
    while !body.is_end_stream() {
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| Problem::bad_request("the body ended too early"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > service.settings.limits.body_bytes_max {
            return Err(too_large(service));
        }
        if !share.grow(data.len()) {
            service.metrics.shed();
            return Err(Problem::overloaded("too many bytes are in flight; retry after a second"));
        }
        bytes.extend_from_slice(&data);
    }
    service.metrics.received(bytes.len());
    Ok(Received { bytes: bytes.freeze(), _share: share })
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

fn too_large(service: &Service) -> Problem {
    let max = service.settings.limits.body_bytes_max;
    let detail = format!("the body must have at most {max} bytes; split it into several appends");
    Problem::new(Kind::TooLarge, detail)
}
