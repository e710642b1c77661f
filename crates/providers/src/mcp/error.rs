//! What can go wrong with an MCP server before its tools are called.

use chat::{BadTool, Id};

use super::caps::{CONNECT_TIME_MAX, LIST_PAGES_MAX};

/// Why the tools of an MCP server cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The process does not start.
    #[error("the MCP server {server:?} does not start: {why}; is it installed, and in the PATH?")]
    Start {
        /// The server.
        server: String,
        /// Why not.
        why: std::io::Error,
    },
    /// The address is none.
    #[error("{url:?} is no address of an MCP server: {why}")]
    Address {
        /// The address, without what may be secret in it.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The server cannot be reached, or does not speak MCP.
    #[error("the MCP server {server:?} cannot be reached: {why}")]
    Connect {
        /// The server.
        server: String,
        /// Why not.
        why: String,
    },
    /// The server takes too long.
    #[error(
        "the MCP server {server:?} is not ready after {} seconds; does it speak MCP?",
        CONNECT_TIME_MAX.as_secs()
    )]
    TimedOut {
        /// The server.
        server: String,
    },
    /// The server does not say which tools it has.
    #[error("the MCP server {server:?} does not list its tools: {why}")]
    List {
        /// The server.
        server: String,
        /// Why not.
        why: String,
    },
    /// The server has more tools than anybody wants.
    #[error(
        "the MCP server {server:?} has more tools than can be used, or more than \
         {LIST_PAGES_MAX} pages of them; choose some with `only`"
    )]
    TooMany {
        /// The server.
        server: String,
    },
    /// One of its tools cannot be used.
    #[error(
        "the tool {tool:?} of the MCP server {server:?} cannot be used: {why}; leave it out with \
         `only`"
    )]
    Tool {
        /// The server.
        server: String,
        /// What the server calls it.
        tool: String,
        /// Why not.
        why: BadTool,
    },
    /// Two of its tools would have one name.
    #[error(
        "two tools of the MCP server {server:?} would be named {name:?}; leave one out with `only`"
    )]
    SameName {
        /// The server.
        server: String,
        /// The name.
        name: Id,
    },
}

impl McpError {
    /// Whether the same may fare better later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::TimedOut { .. } | Self::List { .. } => true,
            Self::Start { .. }
            | Self::Address { .. }
            | Self::TooMany { .. }
            | Self::Tool { .. }
            | Self::SameName { .. } => false,
        }
    }
}
