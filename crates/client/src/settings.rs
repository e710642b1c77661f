//! Settings: which server, who we are, and how patient.

use std::{fmt, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use thiserror::Error;
use wake::Answer;

use crate::{
    Retry,
    caps::{ANSWER_PATIENCE, SILENCE_MAX},
};

/// Where streams live if a URL does not say.
const STREAM_ROOT: &str = "/v1/stream";

/// Which server, and how to speak with it.
#[derive(Debug)]
pub struct Settings {
    pub(crate) root: String,
    /// How often a request is made again.
    pub retry: Retry,
    /// How long an answer may take to begin.
    pub patience: Duration,
    /// How long a live answer may be silent before it counts as lost.
    pub silence_max: Duration,
    /// What every request carries besides what it asks.
    pub badge: Box<dyn Badge>,
}

/// A URL that leads to no server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not the URL of a server; use one such as http://127.0.0.1:4437")]
pub struct BadUrl(pub String);

/// What every request carries: asked for anew each time, so that tokens may be refreshed.
pub trait Badge: fmt::Debug + Send + Sync {
    /// For the request that is about to be made.
    ///
    /// Errors are told to whoever makes the request.
    fn show(&self) -> Answer<'_, Result<Extras, String>>;
}

/// Headers and query parameters.
#[derive(Clone, Default)]
pub struct Extras {
    /// Headers.
    pub headers: HeaderMap,
    /// Query parameters.
    pub params: Vec<(String, String)>,
}

impl fmt::Debug for Extras {
    /// Names only: values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<&str> = self.params.iter().map(|(name, _)| name.as_str()).collect();
        let headers: Vec<&str> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Extras").field("headers", &headers).field("params", &params).finish()
    }
}

/// A token that stays the same.
#[derive(Clone)]
pub struct Bearer(HeaderValue);

/// Text that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a token has visible characters only")]
pub struct BadBearer;

impl Settings {
    /// The server at this URL; streams are below `/v1/stream`, unless the URL has a path.
    ///
    /// # Errors
    /// [`BadUrl`] if it is none of `http` or `https`.
    pub fn new(url: &str) -> Result<Self, BadUrl> {
        let bad = || BadUrl(url.to_owned());
        let base = url.trim_end_matches('/');
        let uri: Uri = base.parse().map_err(|_| bad())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        // A password in a URL is shown wherever the URL is.
        let is_bare = !uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        if !is_http || !is_bare || uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
            return Err(bad());
        }
        let path = if matches!(uri.path(), "" | "/") { STREAM_ROOT } else { "" };
        Ok(Self::at(format!("{base}{path}")))
    }

    /// The server whose streams are right below this URL, even if that has no path.
    ///
    /// # Errors
    /// [`BadUrl`] if it is none of `http` or `https`.
    pub fn rooted(url: &str) -> Result<Self, BadUrl> {
        Self::new(url)?;
        Ok(Self::at(url.trim_end_matches('/').to_owned()))
    }

    fn at(root: String) -> Self {
        Self {
            root,
            retry: Retry::default(),
            patience: ANSWER_PATIENCE,
            silence_max: SILENCE_MAX,
            badge: Box::new(Extras::default()),
        }
    }

    /// The path that all streams are below, as others on the same server write it.
    pub(crate) fn root_path(&self) -> &str {
        let authority = self.root.find("://").map_or(0, |scheme| scheme + 3);
        let path = self.root[authority..].find('/');
        path.map_or("", |path| &self.root[authority + path..])
    }

    /// The same, with a badge.
    #[must_use]
    pub fn with_badge(self, badge: impl Badge + 'static) -> Self {
        Self { badge: Box::new(badge), ..self }
    }
}

impl Bearer {
    /// From what stands behind `Bearer`.
    ///
    /// # Errors
    /// [`BadBearer`] if no header can carry it.
    pub fn new(token: &str) -> Result<Self, BadBearer> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| BadBearer)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer")
    }
}

impl Badge for Bearer {
    fn show(&self) -> Answer<'_, Result<Extras, String>> {
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, self.0.clone())]);
        Box::pin(std::future::ready(Ok(Extras { headers, params: Vec::new() })))
    }
}

impl Badge for Extras {
    fn show(&self) -> Answer<'_, Result<Extras, String>> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_to_streams() {
        for (url, root) in [
            ("http://127.0.0.1:4437", Some("http://127.0.0.1:4437/v1/stream")),
            ("https://a.example/", Some("https://a.example/v1/stream")),
            ("http://a.example/v1/stream/", Some("http://a.example/v1/stream")),
            ("http://a.example/tenant", Some("http://a.example/tenant")),
            ("", None),
            ("a.example", None),
            ("ftp://a.example", None),
            ("http://", None),
            ("http://a.example/?x=y", None),
            ("http://user:secret@a.example/", None),
        ] {
            assert_eq!(Settings::new(url).ok().map(|s| s.root), root.map(str::to_owned), "{url}");
        }
    }

    #[test]
    fn tokens_are_not_shown() {
        assert_eq!(format!("{:?}", Bearer::new("secret").unwrap()), "Bearer");
        assert!(Bearer::new("a\nb").is_err());
        let mut extras = Extras::default();
        extras.headers.insert("x-key", "secret".parse().unwrap());
        extras.params.push(("key".to_owned(), "secret".to_owned()));
        assert!(!format!("{extras:?}").contains("secret"));
    }
}
