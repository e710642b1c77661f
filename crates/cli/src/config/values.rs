//! Values: how a setting's text is read, and what to say when it cannot be.

use std::{
    fmt,
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use agent::rows::KeepChunks;
use server::{JwtAlgorithm, Origin};
use tracing_subscriber::EnvFilter;
use wire::caps::APPEND_BYTES_MAX;

/// One kind of value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind<T> {
    /// What may be written, as it follows "use".
    pub(crate) allowed: &'static str,
    pub(crate) parse: fn(&str) -> Option<T>,
}

/// The engines that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineKind {
    File,
    Memory,
}

/// How clients are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthKind {
    None,
    Keys,
    Jwt,
}

/// What a line of the operator's log looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const GIB: usize = 1024 * MIB;

pub(super) const ADDRESS: Kind<SocketAddr> = Kind {
    allowed: "an IP address and a port, such as 127.0.0.1:4437 or [::1]:4437",
    parse: |text| text.parse().ok(),
};

pub(super) const ENGINE: Kind<EngineKind> = Kind {
    allowed: "file or memory",
    parse: |text| choose(text, [("file", EngineKind::File), ("memory", EngineKind::Memory)]),
};

pub(super) const AUTH: Kind<AuthKind> = Kind {
    allowed: "none, keys or jwt",
    parse: |text| {
        choose(text, [("none", AuthKind::None), ("keys", AuthKind::Keys), ("jwt", AuthKind::Jwt)])
    },
};

pub(super) const LOG_FORMAT: Kind<LogFormat> = Kind {
    allowed: "text or json",
    parse: |text| choose(text, [("text", LogFormat::Text), ("json", LogFormat::Json)]),
};

pub(super) const JWT_ALGORITHM: Kind<JwtAlgorithm> = Kind {
    allowed: "hs256, rs256, es256 or eddsa",
    parse: |text| {
        let known = [
            ("hs256", JwtAlgorithm::Hs256),
            ("rs256", JwtAlgorithm::Rs256),
            ("es256", JwtAlgorithm::Es256),
            ("eddsa", JwtAlgorithm::EdDsa),
        ];
        choose(&text.to_ascii_lowercase(), known)
    },
};

pub(super) const SWITCH: Kind<bool> = Kind {
    allowed: "true or false",
    parse: |text| choose(text, [("true", true), ("false", false)]),
};

pub(super) const FILE: Kind<PathBuf> =
    Kind { allowed: "the path of a file", parse: |text| non_empty(text).map(PathBuf::from) };

pub(super) const DIRECTORY: Kind<PathBuf> =
    Kind { allowed: "the path of a directory", parse: |text| non_empty(text).map(PathBuf::from) };

pub(super) const TEXT: Kind<String> =
    Kind { allowed: "some text", parse: |text| non_empty(text).map(str::to_owned) };

pub(super) const ORIGINS: Kind<Vec<Origin>> = Kind {
    allowed: "* or origins such as https://app.example,http://localhost:5173",
    parse: |text| match text {
        "*" => Some(Vec::new()),
        some => some.split(',').map(|origin| origin.trim().parse().ok()).collect(),
    },
};

pub(super) const LOG_FILTER: Kind<String> = Kind {
    allowed: "a level such as warn, or levels by module such as info,server=debug",
    parse: |text| EnvFilter::builder().parse(text).is_ok().then(|| text.to_owned()),
};

pub(super) const URL: Kind<String> = Kind {
    allowed: "an http or https URL without a query, such as https://streams.example",
    parse: base_url,
};

pub(super) const DURATION: Kind<Duration> = Kind {
    allowed: "a duration such as 500ms, 20s, 5m or 1h",
    parse: |text| duration(text).filter(|duration| !duration.is_zero()),
};

pub(super) const LEEWAY: Kind<Duration> = Kind {
    allowed: "whole seconds up to an hour, such as 0s, 30s or 5m",
    parse: |text| {
        let is_whole = |leeway: &Duration| leeway.subsec_nanos() == 0 && leeway.as_secs() <= 3600;
        duration(text).filter(is_whole)
    },
};

pub(super) const BYTES: Kind<usize> = Kind {
    allowed: "a size such as 4096, 64KiB, 16MiB or 1GiB",
    parse: |text| size(text).filter(|bytes| *bytes > 0),
};

pub(super) const BODY_BYTES: Kind<usize> = Kind {
    allowed: "a size of at most 32MiB, such as 64KiB or 16MiB",
    parse: |text| size(text).filter(|bytes| (1..=APPEND_BYTES_MAX).contains(bytes)),
};
const _: () = assert!(APPEND_BYTES_MAX == 32 * MIB);

pub(super) const SEGMENT_BYTES: Kind<u32> = Kind {
    allowed: "a size from 1KiB to 1GiB",
    parse: |text| size(text).filter(|bytes| (KIB..=GIB).contains(bytes))?.try_into().ok(),
};

pub(super) const COUNT: Kind<usize> = Kind {
    allowed: "a whole number from 1 to 4294967295",
    parse: |text| text.parse::<NonZeroU32>().ok()?.get().try_into().ok(),
};

pub(super) const RATE: Kind<NonZeroU32> =
    Kind { allowed: "a whole number of requests above 0", parse: |text| text.parse().ok() };

pub(super) const THREADS: Kind<NonZeroUsize> = Kind {
    allowed: "a whole number from 1 to 1024",
    parse: |text| text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= 1024),
};

/// Reads `500ms`, `20s`, `5m` or `1h`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    milliseconds.map(Duration::from_millis)
}

/// Reads `until-message`, `forever` or a duration, for clap.
pub(crate) fn keep_chunks(text: &str) -> Result<KeepChunks, String> {
    match text {
        "until-message" => Ok(KeepChunks::UntilMessage),
        "forever" => Ok(KeepChunks::Forever),
        other => duration(other)
            .map(KeepChunks::For)
            .ok_or_else(|| "use until-message, forever, or a time such as 30m or 24h".to_owned()),
    }
}

/// Reads `4096`, `4096B`, `64KiB`, `16MiB` or `1GiB`.
fn size(text: &str) -> Option<usize> {
    let (number, unit) = split_unit(text)?;
    let number = usize::try_from(number).ok()?;
    match unit {
        "" | "B" => Some(number),
        "KiB" => number.checked_mul(KIB),
        "MiB" => number.checked_mul(MIB),
        "GiB" => number.checked_mul(GIB),
        _ => None,
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

fn base_url(text: &str) -> Option<String> {
    let text = text.trim_end_matches('/');
    let url: http::Uri = text.parse().ok()?;
    let known = matches!(url.scheme_str(), Some("http" | "https"));
    (known && url.query().is_none()).then(|| text.to_owned())
}

fn choose<T: Copy, const N: usize>(text: &str, choices: [(&str, T); N]) -> Option<T> {
    choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice)
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

impl fmt::Display for AuthKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Keys => "keys",
            Self::Jwt => "jwt",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let rows = [
            ("500ms", Some(Duration::from_millis(500))),
            ("20s", Some(Duration::from_secs(20))),
            ("5m", Some(Duration::from_secs(300))),
            ("1h", Some(Duration::from_secs(3_600))),
            ("0s", None),
            ("20", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("20 s", None),
            ("99999999999999999999s", None),
            ("9999999999999999999h", None),
        ];
        for (text, expected) in rows {
            assert_eq!((DURATION.parse)(text), expected, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        let rows = [
            ("1", Some(1)),
            ("4096B", Some(4096)),
            ("64KiB", Some(64 * 1024)),
            ("16MiB", Some(16 * 1024 * 1024)),
            ("1GiB", Some(1024 * 1024 * 1024)),
            ("0", None),
            ("16MB", None),
            ("MiB", None),
            ("99999999999GiB", None),
        ];
        for (text, expected) in rows {
            assert_eq!((BYTES.parse)(text), expected, "{text:?}");
        }
        assert_eq!((BODY_BYTES.parse)("32MiB"), Some(APPEND_BYTES_MAX));
        assert_eq!((BODY_BYTES.parse)("33MiB"), None);
    }

    #[test]
    fn base_urls_have_no_end() {
        let rows = [
            ("https://streams.example", Some("https://streams.example")),
            ("http://127.0.0.1:4437/", Some("http://127.0.0.1:4437")),
            ("https://example/streams/", Some("https://example/streams")),
            ("streams.example", None),
            ("ftp://streams.example", None),
            ("https://streams.example?a=b", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!((URL.parse)(text).as_deref(), expected, "{text:?}");
        }
    }
}
