//! Idempotent producers: who writes, in which life, and which append of that life.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{caps::PRODUCER_ID_BYTES_MAX, offset::plain_integer};

/// The stable name of a logical producer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(Arc<str>);

/// Which life of the producer; a higher one fences the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

/// Which append of this epoch, dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProducerSeq(u64);

/// The triple that makes an append safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Who.
    pub id: ProducerId,
    /// In which life.
    pub epoch: Epoch,
    /// Which append.
    pub seq: ProducerSeq,
}

/// Producer headers that make no triple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadProducer {
    /// One or two of the three.
    #[error("Producer-Id, Producer-Epoch and Producer-Seq go together; send all three or none")]
    Incomplete,
    /// Empty or too long.
    #[error("Producer-Id must have 1 to {PRODUCER_ID_BYTES_MAX} bytes")]
    Id,
    /// Not a plain integer.
    #[error("Producer-Epoch must be an integer from 0 to 2^53-1, digits only")]
    Epoch,
    /// Not a plain integer.
    #[error("Producer-Seq must be an integer from 0 to 2^53-1, digits only")]
    Seq,
}

impl Producer {
    /// Reads the three headers: all, or none.
    ///
    /// # Errors
    /// [`BadProducer`] says which header is wrong or missing.
    pub fn from_headers(
        id: Option<&str>,
        epoch: Option<&str>,
        seq: Option<&str>,
    ) -> Result<Option<Self>, BadProducer> {
        match (id, epoch, seq) {
            (None, None, None) => Ok(None),
            (Some(id), Some(epoch), Some(seq)) => {
                Ok(Some(Self { id: id.parse()?, epoch: epoch.parse()?, seq: seq.parse()? }))
            }
            _ => Err(BadProducer::Incomplete),
        }
    }
}

impl ProducerId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ProducerId {
    type Err = BadProducer;

    fn from_str(text: &str) -> Result<Self, BadProducer> {
        match text.len() {
            1..=PRODUCER_ID_BYTES_MAX => Ok(Self(text.into())),
            _ => Err(BadProducer::Id),
        }
    }
}

impl Epoch {
    /// The epoch with this number, at most 2^53 - 1 on the wire.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl ProducerSeq {
    /// The first append of an epoch.
    pub const FIRST: Self = Self(0);

    /// The sequence with this number, at most 2^53 - 1 on the wire.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl FromStr for Epoch {
    type Err = BadProducer;

    fn from_str(text: &str) -> Result<Self, BadProducer> {
        plain_integer(text).map(Self).ok_or(BadProducer::Epoch)
    }
}

impl FromStr for ProducerSeq {
    type Err = BadProducer;

    fn from_str(text: &str) -> Result<Self, BadProducer> {
        plain_integer(text).map(Self).ok_or(BadProducer::Seq)
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ProducerSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_headers_or_none() {
        assert_eq!(Producer::from_headers(None, None, None), Ok(None));
        assert!(Producer::from_headers(Some("p"), Some("0"), Some("9007199254740991")).is_ok());
        let bad = [
            (Some("p"), None, Some("0"), BadProducer::Incomplete),
            (Some(""), Some("0"), Some("0"), BadProducer::Id),
            (Some("p"), Some("-1"), Some("0"), BadProducer::Epoch),
            (Some("p"), Some("0"), Some("1e3"), BadProducer::Seq),
            (Some("p"), Some("0"), Some("9007199254740992"), BadProducer::Seq),
        ];
        for (id, epoch, seq, expected) in bad {
            assert_eq!(Producer::from_headers(id, epoch, seq), Err(expected));
        }
    }
}
