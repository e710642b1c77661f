//! The guard: from an `Authorization` header to a client, and from a client to yes or no.

use std::{borrow::Cow, sync::Arc};

use http::{header, request::Parts};
use sys::Sys;
use wire::{Glob, StreamPath};

use crate::{
    auth::{
        Access, Auth, CrossSite, Issuer, Tokens, cross_site::Foreign, jwt::Verifier, keys::Keys,
        scope::Scope,
    },
    files::{self, BadFile},
    names,
    problem::{Kind, Problem},
    request::single,
};

const NO_TOKEN: &str = "send a token as Authorization: Bearer <token>";

/// Auth settings that nobody could be let in by.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadAuth {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] BadFile),
    /// The keys file is wrong.
    #[error("the keys file is wrong: {0}")]
    Keys(String),
    /// The JWT key is wrong.
    #[error("the JWT key is wrong: {0}")]
    Jwt(String),
    /// Tokens are asked for, and none is known.
    #[error("neither a keys file nor a JWT key is set; nobody could get in")]
    Nobody,
}

/// Whom the server knows.
#[derive(Debug)]
pub(crate) struct Guard {
    door: Door,
    /// Whose tokens are good, too.
    issuer: Option<Arc<Issuer>>,
    /// Which requests without a token are those of other sites' pages.
    cross_site: CrossSite,
}

#[derive(Debug)]
enum Door {
    /// Everybody may do everything who does not show a token.
    Open,
    /// Bearers of a token.
    Tokens(Box<Known>),
}

/// How tokens are known.
#[derive(Debug)]
struct Known {
    keys: Keys,
    verifier: Option<Verifier>,
}

/// Who asks, and what it may do.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    /// Anybody, on an open server.
    Anybody,
    /// The bearer of a token.
    Named { name: Arc<str>, scopes: Arc<[Scope]> },
}

impl Guard {
    pub(crate) async fn new(
        sys: &Sys,
        auth: &Auth,
        issuer: Option<Arc<Issuer>>,
        cross_site: CrossSite,
    ) -> Result<Self, BadAuth> {
        let tokens = match auth {
            Auth::None => return Ok(Self { door: Door::Open, issuer, cross_site }),
            Auth::Tokens(Tokens { keys: None, jwt: None }) => return Err(BadAuth::Nobody),
            Auth::Tokens(tokens) => tokens,
        };
        let keys = match &tokens.keys {
            Some(path) => Keys::parse(&String::from_utf8_lossy(&files::read(sys, path).await?))?,
            None => Keys::default(),
        };
        let verifier = match &tokens.jwt {
            Some(jwt) => Some(Verifier::new(jwt, &files::read(sys, &jwt.key).await?)?),
            None => None,
        };
        Ok(Self { door: Door::Tokens(Box::new(Known { keys, verifier })), issuer, cross_site })
    }

    /// True if everybody may read everything, so that shared caches may keep it.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.door, Door::Open)
    }

    /// Refuses a name that is none of an open server's, whatever is asked for. Who shows a token
    /// that is good is judged by that; one that is not proves nothing.
    pub(crate) fn check_host(
        &self,
        head: &Parts,
        client: &Result<Client, Problem>,
    ) -> Result<(), Problem> {
        match (&self.door, client) {
            (Door::Tokens(_), _) | (Door::Open, Ok(Client::Named { .. })) => Ok(()),
            (Door::Open, Ok(Client::Anybody) | Err(_)) => Ok(self.cross_site.check_host(head)?),
        }
    }

    /// Refuses pages of other sites, tokens or not.
    pub(crate) fn check_site(&self, head: &Parts) -> Result<(), Problem> {
        Ok(self.cross_site.check(head)?)
    }

    pub(crate) fn identify(&self, head: &Parts) -> Result<Client, Problem> {
        if self.issuer.is_none() && self.is_open() {
            return self.program(head);
        }
        let header = single(&head.headers, &header::AUTHORIZATION)?;
        match (header, &self.door) {
            (None, Door::Open) => return self.program(head),
            (None, Door::Tokens(_)) => return Err(unauthorized(NO_TOKEN)),
            (Some(_), _) => {}
        }
        let token = header.and_then(bearer).ok_or_else(|| unauthorized(NO_TOKEN))?;
        let issued = self.issuer.as_ref().and_then(|issuer| issuer.verify(token));
        issued
            .or_else(|| self.door.find(token))
            .ok_or_else(|| unauthorized("the token is unknown or has expired; get a new one"))
    }

    /// Who asks an open server without a token: a program, or a page that is trusted like one.
    fn program(&self, head: &Parts) -> Result<Client, Problem> {
        self.cross_site.check(head)?;
        Ok(Client::Anybody)
    }
}

impl Door {
    fn find(&self, token: &str) -> Option<Client> {
        let Self::Tokens(known) = self else { return None };
        let signed = || known.verifier.as_ref().and_then(|verifier| verifier.verify(token));
        known.keys.find(token).or_else(signed)
    }
}

impl Client {
    pub(crate) fn named(name: String, scopes: Vec<Scope>) -> Self {
        Self::Named { name: name.into(), scopes: scopes.into() }
    }

    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        match self {
            Self::Anybody => None,
            Self::Named { name, .. } => Some(name),
        }
    }

    /// Refuses what no scope allows, whether the stream exists or not.
    pub(crate) fn require(&self, access: Access, path: &StreamPath) -> Result<(), Problem> {
        if self.has(|scope| scope.allows(access, path)) {
            return Ok(());
        }
        Err(forbidden(format!("the token lacks the scope {access} on {path}; ask for it")))
    }

    /// Refuses what is about all streams unless a scope is.
    pub(crate) fn require_everywhere(&self, any_of: &[Access]) -> Result<(), Problem> {
        if self.has(|scope| any_of.iter().any(|access| scope.allows_everywhere(*access))) {
            return Ok(());
        }
        let names = any_of.iter().map(Access::to_string).collect::<Vec<_>>().join(" or ");
        Err(forbidden(format!("the token lacks the scope {names} on **; ask for it")))
    }

    /// Where it may do this, if not everywhere.
    pub(crate) fn globs(&self, access: Access) -> Option<Arc<[Glob]>> {
        match self {
            Self::Anybody => None,
            Self::Named { scopes, .. } if scopes.iter().any(|it| it.allows_everywhere(access)) => {
                None
            }
            Self::Named { scopes, .. } => {
                Some(scopes.iter().filter_map(|scope| scope.glob_for(access)).cloned().collect())
            }
        }
    }

    fn has(&self, wanted: impl Fn(&Scope) -> bool) -> bool {
        match self {
            Self::Anybody => true,
            Self::Named { scopes, .. } => scopes.iter().any(wanted),
        }
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start())
}

fn unauthorized(detail: impl Into<Cow<'static, str>>) -> Problem {
    Problem::new(Kind::Unauthorized, detail).with(&header::WWW_AUTHENTICATE, names::BEARER.clone())
}

impl From<Foreign> for Problem {
    fn from(foreign: Foreign) -> Self {
        match foreign {
            Foreign::Host(_) => Self::new(Kind::UnknownHost, foreign.to_string()),
            Foreign::Origin(_) | Foreign::Site => unauthorized(foreign.to_string()),
        }
    }
}

fn forbidden(detail: String) -> Problem {
    Problem::new(Kind::Forbidden, detail)
}
