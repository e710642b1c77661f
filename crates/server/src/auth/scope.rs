//! Scopes: which streams, and what may be done to them.

use std::fmt;

use http::Method;
use serde::{Deserialize, Serialize};
use wire::{Glob, StreamPath};

/// What a request does to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// GET and HEAD.
    Read,
    /// PUT and POST.
    Write,
    /// DELETE, which also erases and trims.
    Admin,
    /// What a [`crate::Neighbour`] does to it for the client, and nothing else.
    Act,
}

/// A permission that a token carries.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Text")]
pub struct Scope {
    #[serde(serialize_with = "as_text")]
    pub(super) glob: Glob,
    pub(super) allow: Vec<Access>,
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

    /// Where it allows this, if anywhere.
    pub(crate) fn glob_for(&self, access: Access) -> Option<&Glob> {
        self.allow.contains(&access).then_some(&self.glob)
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
            Self::Act => "act",
        })
    }
}

fn as_text<S: serde::Serializer>(glob: &Glob, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(glob.as_str())
}
