//! The operator's log: events of all rooms, on the standard error.

use std::io;

use tracing_subscriber::{EnvFilter, fmt};

use crate::{
    config::{LogFormat, Logging},
    output,
};

/// Starts to log what `logging` asks for, or else what `filter_default` says.
pub(crate) fn start(logging: &Logging, filter_default: &str) {
    let filter = EnvFilter::new(logging.filter.as_deref().unwrap_or(filter_default));
    let log = fmt().with_env_filter(filter).with_writer(io::stderr);
    match logging.format {
        LogFormat::Json => log.json().init(),
        LogFormat::Text => log.with_ansi(output::is_colourful(&io::stderr())).init(),
    }
}
