//! What the fuzz target may reach.

use crate::target::{self, Way};

/// The host that a webhook's URL leads to, and whether it is this machine; none if it is refused.
pub fn judge(url: &str) -> Option<(String, bool)> {
    let (uri, way) = target::judge(url).ok()?;
    Some((uri.host().unwrap_or_default().to_owned(), way == Way::Local))
}
