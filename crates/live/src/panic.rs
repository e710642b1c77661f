//! Code of users that panics.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures_util::FutureExt;

/// Code of a user has panicked. Whoever called it goes on.
#[derive(Debug, thiserror::Error)]
#[error("it panicked: {0}")]
pub(crate) struct Panicked(String);

/// Runs code of a user to its end. What it leaves half done is its own: nothing here is touched
/// while it runs.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|said| Panicked(text(&*said)))
}

/// The same for code that does not wait.
pub(crate) fn caught_now<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|said| Panicked(text(&*said)))
}

fn text(said: &(dyn Any + Send)) -> String {
    match (said.downcast_ref::<&str>(), said.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "it did not say why".to_owned(),
    }
}
