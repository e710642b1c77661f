//! Tokens: offsets as their server wrote them, which nobody else reads.

use std::{fmt, str::FromStr, sync::Arc};

use thiserror::Error;
use wire::Offset;

/// Bytes of an offset, as the protocol bounds it.
const TOKEN_BYTES_MAX: usize = 255;

/// A place in a stream of any server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OffsetToken(Arc<str>);

/// Text that no server hands out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not an offset; use -1, now, or one exactly as a server gave it")]
pub struct BadOffsetToken(pub String);

impl OffsetToken {
    /// The earliest message kept.
    #[must_use]
    pub fn start() -> Self {
        Self("-1".into())
    }

    /// Only what comes later.
    #[must_use]
    pub fn now() -> Self {
        Self("now".into())
    }

    /// As it stands in a URL or a header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As a place of our own servers, if it is written as they do.
    #[must_use]
    pub fn offset(&self) -> Option<Offset> {
        self.0.parse().ok()
    }
}

impl FromStr for OffsetToken {
    type Err = BadOffsetToken;

    fn from_str(text: &str) -> Result<Self, BadOffsetToken> {
        let is_token = text.bytes().all(|byte| byte.is_ascii_graphic());
        match text.len() {
            1..=TOKEN_BYTES_MAX if is_token => Ok(Self(text.into())),
            _ => Err(BadOffsetToken(text.to_owned())),
        }
    }
}

impl From<Offset> for OffsetToken {
    fn from(offset: Offset) -> Self {
        Self(offset.to_string().into())
    }
}

impl fmt::Display for OffsetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
