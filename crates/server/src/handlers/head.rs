//! HEAD: what is known of a stream.

use http::{Response, StatusCode, header};
use log::Head;
use wire::{Address, Expiry, Timestamp};

use crate::{
    call::Call,
    follow, names,
    problem::Problem,
    request,
    response::{Body, Reply},
};

/// Answers `HEAD /v1/stream/{path}`, or with `?after={offset}` when the tail is past that or
/// nothing has happened for long enough.
pub(crate) async fn head(call: &Call<'_>, address: &Address) -> Result<Response<Body>, Problem> {
    if let Some(after) = request::after(call.head.uri.query())? {
        Box::pin(follow::tail(call, address, after)).await?;
    }
    let head = call.service.log.head(address).await?;
    let reply = Reply::new(StatusCode::OK).header(&header::CACHE_CONTROL, names::NO_STORE.clone());
    Ok(described(reply, &head).into_response())
}

/// Everything that is known of the stream.
pub(crate) fn described(reply: Reply, head: &Head) -> Reply {
    let reply = reply
        .content_type(&head.content_type)
        .number(&names::INCARNATION, head.incarnation.get())
        .text(&names::CREATED_AT, Timestamp::from_unix_ms(head.created_at.get()));
    lifetime(offsets(reply, head), head)
}

/// Where the stream begins and ends.
pub(crate) fn offsets(reply: Reply, head: &Head) -> Reply {
    reply
        .offset(&names::NEXT_OFFSET, head.tail)
        .offset(&names::EARLIEST_OFFSET, head.earliest)
        .closed(head.closed)
}

fn lifetime(reply: Reply, head: &Head) -> Reply {
    match head.expiry {
        Expiry::Never => reply,
        Expiry::Sliding(ttl) => reply.number(&names::TTL, ttl.seconds()),
        Expiry::At(time) => reply.text(&names::EXPIRES_AT, time),
    }
}
