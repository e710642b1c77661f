//! Auth: who a client is, and what it may do.

mod cross_site;
mod guard;
mod issuer;
mod jwt;
mod keys;
mod scope;

use std::path::PathBuf;

pub(crate) use cross_site::CrossSite;
pub use cross_site::{BadOrigin, Origin};
pub use guard::BadAuth;
pub(crate) use guard::{Client, Guard};
pub use issuer::Issuer;
pub use jwt::{Jwt, JwtAlgorithm};
pub use scope::{Access, Scope};

/// Who may use a server.
#[derive(Clone, Debug, Default)]
pub enum Auth {
    /// Everybody who reaches it; only for servers on a loopback address.
    #[default]
    None,
    /// Bearers of a token, each within its scopes.
    Tokens(Tokens),
}

/// Where tokens are known from. The files are read once, when the server is bound.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// A TOML file of static keys:
    ///
    /// ```toml
    /// [[key]]
    /// name = "worker"
    /// token_sha256 = "9f86d081…"        # or: token = "…"
    /// scopes = [{ glob = "chats/**", allow = ["read", "write"] }]
    /// ```
    pub keys: Option<PathBuf>,
    /// What signed tokens must satisfy.
    pub jwt: Option<Jwt>,
}

/// Reads a file of keys; true if it is one.
#[cfg(fuzzing)]
pub(crate) fn parse_keys(text: &str) -> bool {
    keys::Keys::parse(text).is_ok()
}
