//! Request bodies: bounded each, bounded together, and bounded in time.

use std::{future::poll_fn, pin::Pin};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::sync::SemaphorePermit;

use crate::{
    problem::{Kind, Problem},
    service::Service,
};

/// A body that was read, and its share of the bytes in flight: drop it when they are stored.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub(crate) bytes: Bytes,
    _share: Option<SemaphorePermit<'a>>,
}

/// Reads a body, or refuses it before a byte of it is read if it says that it is too large.
pub(crate) async fn receive(service: &Service, body: Incoming) -> Result<Received<'_>, Problem> {
    let announced = body.size_hint();
    let limits = &service.settings.limits;
    if announced.lower() > limits.body_bytes_max as u64 {
        return Err(too_large(service));
    }
    if body.is_end_stream() {
        return Ok(Received { bytes: Bytes::new(), _share: None });
    }
    let reading = collect(service, body);
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
    let mut share: Option<SemaphorePermit<'_>> = None;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| Problem::bad_request("the body ended too early"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > service.settings.limits.body_bytes_max {
            return Err(too_large(service));
        }
        let more = take_share(service, data.len())?;
        match &mut share {
            Some(share) => share.merge(more),
            None => share = Some(more),
        }
        bytes.extend_from_slice(&data);
    }
    service.metrics.received(bytes.len());
    Ok(Received { bytes: bytes.freeze(), _share: share })
}

fn take_share(service: &Service, bytes: usize) -> Result<SemaphorePermit<'_>, Problem> {
    let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
    service.inflight.try_acquire_many(permits).map_err(|_| {
        service.metrics.shed();
        Problem::overloaded("too many bytes are in flight; retry after a second")
    })
}

fn too_large(service: &Service) -> Problem {
    let max = service.settings.limits.body_bytes_max;
    let detail = format!("the body must have at most {max} bytes; split it into several appends");
    Problem::new(Kind::TooLarge, detail)
}
