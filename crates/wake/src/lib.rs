//! Subscriptions: durable cursors over many streams, and the calls that wake whoever works on them.
//!
//! A [`Config`] says which streams a subscription follows and whom it wakes. What happens to one is
//! decided by a pure machine (`subscription`) and is an event before it is anything else, so a
//! process that is killed goes on where it was. It knows no HTTP and never looks inside a message.
//!
//! In reading order: `contract` is what may be asked; `config` what a client decides;
//! `subscription` what may happen to one; `book` and `index` hold them all and find who follows a
//! stream; `engine` keeps the book in a system stream and acts on it; `open_work` finds streams
//! that owe something after any crash; `courier` is who calls webhooks; `notice` and `signature`
//! are for those who are called; `token` is how workers prove whose wake they have; `caps` bounds
//! everything.

mod book;
pub mod caps;
mod config;
mod contract;
mod courier;
mod engine;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod index;
mod keys;
mod notice;
mod open_work;
mod signature;
mod subscription;
mod text;
mod token;

pub use config::{BadConfig, BadSubscriptionId, Concurrency, Config, Delivery, SubscriptionId};
pub use contract::{
    Answer, Claim, Created, LinkKind, LinkView, Listed, Page, Reported, Setback, Subscriptions,
    View, Work,
};
pub use courier::{Call, Courier, Letter, LinkBody, NoCourier, Received, WorkBody};
pub use engine::{Bounds, Engine, OpenError};
pub use error::{
    AlreadyClaimed, BadReport, ChangeError, ClaimError, CreateError, Fenced, InvalidAck,
    NoPendingWork, ProgressError, SubscriptionExists, SubscriptionNotFound, TokenInvalid, TooMany,
    WebhookUrlRejected,
};
pub use keys::{BadKeys, Keys, PublicKey, TooManyKeys};
pub use notice::{Announcement, BadAnnouncement, BadNotice, WakeNotice};
pub use open_work::{Feed, Found, OpenWork};
pub use signature::{BadSignature, Signature, verify};
pub use subscription::{Ack, Progress, Reply};
use token::Secret;
