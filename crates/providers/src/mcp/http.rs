//! Streamable HTTP of MCP over the HTTP client that the rest of the crate uses.

use std::{collections::HashMap, io, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream::BoxStream};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
        StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::{Sse, SseStream};

use super::caps::{BODY_BYTES_MAX, EVENT_BYTES_MAX, REFUSAL_BYTES_MAX};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// Our HTTP client, as `rmcp` wants one.
#[derive(Clone)]
pub(super) struct HyperHttp {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HttpFailure(String);

type Failure = StreamableHttpError<HttpFailure>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

pub(super) fn http_config(
    url: &str,
    token: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> StreamableHttpClientTransportConfig {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.auth_header = token;
    config.custom_headers = headers.into_iter().collect();
    config.max_sse_event_size = EVENT_BYTES_MAX;
    config
}

impl HyperHttp {
    pub(super) fn new() -> Result<Self, rustls::Error> {
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())?
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .build();
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector) })
    }

    async fn send(
        &self,
        method: Method,
        call: Call,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(call.uri.as_ref())
            .header(header::CONTENT_TYPE, JSON)
            .header(header::ACCEPT, accept);
        if let Some(token) = call.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(session) = call.session.as_deref() {
            request = request.header(SESSION, session);
        }
        if let Some(event) = call.last_event {
            request = request.header(LAST_EVENT, event);
        }
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(failure)?;
        let response = self.client.request(request).await.map_err(failure)?;
        let is_refused =
            matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        match response.headers().get(header::WWW_AUTHENTICATE).filter(|_| is_refused) {
            Some(challenge) => {
                let challenge = String::from_utf8_lossy(challenge.as_bytes()).into_owned();
                Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
            }
            None => Ok(response),
        }
    }
}

/// What every request says.
struct Call {
    uri: Arc<str>,
    session: Option<Arc<str>>,
    last_event: Option<String>,
    token: Option<String>,
    headers: Headers,
}

impl StreamableHttpClient for HyperHttp {
    type Error = HttpFailure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let has_session = session.is_some();
        let body = serde_json::to_vec(&message)?;
        let call = Call { uri, session, last_event: None, token, headers };
        let accept = "application/json, text/event-stream";
        let response = self.send(Method::POST, call, accept, body.into()).await?;
        match response.status() {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            StatusCode::NOT_FOUND if has_session => Err(StreamableHttpError::SessionExpired),
            status if !status.is_success() => {
                let body = read(response, BODY_BYTES_MAX).await?;
                refused(&message, status, &body, has_session)
            }
            _ => answered(&message, response).await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        let call = Call { uri, session: Some(session), last_event: None, token, headers };
        let response = self.send(Method::DELETE, call, JSON, Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => {
                Err(StreamableHttpError::ServerDoesNotSupportDeleteSession)
            }
            status if status.is_success() => Ok(()),
            status => Err(unexpected(format!("HTTP {status}"))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let has_session = session.is_some();
        let call = Call { uri, session, last_event, token, headers };
        let response = self.send(Method::GET, call, EVENTS, Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND if has_session => Err(StreamableHttpError::SessionExpired),
            status if !status.is_success() => Err(unexpected(format!("HTTP {status}"))),
            _ if is_of(&response, EVENTS) => Ok(events(response)),
            _ => Err(StreamableHttpError::UnexpectedContentType(kind_of(&response))),
        }
    }
}

/// What a server says to a message that it took.
async fn answered(
    message: &ClientJsonRpcMessage,
    response: Response<Incoming>,
) -> Result<StreamableHttpPostResponse, Failure> {
    let session = response.headers().get(SESSION);
    let session = session.and_then(|session| session.to_str().ok()).map(str::to_owned);
    if is_of(&response, EVENTS) {
        return Ok(StreamableHttpPostResponse::Sse(events(response), session));
    }
    let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
    let kind = kind_of(&response);
    let is_json = is_of(&response, JSON);
    let body = read(response, BODY_BYTES_MAX).await?;
    match serde_json::from_slice(&body) {
        Ok(answer) if is_json => Ok(StreamableHttpPostResponse::Json(answer, session)),
        // Some servers say something to what asks for no answer.
        _ if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
        Err(error) if is_json => Err(unexpected(format!("no JSON-RPC: {error}"))),
        _ => Err(StreamableHttpError::UnexpectedContentType(kind)),
    }
}

/// What a server says to a message that it did not take. One that does not know what it can be
/// asked at all is an older one, which is for the client to know.
fn refused(
    message: &ClientJsonRpcMessage,
    status: StatusCode,
    body: &[u8],
    has_session: bool,
) -> Result<StreamableHttpPostResponse, Failure> {
    let error = match serde_json::from_slice(body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error.error),
        _ => None,
    };
    let said = String::from_utf8_lossy(&body[..body.len().min(REFUSAL_BYTES_MAX)]).into_owned();
    match message {
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::DiscoverRequest(_))
                && status.is_client_error()
                && !has_session =>
        {
            let unknown = || ErrorData::invalid_request(format!("HTTP {status}: {said}"), None);
            let error = error.unwrap_or_else(unknown);
            let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
            Ok(StreamableHttpPostResponse::Json(answer, None))
        }
        _ => Err(unexpected(match error {
            Some(error) => format!("HTTP {status}: {}", error.message),
            None => format!("HTTP {status}: {said}"),
        })),
    }
}

fn events(response: Response<Incoming>) -> Events {
    let bytes = response.into_body().into_data_stream();
    SseStream::from_bytes_stream(bounded(bytes)).boxed()
}

/// Ends with an error when one event is too large.
fn bounded<E: std::error::Error + Send + Sync + 'static>(
    bytes: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static {
    let mut len = 0_usize;
    let mut is_line_empty = true;
    bytes.map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        for byte in &chunk {
            len += 1;
            match byte {
                b'\n' if is_line_empty => len = 0,
                b'\n' => is_line_empty = true,
                b'\r' => {}
                _ => is_line_empty = false,
            }
            if len > EVENT_BYTES_MAX {
                let why = format!("an event is larger than {EVENT_BYTES_MAX} bytes");
                return Err(io::Error::other(why));
            }
        }
        Ok(chunk)
    })
}

async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Bytes, Failure> {
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| unexpected(error.to_string()))
}

fn kind_of(response: &Response<Incoming>) -> Option<String> {
    let kind = response.headers().get(header::CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(kind.as_bytes()).into_owned())
}

fn is_of(response: &Response<Incoming>, kind: &str) -> bool {
    kind_of(response).is_some_and(|said| said.to_ascii_lowercase().starts_with(kind))
}

/// A failure with all of its causes: the first alone says little.
fn failure(error: impl std::error::Error) -> Failure {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        said = format!("{said}: {cause}");
        source = cause.source();
    }
    StreamableHttpError::Client(HttpFailure(said))
}

fn unexpected(why: String) -> Failure {
    StreamableHttpError::UnexpectedServerResponse(why.into())
}
