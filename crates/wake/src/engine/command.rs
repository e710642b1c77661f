//! What is asked of the owner.

use log::ListError;
use tokio::sync::oneshot;
use wire::StreamPath;

use crate::{
    ChangeError, Claim, ClaimError, Config, CreateError, Created, LinkView, Page, Progress,
    ProgressError, Reply, Reported, Setback, SubscriptionId, View,
};

/// Who waits for the answer.
pub(super) type Asker<T, E> = oneshot::Sender<Result<T, E>>;

/// All that is asked of the owner.
#[derive(Debug)]
pub(super) enum Command {
    Create {
        id: SubscriptionId,
        config: Box<Config>,
        base: String,
        reply: Asker<Created, CreateError>,
    },
    /// The subscription with the streams that it has links to.
    Get {
        id: SubscriptionId,
        reply: Asker<View, ChangeError>,
    },
    /// Those of these streams that the subscription follows. They are some that the log listed, no
    /// more than a page of them.
    Cursors {
        id: SubscriptionId,
        /// When the subscription was made that is looked at: by now it may be another one.
        created_at: u64,
        streams: Vec<log::Listed>,
        reply: Asker<Vec<LinkView>, ChangeError>,
    },
    List {
        after: Option<SubscriptionId>,
        limit: usize,
        reply: Asker<Page, ListError>,
    },
    Setback {
        id: SubscriptionId,
        reply: Asker<Option<Setback>, ChangeError>,
    },
    Delete {
        id: SubscriptionId,
        reply: Asker<(), ChangeError>,
    },
    Link {
        id: SubscriptionId,
        streams: Vec<StreamPath>,
        reply: Asker<(), ChangeError>,
    },
    Unlink {
        id: SubscriptionId,
        stream: StreamPath,
        reply: Asker<(), ChangeError>,
    },
    Claim {
        id: SubscriptionId,
        worker: String,
        reply: Asker<Claim, ClaimError>,
    },
    Report {
        id: SubscriptionId,
        token: u64,
        progress: Progress,
        reply: Asker<Reported, ProgressError>,
    },
    Release {
        id: SubscriptionId,
        token: u64,
        wake_id: String,
        generation: u64,
        reply: Asker<(), ProgressError>,
    },
    /// From a call that was made; why, if it failed.
    Delivered {
        id: SubscriptionId,
        wake_id: String,
        outcome: Result<Reply, String>,
    },
}
