//! DELETE: remove a stream, or its oldest messages.

use http::{Response, StatusCode};
use log::Delete;
use wire::Address;

use crate::{
    auth::Access,
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
            match (delete, call.client.globs(Access::Admin)) {
                // An erase takes forks along, and they may stand anywhere.
                (Delete::Erase, Some(within)) => {
                    call.service.log.erase_within(address, within).await?;
                }
                (delete, _) => call.service.log.delete(address, delete).await?,
            }
            Ok(reply.into_response())
        }
        Removal::Trim(before) => {
            let kept = call.service.log.trim(address, before).await?;
            Ok(head::described(reply, &kept).into_response())
        }
    }
}
