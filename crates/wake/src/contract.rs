//! The contract: what may be asked of subscriptions, wherever they are kept.

use std::{fmt, future::Future, pin::Pin};

use log::{ListError, Unavailable, Unsupported};
use serde::{Deserialize, Serialize};
use wire::{Glob, Offset, ReadFrom, StreamPath};

use crate::{
    ChangeError, ClaimError, Config, CreateError, Delivery, Progress, ProgressError, PublicKey,
    SubscriptionId,
};

/// An answer on its way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Durable cursors over streams, and the wakes that call workers to them.
///
/// A subscription has one wake under way at most, or one for each stream if its
/// [`Concurrency`](crate::Concurrency) says so. Whoever works on it reports with the wake's id,
/// generation and token; once the wake is over, for whatever reason, all three are worthless and
/// the reporter is fenced. What a wake asks for is asked again until it is acknowledged, so work
/// is done at least once, and twice only by a worker that lost its lease or its report.
pub trait Subscriptions: fmt::Debug + Send + Sync {
    /// The keys that receivers of webhooks may verify with; the one that signs stands first.
    fn keys(&self) -> Answer<'_, Result<Vec<PublicKey>, Unavailable>>;

    /// Makes a subscription, or confirms one that is the same. Streams that match already are
    /// linked at their tails: what they hold is not work. `base` is what URLs of this server
    /// begin with for the caller; webhooks are told it.
    fn create<'a>(
        &'a self,
        id: &'a SubscriptionId,
        config: Config,
        base: String,
    ) -> Answer<'a, Result<Created, CreateError>>;

    /// The subscription as it stands. With a pattern this is not one moment: config, status and the
    /// streams with work are those of when it was asked, streams at rest are added page by page,
    /// each as it stood when its page was read. A stream that is followed throughout is there,
    /// once, with a cursor that it had meanwhile.
    fn get<'a>(&'a self, id: &'a SubscriptionId) -> Answer<'a, Result<View, ChangeError>>;

    /// One page of the subscriptions, in order of their ids: those after `after`, `limit` of them
    /// at most and [`caps::LIST_PAGE_MAX`](crate::caps::LIST_PAGE_MAX) in any case.
    fn list(
        &self,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Answer<'_, Result<Page, ListError>> {
        let _ = (after, limit);
        let refused = Unsupported { what: "list subscriptions" };
        Box::pin(std::future::ready(Err(refused.into())))
    }

    /// Why deliveries fail and when the next one is tried; none while they do not. Who cannot tell
    /// says none, too: whether they fail is what [`View::is_failing`] says.
    fn setback<'a>(
        &'a self,
        id: &'a SubscriptionId,
    ) -> Answer<'a, Result<Option<Setback>, ChangeError>> {
        let _ = id;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Ends it; whoever works on it is fenced.
    fn delete<'a>(&'a self, id: &'a SubscriptionId) -> Answer<'a, Result<(), ChangeError>>;

    /// Follows these streams from their tails; those it follows already go on as they are.
    fn link<'a>(
        &'a self,
        id: &'a SubscriptionId,
        streams: Vec<StreamPath>,
    ) -> Answer<'a, Result<(), ChangeError>>;

    /// Follows the stream no more, unless the pattern does.
    fn unlink<'a>(
        &'a self,
        id: &'a SubscriptionId,
        stream: StreamPath,
    ) -> Answer<'a, Result<(), ChangeError>>;

    /// Takes the wake of a pull subscription; the oldest that nobody has, if there are several.
    fn claim<'a>(
        &'a self,
        id: &'a SubscriptionId,
        worker: String,
    ) -> Answer<'a, Result<Claim, ClaimError>>;

    /// Says what is done, or just that the worker lives; ends the wake if everything is.
    fn report<'a>(
        &'a self,
        id: &'a SubscriptionId,
        token: &'a str,
        progress: Progress,
    ) -> Answer<'a, Result<Reported, ProgressError>>;

    /// Gives the wake up.
    fn release<'a>(
        &'a self,
        id: &'a SubscriptionId,
        token: &'a str,
        wake_id: String,
        generation: u64,
    ) -> Answer<'a, Result<(), ProgressError>>;
}

/// The answer to a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Whether it was not there before.
    pub is_new: bool,
    /// The subscription.
    pub view: View,
}

/// A subscription as its clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// What it is for.
    pub config: Config,
    /// The streams it follows; [`caps::LINKS_MAX`](crate::caps::LINKS_MAX) of them at most.
    pub links: Vec<LinkView>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// True while deliveries fail.
    pub is_failing: bool,
}

/// One page of subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The subscriptions, in order of their ids.
    pub subscriptions: Vec<Listed>,
    /// Ask for more after this one; none if this was all.
    pub next: Option<SubscriptionId>,
}

/// One subscription of a page: what tells it from others, without its streams, which may be many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub id: SubscriptionId,
    /// Whom it wakes.
    pub delivery: Delivery,
    /// Streams it follows by their names.
    pub pattern: Option<Glob>,
    /// A note for people.
    pub description: Option<String>,
    /// How many streams it keeps track of: those that were named, and those with work that is not
    /// acknowledged.
    pub links_count: usize,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// True while deliveries fail.
    pub is_failing: bool,
}

/// What keeps a subscription from waking anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setback {
    /// What went wrong last; none if nothing was tried since the process started.
    pub last_error: Option<String>,
    /// When it is tried again, in milliseconds since the Unix epoch.
    pub next_attempt_at: u64,
}

/// A stream that a subscription follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// Its name.
    pub path: StreamPath,
    /// Why it is followed.
    pub kind: LinkKind,
    /// Up to where everything is done; none before its start.
    pub acked: Option<Offset>,
}

/// Why a stream is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// The pattern covers it.
    Glob,
    /// A client named it, whatever the pattern says.
    Explicit,
}

/// A wake in the hands of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Names the wake.
    pub wake_id: String,
    /// Counts the subscription's wakes.
    pub generation: u64,
    /// What reports must carry.
    pub token: String,
    /// What there is to do.
    pub streams: Vec<Work>,
    /// How long the worker may stay silent, in milliseconds.
    pub lease_ttl_ms: u64,
}

/// A stream with work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The stream, and where the work begins.
    pub link: LinkView,
    /// Where it ended when the wake was made.
    pub tail: Offset,
}

impl Work {
    /// Where to read from: behind what is acknowledged, or from the start if nothing is.
    #[must_use]
    pub fn from(&self) -> ReadFrom {
        self.link.acked.map_or(ReadFrom::Start, ReadFrom::At)
    }
}

/// The answer to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Whether there is more work, which another wake calls to.
    pub next_wake: bool,
}
