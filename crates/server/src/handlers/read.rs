//! GET: read what is there, or follow what comes.

use http::{HeaderValue, Response, StatusCode, header};
use log::{Chunk, Freshness};
use wire::{Address, Cursor, ReadFrom};

use crate::{
    call::Call,
    caps::EXPECTED_PARTS,
    compression,
    etag::Tag,
    follow, names,
    problem::{Kind, Problem},
    request::{Framing, Live, ReadParams},
    response::{Body, Content, Reply},
    shares::Share,
};

/// Answers `GET /v1/stream/{path}`.
pub(crate) async fn read(call: &Call<'_>, address: &Address) -> Result<Response<Body>, Problem> {
    let params = ReadParams::parse(call.head)?;
    match params.live {
        Live::CatchUp => catch_up(call, address, &params).await,
        // Boxed, so that those who do not stay need not carry the room for it.
        Live::LongPoll => Box::pin(follow::long_poll(call, address, &params)).await,
        Live::Sse => Box::pin(follow::sse(call, address, &params)).await,
    }
}

async fn catch_up(
    call: &Call<'_>,
    address: &Address,
    params: &ReadParams,
) -> Result<Response<Body>, Problem> {
    let bytes_max = params.bytes_max(call.service.settings.chunk_bytes);
    let (chunk, counted) = counted_read(call, address, params.from, bytes_max).await?;
    refuse_lost(params, &chunk)?;
    let mut response = messages(call, params, chunk, None).await;
    response.body_mut().counted = counted;
    Ok(response)
}

/// Reads in turn with other reads of the client, and counts what was read before the next one may.
pub(crate) async fn counted_read(
    call: &Call<'_>,
    address: &Address,
    from: ReadFrom,
    bytes_max: usize,
) -> Result<(Chunk, Option<Share>), Problem> {
    let _turn = call.account.read_turn().await;
    // Whose readers take nothing has nothing read for it that would only be refused.
    let most = call.service.settings.limits.outgoing_bytes_max / EXPECTED_PARTS;
    let expected = call.service.count(&call.account, bytes_max.min(most))?;
    let chunk = call.service.log.read(address, from, bytes_max).await?;
    drop(expected);
    // Each message takes four bytes besides: its end in the run, and in an answer of frames its
    // length.
    let bytes = wire::framing::framed_len(&chunk.runs);
    let counted = call.service.count(&call.account, bytes)?;
    Ok((chunk, counted))
}

/// Refuses a reader that has come further than the stream ever did: the server was restored from a
/// copy, or another stream got the name. To go on from the tail would pass over what comes next, as
/// if nothing were missing. Readers of frames learn it from the offset that goes back, and from the
/// incarnation.
pub(crate) fn refuse_lost(params: &ReadParams, chunk: &Chunk) -> Result<(), Problem> {
    match params.from {
        ReadFrom::At(offset)
            if params.framing == Framing::Plain && offset.position > chunk.next.position =>
        {
            let detail = format!(
                "the stream ends at {}, before the offset asked for; it was restored or made \
                 anew: start from -1",
                chunk.next
            );
            Err(Problem::new(Kind::ReadBeyondTail, detail)
                .with_offset(&names::NEXT_OFFSET, chunk.next))
        }
        _ => Ok(()),
    }
}

/// The answer that carries a chunk.
pub(crate) async fn messages(
    call: &Call<'_>,
    params: &ReadParams,
    chunk: Chunk,
    cursor: Option<Cursor>,
) -> Response<Body> {
    if params.framing == Framing::Length {
        return framed(&chunk, cursor);
    }
    if matches!(params.from, ReadFrom::Now | ReadFrom::Last | ReadFrom::Before(_)) {
        // Where now was is known to this reader only; and a page that is read backwards begins
        // where the next one, further back, ends.
        return describe(StatusCode::OK, &chunk, cursor)
            .offset(&names::START_OFFSET, chunk.start)
            .header(&header::CACHE_CONTROL, names::NO_STORE.clone())
            .body(Content::of(&chunk.content_type, chunk.runs))
            .into_response();
    }
    let tag = Tag::of(&chunk);
    let cache_control = cache_control(call, &chunk);
    if tag.is_known_to(&call.head.headers) {
        return describe(StatusCode::NOT_MODIFIED, &chunk, cursor)
            .header(&header::CACHE_CONTROL, cache_control)
            .header(&header::VARY, names::WHAT_READS_VARY_BY.clone())
            .header(&header::ETAG, tag.plain())
            .into_response();
    }
    let reply =
        describe(StatusCode::OK, &chunk, cursor).header(&header::CACHE_CONTROL, cache_control);
    let content = Content::of(&chunk.content_type, chunk.runs);
    compression::apply_tagged(call, reply, content, &tag).await.into_response()
}

/// The answer to a reader that wants to know the boundaries, and whose stream it read.
fn framed(chunk: &Chunk, cursor: Option<Cursor>) -> Response<Body> {
    describe(StatusCode::OK, chunk, cursor)
        .header(&header::CACHE_CONTROL, names::NO_STORE.clone())
        .header(&names::FRAMING, names::LENGTH.clone())
        .offset(&names::START_OFFSET, chunk.start)
        .number(&names::INCARNATION, chunk.incarnation.get())
        .bytes(wire::framing::join(&chunk.runs))
        .into_response()
}

/// What was read, and how far the reader has come.
fn describe(status: StatusCode, chunk: &Chunk, cursor: Option<Cursor>) -> Reply {
    let reply = Reply::new(status)
        .content_type(&chunk.content_type)
        .offset(&names::NEXT_OFFSET, chunk.next)
        .freshness(chunk.freshness);
    match cursor {
        Some(cursor) => reply.text(&names::CURSOR, cursor),
        None => reply,
    }
}

/// Messages never change, so caches may keep them. "Nothing yet" does change, and a writer that
/// reads its own write must not be told it again.
fn cache_control(call: &Call<'_>, chunk: &Chunk) -> HeaderValue {
    if chunk.runs.is_empty() && chunk.freshness == Freshness::UpToDate {
        names::NO_CACHE.clone()
    } else if call.service.guard.is_open() {
        names::SHARED_MINUTE.clone()
    } else {
        names::PRIVATE_MINUTE.clone()
    }
}
