//! What the operations of a log and of subscriptions fail with, as problems.

use log::{
    AppendError, CreateError, DeleteError, ForkError, HeadError, ListError, ReadError, TrimError,
    WatchError,
};

use super::{Kind, Problem};

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Exists(fact) => fact.into(),
            CreateError::Gone(fact) => Self::from_fact(Kind::NameTaken, &fact),
            CreateError::Unsupported(fact) => fact.into(),
            CreateError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<ForkError> for Problem {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::SourceNotFound(fact) => fact.into(),
            ForkError::Gone(fact) => Self::from_fact(Kind::NameTaken, &fact),
            ForkError::Exists(fact) => fact.into(),
            ForkError::ContentType(fact) => fact.into(),
            ForkError::OffsetUnknown(fact) => fact.into(),
            ForkError::BeyondTail(fact) => fact.into(),
            ForkError::Trimmed(fact) => fact.into(),
            ForkError::SubOffsetAlone => Self::bad_request_from(error),
            ForkError::TooDeep => Self::from_fact(Kind::ForksTooDeep, &error),
            ForkError::Unsupported(fact) => fact.into(),
            ForkError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<AppendError> for Problem {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::NotFound(fact) => fact.into(),
            AppendError::Gone(fact) => fact.into(),
            AppendError::Closed(fact) => fact.into(),
            AppendError::ContentType(fact) => fact.into(),
            AppendError::StreamSeq(fact) => fact.into(),
            AppendError::ExpectedOffset(fact) => fact.into(),
            AppendError::Fenced(fact) => fact.into(),
            AppendError::Gap(fact) => fact.into(),
            AppendError::EpochStart(fact) => fact.into(),
            AppendError::TooManyProducers(fact) => fact.into(),
            AppendError::Empty => Self::bad_request_from(error),
            AppendError::Unsupported(fact) => fact.into(),
            AppendError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound(fact) => fact.into(),
            ReadError::Gone(fact) => fact.into(),
            ReadError::OffsetUnknown(fact) => fact.into(),
            ReadError::Trimmed(fact) => fact.into(),
            ReadError::Unsupported(fact) => fact.into(),
            ReadError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<HeadError> for Problem {
    fn from(error: HeadError) -> Self {
        ReadError::from(error).into()
    }
}

impl From<TrimError> for Problem {
    fn from(error: TrimError) -> Self {
        match error {
            TrimError::NotFound(fact) => fact.into(),
            TrimError::Gone(fact) => fact.into(),
            TrimError::OffsetUnknown(fact) => fact.into(),
            TrimError::BeyondTail(fact) => fact.into(),
            TrimError::Unsupported(fact) => fact.into(),
            TrimError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<DeleteError> for Problem {
    fn from(error: DeleteError) -> Self {
        match error {
            DeleteError::NotFound(fact) => fact.into(),
            DeleteError::Gone(fact) => fact.into(),
            DeleteError::ForkedElsewhere(_) => Self::new(
                Kind::Forbidden,
                "the token lacks the scope admin on a fork of this stream, which an erase would \
                 take along; ask for it, or delete without erase",
            ),
            DeleteError::Unsupported(fact) => fact.into(),
            DeleteError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<ListError> for Problem {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Unsupported(fact) => fact.into(),
            ListError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<WatchError> for Problem {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Unsupported(fact) => fact.into(),
            WatchError::TooMany => Self::overloaded("too many watch already; retry later"),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<wake::CreateError> for Problem {
    fn from(error: wake::CreateError) -> Self {
        match error {
            wake::CreateError::Config(fact) => fact.into(),
            wake::CreateError::WebhookUrl(fact) => fact.into(),
            wake::CreateError::Exists(fact) => fact.into(),
            wake::CreateError::TooMany(fact) => fact.into(),
            wake::CreateError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<wake::ChangeError> for Problem {
    fn from(error: wake::ChangeError) -> Self {
        match error {
            wake::ChangeError::NotFound(fact) => fact.into(),
            wake::ChangeError::TooMany(fact) => fact.into(),
            wake::ChangeError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<wake::ClaimError> for Problem {
    fn from(error: wake::ClaimError) -> Self {
        match error {
            wake::ClaimError::NotFound(fact) => fact.into(),
            wake::ClaimError::AlreadyClaimed(fact) => fact.into(),
            wake::ClaimError::NoPendingWork(fact) => fact.into(),
            wake::ClaimError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}

impl From<wake::ProgressError> for Problem {
    fn from(error: wake::ProgressError) -> Self {
        match error {
            wake::ProgressError::NotFound(fact) => fact.into(),
            wake::ProgressError::TokenInvalid(fact) => fact.into(),
            wake::ProgressError::Fenced(fact) => fact.into(),
            wake::ProgressError::InvalidAck(fact) => fact.into(),
            wake::ProgressError::BadReport(fact) => Self::bad_request_from(fact),
            wake::ProgressError::Unavailable(fact) => fact.into(),
            other => Self::unforeseen(&other),
        }
    }
}
