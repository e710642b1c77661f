//! What servers that keep to the protocol lack, test by test.

/// The tests that fail against a server, and why they must.
pub(crate) fn of(server: &str) -> Vec<(&'static str, &'static str)> {
    let _ = server;
    Vec::new()
}
