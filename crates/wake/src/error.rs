//! What can go wrong: a struct per fact, an enum per operation. A refusal changes nothing.

use log::Unavailable;
use thiserror::Error;
use wire::{Offset, StreamPath};

use crate::{BadConfig, caps};

/// No subscription has this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no such subscription; create it first")]
pub struct SubscriptionNotFound;

/// A subscription with this id exists and is for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a subscription with this id has another config; delete it first, or choose another id")]
pub struct SubscriptionExists;

/// The webhook's URL leads to a place that must not be called.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the webhook URL is refused: {0}")]
pub struct WebhookUrlRejected(pub String);

/// There are as many as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "there may be {} subscriptions with {} streams each",
    caps::SUBSCRIPTIONS_MAX,
    caps::LINKS_MAX
)]
pub struct TooMany;

/// The wake is over, or belongs to somebody else by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this wake is over; stop working on it, its streams come with the next one")]
pub struct Fenced;

/// The token was not made here, or is for another subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the token is not one of this subscription's wakes; use the one that came with the wake")]
pub struct TokenInvalid;

/// A worker has the wake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{holder} has claimed the work; wait for the next wake")]
pub struct AlreadyClaimed {
    /// What it calls itself.
    pub holder: String,
    /// Of the wake it has.
    pub generation: u64,
}

/// There is nothing to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no work; wait for the next wake")]
pub struct NoPendingWork;

/// An acknowledgement of what is not linked, was acknowledged before, or is not there yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{offset} cannot be acknowledged in {path}: name streams that the wake lists, and offsets from \
     the last one acknowledged to the tail"
)]
pub struct InvalidAck {
    /// The stream.
    pub path: StreamPath,
    /// The offset.
    pub offset: Offset,
}

/// A report that acknowledges too much at once, or a stream twice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadReport {
    /// It acknowledges too many streams.
    #[error(
        "at most {} streams can be acknowledged at once; send several reports",
        caps::STREAMS_PER_REQUEST_MAX
    )]
    TooManyAcks,
    /// It acknowledges a stream more than once.
    #[error("{0} is acknowledged more than once; send its highest offset only")]
    AckedTwice(StreamPath),
}

/// Why a subscription was not made.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The config makes no subscription.
    #[error(transparent)]
    Config(#[from] BadConfig),
    /// The webhook must not be called.
    #[error(transparent)]
    WebhookUrl(#[from] WebhookUrlRejected),
    /// The id is taken.
    #[error(transparent)]
    Exists(#[from] SubscriptionExists),
    /// There are too many.
    #[error(transparent)]
    TooMany(#[from] TooMany),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a subscription could not be looked at or changed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is none.
    #[error(transparent)]
    NotFound(#[from] SubscriptionNotFound),
    /// There are too many streams.
    #[error(transparent)]
    TooMany(#[from] TooMany),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a claim was refused.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// There is no such subscription.
    #[error(transparent)]
    NotFound(#[from] SubscriptionNotFound),
    /// Somebody has it.
    #[error(transparent)]
    AlreadyClaimed(#[from] AlreadyClaimed),
    /// There is nothing to claim.
    #[error(transparent)]
    NoPendingWork(#[from] NoPendingWork),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a worker's report was refused.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ProgressError {
    /// There is no such subscription.
    #[error(transparent)]
    NotFound(#[from] SubscriptionNotFound),
    /// The token is wrong.
    #[error(transparent)]
    TokenInvalid(#[from] TokenInvalid),
    /// The wake is over.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// It cannot be taken as it is.
    #[error(transparent)]
    BadReport(#[from] BadReport),
    /// An acknowledgement cannot be.
    #[error(transparent)]
    InvalidAck(#[from] InvalidAck),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
