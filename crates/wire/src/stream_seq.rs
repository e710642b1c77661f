//! `Stream-Seq`: the application's own order, compared byte by byte.

use std::{fmt, str::FromStr};

use crate::caps::STREAM_SEQ_BYTES_MAX;

/// An opaque sequence value; each append that carries one must exceed the last, as bytes.
///
/// Its scope is the stream: all writers share one order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamSeq(Box<str>);

/// A `Stream-Seq` that is empty or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Stream-Seq must have 1 to {STREAM_SEQ_BYTES_MAX} bytes")]
pub struct BadStreamSeq;

impl StreamSeq {
    /// The value as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StreamSeq {
    type Err = BadStreamSeq;

    fn from_str(text: &str) -> Result<Self, BadStreamSeq> {
        match text.len() {
            1..=STREAM_SEQ_BYTES_MAX => Ok(Self(text.into())),
            _ => Err(BadStreamSeq),
        }
    }
}

impl fmt::Display for StreamSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_bytes() {
        let seq = |text: &str| text.parse::<StreamSeq>().unwrap();
        assert!(seq("10") < seq("2"));
        assert!(seq("09") < seq("10"));
        assert!(seq("B") < seq("a"));
        assert!("".parse::<StreamSeq>().is_err());
    }
}
