//! How patient we are with a provider, and where it may be.

use std::{net::IpAddr, time::Duration};

use chat::{ModelError, ModelErrorKind};
use http::{Uri, uri::Scheme};

use crate::caps::{ATTEMPTS_MAX, CONNECT_TIME, FIRST_BYTE_TIME, IDLE_TIME, RETRY_TIME};

/// How patient we are with a provider, and where it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportSettings {
    /// How long a connection may take.
    pub connect_time: Duration,
    /// How long an answer may take to begin. Local models are loaded meanwhile.
    pub first_byte_time: Duration,
    /// How long an answer may be silent.
    pub idle_time: Duration,
    /// How often a request is made before anything of an answer was shown; 1 is once.
    pub attempts_max: u32,
    /// How long all attempts may take together.
    pub retry_time: Duration,
    /// Where a provider may be that speaks no TLS.
    pub plain_http: PlainHttp,
}

/// Where a provider may be that speaks no TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// On this machine.
    #[default]
    Loopback,
    /// Anywhere: whoever is on the way reads prompts, answers and keys.
    Anywhere,
}

impl Default for TransportSettings {
    fn default() -> Self {
        Self {
            connect_time: CONNECT_TIME,
            first_byte_time: FIRST_BYTE_TIME,
            idle_time: IDLE_TIME,
            attempts_max: ATTEMPTS_MAX,
            retry_time: RETRY_TIME,
            plain_http: PlainHttp::default(),
        }
    }
}

/// Where a provider's API begins, without a slash at the end.
///
/// # Errors
/// `Unsupported` if no request should go there.
pub(crate) fn base_url(
    provider: &str,
    url: &str,
    plain_http: PlainHttp,
) -> Result<String, ModelError> {
    let refuse = |why: &str| {
        let message = format!("the base URL {} {why}", shown(url));
        Err(ModelError::new(provider, ModelErrorKind::Unsupported, message))
    };
    let url = url.trim();
    let Ok(uri) = url.parse::<Uri>() else {
        return refuse("is no URL; use one such as https://api.openai.com/v1");
    };
    let Some(authority) = uri.authority() else {
        return refuse("has no host; use one such as https://api.openai.com/v1");
    };
    if authority.as_str().contains('@') {
        return refuse("holds a user name or a password; give a key instead");
    }
    if uri.query().is_some() {
        return refuse("has a query; leave it out");
    }
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => {}
        Some(scheme) if *scheme == Scheme::HTTP => {
            if plain_http == PlainHttp::Loopback && !is_loopback(authority.host()) {
                return refuse(
                    "would send everything in the clear; use https, or allow PlainHttp::Anywhere",
                );
            }
        }
        _ => return refuse("must begin with https:// or http://"),
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// A URL without what may be secret in it.
fn shown(url: &str) -> String {
    match url.split_once('@') {
        Some((_, host)) => format!("\"…@{host}\""),
        None => format!("{url:?}"),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expect: Result<&str, &str>) {
        match (base_url("openai", url, PlainHttp::Loopback), expect) {
            (Ok(base), Ok(expect)) => assert_eq!(base, expect),
            (Err(error), Err(expect)) => {
                assert!(error.message.contains(expect), "{error}");
                assert!(!error.message.contains("secret"), "{error}");
            }
            (other, _) => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn a_base_url_is_one_that_requests_may_go_to() {
        check("https://api.openai.com/v1/", Ok("https://api.openai.com/v1"));
        check(" http://localhost:11434 ", Ok("http://localhost:11434"));
        check("http://127.0.0.1:1/v1", Ok("http://127.0.0.1:1/v1"));
        check("http://[::1]:1", Ok("http://[::1]:1"));
        check("http://example.com", Err("in the clear"));
        check("https://me:secret@example.com", Err("a password"));
        check("https://example.com?a=b", Err("a query"));
        check("ftp://example.com", Err("must begin"));
        check("api.openai.com", Err("must begin"));
        check("/v1", Err("no host"));
        check("a b", Err("is no URL"));
        let anywhere = base_url("openai", "http://nas:1", PlainHttp::Anywhere);
        assert_eq!(anywhere.unwrap(), "http://nas:1");
    }
}
