//! The time, for the scripted model.

use chat::tool;
use wire::Timestamp;

/// Tells the date and the time, in UTC.
#[tool(effect = "pure")]
pub(super) async fn clock() -> String {
    // A tool that never awaits could not be stopped.
    tokio::task::yield_now().await;
    let now = sys::Sys::real().clock.unix_ms();
    Timestamp::from_unix_ms(now.get()).to_string()
}
