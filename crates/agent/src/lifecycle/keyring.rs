//! The key ring: whether a wake comes from whom we trust, by the keys they publish now.

use std::{fmt, sync::Arc, time::Duration};

use log::Unavailable;
use parking_lot::Mutex;
use sys::Sys;
use thiserror::Error;
use tokio::sync::Semaphore;
use wake::{
    Answer, BadNotice, BadSignature, PublicKey, Signature, Subscriptions, WakeNotice,
    caps::SIGNATURE_TOLERANCE,
};

use crate::caps::{KEYS_LIFE, KEYS_PATIENCE, KEYS_PAUSE};

/// Where the published keys are to be had.
pub trait KeySource: fmt::Debug + Send + Sync {
    /// The keys that are published now.
    fn published(&self) -> Answer<'_, Result<Vec<PublicKey>, Unavailable>>;
}

impl KeySource for Arc<dyn Subscriptions> {
    fn published(&self) -> Answer<'_, Result<Vec<PublicKey>, Unavailable>> {
        self.keys()
    }
}

/// Remembers published keys for a few minutes. A key that it does not know makes it look again,
/// but not more often than every few seconds: whoever makes up names of keys must not make us ask
/// all day.
#[derive(Debug)]
pub struct KeyRing {
    source: Box<dyn KeySource>,
    sys: Sys,
    /// Held for a copy only, never across a look.
    seen: Mutex<Seen>,
    /// One look at a time; those who come meanwhile find what it brought.
    look: Semaphore,
}

/// Why a request is not believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotVerified {
    /// Its signature proves nothing.
    #[error(transparent)]
    Signature(#[from] BadSignature),
    /// Somebody we trust signed what is no wake.
    #[error(transparent)]
    Notice(#[from] BadNotice),
    /// The keys could not be had; it may be believed later.
    #[error("the published keys cannot be had now; send it again later")]
    NoKeys,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    keys: Arc<[PublicKey]>,
    /// When the keys were asked for, by the monotonic clock.
    keys_from: Option<Duration>,
    /// When they were last asked for, with or without an answer.
    looked_at: Option<Duration>,
}

impl KeyRing {
    /// A ring that is filled when the first request comes.
    #[must_use]
    pub fn new(sys: &Sys, source: impl KeySource + 'static) -> Self {
        let (source, seen) = (Box::new(source), Mutex::default());
        Self { source, sys: sys.clone(), seen, look: Semaphore::new(1) }
    }

    /// Reads a wake, if it is signed with a published key and fresh. Nothing of the body is looked
    /// at before that is certain.
    ///
    /// # Errors
    /// [`NotVerified`] says why it is not believed.
    pub async fn open(&self, signature: &str, body: &[u8]) -> Result<WakeNotice, NotVerified> {
        let signature = Signature::parse(signature)?;
        signature.check_time(self.sys.clock.unix_ms(), SIGNATURE_TOLERANCE)?;
        let keys = self.keys_for(signature.kid()).await?;
        signature.check_body(body, &keys)?;
        Ok(WakeNotice::parse(body)?)
    }

    /// Refuses what no body could prove: a signature that is malformed, too old, or ahead of time.
    ///
    /// # Errors
    /// [`NotVerified`] says what is wrong.
    pub fn glance(&self, signature: &str) -> Result<(), NotVerified> {
        let now = self.sys.clock.unix_ms();
        Ok(Signature::parse(signature)?.check_time(now, SIGNATURE_TOLERANCE)?)
    }

    /// The published keys: those remembered, if they are fresh and this one is among them.
    async fn keys_for(&self, kid: &str) -> Result<Arc<[PublicKey]>, NotVerified> {
        if let Some(keys) = self.fresh(|keys| keys.iter().any(|key| key.kid == kid)) {
            return Ok(keys);
        }
        let turn = match self.fresh(|_| true) {
            // Whoever names a key that nobody knows must not keep others waiting.
            Some(keys) => match self.look.try_acquire() {
                Ok(turn) => turn,
                Err(_) => return Ok(keys),
            },
            None => self.look.acquire().await.map_err(|_| NotVerified::NoKeys)?,
        };
        // Whoever had the turn before may have brought it.
        if let Some(keys) = self.fresh(|keys| keys.iter().any(|key| key.kid == kid)) {
            return Ok(keys);
        }
        let looked_at = self.seen.lock().looked_at;
        let now = self.sys.clock.elapsed();
        if looked_at.is_none_or(|at| now.saturating_sub(at) >= KEYS_PAUSE) {
            self.look(now).await;
        }
        drop(turn);
        self.fresh(|_| true).ok_or(NotVerified::NoKeys)
    }

    fn fresh(&self, suits: impl Fn(&[PublicKey]) -> bool) -> Option<Arc<[PublicKey]>> {
        let seen = self.seen.lock();
        let age = self.sys.clock.elapsed().saturating_sub(seen.keys_from?);
        (age < KEYS_LIFE && suits(&seen.keys)).then(|| seen.keys.clone())
    }

    async fn look(&self, now: Duration) {
        self.seen.lock().looked_at = Some(now);
        match self.sys.clock.timeout(KEYS_PATIENCE, self.source.published()).await {
            Ok(Ok(keys)) => {
                let mut seen = self.seen.lock();
                (seen.keys, seen.keys_from) = (keys.into(), Some(now));
            }
            Ok(Err(why)) => tracing::warn!(%why, "the published keys cannot be had"),
            Err(_) => tracing::warn!("the published keys did not come in time"),
        }
    }
}
