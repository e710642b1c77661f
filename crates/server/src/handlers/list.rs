//! The list of streams, page by page.

use http::{Response, StatusCode, header};
use log::Listed;
use serde::Serialize;
use wire::{Expiry, Timestamp};

use crate::{
    call::Call,
    compression, follow, names,
    problem::Problem,
    request,
    response::{Body, Content, Reply},
};

#[derive(Serialize)]
struct Page {
    streams: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    path: String,
    incarnation: u64,
    earliest: String,
    tail: String,
    content_type: String,
    closed: bool,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

/// Answers `GET /v1/stream/?prefix=&after=&limit=`, or `?watch=` with what moves.
pub(crate) async fn list(call: &Call<'_>) -> Result<Response<Body>, Problem> {
    if let Some(glob) = request::watched(call.head.uri.query())? {
        return follow::watch(call, glob);
    }
    let page = call.service.log.list(request::list(call.head.uri.query())?).await?;
    let document = Page {
        streams: page.streams.iter().map(Entry::from).collect(),
        next: page.next.map(|path| path.to_string()),
    };
    let json = serde_json::to_vec(&document).map_err(Problem::bad_request_from)?;
    let reply = Reply::new(StatusCode::OK)
        .header(&header::CONTENT_TYPE, names::JSON.clone())
        .header(&header::CACHE_CONTROL, names::NO_STORE.clone());
    Ok(compression::apply(call, reply, Content::Whole(json.into())).await.into_response())
}

impl From<&Listed> for Entry {
    fn from(listed: &Listed) -> Self {
        let head = &listed.head;
        let (ttl, expires_at) = match head.expiry {
            Expiry::Never => (None, None),
            Expiry::Sliding(ttl) => (Some(ttl.seconds()), None),
            Expiry::At(time) => (None, Some(time.to_string())),
        };
        Self {
            path: listed.path.to_string(),
            incarnation: head.incarnation.get(),
            earliest: head.earliest.to_string(),
            tail: head.tail.to_string(),
            content_type: head.content_type.to_string(),
            closed: head.closed,
            created_at: Timestamp::from_unix_ms(head.created_at.get()).to_string(),
            ttl,
            expires_at,
        }
    }
}
