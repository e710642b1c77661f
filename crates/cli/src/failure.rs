//! Failures: what a command says when it cannot do what was asked, and how it ends.

use std::{fmt, process::ExitCode};

/// Why a command ends early. The text says what was wrong and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line, the environment or a configuration file is wrong.
    Usage(String),
    /// What was asked for was refused, or failed.
    Refused(String),
    /// The server cannot be reached, or not now: the same may succeed later.
    Away(String),
    /// It was already said all there is to say.
    Told,
    /// Whoever read our output has left, as `head` does: no failure at all.
    Unread,
}

impl Failure {
    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Self::Usage(text.to_string())
    }

    pub(crate) fn refused(text: impl fmt::Display) -> Self {
        Self::Refused(text.to_string())
    }

    /// `server` is not there.
    pub(crate) fn away(server: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::Away(format!("{server}: {why}"))
    }

    /// Something went wrong with `subject`.
    pub(crate) fn about(subject: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::Refused(format!("{subject}: {error}"))
    }

    /// The same, and this besides.
    pub(crate) fn with(mut self, more: impl fmt::Display) -> Self {
        if let Self::Usage(text) | Self::Refused(text) | Self::Away(text) = &mut self {
            text.push_str(&format!("; {more}"));
        }
        self
    }

    /// The sentence for people, if there is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Usage(text) | Self::Refused(text) | Self::Away(text) => Some(text),
            Self::Told | Self::Unread => None,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Refused(_) | Self::Away(_) | Self::Told => ExitCode::from(1),
            Self::Unread => ExitCode::SUCCESS,
        }
    }
}
