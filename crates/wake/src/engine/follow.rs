//! Following the log: what moved, and what that means for those who follow it.

use futures_util::future::FutureExt as _;
use log::{Head, List, Log, Moved, Unavailable};
use wire::{Address, Glob, Offset, StreamPath};

use super::{
    diary::NotWritten,
    owner::{BATCH_MAX, Owner},
};
use crate::{
    CreateError, TooMany,
    caps::LINKS_MAX,
    subscription::{Event, Link, Linked, Sight, Subscription},
};

impl Owner {
    /// Follows the hints that are there.
    pub(super) async fn catch_up(&mut self) -> Result<(), NotWritten> {
        for _ in 0..BATCH_MAX {
            let hint = self.watch.as_mut().and_then(|watch| watch.next().now_or_never());
            match hint {
                Some(Some(hint)) => self.follow(hint).await?,
                Some(None) | None => break,
            }
        }
        Ok(())
    }

    /// Watches from now on, unless it does already.
    pub(super) fn watch(&mut self) -> Result<(), Unavailable> {
        if self.watch.is_none() {
            let watch = self.log.watch(Glob::everything());
            self.watch = Some(watch.map_err(|_| Unavailable::Overloaded)?);
        }
        Ok(())
    }

    pub(super) async fn follow(&mut self, hint: Moved) -> Result<(), NotWritten> {
        match hint {
            Moved::Stream(path, tail, life) => {
                let hinted = Sight { tail, life: Some(life.get()) };
                let seen = if self.seems_old(&path, hinted) {
                    look(&*self.log, &path).await.unwrap_or(hinted)
                } else {
                    hinted
                };
                self.moved(&path, seen).await
            }
            Moved::Resync => self.look_at_everything().await,
        }
    }

    /// True if more was known of the stream: the hint is old, or the stream is gone.
    fn seems_old(&self, path: &StreamPath, hinted: Sight) -> bool {
        self.book.followers(path).iter().any(|id| {
            let link = self.book.get(id).and_then(|subscription| subscription.links.get(path));
            link.is_some_and(|link| link.is_ahead_of(hinted))
        })
    }

    /// A stream stands like this now.
    async fn moved(&mut self, path: &StreamPath, seen: Sight) -> Result<(), NotWritten> {
        for id in self.book.followers(path) {
            let Some(subscription) = self.book.get(&id) else { continue };
            let is_unknown = !subscription.links.contains_key(path);
            let is_full = subscription.links.len() >= LINKS_MAX;
            if is_unknown && (seen.tail == Offset::START || is_full) {
                continue;
            }
            let events = subscription.saw(path, seen);
            self.stage(&id, events);
            self.book.moved(&id, path, seen.tail);
            self.rouse(&id);
            self.commit_much().await?;
        }
        Ok(())
    }

    /// Looks at every stream, for some may have moved unseen.
    pub(super) async fn look_at_everything(&mut self) -> Result<(), NotWritten> {
        let mut list = List::default();
        while self.book.len() > 0 {
            let Ok(page) = self.log.list(list.clone()).await else { break };
            for listed in &page.streams {
                self.moved(&listed.path, Sight::of(&listed.head)).await?;
            }
            match page.next {
                Some(next) => list.after = Some(next),
                None => break,
            }
        }
        let all: Vec<_> = self.book.iter().map(|(id, _)| id.clone()).collect();
        for id in &all {
            self.rouse(id);
            self.commit_much().await?;
        }
        Ok(())
    }
}

/// Links what is there already, at its tail.
pub(super) async fn link_existing(
    log: &dyn Log,
    subscription: &mut Subscription,
) -> Result<(), CreateError> {
    for path in subscription.config.streams.clone() {
        let sight = look(log, &path).await?;
        subscription.name(&path, sight).iter().for_each(|event| subscription.apply(event));
    }
    let Some(glob) = subscription.config.pattern.clone() else { return Ok(()) };
    let config = subscription.config.clone();
    let covers = |path: &StreamPath| config.covers(path);
    let prefix = literal_prefix(glob.as_str());
    let mut list = List { prefix, ..List::default() };
    loop {
        let page = log.list(list.clone()).await.map_err(unavailable)?;
        for listed in page.streams.iter().filter(|listed| covers(&listed.path)) {
            let known = subscription.links.get(&listed.path).copied().unwrap_or_default();
            let Sight { tail, life } = Sight::of(&listed.head);
            let acked = known.acked.max(Some(tail));
            let link = Link { is_matched: true, acked, life, tail, ..known };
            subscription.apply(&Event::Linked(Linked { path: listed.path.clone(), link }));
        }
        if subscription.links.len() > LINKS_MAX {
            return Err(TooMany.into());
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// The stream as it stands.
pub(super) async fn look(log: &dyn Log, path: &StreamPath) -> Result<Sight, Unavailable> {
    match log.head(&Address::from(path.clone())).await {
        Ok(head) => Ok(Sight::of(&head)),
        Err(log::HeadError::Unavailable(why)) => Err(why),
        Err(_) => Ok(Sight::default()),
    }
}

impl Sight {
    fn of(head: &Head) -> Self {
        Self { tail: head.tail, life: Some(head.incarnation.get()) }
    }
}

fn unavailable(error: log::ListError) -> Unavailable {
    match error {
        log::ListError::Unavailable(why) => why,
        other => Unavailable::Read(other.to_string()),
    }
}

/// What every stream that the glob covers begins with.
fn literal_prefix(glob: &str) -> String {
    glob.split('*').next().unwrap_or_default().to_owned()
}
