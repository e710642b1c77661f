//! When a stream ends by itself: never, after being idle, or at a given time.

use std::{fmt, str::FromStr, time::Duration};

use crate::{caps::TTL_SECONDS_MAX, offset::plain_integer};

/// A stream's lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Until it is deleted.
    #[default]
    Never,
    /// Until nobody has read or written it for this long.
    Sliding(Ttl),
    /// Until this time.
    At(Timestamp),
}

/// A sliding time to live in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl(u64);

/// A point in time in milliseconds since 1970, written as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(u64);

/// Expiry headers that name no lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadExpiry {
    /// Not a plain integer.
    #[error("Stream-TTL must be whole seconds, digits only, without sign or leading zero")]
    Ttl,
    /// Not a time.
    #[error("Stream-Expires-At must be an RFC 3339 time such as 2030-01-31T12:00:00Z")]
    ExpiresAt,
    /// Both at once.
    #[error("Stream-TTL and Stream-Expires-At exclude each other; send one")]
    Both,
}

impl Expiry {
    /// Reads the two headers.
    ///
    /// # Errors
    /// [`BadExpiry`] says which header is wrong.
    pub fn from_headers(ttl: Option<&str>, at: Option<&str>) -> Result<Self, BadExpiry> {
        match (ttl, at) {
            (None, None) => Ok(Self::Never),
            (Some(ttl), None) => ttl.parse().map(Self::Sliding),
            (None, Some(at)) => at.parse().map(Self::At),
            (Some(_), Some(_)) => Err(BadExpiry::Both),
        }
    }
}

impl Ttl {
    /// A time to live of whole seconds, at most a hundred years.
    #[must_use]
    pub fn from_seconds(seconds: u64) -> Self {
        Self(seconds.min(TTL_SECONDS_MAX))
    }

    /// The whole seconds.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.0
    }

    /// As a duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

impl FromStr for Ttl {
    type Err = BadExpiry;

    fn from_str(text: &str) -> Result<Self, BadExpiry> {
        plain_integer(text).map(Self::from_seconds).ok_or(BadExpiry::Ttl)
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Timestamp {
    /// From milliseconds since 1970; times past the year 9999 count as its end.
    #[must_use]
    pub fn from_unix_ms(unix_ms: u64) -> Self {
        Self(unix_ms.min(jiff::Timestamp::MAX.as_millisecond().unsigned_abs()))
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn unix_ms(self) -> u64 {
        self.0
    }
}

impl FromStr for Timestamp {
    type Err = BadExpiry;

    fn from_str(text: &str) -> Result<Self, BadExpiry> {
        // jiff accepts more than RFC 3339 (a space for the T, no seconds, a zone in brackets).
        let strict = text.len() >= 20
            && text.is_ascii()
            && matches!(text.as_bytes()[10], b'T' | b't')
            && text.as_bytes()[16] == b':'
            && !text.contains('[');
        let time: jiff::Timestamp = match strict {
            true => text.parse().map_err(|_| BadExpiry::ExpiresAt)?,
            false => return Err(BadExpiry::ExpiresAt),
        };
        u64::try_from(time.as_millisecond()).map(Self).map_err(|_| BadExpiry::ExpiresAt)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = i64::try_from(self.0).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{time:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_is_a_plain_integer() {
        assert_eq!("3600".parse(), Ok(Ttl(3600)));
        assert_eq!("0".parse(), Ok(Ttl(0)));
        for bad in ["", "+3600", "03600", "3600.0", "3.6e3", "-1", "1h"] {
            assert_eq!(bad.parse::<Ttl>(), Err(BadExpiry::Ttl), "{bad:?}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        let time: Timestamp = "2030-01-31T12:00:00.123Z".parse().unwrap();
        assert_eq!(time.to_string(), "2030-01-31T12:00:00.123Z");
        assert_eq!("2030-01-31T14:00:00.123+02:00".parse(), Ok(time));
        for bad in ["", "tomorrow", "2030-01-31", "2030-01-31 12:00:00Z", "2030-01-31T12:00Z"] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn one_lifetime_at_most() {
        let both = Expiry::from_headers(Some("1"), Some("2030-01-31T12:00:00Z"));
        assert_eq!(both, Err(BadExpiry::Both));
    }
}
