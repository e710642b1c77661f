//! Ids: short strings that are cheap to copy.

/// A name that somebody gave to something. AG-UI allows any string.
pub type Id = smol_str::SmolStr;
