//! Why an action was not done.

use log::{AppendError, CreateError, HeadError, ReadError, Unavailable};

use crate::{
    SessionId,
    caps::{ACTION_ID_BYTES_MAX, NAME_BYTES_MAX},
};

/// Why an action was not done. Nothing was stored, unless it is [`ActionError::Unavailable`]: then
/// the same action under the same id is safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// There is no such session.
    #[error("there is no session {0}; make it with PUT /v1/sessions/{0}")]
    NoSession(SessionId),
    /// A member of the request is wrong.
    #[error("{field}: {why}")]
    Invalid {
        /// Which.
        field: &'static str,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// A member of the request is too long.
    #[error("{field} has {bytes} bytes; at most {bytes_max} are allowed")]
    TooLong {
        /// Which.
        field: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        bytes_max: usize,
    },
    /// The id belongs to something else that was said.
    #[error("the id {0:?} was used for something else in this session; use another one")]
    IdTaken(String),
    /// A decision on a call that does not wait for one.
    #[error("the call {call:?} {why}; look at its row and decide again")]
    NotParked {
        /// The call.
        call: String,
        /// How it is.
        why: String,
    },
    /// The session is closed, or another stream has its name.
    #[error("session {session} takes nothing: {why}")]
    Closed {
        /// Which.
        session: SessionId,
        /// Why.
        why: String,
    },
    /// Too much is under way.
    #[error("there is too much to do; come back after a moment")]
    Busy,
    /// There is no room on the disk of the log.
    #[error(
        "there is no room on the server's disk, and nothing was stored; delete sessions, or have \
         its operator make room, and retry"
    )]
    DiskFull,
    /// The log cannot serve now.
    #[error("{0}")]
    Unavailable(String),
}

impl ActionError {
    pub(crate) fn invalid(field: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { field, why: why.into() }
    }

    /// Whether the same may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy | Self::DiskFull | Self::Unavailable(_))
    }

    fn unavailable(why: &Unavailable) -> Self {
        match why {
            Unavailable::DiskFull(_) => Self::DiskFull,
            other => Self::Unavailable(other.to_string()),
        }
    }

    pub(super) fn appending(session: &SessionId, error: &AppendError) -> Self {
        match error {
            AppendError::NotFound(_) => Self::NoSession(session.clone()),
            AppendError::Gone(_) | AppendError::Closed(_) | AppendError::ContentType(_) => {
                Self::Closed { session: session.clone(), why: error.to_string() }
            }
            AppendError::Unavailable(why) => Self::unavailable(why),
            _ => Self::Unavailable(error.to_string()),
        }
    }

    pub(crate) fn reading(session: &SessionId, error: &ReadError) -> Self {
        match error {
            ReadError::NotFound(_) => Self::NoSession(session.clone()),
            ReadError::Gone(_) => Self::Closed { session: session.clone(), why: error.to_string() },
            _ => Self::Unavailable(error.to_string()),
        }
    }

    pub(super) fn creating(session: &SessionId, error: &CreateError) -> Self {
        match error {
            CreateError::Exists(_) | CreateError::Gone(_) => {
                Self::Closed { session: session.clone(), why: error.to_string() }
            }
            CreateError::Unavailable(why) => Self::unavailable(why),
            _ => Self::Unavailable(error.to_string()),
        }
    }

    pub(super) fn looking(session: &SessionId, error: &HeadError) -> Self {
        match error {
            HeadError::NotFound(_) => Self::NoSession(session.clone()),
            HeadError::Gone(_) => Self::Closed { session: session.clone(), why: error.to_string() },
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

/// An id that a client draws. Those that agents derive have a `:`, so they never meet.
pub(super) fn check_id(field: &'static str, id: &str) -> Result<(), ActionError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match id.len() {
        1..=ACTION_ID_BYTES_MAX if id.bytes().all(is_plain) => Ok(()),
        _ => Err(ActionError::invalid(
            field,
            format!("use 1 to {ACTION_ID_BYTES_MAX} letters, digits, -, _ or ., such as a UUID"),
        )),
    }
}

/// A name of something that is there already.
pub(super) fn check_name(field: &'static str, name: &str) -> Result<(), ActionError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let why = format!("use 1 to {NAME_BYTES_MAX} bytes without control characters");
        return Err(ActionError::invalid(field, why));
    }
    Ok(())
}

pub(super) fn check_length(
    field: &'static str,
    text: &str,
    bytes_max: usize,
) -> Result<(), ActionError> {
    match text.len() {
        bytes if bytes > bytes_max => Err(ActionError::TooLong { field, bytes, bytes_max }),
        _ => Ok(()),
    }
}
