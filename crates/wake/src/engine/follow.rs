//! Following the log: what moved, and what that means for those who follow it.

use futures_util::future::FutureExt as _;
use log::{List, Log, Moved, Unavailable};
use wire::{Address, Glob, Offset, StreamPath};

use super::owner::{BATCH_MAX, Owner};
use crate::{
    CreateError, TooMany,
    caps::LINKS_MAX,
    subscription::{Event, Link, Linked, Subscription},
};

impl Owner {
    /// Follows the hints that are there.
    pub(super) async fn catch_up(&mut self) {
        for _ in 0..BATCH_MAX {
            let hint = self.watch.as_mut().and_then(|watch| watch.next().now_or_never());
            match hint {
                Some(Some(hint)) => self.follow(hint).await,
                Some(None) | None => return,
            }
        }
    }

    /// Watches from now on, unless it does already.
    pub(super) fn watch(&mut self) -> Result<(), Unavailable> {
        if self.watch.is_none() {
            let watch = self.log.watch(Glob::everything());
            self.watch = Some(watch.map_err(|_| Unavailable::Overloaded)?);
        }
        Ok(())
    }

    pub(super) async fn follow(&mut self, hint: Moved) {
        match hint {
            Moved::Stream(path, hinted) => {
                let known = if self.seems_shorter(&path, hinted) {
                    tail(&*self.log, &path).await.unwrap_or(hinted)
                } else {
                    hinted
                };
                self.moved(&path, known);
            }
            Moved::Resync => self.look_at_everything().await,
        }
    }

    /// True if more was known of the stream: the hint is old, or the stream is another one.
    fn seems_shorter(&self, path: &StreamPath, hinted: Offset) -> bool {
        self.book.followers(path).iter().any(|id| {
            let link = self.book.get(id).and_then(|subscription| subscription.links.get(path));
            link.is_some_and(|link| link.tail.max(link.acked.unwrap_or_default()) > hinted)
        })
    }

    /// A stream ends here now.
    fn moved(&mut self, path: &StreamPath, tail: Offset) {
        for id in self.book.followers(path) {
            let Some(subscription) = self.book.get(&id) else { continue };
            let event = match subscription.links.get(path) {
                // It was deleted and made again: all of it is new.
                Some(link) if link.acked.is_some_and(|acked| acked > tail) => {
                    let link = Link { acked: None, tail: Offset::START, ..*link };
                    Some(Event::Linked(Linked { path: path.clone(), link }))
                }
                Some(link) if link.is_matched || link.is_explicit => None,
                _ if tail == Offset::START || subscription.links.len() >= LINKS_MAX => continue,
                _ => subscription.discover(path),
            };
            self.stage(&id, event.into_iter().collect());
            self.book.moved(&id, path, tail);
            self.rouse(&id);
        }
    }

    /// Looks at every stream, for some may have moved unseen.
    pub(super) async fn look_at_everything(&mut self) {
        let mut list = List::default();
        while self.book.len() > 0 {
            let Ok(page) = self.log.list(list.clone()).await else { break };
            for listed in &page.streams {
                self.moved(&listed.path, listed.head.tail);
            }
            match page.next {
                Some(next) => list.after = Some(next),
                None => break,
            }
        }
        let all: Vec<_> = self.book.iter().map(|(id, _)| id.clone()).collect();
        all.iter().for_each(|id| self.rouse(id));
    }
}

/// Links what is there already, at its tail.
pub(super) async fn link_existing(
    log: &dyn Log,
    subscription: &mut Subscription,
) -> Result<(), CreateError> {
    for path in subscription.config.streams.clone() {
        let tail = tail(log, &path).await?;
        subscription.name(&path, tail).iter().for_each(|event| subscription.apply(event));
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
            let tail = listed.head.tail;
            let acked = known.acked.max(Some(tail));
            let link = Link { is_matched: true, acked, tail, ..known };
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

/// Where a stream ends; at its start if it is not there.
pub(super) async fn tail(log: &dyn Log, path: &StreamPath) -> Result<Offset, Unavailable> {
    match log.head(&Address::from(path.clone())).await {
        Ok(head) => Ok(head.tail),
        Err(log::HeadError::Unavailable(why)) => Err(why),
        Err(_) => Ok(Offset::START),
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
