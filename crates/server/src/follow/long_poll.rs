//! Long-poll: one answer, as soon as there is something to say.

use http::{Response, StatusCode, header};
use log::{Chunk, Freshness, StreamNotFound};
use wire::{Address, ReadFrom};

use crate::{
    call::Call,
    follow::{Seat, Waited, cursor, interrupt, wait},
    handlers::{messages, refuse_lost},
    names,
    problem::Problem,
    request::ReadParams,
    response::{Body, Reply},
};

/// Answers `GET ...?offset=&live=long-poll`.
pub(crate) async fn long_poll(
    call: &Call<'_>,
    address: &Address,
    params: &ReadParams,
) -> Result<Response<Body>, Problem> {
    let service = call.service;
    let bytes_max = params.bytes_max(service.settings.chunk_bytes);
    let chunk = service.log.read(address, params.from, bytes_max).await?;
    refuse_lost(params, &chunk)?;
    if chunk.runs.is_empty() && chunk.freshness != Freshness::Closed {
        let _seat = Seat::take(call)?;
        let mut interrupt = interrupt(service, service.settings.long_poll_timeout);
        return match wait(service, address, chunk.next, &mut interrupt).await? {
            Waited::Moved => {
                answer(call, params, read_on(call, address, params, &chunk).await?).await
            }
            Waited::TimedOut | Waited::Draining => answer(call, params, chunk).await,
        };
    }
    answer(call, params, chunk).await
}

async fn read_on(
    call: &Call<'_>,
    address: &Address,
    params: &ReadParams,
    before: &Chunk,
) -> Result<Chunk, Problem> {
    let bytes_max = params.bytes_max(call.service.settings.chunk_bytes);
    let chunk = call.service.log.read(address, ReadFrom::At(before.next), bytes_max).await?;
    if chunk.incarnation != before.incarnation {
        // Another stream got the name meanwhile; this reader's offset means nothing there.
        return Err(StreamNotFound.into());
    }
    Ok(chunk)
}

async fn answer(
    call: &Call<'_>,
    params: &ReadParams,
    chunk: Chunk,
) -> Result<Response<Body>, Problem> {
    let cursor = cursor(call.service, params.cursor.as_deref());
    if !chunk.runs.is_empty() {
        return Ok(messages(call, params, chunk, Some(cursor)).await);
    }
    Ok(Reply::new(StatusCode::NO_CONTENT)
        .offset(&names::NEXT_OFFSET, chunk.next)
        .freshness(chunk.freshness)
        .number(&names::INCARNATION, chunk.incarnation.get())
        .text(&names::CURSOR, cursor)
        .header(&header::CACHE_CONTROL, names::NO_STORE.clone())
        .into_response())
}
