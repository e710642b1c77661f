//! What a compaction must leave as it is: the history of work that is not over.

use std::sync::Arc;

use live::{StreamDb, from};
use log::Log;
use sys::Sys;
use wire::{Address, Position};

use crate::{
    AgentError,
    rows::{self, Generation},
};

/// Where the oldest generation begins that is not over, if there is one: `live::compact` should
/// hold everything from there on, so that its steps can still be told one by one.
///
/// # Errors
/// If the session cannot be read.
pub async fn oldest_open(
    log: &Arc<dyn Log>,
    session: impl Into<Address>,
    sys: &Sys,
) -> Result<Option<Position>, AgentError> {
    let db = rows::session(StreamDb::builder(Arc::clone(log), session, sys));
    let db = db.open().map_err(unreadable)?;
    db.ready().await.map_err(unreadable)?;
    let rows = db.once(from::<Generation>().synced()).map_err(unreadable)?;
    let open = rows.iter().filter(|row| !row.status.is_terminal());
    Ok(open.filter_map(|row| row.meta().position).min().map(Position::new))
}

fn unreadable(error: impl std::fmt::Display) -> AgentError {
    AgentError::Unreadable(error.to_string())
}
