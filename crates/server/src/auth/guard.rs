//! The guard: from an `Authorization` header to a client, and from a client to yes or no.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, HeaderValue, header};
use sys::Sys;
use wire::{Glob, StreamPath};

use crate::{
    auth::{Access, Auth, Issuer, Tokens, jwt::Verifier, keys::Keys, scope::Scope},
    files::{self, BadFile},
    names,
    problem::{Kind, Problem},
    request::single,
};

const NO_TOKEN: &str = "send a token as Authorization: Bearer <token>";

const PAGE_NEEDS_TOKEN: &str = "pages of other sites need a token for this stream; send it as \
                                Authorization: Bearer <token>";

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
    /// Streams that pages of other sites may not use without a token.
    private: Option<Arc<Glob>>,
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
    /// A page of another site, on an open server: anybody, but for these streams.
    Page { private: Arc<Glob> },
    /// The bearer of a token.
    Named { name: Arc<str>, scopes: Arc<[Scope]> },
}

impl Guard {
    pub(crate) async fn new(
        sys: &Sys,
        auth: &Auth,
        issuer: Option<Arc<Issuer>>,
        private: Option<Glob>,
    ) -> Result<Self, BadAuth> {
        let private = private.map(Arc::new);
        let tokens = match auth {
            Auth::None => return Ok(Self { door: Door::Open, issuer, private }),
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
        Ok(Self { door: Door::Tokens(Box::new(Known { keys, verifier })), issuer, private })
    }

    /// True if everybody may read everything, so that shared caches may keep it.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.door, Door::Open)
    }

    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<Client, Problem> {
        if self.issuer.is_none() && self.is_open() {
            return Ok(self.anybody(headers));
        }
        let header = single(headers, &header::AUTHORIZATION)?;
        match (header, &self.door) {
            (None, Door::Open) => return Ok(self.anybody(headers)),
            (None, Door::Tokens(_)) => return Err(unauthorized(NO_TOKEN)),
            (Some(_), _) => {}
        }
        let token = header.and_then(bearer).ok_or_else(|| unauthorized(NO_TOKEN))?;
        let issued = self.issuer.as_ref().and_then(|issuer| issuer.verify(token));
        issued
            .or_else(|| self.door.find(token))
            .ok_or_else(|| unauthorized("the token is unknown or has expired; get a new one"))
    }

    /// Who asks without a token. Browsers tell of whose site a page is; programs have no reason to.
    fn anybody(&self, headers: &HeaderMap) -> Client {
        let site = |origin: &HeaderValue| {
            let (_, site) = origin.to_str().ok()?.split_once("://")?;
            Some(site.to_owned())
        };
        let Some(private) = &self.private else { return Client::Anybody };
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let is_foreign = headers
            .get(header::ORIGIN)
            .is_some_and(|origin| site(origin).is_none_or(|site| Some(site.as_str()) != host));
        // A name that somebody else lets lead here would make his page one of this site.
        if is_foreign || host.is_some_and(|host| !is_plain(host)) {
            return Client::Page { private: Arc::clone(private) };
        }
        Client::Anybody
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

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Anybody | Self::Page { .. } => None,
            Self::Named { name, .. } => Some(name),
        }
    }

    /// Refuses what no scope allows, whether the stream exists or not.
    pub(crate) fn require(&self, access: Access, path: &StreamPath) -> Result<(), Problem> {
        if let Self::Page { private } = self {
            return match private.matches(path) {
                true => Err(unauthorized(PAGE_NEEDS_TOKEN)),
                false => Ok(()),
            };
        }
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

    fn has(&self, wanted: impl Fn(&Scope) -> bool) -> bool {
        match self {
            Self::Anybody => true,
            Self::Page { .. } => false,
            Self::Named { scopes, .. } => scopes.iter().any(wanted),
        }
    }
}

/// Whether a host is an address, or this machine by its own name.
fn is_plain(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start())
}

fn unauthorized(detail: &'static str) -> Problem {
    Problem::new(Kind::Unauthorized, detail).with(&header::WWW_AUTHENTICATE, names::BEARER.clone())
}

fn forbidden(detail: String) -> Problem {
    Problem::new(Kind::Forbidden, detail)
}
