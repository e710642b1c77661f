//! Keys: secrets that never show.

use std::{fmt, sync::Arc};

use http::HeaderValue;

use crate::caps::{KEY_BYTES_MAX, SCRUBBED_KEY_BYTES_MIN};

/// What a provider knows us by. It is in no error, no trace and no debug output.
#[derive(Clone)]
pub struct Key(Arc<str>);

impl Key {
    /// A key as the provider gave it. Space around it is a slip of copying and is dropped.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }

    /// True if nothing is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key itself, for a crate that sends it.
    #[cfg(feature = "genai")]
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// `prefix` and the key as the value of a header; none if no header can hold it.
    pub(crate) fn header(&self, prefix: &str) -> Option<HeaderValue> {
        if self.0.len() > KEY_BYTES_MAX {
            return None;
        }
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The text without the key, should somebody have echoed it.
    pub(crate) fn scrub(&self, text: String) -> String {
        match self.0.len() >= SCRUBBED_KEY_BYTES_MIN && text.contains(&*self.0) {
            true => text.replace(&*self.0, "…"),
            false => text,
        }
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_shows() {
        let key = Key::new(" sk-secret\n");
        assert_eq!(format!("{key:?}"), "Key(…)");
        let header = key.header("Bearer ").unwrap();
        assert_eq!(header, "Bearer sk-secret");
        assert_eq!(format!("{header:?}"), "Sensitive");
        assert_eq!(key.scrub("no sk-secret here".into()), "no … here");
    }

    #[test]
    fn a_key_that_no_header_can_hold_has_none() {
        assert!(Key::new("a\nb").header("").is_none());
        assert!(Key::new(&"k".repeat(KEY_BYTES_MAX + 1)).header("").is_none());
        assert!(Key::new(" ").is_empty());
    }
}
