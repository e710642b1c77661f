//! PUT: make a stream, or fork one.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use log::{Closing, Create, Created, Fork, Lifetime, Outcome};
use wire::{Address, ContentType, Expiry, Offset, StreamPath, SubOffset};

use crate::{
    auth::Access,
    call::Call,
    handlers::head,
    names,
    problem::Problem,
    request::{self, Framing, Incoming, Received, receive, single},
    response::{Body, Reply},
    route::STREAM_ROOT,
};

/// What `Stream-Expires-At` says of a stream that never does; ours, in framed requests.
const NEVER: &str = "never";

/// Answers `PUT /v1/stream/{path}`.
pub(crate) async fn create(
    call: &Call<'_>,
    address: &Address,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    let asked = Asked::read(&call.head.headers)?;
    if let Some(origin) = &asked.origin {
        call.client.require(Access::Read, &origin.source)?;
    }
    let framing = asked.settings.framing;
    let body = receive(call.upload(body)).await?;
    let created = match asked.origin {
        Some(origin) => fork(call, address, asked.settings, origin, body).await?,
        None => make(call, address, asked.settings, body).await?,
    };
    call.service.has_stored();
    Ok(answer(call, framing, &created))
}

/// What the headers of a PUT ask for.
struct Asked {
    settings: Asks,
    origin: Option<Origin>,
}

struct Asks {
    content_type: Option<ContentType>,
    /// None if no header speaks of it.
    expiry: Option<Expiry>,
    closing: Closing,
    framing: Framing,
}

/// Where a fork comes from.
struct Origin {
    source: StreamPath,
    offset: Option<Offset>,
    sub_offset: SubOffset,
}

impl Asked {
    fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        let framing = request::framing(headers)?;
        let settings = Asks {
            content_type: request::content_type(headers)?,
            expiry: expiry(headers, framing)?,
            closing: request::closing(headers)?,
            framing,
        };
        Ok(Self { settings, origin: Origin::read(headers)? })
    }
}

/// How long the stream is to live, if a header speaks of it.
fn expiry(headers: &HeaderMap, framing: Framing) -> Result<Option<Expiry>, Problem> {
    match (framing, single(headers, &names::TTL)?, single(headers, &names::EXPIRES_AT)?) {
        (_, None, None) => Ok(None),
        // A fork that is not to inherit the end of its source cannot say so by saying nothing.
        (Framing::Length, None, Some(NEVER)) => Ok(Some(Expiry::Never)),
        (_, ttl, at) => Expiry::from_headers(ttl, at).map(Some).map_err(Problem::bad_request_from),
    }
}

impl Origin {
    fn read(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let offset = request::parsed(headers, &names::FORK_OFFSET)?;
        let sub_offset = request::parsed(headers, &names::FORK_SUB_OFFSET)?;
        let Some(source) = single(headers, &names::FORKED_FROM)? else {
            return match (offset, sub_offset) {
                (None, None) => Ok(None),
                _ => Err(Problem::bad_request("a fork needs Stream-Forked-From, too")),
            };
        };
        let sub_offset = sub_offset.unwrap_or_default();
        Ok(Some(Self { source: source_path(source)?, offset, sub_offset }))
    }
}

/// The source as a URL path of this server, or as a stream path.
fn source_path(text: &str) -> Result<StreamPath, Problem> {
    let path = text.strip_prefix(STREAM_ROOT).unwrap_or(text);
    Ok(StreamPath::from_url(path.strip_prefix('/').unwrap_or(path))?)
}

async fn make(
    call: &Call<'_>,
    address: &Address,
    asks: Asks,
    mut body: Received,
) -> Result<Created, Problem> {
    let is_json = asks.content_type.as_ref().is_some_and(ContentType::is_json);
    let create = Create {
        messages: request::messages(call.service, is_json, asks.framing, &mut body).await?,
        content_type: asks.content_type,
        expiry: asks.expiry.unwrap_or_default(),
        closing: asks.closing,
    };
    let (log, address) = (call.service.log.clone(), address.clone());
    let creating = async move { log.create(&address, create).await };
    Ok(body.store(call.service, creating).await?)
}

async fn fork(
    call: &Call<'_>,
    address: &Address,
    asks: Asks,
    origin: Origin,
    mut body: Received,
) -> Result<Created, Problem> {
    let source = Address::from(origin.source);
    let is_json = match &asks.content_type {
        Some(content_type) => content_type.is_json(),
        None if body.bytes.is_empty() => false,
        None => call.service.log.head(&source).await?.content_type.is_json(),
    };
    let fork = Fork {
        source,
        offset: origin.offset,
        sub_offset: origin.sub_offset,
        content_type: asks.content_type,
        lifetime: asks.expiry.map_or(Lifetime::Inherited, Lifetime::Own),
        messages: request::messages(call.service, is_json, asks.framing, &mut body).await?,
        closing: asks.closing,
    };
    let (log, address) = (call.service.log.clone(), address.clone());
    let forking = async move { log.fork(&address, fork).await };
    Ok(body.store(call.service, forking).await?)
}

fn answer(call: &Call<'_>, framing: Framing, created: &Created) -> Response<Body> {
    let reply = match created.outcome {
        Outcome::New => Reply::new(StatusCode::CREATED).header(&header::LOCATION, location(call)),
        Outcome::Duplicate => Reply::new(StatusCode::OK),
    };
    let reply = match framing {
        Framing::Plain => {
            let reply = reply.content_type(&created.head.content_type);
            reply.offset(&names::NEXT_OFFSET, created.head.tail).closed(created.head.closed)
        }
        Framing::Length => head::described(reply, &created.head),
    };
    reply.into_response()
}

/// The stream's absolute URL, as the client would write it.
fn location(call: &Call<'_>) -> HeaderValue {
    let path = call.head.uri.path();
    match &call.service.settings.public_url {
        Some(base) => crate::response::header_value(format_args!("{base}{path}")),
        None => {
            let (scheme, host) = (call.scheme(), call.host());
            crate::response::header_value(format_args!("{scheme}://{host}{path}"))
        }
    }
}
