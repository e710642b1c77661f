//! Long-poll: one answer, as soon as there is something to say.

use http::{Response, StatusCode, header};
use log::{Chunk, Freshness, StreamNotFound};
use wire::{Address, ReadFrom};

use crate::{
    call::Call,
    follow::{Seat, Waited, cursor, interrupt, wait},
    handlers::{counted_read, messages, refuse_lost},
    names,
    problem::Problem,
    request::ReadParams,
    response::{Body, Reply},
    shares::Share,
};

/// Answers `GET ...?offset=&live=long-poll`.
pub(crate) async fn long_poll(
    call: &Call<'_>,
    address: &Address,
    params: &ReadParams,
) -> Result<Response<Body>, Problem> {
    let service = call.service;
    let bytes_max = params.bytes_max(service.settings.chunk_bytes);
    let (chunk, counted) = counted_read(call, address, params.from, bytes_max).await?;
    refuse_lost(params, &chunk)?;
    if chunk.runs.is_empty() && chunk.freshness != Freshness::Closed {
        let _seat = Seat::take(call)?;
        let mut interrupt = interrupt(service, service.settings.long_poll_timeout);
        return match wait(service, address, chunk.next, &mut interrupt).await? {
            Waited::Moved => {
                let (chunk, counted) = read_on(call, address, bytes_max, &chunk).await?;
                answer(call, params, chunk, counted).await
            }
            Waited::TimedOut | Waited::Draining => answer(call, params, chunk, None).await,
        };
    }
    answer(call, params, chunk, counted).await
}

async fn read_on(
    call: &Call<'_>,
    address: &Address,
    bytes_max: usize,
    before: &Chunk,
) -> Result<(Chunk, Option<Share>), Problem> {
    let from = ReadFrom::At(before.next);
    let (chunk, counted) = counted_read(call, address, from, bytes_max).await?;
    if chunk.incarnation != before.incarnation {
        // Another stream got the name meanwhile; this reader's offset means nothing there.
        return Err(StreamNotFound.into());
    }
    Ok((chunk, counted))
}

async fn answer(
    call: &Call<'_>,
    params: &ReadParams,
    chunk: Chunk,
    counted: Option<Share>,
) -> Result<Response<Body>, Problem> {
    let cursor = cursor(call.service, params.cursor.as_deref());
    if !chunk.runs.is_empty() {
        let mut response = messages(call, params, chunk, Some(cursor)).await;
        response.body_mut().counted = counted;
        return Ok(response);
    }
    Ok(Reply::new(StatusCode::NO_CONTENT)
        .offset(&names::NEXT_OFFSET, chunk.next)
        .freshness(chunk.freshness)
        .number(&names::INCARNATION, chunk.incarnation.get())
        .text(&names::CURSOR, cursor)
        .header(&header::CACHE_CONTROL, names::NO_STORE.clone())
        .into_response())
}
