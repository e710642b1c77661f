//! How a collection is doing.

use std::sync::Arc;

use tokio::sync::watch;

use crate::collection::SourceFailed;

/// How the source of a collection is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nobody has asked for its rows.
    Idle,
    /// Its first rows are on their way.
    Loading,
    /// It shows all rows there are.
    Ready,
    /// Its source has given up.
    Error(Arc<str>),
}

impl Status {
    /// Somebody has asked. True if nobody had before.
    pub(crate) fn leave_idle(&mut self) -> bool {
        let was_idle = *self == Self::Idle;
        if was_idle {
            *self = Self::Loading;
        }
        was_idle
    }
}

/// Waits until a source has brought what there is.
///
/// # Errors
/// What it says, if it has given up.
pub(crate) async fn settled(mut status: watch::Receiver<Status>) -> Result<(), SourceFailed> {
    let is_settled = |status: &Status| matches!(status, Status::Ready | Status::Error(_));
    match status.wait_for(is_settled).await.as_deref() {
        Ok(Status::Error(why)) => Err(SourceFailed(why.to_string())),
        _ => Ok(()),
    }
}
