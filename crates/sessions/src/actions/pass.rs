//! Passes: tokens for the page of a session, given to whoever asks from this machine.

use std::{net::SocketAddr, sync::Arc};

use http::HeaderMap;
use server::{Access, Issuer, Scope};
use sys::{Sys, UnixMs};
use wire::Glob;

use crate::{SessionId, caps::TOKEN_LIFE};

/// Gives tokens that read one session and act on it. Only for servers that let everybody in who
/// reaches them: it asks nobody who they are, and only keeps other sites' pages out.
#[derive(Debug)]
pub struct Pass {
    issuer: Arc<Issuer>,
    /// What clients may call this server.
    names: Vec<String>,
}

/// A token.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) expires_at: UnixMs,
}

impl Pass {
    /// Passes signed by `issuer`, for a server that listens at `address`.
    #[must_use]
    pub fn new(issuer: Arc<Issuer>, address: SocketAddr) -> Self {
        let port = address.port();
        let mut names = vec![address.to_string()];
        for host in ["localhost", "127.0.0.1", "[::1]"] {
            names.push(format!("{host}:{port}"));
            // A browser leaves out the port that goes without saying.
            if matches!(port, 80 | 443) {
                names.push(host.to_owned());
            }
        }
        Self { issuer, names }
    }

    /// Keeps out pages of other sites, and names that somebody else made point here.
    pub(super) fn check(&self, host: Option<&str>, headers: &HeaderMap) -> Result<(), String> {
        let host = host.unwrap_or_default();
        let knows = |name: &str| self.names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !knows(host) {
            let names = self.names.join(", ");
            return Err(format!("this server is not called {host:?}; ask for it as {names}"));
        }
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        match text("origin") {
            None => {}
            Some(origin) if origin.split_once("://").is_some_and(|(_, host)| knows(host)) => {}
            Some(origin) => {
                return Err(format!(
                    "pages of {origin} get no token; open the page of this server"
                ));
            }
        }
        match text("sec-fetch-site") {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) => Err("pages of other sites get no token; open this server's".to_owned()),
        }
    }

    pub(super) fn issue(
        &self,
        sys: &Sys,
        session: &SessionId,
        actor: &str,
    ) -> Result<Token, String> {
        let glob: Glob = session.path().as_str().parse().map_err(|error| format!("{error}"))?;
        let scopes = [Scope::new(glob, [Access::Read, Access::Act])];
        let issued = self.issuer.issue(actor, &scopes, sys.clock.unix_ms(), TOKEN_LIFE);
        let (text, expires_at) = issued?;
        Ok(Token { text, expires_at })
    }
}
