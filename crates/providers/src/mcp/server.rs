//! A connection to an MCP server, and its tools.

use std::{collections::BTreeSet, fmt, sync::Arc};

use chat::{
    Effect, Id, Tool, ToolContext, ToolError,
    caps::{TOOL_NAME_LEN_MAX, TOOLS_MAX},
};
use rmcp::{
    RoleClient, ServiceExt,
    model::{CallToolRequestParams, PaginatedRequestParams, Tool as Listed},
    service::{RunningService, ServiceError},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Value, json};
use sys::Sys;

use super::{
    McpError, McpPlace,
    answer::answer,
    caps::{CONNECT_TIME_MAX, LIST_PAGES_MAX, LIST_TIME_MAX},
    http::{HyperHttp, http_config},
    place::{PlaceKind, check_address},
};

/// A connection to an MCP server. Cheap to clone; it ends with the last clone and the last tool.
#[derive(Clone)]
pub struct McpServer {
    name: String,
    running: Arc<RunningService<RoleClient, ()>>,
    hints: Hints,
    /// None if all tools are wanted.
    only: Option<BTreeSet<String>>,
    sys: Sys,
}

/// Whether what a server says of the effects of its tools is believed.
#[derive(Clone, Copy, Debug)]
enum Hints {
    Ignored,
    Trusted,
}

impl McpServer {
    /// Starts or reaches a server.
    ///
    /// # Errors
    /// If it does not start, cannot be reached, or does not speak MCP.
    pub async fn connect(place: McpPlace, sys: &Sys) -> Result<Self, McpError> {
        let name = place.name();
        let connected = sys.clock.timeout(CONNECT_TIME_MAX, running(place, &name)).await;
        let Ok(connected) = connected else { return Err(McpError::TimedOut { server: name }) };
        let running = Arc::new(connected?);
        Ok(Self { name, running, hints: Hints::Ignored, only: None, sys: sys.clone() })
    }

    /// The same, believing what the server says of its tools: those that only read are pure, those
    /// that destroy need approval. Otherwise no call may happen twice, and none needs approval.
    #[must_use]
    pub const fn trusting_hints(mut self) -> Self {
        self.hints = Hints::Trusted;
        self
    }

    /// The same with these of its tools only.
    #[must_use]
    pub fn only(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Its tools. In their names `_` stands for whatever no provider allows.
    ///
    /// # Errors
    /// If it does not list them, or one of them cannot be used.
    pub async fn tools(&self) -> Result<Vec<Tool>, McpError> {
        let listed = self.sys.clock.timeout(LIST_TIME_MAX, self.listed()).await;
        let Ok(listed) = listed else {
            let why = format!("it has not answered in {} seconds", LIST_TIME_MAX.as_secs());
            return Err(McpError::List { server: self.name.clone(), why });
        };
        let mut names = BTreeSet::new();
        let mut tools = Vec::new();
        for listed in listed? {
            let tool = self.tool(&listed)?;
            let name = tool.spec().name.clone();
            if !names.insert(name.clone()) {
                return Err(McpError::SameName { server: self.name.clone(), name });
            }
            tools.push(tool);
        }
        Ok(tools)
    }

    async fn listed(&self) -> Result<Vec<Listed>, McpError> {
        let (mut listed, mut cursor) = (Vec::new(), None);
        for _ in 0..LIST_PAGES_MAX {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.running.list_tools(Some(page)).await.map_err(|error| {
                McpError::List { server: self.name.clone(), why: error.to_string() }
            })?;
            let is_wanted = |tool: &Listed| match &self.only {
                Some(names) => names.contains(tool.name.as_ref()),
                None => true,
            };
            listed.extend(page.tools.into_iter().filter(is_wanted));
            cursor = page.next_cursor;
            if listed.len() > TOOLS_MAX {
                break;
            }
            if cursor.is_none() {
                return Ok(listed);
            }
        }
        Err(McpError::TooMany { server: self.name.clone() })
    }

    fn tool(&self, listed: &Listed) -> Result<Tool, McpError> {
        let mut input = listed.input_schema.as_ref().clone();
        input.entry("type").or_insert_with(|| json!("object"));
        let description = listed.description.as_deref().unwrap_or_default();
        let mut builder = Tool::builder(allowed_name(&listed.name), description)
            .input_schema(Value::Object(input));
        if let Some(output) = &listed.output_schema {
            builder = builder.output_schema(Value::Object(output.as_ref().clone()));
        }
        if let (Hints::Trusted, Some(hints)) = (self.hints, &listed.annotations) {
            if hints.read_only_hint == Some(true) {
                builder = builder.effect(Effect::Pure);
            } else if hints.destructive_hint == Some(true) {
                builder = builder.needs_approval();
            }
        }
        let (running, name) = (self.running.clone(), listed.name.to_string());
        let built = builder.run(move |arguments: Value, _context: ToolContext| {
            let (running, name) = (running.clone(), name.clone());
            async move {
                let mut params = CallToolRequestParams::new(name);
                if let Value::Object(arguments) = arguments {
                    params = params.with_arguments(arguments);
                }
                // Who drops the call cancels it on the server, too.
                answer(running.call_tool(params).await.map_err(readable)?)
            }
        });
        built.map_err(|why| McpError::Tool {
            server: self.name.clone(),
            tool: listed.name.to_string(),
            why,
        })
    }
}

async fn running(place: McpPlace, name: &str) -> Result<RunningService<RoleClient, ()>, McpError> {
    let served = match place.kind {
        PlaceKind::Command { program, arguments, environment, directory } => {
            let mut command = tokio::process::Command::new(program);
            command.args(arguments).envs(environment);
            if let Some(directory) = directory {
                command.current_dir(directory);
            }
            let process = TokioChildProcess::new(command)
                .map_err(|why| McpError::Start { server: name.to_owned(), why })?;
            ().serve(process).await
        }
        PlaceKind::Http { url, token, headers } => {
            check_address(&url, token.is_some() || !headers.is_empty())?;
            let config = http_config(&url, token, headers);
            let client = HyperHttp::new().map_err(|error| McpError::Connect {
                server: name.to_owned(),
                why: error.to_string(),
            })?;
            ().serve(StreamableHttpClientTransport::with_client(client, config)).await
        }
    };
    served.map_err(|error| McpError::Connect { server: name.to_owned(), why: error.to_string() })
}

fn readable(error: ServiceError) -> ToolError {
    match error {
        ServiceError::McpError(error) => ToolError::new(error.message),
        ServiceError::TransportClosed => ToolError::new("its server is gone"),
        error => ToolError::new(error),
    }
}

/// A name that every provider allows.
fn allowed_name(name: &str) -> Id {
    let allowed = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }
    };
    name.chars().map(allowed).take(TOOL_NAME_LEN_MAX).collect()
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpServer").field(&self.name).finish()
    }
}
