//! Types, keys and txids: the three names of an event.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use crate::caps::NAME_BYTES_MAX;

/// A text that names no type, key or transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// No text at all.
    #[error("a type, key or txid must not be empty")]
    Empty,
    /// Too much of it.
    #[error("a type, key or txid must have at most {NAME_BYTES_MAX} bytes")]
    TooLong,
}

pub(crate) fn check(text: &str) -> Result<&str, BadName> {
    match text.len() {
        0 => Err(BadName::Empty),
        1..=NAME_BYTES_MAX => Ok(text),
        _ => Err(BadName::TooLong),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Never empty, and cheap to clone.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a text that is not empty and not too long.
            ///
            /// # Errors
            /// [`BadName`] says which.
            pub fn new(text: &str) -> Result<Self, BadName> {
                check(text).map(Self::checked)
            }

            /// Takes a text that has passed [`check`].
            pub(crate) fn checked(text: &str) -> Self {
                Self(Arc::from(text))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<Self, BadName> {
                Self::new(text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &self.0)
            }
        }
    };
}

name! {
    /// The type of an event: which collection its row belongs to.
    TypeName
}

name! {
    /// What names a row within its collection.
    Key
}

name! {
    /// What the events of one transaction have in common; opaque.
    TxId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_text_within_bounds() {
        assert_eq!(Key::new(""), Err(BadName::Empty));
        assert_eq!(Key::new(&"k".repeat(NAME_BYTES_MAX + 1)), Err(BadName::TooLong));
        assert!(Key::new(&"k".repeat(NAME_BYTES_MAX)).is_ok());
        assert_eq!("user:1".parse::<Key>().unwrap().as_str(), "user:1");
    }
}
