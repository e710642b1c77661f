//! A small MCP server.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use http::{Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
        PaginatedRequestParams, Resource, ResourceContents, ServerCapabilities, ServerConfig, Tool,
        ToolAnnotations,
    },
    service::RequestContext,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, stdio,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde_json::{Map, Value, json};

/// The server.
#[derive(Clone)]
struct Painter;

/// Serves whoever started this process, until she goes.
pub(crate) async fn over_stdio() {
    Painter.serve(stdio()).await.unwrap().waiting().await.unwrap();
}

/// Serves those who know the secret, for as long as the test runs.
pub(crate) async fn over_http() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sessions = Arc::new(LocalSessionManager::default());
    let config = StreamableHttpServerConfig::default();
    let service = StreamableHttpService::new(|| Ok(Painter), sessions, config);
    sys::Spawn::real().task("server", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            let answer = service_fn(move |request| answer(service.clone(), request));
            sys::Spawn::real().task("connection", async move {
                let server = hyper::server::conn::http1::Builder::new();
                // A client that goes breaks its connection.
                let _ = server.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    address
}

type Body = BoxBody<bytes::Bytes, Infallible>;

async fn answer(
    service: StreamableHttpService<Painter, LocalSessionManager>,
    request: http::Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let is_known = request.headers().get(header::AUTHORIZATION);
    if is_known.is_none_or(|token| token != "Bearer secret") {
        let mut refused = Response::new(Full::default().boxed());
        *refused.status_mut() = StatusCode::UNAUTHORIZED;
        return Ok(refused);
    }
    Ok(service.handle(request).await)
}

impl ServerHandler for Painter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let number = json!({"type": "number"});
        let add = json!({
            "type": "object", "required": ["a", "b"], "properties": {"a": number, "b": number},
        });
        let reads = ToolAnnotations::new().read_only(true);
        let destroys = ToolAnnotations::new().read_only(false).destructive(true);
        let none = json!({"type": "object"});
        let mut result = ListToolsResult::default();
        if page.and_then(|page| page.cursor).is_none() {
            result.tools = vec![
                Tool::new("add", "Adds two numbers.", object(add)).with_annotations(reads),
                Tool::new("paint.a square", "Paints.", object(none)),
            ];
            result.next_cursor = Some("more".to_owned());
        } else {
            result.tools = vec![
                Tool::new("fail", "Fails.", object(none.clone())).with_annotations(destroys),
                Tool::new("refuse", "Refuses.", object(none.clone())),
                Tool::new("wait", "Waits for ever.", object(none)),
            ];
        }
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let number = |name: &str| arguments.get(name).and_then(Value::as_i64).unwrap_or_default();
        let result = match request.name.as_ref() {
            "add" => {
                let sum = number("a") + number("b");
                CallToolResult::success(vec![ContentBlock::text(sum.to_string())])
            }
            "paint.a square" => CallToolResult::success(vec![
                ContentBlock::text("a square"),
                ContentBlock::image("iVBORw==", "image/png"),
                ContentBlock::resource(ResourceContents::text("notes", "file:///notes.txt")),
                ContentBlock::resource(ResourceContents::blob("AAAA", "file:///blob")),
                ContentBlock::resource_link(Resource::new("file:///plan.txt", "plan")),
            ]),
            "fail" => CallToolResult::error(vec![ContentBlock::text("there is no paint left")]),
            "refuse" => return Err(ErrorData::invalid_params("not today", None)),
            _ => std::future::pending().await,
        };
        Ok(result.into())
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
