//! Where an MCP server is.

use std::{ffi::OsString, fmt, net::IpAddr, path::PathBuf};

use http::{HeaderName, HeaderValue, Uri};

use super::McpError;

/// Where an MCP server is, and how it is reached.
#[derive(Clone)]
#[must_use]
pub struct McpPlace {
    pub(super) kind: PlaceKind,
}

#[derive(Clone)]
pub(super) enum PlaceKind {
    /// A process that is started, and spoken to over its standard input and output.
    Command {
        program: OsString,
        arguments: Vec<OsString>,
        environment: Vec<(OsString, OsString)>,
        directory: Option<PathBuf>,
    },
    /// A server that is spoken to over streamable HTTP.
    Http { url: String, token: Option<String>, headers: Vec<(HeaderName, HeaderValue)> },
}

impl McpPlace {
    /// A program that is started for this, and ended with it.
    pub fn command(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        let (environment, directory) = (Vec::new(), None);
        Self {
            kind: PlaceKind::Command { program: program.into(), arguments, environment, directory },
        }
    }

    /// A server that runs at this address.
    pub fn http(url: impl Into<String>) -> Self {
        Self { kind: PlaceKind::Http { url: url.into(), token: None, headers: Vec::new() } }
    }

    /// The same with a variable in the environment of its program.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        if let PlaceKind::Command { environment, .. } = &mut self.kind {
            environment.push((name.into(), value.into()));
        }
        self
    }

    /// The same with a directory in which its program is started.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        if let PlaceKind::Command { directory, .. } = &mut self.kind {
            *directory = Some(path.into());
        }
        self
    }

    /// The same with a token that is sent to its address.
    pub fn bearer(mut self, secret: impl Into<String>) -> Self {
        if let PlaceKind::Http { token, .. } = &mut self.kind {
            *token = Some(secret.into());
        }
        self
    }

    /// The same with a header that is sent to its address.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        if let PlaceKind::Http { headers, .. } = &mut self.kind {
            headers.push((name, value));
        }
        self
    }

    /// What it is called in errors: never with a secret.
    pub(super) fn name(&self) -> String {
        match &self.kind {
            PlaceKind::Command { program, .. } => program.to_string_lossy().into_owned(),
            PlaceKind::Http { url, .. } => match url.parse::<Uri>() {
                Ok(uri) => {
                    format!("{}{}", uri.authority().map_or("", |at| host_of(at)), uri.path())
                }
                Err(_) => "an address".to_owned(),
            },
        }
    }
}

/// Whether an address can be used, and keeps the secrets that go there.
pub(super) fn check_address(url: &str, has_secret: bool) -> Result<(), McpError> {
    let bad = |why: &str| McpError::Address { url: shown(url), why: why.to_owned() };
    let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| bad(&error.to_string()))?;
    let Some(host) = uri.host() else { return Err(bad("it has no host")) };
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if !has_secret || is_here(host) => Ok(()),
        Some("http") => Err(bad("a secret would travel in the open; use https")),
        _ => Err(bad("it begins with neither http:// nor https://")),
    }
}

/// An address as an error shows it: what may be secret in it is left out, though it be no address.
fn shown(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (scheme, rest) = url[..end].split_once("://").unwrap_or(("", &url[..end]));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

fn is_here(host: &str) -> bool {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || plain.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The host and its port, without the user before them.
fn host_of(authority: &http::uri::Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}

impl fmt::Debug for McpPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpPlace").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_travel_in_the_open() {
        for (url, has_secret, expected) in [
            ("https://example.org/mcp", true, None),
            ("http://example.org/mcp", false, None),
            ("http://example.org/mcp", true, Some("use https")),
            ("http://localhost:3000/mcp", true, None),
            ("http://127.0.0.1:3000", true, None),
            ("http://[::1]:3000", true, None),
            ("ftp://example.org", false, Some("neither")),
            ("/mcp", false, Some("no host")),
            ("not an address", false, Some("is no address")),
        ] {
            let error = check_address(url, has_secret).err().map(|error| error.to_string());
            match (error, expected) {
                (None, None) => {}
                (Some(error), Some(expected)) => assert!(error.contains(expected), "{error}"),
                (error, _) => panic!("{url}: {error:?}"),
            }
        }
    }

    #[test]
    fn an_address_that_cannot_be_used_is_told_without_its_secrets() {
        for (url, told) in [
            ("http://me:hush@example.org:1/mcp?key=hush#hush", "\"http://example.org:1/mcp\""),
            ("ftp://hush@example.org?key=hush", "\"ftp://example.org\""),
            ("/mcp?key=hush", "\"/mcp\""),
            ("not an address?hush", "\"not an address\""),
            ("http://me:hush@not an address/x?hush", "\"http://not an address/x\""),
        ] {
            let error = check_address(url, true).unwrap_err();
            assert!(error.to_string().starts_with(told), "{error}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let place = McpPlace::http("https://me:hush@example.org/mcp?key=hush").bearer("hush");
        assert_eq!(format!("{place:?}"), "McpPlace(\"example.org/mcp\")");
    }
}
