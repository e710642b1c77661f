//! Every bound of connections to MCP servers.

use std::time::Duration;

use rmcp::transport::async_rw::DEFAULT_MAX_LINE_LENGTH;

/// How long a server may take until it is ready.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a server may take to list its tools.
pub(super) const LIST_TIME_MAX: Duration = Duration::from_secs(30);
/// Pages of tools that are asked for.
pub(super) const LIST_PAGES_MAX: usize = 256;
/// Bytes of an answer over HTTP that is no stream.
pub(super) const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of one event of a stream.
pub(super) const EVENT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of a refusal that are told.
pub(super) const REFUSAL_BYTES_MAX: usize = 512;
/// Bytes of one line of a process. `rmcp` passes over longer ones, and its transport for processes
/// takes no bound of ours: the build fails if it has none of its own any more.
pub(super) const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

const _: () = assert!(DEFAULT_MAX_LINE_LENGTH <= LINE_BYTES_MAX);
