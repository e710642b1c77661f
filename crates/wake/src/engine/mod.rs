//! The engine: subscriptions over any log, kept in that log.

mod command;
mod deliver;
mod diary;
mod follow;
mod line;
mod owner;
mod views;

use std::sync::Arc;

use log::{
    AppendError, CreateError as LogCreateError, ListError, Log, ReadError, Unavailable, WatchError,
};
use sys::{Clock, Sys, Task};
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, oneshot};
use wire::{Glob, StreamPath};

use self::{command::Command, diary::Diary, owner::Owner};
use crate::{
    Answer, ChangeError, Claim, ClaimError, Config, Courier, CreateError, Created, Fenced, Keys,
    Page, Progress, ProgressError, PublicKey, Reported, Setback, SubscriptionId, Subscriptions,
    View,
    caps::{LINKS_MAX, VIEWS_MAX},
    keys::Keyring,
};

/// Requests that may wait for the owner; more are refused.
const INBOX_MAX: usize = 4096;

/// Subscriptions of one log. One engine at a time: a newer one takes over, and this one then
/// refuses everything.
#[derive(Debug)]
pub struct Engine {
    log: Arc<dyn Log>,
    inbox: mpsc::Sender<Command>,
    owner: Task,
    /// Views that may be put together at a time, since each may be large; others wait.
    views: Semaphore,
    keys: Arc<Keyring>,
    clock: Clock,
}

/// How much one engine holds, where that may be less than [`caps`](crate::caps) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Streams that one subscription is linked to; [`LINKS_MAX`] if not said.
    pub links_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { links_max: LINKS_MAX }
    }
}

/// Why an engine could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The log cannot do what subscriptions need.
    #[error("this log cannot carry subscriptions: it lacks {0}")]
    Lacks(&'static str),
    /// What was stored cannot be read.
    #[error("the stored subscriptions are damaged: {0}")]
    Damaged(String),
    /// The system stream could not be made.
    #[error(transparent)]
    Create(#[from] LogCreateError),
    /// The system stream could not be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The system stream could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Streams cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// Streams cannot be listed.
    #[error(transparent)]
    List(#[from] ListError),
}

impl OpenError {
    /// True if the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Lacks(_) | Self::Damaged(_) => false,
            Self::Create(error) => error.is_retryable(),
            Self::Append(error) => error.is_retryable(),
            Self::Read(error) => error.is_retryable(),
            Self::Watch(error) => matches!(error, WatchError::TooMany),
            Self::List(error) => error.is_retryable(),
        }
    }
}

impl Engine {
    /// Takes over the subscriptions that the log keeps, and goes on where they were.
    ///
    /// # Errors
    /// [`OpenError`] says what the log cannot do.
    pub async fn open(
        log: Arc<dyn Log>,
        sys: &Sys,
        courier: Arc<dyn Courier>,
        keys: Arc<Keys>,
    ) -> Result<Self, OpenError> {
        Self::open_within(log, sys, courier, keys, Bounds::default()).await
    }

    /// The same, within other bounds.
    ///
    /// # Errors
    /// [`OpenError`] says what the log cannot do.
    pub async fn open_within(
        log: Arc<dyn Log>,
        sys: &Sys,
        courier: Arc<dyn Courier>,
        keys: Arc<Keys>,
        bounds: Bounds,
    ) -> Result<Self, OpenError> {
        check_capabilities(&*log)?;
        let (diary, book) = Diary::open(log.clone()).await?;
        // Watched before anything is looked at, so that nothing falls between.
        let watch = match book.len() {
            0 => None,
            _ => Some(log.watch(Glob::everything())?),
        };
        let keys = Arc::new(Keyring::new(keys));
        let (inbox, requests) = mpsc::channel(INBOX_MAX);
        let (log_of_owner, ring) = (log.clone(), keys.clone());
        let mut owner =
            Owner::new(log_of_owner, sys, courier, ring, (diary, book), watch, inbox.downgrade());
        owner.links_max = bounds.links_max.min(LINKS_MAX);
        let owner = sys.spawn.task("subscriptions", owner.run(requests));
        let (views, clock) = (Semaphore::new(VIEWS_MAX), sys.clock.clone());
        Ok(Self { log, inbox, owner, views, keys, clock })
    }

    /// Goes on with other keys: the next webhook is signed with them. Tokens under way stay good
    /// if the keys are [`Keys::rotated`] ones, which make the same tokens.
    pub fn renew_keys(&self, keys: Arc<Keys>) {
        self.keys.replace(keys);
    }

    /// Stops, and waits until everything under way is written.
    pub async fn close(self) {
        let Self { inbox, owner, .. } = self;
        drop(inbox);
        owner.join().await;
    }

    /// The generation that a token is for. One of another wake is recognised, and of no use.
    fn opened(&self, id: &SubscriptionId, token: &str, wake: &str) -> Result<u64, ProgressError> {
        let keys = self.keys.current();
        let (generation, wake_id) = keys.secret().open(id, token)?;
        if wake_id == wake { Ok(generation) } else { Err(Fenced.into()) }
    }

    async fn ask<T, E>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, E>>) -> Command,
    ) -> Result<T, E>
    where
        E: From<Unavailable>,
    {
        let (reply, answer) = oneshot::channel();
        self.inbox.try_send(command(reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => E::from(Unavailable::Overloaded),
            mpsc::error::TrySendError::Closed(_) => E::from(Unavailable::Closing),
        })?;
        answer.await.unwrap_or_else(|_| Err(Unavailable::Closing.into()))
    }
}

/// Whether the log can carry what is kept in it.
pub(crate) fn check_capabilities(log: &dyn Log) -> Result<(), OpenError> {
    let can = log.capabilities();
    let needs = [(can.watch, "watch"), (can.list, "list"), (can.system_streams, "system streams")];
    match needs.iter().find(|(has, _)| !has) {
        Some((_, missing)) => Err(OpenError::Lacks(missing)),
        None => Ok(()),
    }
}

impl Subscriptions for Engine {
    fn keys(&self) -> Answer<'_, Result<Vec<PublicKey>, Unavailable>> {
        let published = self.keys.current().published(self.clock.unix_ms()).cloned().collect();
        Box::pin(std::future::ready(Ok(published)))
    }

    fn create<'a>(
        &'a self,
        id: &'a SubscriptionId,
        config: Config,
        base: String,
    ) -> Answer<'a, Result<Created, CreateError>> {
        Box::pin(async move {
            let (name, config) = (id.clone(), Box::new(config));
            let asked = |reply| Command::Create { id: name, config, base, reply };
            let Created { is_new, view } = self.ask(asked).await?;
            match self.complete(id, view.clone()).await {
                Ok(view) => Ok(Created { is_new, view }),
                Err(ChangeError::Unavailable(why)) => Err(why.into()),
                // It was deleted since: that is how it was made.
                Err(_) => Ok(Created { is_new, view }),
            }
        })
    }

    fn get<'a>(&'a self, id: &'a SubscriptionId) -> Answer<'a, Result<View, ChangeError>> {
        Box::pin(async move {
            let view = self.ask(|reply| Command::Get { id: id.clone(), reply }).await?;
            self.complete(id, view).await
        })
    }

    fn list(
        &self,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Answer<'_, Result<Page, ListError>> {
        Box::pin(self.ask(move |reply| Command::List { after, limit, reply }))
    }

    fn setback<'a>(
        &'a self,
        id: &'a SubscriptionId,
    ) -> Answer<'a, Result<Option<Setback>, ChangeError>> {
        Box::pin(self.ask(|reply| Command::Setback { id: id.clone(), reply }))
    }

    fn delete<'a>(&'a self, id: &'a SubscriptionId) -> Answer<'a, Result<(), ChangeError>> {
        Box::pin(self.ask(|reply| Command::Delete { id: id.clone(), reply }))
    }

    fn link<'a>(
        &'a self,
        id: &'a SubscriptionId,
        streams: Vec<StreamPath>,
    ) -> Answer<'a, Result<(), ChangeError>> {
        Box::pin(self.ask(|reply| Command::Link { id: id.clone(), streams, reply }))
    }

    fn unlink<'a>(
        &'a self,
        id: &'a SubscriptionId,
        stream: StreamPath,
    ) -> Answer<'a, Result<(), ChangeError>> {
        Box::pin(self.ask(|reply| Command::Unlink { id: id.clone(), stream, reply }))
    }

    fn claim<'a>(
        &'a self,
        id: &'a SubscriptionId,
        worker: String,
    ) -> Answer<'a, Result<Claim, ClaimError>> {
        Box::pin(self.ask(|reply| Command::Claim { id: id.clone(), worker, reply }))
    }

    fn report<'a>(
        &'a self,
        id: &'a SubscriptionId,
        token: &'a str,
        progress: Progress,
    ) -> Answer<'a, Result<Reported, ProgressError>> {
        Box::pin(async move {
            progress.check()?;
            let token = self.opened(id, token, &progress.wake_id)?;
            let id = id.clone();
            self.ask(|reply| Command::Report { id, token, progress, reply }).await
        })
    }

    fn release<'a>(
        &'a self,
        id: &'a SubscriptionId,
        token: &'a str,
        wake_id: String,
        generation: u64,
    ) -> Answer<'a, Result<(), ProgressError>> {
        Box::pin(async move {
            let token = self.opened(id, token, &wake_id)?;
            let id = id.clone();
            self.ask(|reply| Command::Release { id, token, wake_id, generation, reply }).await
        })
    }
}
