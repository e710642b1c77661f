//! DELETE: remove a stream, or its oldest messages.

use http::{Response, StatusCode};
use wire::Address;

use crate::{
    call::Call,
    handlers::head,
    problem::Problem,
    request::Removal,
    response::{Body, Reply},
};

/// Answers `DELETE /v1/stream/{path}`, with `?erase=true` for the forks too, or with
/// `?before={offset}` for the messages before that offset only.
pub(crate) async fn delete(call: &Call<'_>, address: &Address) -> Result<Response<Body>, Problem> {
    let reply = Reply::new(StatusCode::NO_CONTENT);
    match Removal::parse(call.head.uri.query())? {
        Removal::Delete(delete) => {
            call.service.log.delete(address, delete).await?;
            Ok(reply.into_response())
        }
        Removal::Trim(before) => {
            let kept = call.service.log.trim(address, before).await?;
            Ok(head::described(reply, &kept).into_response())
        }
    }
}
