//! Cross-site requests: those that a browser sends for a page of another site, and those that come
//! under a name which another site made point here (DNS rebinding).
//!
//! A server without auth trusts programs of its own machine. A page is no such program, however
//! near its browser runs. Browsers name the page's origin and whose site it is, and a page cannot
//! change that; programs have no reason to send either.

use std::{fmt, net::IpAddr, str::FromStr};

use http::{HeaderMap, HeaderValue, header, request::Parts};

use crate::{names, request::host};

/// Which hosts and origins are this server's own, or trusted like them.
#[derive(Debug, Default)]
pub(crate) struct CrossSite {
    /// What the server is called besides its address and `localhost`.
    hosts: Vec<String>,
    /// Origins whose pages may do what programs may.
    origins: Vec<Origin>,
}

/// The origin of a web page as browsers write it: a scheme, a host, and a port if it is not the
/// usual one, such as `https://app.example`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

/// A text that is no [`Origin`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no origin of web pages; write it as in https://app.example")]
pub struct BadOrigin(String);

/// Why a request is none of a program, nor of a page that this server knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Foreign {
    /// The name is not one of this server's.
    #[error(
        "this server is not called {0:?}; ask for it by its address or as localhost, or have its \
         operator set --public-url"
    )]
    Host(String),
    /// The page is of another origin.
    #[error(
        "pages of {0} need a token for this server; send it as Authorization: Bearer <token>, or \
         have its operator set --cors-origin {0}"
    )]
    Origin(String),
    /// The page is of another origin, and the browser does not tell which.
    #[error(
        "pages of other sites need a token for this server; ask by fetch, and send it as \
         Authorization: Bearer <token>"
    )]
    Site,
}

impl CrossSite {
    /// Trusts pages of `origins`, and those that the server is said to serve at `public_url`.
    pub(crate) fn new(origins: &[Origin], public_url: Option<&str>) -> Self {
        let own = public_url.and_then(Origin::of);
        let hosts = own.iter().map(|own| own.host().to_owned()).collect();
        Self { hosts, origins: origins.iter().cloned().chain(own).collect() }
    }

    /// Refuses what no program would send, and no page that is known here.
    pub(crate) fn check(&self, head: &Parts) -> Result<(), Foreign> {
        self.check_host(head)?;
        self.check_origin(head)
    }

    /// Refuses names that are not this server's. No site can point an address elsewhere, and
    /// browsers do not look `localhost` up.
    pub(crate) fn check_host(&self, head: &Parts) -> Result<(), Foreign> {
        match host(head) {
            Some(host) if !is_plain(host) && !self.is_called(host) => {
                Err(Foreign::Host(shown(host)))
            }
            // A name that cannot be read is none of its names.
            None if head.headers.contains_key(header::HOST) => Err(Foreign::Host("?".to_owned())),
            _ => Ok(()),
        }
    }

    fn is_called(&self, host: &str) -> bool {
        self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
    }

    fn check_origin(&self, head: &Parts) -> Result<(), Foreign> {
        if let Some(origin) = text(&head.headers, &header::ORIGIN) {
            if self.origins.iter().any(|trusted| trusted.0 == origin) {
                return Ok(());
            }
            let is_own = origin.split_once("://").is_some_and(|(_, from)| {
                host(head).is_some_and(|host| host.eq_ignore_ascii_case(from))
            });
            if !is_own {
                return Err(Foreign::Origin(shown(origin)));
            }
        }
        match text(&head.headers, &names::SEC_FETCH_SITE) {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) => Err(Foreign::Site),
        }
    }
}

impl Origin {
    /// The origin of a URL.
    fn of(url: &str) -> Option<Self> {
        let rest = url.find("://")? + "://".len();
        let end = url[rest..].find('/').map_or(url.len(), |slash| rest + slash);
        url[..end].parse().ok()
    }

    /// As it stands in a request.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn host(&self) -> &str {
        self.0.split_once("://").map_or("", |(_, host)| host)
    }

    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("letters, digits and punctuation")
    }
}

impl FromStr for Origin {
    type Err = BadOrigin;

    /// That of pages without an origin, `null`, is none: to trust it is to trust every page that
    /// was put into a sandbox.
    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        match text.split_once("://") {
            Some((scheme, host))
                if !scheme.is_empty()
                    && scheme.bytes().all(is_word)
                    && !host.is_empty()
                    && host.bytes().all(is_name) =>
            {
                Ok(Self(text.to_ascii_lowercase()))
            }
            _ => Err(BadOrigin(text.to_owned())),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a host is an address, or this machine by its own name.
fn is_plain(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// A header's text; what is none equals nothing that is known.
fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    Some(if values.next().is_some() { "?" } else { value.to_str().unwrap_or("?") })
}

/// As much of a name as a message needs.
fn shown(name: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 128;
    name.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn known() -> CrossSite {
        CrossSite::new(&["https://App.example".parse().unwrap()], Some("https://streams.example/x"))
    }

    #[track_caller]
    fn check(headers: &[(&str, &str)], expected: &Result<(), Foreign>) {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(known().check(&head), *expected, "{headers:?}");
    }

    #[test]
    fn hosts_that_can_be_made_to_point_here_are_refused() {
        for good in
            ["127.0.0.1:4437", "127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:4437", "[::1]"]
        {
            check(&[("host", good)], &Ok(()));
        }
        check(&[("host", "Streams.Example")], &Ok(()));
        check(&[], &Ok(()));
        for bad in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:1", "a:b"] {
            check(&[("host", bad)], &Err(Foreign::Host(bad.to_owned())));
        }
        let unreadable = HeaderValue::from_bytes(b"evil\xe9.example").unwrap();
        let request = Request::builder().header(header::HOST, unreadable).body(()).unwrap();
        let (head, ()) = request.into_parts();
        assert_eq!(known().check(&head), Err(Foreign::Host("?".to_owned())));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let host = ("host", "localhost:4437");
        let site = |site| ("sec-fetch-site", site);
        for origin in ["http://localhost:4437", "https://app.example", "https://streams.example"] {
            check(&[host, ("origin", origin)], &Ok(()));
        }
        check(&[host, ("origin", "https://app.example"), site("cross-site")], &Ok(()));
        check(&[host, site("same-origin")], &Ok(()));
        check(&[host, site("none")], &Ok(()));
        for origin in ["http://localhost:4438", "http://localhost", "null", "", "https://x.example"]
        {
            check(&[host, ("origin", origin)], &Err(Foreign::Origin(origin.to_owned())));
        }
        let twice = [host, ("origin", "https://app.example"), ("origin", "https://x.example")];
        check(&twice, &Err(Foreign::Origin("?".to_owned())));
        for other in ["same-site", "cross-site", "sideways"] {
            check(&[host, site(other)], &Err(Foreign::Site));
        }
        let own = ("origin", "http://localhost:4437");
        check(&[host, own, site("same-site")], &Err(Foreign::Site));
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        for good in ["https://app.example", "http://localhost:5173", "http://[::1]:1", "tauri://x"]
        {
            assert!(good.parse::<Origin>().is_ok(), "{good}");
        }
        for bad in ["", "*", "null", "app.example", "https://", "://x", "https://a/b", "http://a b"]
        {
            assert!(bad.parse::<Origin>().is_err(), "{bad}");
        }
    }
}
