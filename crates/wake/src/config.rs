//! What a subscription is for: which streams it follows, and whom it wakes.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wire::{Glob, StreamPath};

use crate::caps::{
    DESCRIPTION_BYTES_MAX, ID_BYTES_MAX, LEASE_DEFAULT, LEASE_MAX, LEASE_MIN,
    STREAMS_PER_REQUEST_MAX,
};

/// The name a client gave a subscription.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(Arc<str>);

/// Text that names no subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a subscription id is 1 to {ID_BYTES_MAX} bytes without slashes and control characters")]
pub struct BadSubscriptionId;

/// Everything a client decides about a subscription. Two that are equal are the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Whom to wake.
    pub delivery: Delivery,
    /// Streams to follow by their names.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_glob")]
    pub pattern: Option<Glob>,
    /// Streams to follow one by one.
    #[serde(default, with = "paths")]
    pub streams: BTreeSet<StreamPath>,
    /// How long a worker may stay silent, in milliseconds.
    pub lease_ttl_ms: u64,
    /// What one wake is for.
    #[serde(default, skip_serializing_if = "Concurrency::is_usual")]
    pub concurrency: Concurrency,
    /// A note for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Whom a subscription wakes, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// By a signed request to this URL.
    Webhook(String),
    /// By a message in this stream; workers race to claim it.
    PullWake(#[serde(with = "crate::text")] StreamPath),
}

/// What one wake is for, and so how many there may be at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// One wake at a time, for all streams with work together, as the protocol has it.
    #[default]
    Subscription,
    /// A wake for each stream with work: one that is slow holds no other back. This is an
    /// extension of the protocol.
    Stream,
}

/// A config that makes no subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadConfig {
    /// It follows nothing.
    #[error("name a pattern, streams, or both")]
    FollowsNothing,
    /// It names too many streams.
    #[error("at most {STREAMS_PER_REQUEST_MAX} streams can be named at once; use a pattern")]
    TooManyStreams,
    /// It follows the stream that it writes its wakes to.
    #[error("a subscription cannot follow its own wake stream: each wake would make another")]
    OwnWakeStream,
    /// Its lease is too short or too long.
    #[error("lease_ttl_ms must be from {} to {}", LEASE_MIN.as_millis(), LEASE_MAX.as_millis())]
    Lease,
    /// Its description is too long.
    #[error("the description must have at most {DESCRIPTION_BYTES_MAX} bytes")]
    Description,
}

impl Config {
    /// Streams to follow, and whom to wake; the usual lease.
    #[must_use]
    pub fn new(delivery: Delivery) -> Self {
        Self {
            delivery,
            pattern: None,
            streams: BTreeSet::new(),
            lease_ttl_ms: LEASE_DEFAULT.as_millis() as u64,
            concurrency: Concurrency::default(),
            description: None,
        }
    }

    /// How long a worker may stay silent.
    #[must_use]
    pub fn lease_ttl(&self) -> Duration {
        Duration::from_millis(self.lease_ttl_ms)
    }

    /// Whether it makes a subscription.
    ///
    /// # Errors
    /// [`BadConfig`] says what is wrong.
    pub fn check(&self) -> Result<(), BadConfig> {
        if self.pattern.is_none() && self.streams.is_empty() {
            return Err(BadConfig::FollowsNothing);
        }
        if self.streams.len() > STREAMS_PER_REQUEST_MAX {
            return Err(BadConfig::TooManyStreams);
        }
        if self.streams.iter().any(|path| self.wakes_by(path)) {
            return Err(BadConfig::OwnWakeStream);
        }
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease_ttl()) {
            return Err(BadConfig::Lease);
        }
        let description = self.description.as_deref().unwrap_or_default();
        if description.len() > DESCRIPTION_BYTES_MAX {
            return Err(BadConfig::Description);
        }
        Ok(())
    }

    /// Whether the pattern covers the stream. It never covers the wake stream, or each wake would
    /// be work that makes another one.
    #[must_use]
    pub fn covers(&self, path: &StreamPath) -> bool {
        !self.wakes_by(path) && self.pattern.as_ref().is_some_and(|glob| glob.matches(path))
    }

    fn wakes_by(&self, path: &StreamPath) -> bool {
        matches!(&self.delivery, Delivery::PullWake(stream) if stream == path)
    }
}

impl Concurrency {
    /// Whether it is as the protocol has it.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl SubscriptionId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SubscriptionId {
    type Err = BadSubscriptionId;

    fn from_str(text: &str) -> Result<Self, BadSubscriptionId> {
        let fits = (1..=ID_BYTES_MAX).contains(&text.len());
        let is_plain = !text.chars().any(|c| c.is_control() || c == '/');
        if fits && is_plain { Ok(Self(text.into())) } else { Err(BadSubscriptionId) }
    }
}

impl fmt::Display for SubscriptionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SubscriptionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

mod optional_glob {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use wire::Glob;

    pub(super) fn serialize<S: Serializer>(
        glob: &Option<Glob>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match glob {
            Some(glob) => serializer.collect_str(glob),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Glob>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}

mod paths {
    use std::collections::BTreeSet;

    use serde::{Deserialize, Deserializer, Serializer, de};
    use wire::StreamPath;

    pub(super) fn serialize<S: Serializer>(
        paths: &BTreeSet<StreamPath>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(StreamPath::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeSet<StreamPath>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| text.parse().map_err(de::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            pattern: Some("events/**".parse().unwrap()),
            streams: ["b", "a"].map(|path| path.parse().unwrap()).into(),
            ..Config::new(Delivery::Webhook("https://a.example/".to_owned()))
        }
    }

    #[test]
    fn a_config_comes_back_as_it_went() {
        let pull = Config {
            streams: ["a".parse().unwrap()].into(),
            description: Some("for people".to_owned()),
            concurrency: Concurrency::Stream,
            ..Config::new(Delivery::PullWake("wake/pool".parse().unwrap()))
        };
        for config in [config(), pull] {
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config, "{text}");
        }
    }

    #[test]
    fn what_makes_no_subscription_is_refused() {
        let nothing = Config { pattern: None, streams: BTreeSet::new(), ..config() };
        assert_eq!(nothing.check(), Err(BadConfig::FollowsNothing));
        for lease_ttl_ms in [0, 999, 600_001, u64::MAX] {
            assert_eq!(Config { lease_ttl_ms, ..config() }.check(), Err(BadConfig::Lease));
        }
        for lease_ttl_ms in [1000, 600_000] {
            assert_eq!(Config { lease_ttl_ms, ..config() }.check(), Ok(()));
        }
        let description = Some("x".repeat(2000));
        assert_eq!(Config { description, ..config() }.check(), Err(BadConfig::Description));
        for id in ["", "a/b", "a\nb", &"x".repeat(201)] {
            assert!(id.parse::<SubscriptionId>().is_err(), "{id:?}");
        }
    }
}
