//! GET: read what is there, or follow what comes.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use log::{Chunk, Freshness};
use wire::{Address, Cursor, ReadFrom, json};

use crate::{
    compression, etag, follow, names,
    problem::Problem,
    request::{Live, ReadParams},
    response::{Body, Reply},
    service::Call,
};

/// Answers `GET /v1/stream/{path}`.
pub(crate) async fn read(call: &Call<'_>, address: &Address) -> Result<Response<Body>, Problem> {
    let params = ReadParams::parse(call.head.uri.query())?;
    match params.live {
        Live::CatchUp => catch_up(call, address, params.from).await,
        Live::LongPoll => follow::long_poll(call, address, &params).await,
        Live::Sse => follow::sse(call, address, &params).await,
    }
}

async fn catch_up(
    call: &Call<'_>,
    address: &Address,
    from: ReadFrom,
) -> Result<Response<Body>, Problem> {
    let chunk = call.service.log.read(address, from, call.service.settings.chunk_bytes).await?;
    Ok(messages(call, from, &chunk, None).await)
}

/// The answer that carries a chunk.
pub(crate) async fn messages(
    call: &Call<'_>,
    from: ReadFrom,
    chunk: &Chunk,
    cursor: Option<Cursor>,
) -> Response<Body> {
    let describe = |status| {
        let reply = Reply::new(status)
            .content_type(&chunk.content_type)
            .offset(&names::NEXT_OFFSET, chunk.next)
            .freshness(chunk.freshness);
        match cursor {
            Some(cursor) => reply.text(&names::CURSOR, cursor),
            None => reply,
        }
    };
    if from == ReadFrom::Now {
        // Where now was is known to this reader only.
        return describe(StatusCode::OK)
            .header(&header::CACHE_CONTROL, names::NO_STORE.clone())
            .bytes(bytes(chunk))
            .into_response();
    }
    let tag = etag::Tag::of(chunk);
    let cacheable = |reply: Reply| {
        reply
            .header(&header::CACHE_CONTROL, cache_control(call, chunk))
            .header(&header::VARY, names::ACCEPT_ENCODING.clone())
            .header(&header::ETAG, tag.plain())
    };
    if tag.is_known_to(&call.head.headers) {
        return cacheable(describe(StatusCode::NOT_MODIFIED)).into_response();
    }
    let reply = cacheable(describe(StatusCode::OK));
    compression::apply_tagged(call, reply, bytes(chunk), &tag).await.into_response()
}

fn bytes(chunk: &Chunk) -> Bytes {
    if chunk.content_type.is_json() { json::join(&chunk.runs) } else { chunk.bytes() }
}

/// Messages never change, so caches may keep them. "Nothing yet" does change, and a writer that
/// reads its own write must not be told it again.
fn cache_control(call: &Call<'_>, chunk: &Chunk) -> http::HeaderValue {
    if chunk.runs.is_empty() && chunk.freshness == Freshness::UpToDate {
        names::NO_CACHE.clone()
    } else if call.service.guard.is_open() {
        names::SHARED_MINUTE.clone()
    } else {
        names::PRIVATE_MINUTE.clone()
    }
}
