//! Failures: what a command says when it cannot do what was asked, and how it ends.

use std::{fmt, process::ExitCode};

/// Why a command ends early. The text says what was wrong and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line, the environment or a configuration file is wrong.
    Usage(String),
    /// What was asked for was refused, or failed.
    Refused(String),
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

    /// Something went wrong with `subject`.
    pub(crate) fn about(subject: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::Refused(format!("{subject}: {error}"))
    }

    /// The sentence for people, if there is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Usage(text) | Self::Refused(text) => Some(text),
            Self::Told | Self::Unread => None,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Refused(_) | Self::Told => ExitCode::from(1),
            Self::Unread => ExitCode::SUCCESS,
        }
    }
}
