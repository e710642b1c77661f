//! Tools of MCP servers: processes here, or servers elsewhere.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use chat::Toolbox;
//! use providers::mcp::{McpPlace, McpServer};
//!
//! let sys = sys::Sys::real();
//! let files = McpPlace::command("mcp-server-filesystem", ["/tmp"]);
//! let server = McpServer::connect(files, &sys).await?;
//! let tools = Toolbox::new(server.tools().await?)?;
//! # drop(tools);
//! # Ok(())
//! # }
//! ```
//!
//! The connection lives as long as the server or one of its tools does. It is kept by `rmcp`, which
//! has timers and tasks of its own, so none of this runs under the simulator.

mod answer;
mod caps;
mod error;
mod http;
mod place;
mod server;

pub use error::McpError;
pub use place::McpPlace;
pub use server::McpServer;
