//! Passes: tokens for the page of a session, given to whoever asks from this machine.

use std::sync::Arc;

use server::{Access, Issuer, Scope};
use sys::{Sys, UnixMs};
use wire::Glob;

use crate::{SessionId, caps::TOKEN_LIFE};

/// Gives tokens that read one session and act on it. Only for servers that let everybody in who
/// reaches them: it asks for no proof, and the door only keeps other sites' pages out.
#[derive(Debug)]
pub struct Pass {
    issuer: Arc<Issuer>,
}

/// A token.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) expires_at: UnixMs,
}

impl Pass {
    /// Passes signed by `issuer`.
    #[must_use]
    pub fn new(issuer: Arc<Issuer>) -> Self {
        Self { issuer }
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
