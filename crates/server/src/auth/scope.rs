//! Scopes: which streams, and what may be done to them.

use std::fmt;

use http::Method;
use serde::Deserialize;
use wire::{Glob, StreamPath};

/// What a request does to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// GET and HEAD.
    Read,
    /// PUT and POST.
    Write,
    /// DELETE, which also erases and trims.
    Admin,
}

/// A permission that a token carries.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Text")]
pub(crate) struct Scope {
    glob: Glob,
    allow: Vec<Access>,
}

/// A scope as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    glob: String,
    allow: Vec<Access>,
}

impl TryFrom<Text> for Scope {
    type Error = wire::BadGlob;

    fn try_from(text: Text) -> Result<Self, wire::BadGlob> {
        Ok(Self { glob: text.glob.parse()?, allow: text.allow })
    }
}

impl Access {
    /// What a method needs; none if no stream knows it.
    pub(crate) fn of(method: &Method) -> Option<Self> {
        match *method {
            Method::GET | Method::HEAD => Some(Self::Read),
            Method::PUT | Method::POST => Some(Self::Write),
            Method::DELETE => Some(Self::Admin),
            _ => None,
        }
    }
}

impl Scope {
    pub(crate) fn allows(&self, access: Access, path: &StreamPath) -> bool {
        self.allow.contains(&access) && self.glob.matches(path)
    }

    pub(crate) fn allows_everywhere(&self, access: Access) -> bool {
        self.allow.contains(&access) && self.glob == Glob::everything()
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        })
    }
}
