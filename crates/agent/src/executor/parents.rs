//! Whether somebody still waits for a call: how its generation is doing.

use futures_util::future::BoxFuture;

use crate::{
    contract::{CancelledBy, GenerationRow, GenerationStatus},
    table::Table,
};

/// The generations that calls belong to.
pub(super) trait Parents: Send + Sync {
    /// Who has cancelled a generation, if somebody has.
    fn cancelled(&self, id: &str) -> Option<CancelledBy>;

    /// Waits until somebody does; for ever if nobody will.
    fn wait(&self, id: &str) -> BoxFuture<'static, CancelledBy>;
}

/// Generations that are rows.
pub(super) struct Generations<G>(pub(super) Table<G>);

/// A function that tells.
pub(super) struct Check<F>(pub(super) F);

impl<G: GenerationRow> Parents for Generations<G> {
    fn cancelled(&self, id: &str) -> Option<CancelledBy> {
        self.0.get(id).ok().flatten().and_then(|row| cancelled_by(&*row))
    }

    fn wait(&self, id: &str) -> BoxFuture<'static, CancelledBy> {
        let (table, id) = (self.0.clone(), id.to_owned());
        Box::pin(async move {
            match table.wait_for(&id, |row| cancelled_by(row).is_some()).await {
                Ok(Some(row)) => cancelled_by(&*row).unwrap_or(CancelledBy::User),
                // Whoever deletes a generation wants nothing of it any more.
                Ok(None) => CancelledBy::User,
                Err(error) => {
                    tracing::warn!(generation = id, %error, "nobody can tell if it is cancelled");
                    std::future::pending().await
                }
            }
        })
    }
}

impl<F: Fn(&str) -> Option<CancelledBy> + Send + Sync> Parents for Check<F> {
    fn cancelled(&self, id: &str) -> Option<CancelledBy> {
        (self.0)(id)
    }

    fn wait(&self, _id: &str) -> BoxFuture<'static, CancelledBy> {
        Box::pin(std::future::pending())
    }
}

/// A generation that failed has cancelled what it asked for; one that is completed has not, as its
/// background calls go on.
fn cancelled_by<G: GenerationRow>(row: &G) -> Option<CancelledBy> {
    match row.status() {
        GenerationStatus::Cancelled => Some(row.cancelled_by().unwrap_or(CancelledBy::User)),
        GenerationStatus::Failed => Some(CancelledBy::Error),
        GenerationStatus::Pending | GenerationStatus::Generating | GenerationStatus::Completed => {
            None
        }
    }
}
