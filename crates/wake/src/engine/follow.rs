//! Following the log: what moved, and what that means for those who follow it.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures_util::future::FutureExt as _;
use log::{Head, Incarnation, Log, Moved, Unavailable};
use tokio::task::unconstrained;
use wire::{Address, Glob, Offset, StreamPath};

use super::{
    diary::NotWritten,
    owner::{BATCH_MAX, Owner},
};
use crate::{
    CreateError, SubscriptionId, TooMany,
    book::Line,
    caps::MARKS_PER_MESSAGE_MAX,
    open_work::{
        Pass,
        marks::{Mark, Marks},
    },
    subscription::{Event, Link, Linked, Sight, Subscription, Unlinked},
};

impl Owner {
    /// Follows a hint, and those that are there besides: each stream is looked at once.
    pub(super) async fn catch_up(&mut self, first: Option<Moved>) -> Result<(), NotWritten> {
        let (mut moved, mut known) = (Vec::new(), HashSet::new());
        let mut next = first;
        for _ in 0..BATCH_MAX {
            let waiting = self.watch.as_mut().filter(|_| next.is_none());
            // A client must find what it appended, however much the task has done by then.
            let waiting =
                waiting.and_then(|watch| unconstrained(watch.next()).now_or_never().flatten());
            let Some(hint) = next.take().or(waiting) else { break };
            match hint {
                Moved::Resync => self.is_pass_due = true,
                Moved::Stream(path, tail, life) => {
                    if tail == Offset::START {
                        self.book.marks.forget(life);
                    }
                    if known.insert(path.clone()) {
                        moved.push(path);
                    }
                }
            }
        }
        for path in moved {
            self.look_at(&path).await?;
        }
        self.rouse_all().await
    }

    /// Watches from now on, unless it does already.
    pub(super) fn watch(&mut self) -> Result<(), Unavailable> {
        if self.watch.is_none() {
            let watch = self.log.watch(Glob::everything());
            self.watch = Some(watch.map_err(|_| Unavailable::Overloaded)?);
        }
        Ok(())
    }

    /// Looks at a stream that has moved. A hint may be old; the log knows.
    async fn look_at(&mut self, path: &StreamPath) -> Result<(), NotWritten> {
        if self.book.followers(path).is_empty() {
            return Ok(());
        }
        match look(&*self.log, path).await {
            Ok(sight) => self.moved(path, sight).await,
            Err(_) => {
                self.is_pass_due = true;
                Ok(())
            }
        }
    }

    /// A stream stands like this now.
    async fn moved(&mut self, path: &StreamPath, sight: Sight) -> Result<(), NotWritten> {
        let followers = self.book.followers(path);
        let mark = sight.incarnation().and_then(|life| self.book.marks.get(life));
        for id in &followers {
            let Some(subscription) = self.book.get(id) else { continue };
            let link = subscription.links.get(path);
            let last = link.and_then(|link| link.life).filter(|life| Some(*life) != sight.life);
            let is_full = link.is_none() && subscription.links.len() >= self.links_max;
            let events = subscription.saw(path, sight, mark);
            last.into_iter().for_each(|life| self.book.marks.forget(Incarnation::new(life)));
            if is_full && !events.is_empty() {
                // Its watermark stays where it is, so the next pass finds it.
                self.full.insert(id.clone());
                continue;
            }
            if !events.is_empty() {
                self.record(id, events);
            }
            self.book.moved(id, path, sight);
        }
        for id in &followers {
            self.rest(id, path);
            self.commit_much().await?;
        }
        self.roused.extend(followers);
        Ok(())
    }

    /// Calls to all work that was found, one wake for what was found together.
    async fn rouse_all(&mut self) -> Result<(), NotWritten> {
        while let Some(id) = self.roused.pop_first() {
            self.rouse(&id);
            self.commit_much().await?;
        }
        Ok(())
    }

    /// Lets the watermark of a stream speak for a link to it, if all is done there.
    pub(super) fn rest(&mut self, id: &SubscriptionId, path: &StreamPath) {
        let Some(subscription) = self.book.get(id) else { return };
        let resting = subscription.links.get(path).filter(|link| link.is_at_rest());
        let Some(&Link { life: Some(life), tail, .. }) = resting else { return };
        let mark = Mark::new(Incarnation::new(life), tail);
        if subscription.is_busy(path) || !self.book.may_mark(path, mark) {
            return;
        }
        if !self.book.marks.holds(mark) {
            self.write_down(&Line::Marks { marks: vec![mark] });
        }
        self.record(id, vec![Event::Left(path.clone())]);
    }

    /// Has waiting streams looked for if enough links have become free, for whatever reason: what
    /// they were for is done or gone, or no client names it any more.
    pub(super) fn look_for_room(&mut self, id: &SubscriptionId) {
        if !self.full.contains(id) {
            return;
        }
        let subscription = self.book.get(id);
        if subscription.is_none_or(|subscription| subscription.has_room(self.links_max)) {
            self.full.remove(id);
            // Of one that was deleted, nothing waits.
            self.is_pass_due |= subscription.is_some();
        }
    }

    /// Looks at every stream, for some may have moved unseen.
    pub(super) async fn look_at_everything(&mut self) -> Result<(), NotWritten> {
        self.pass = None;
        self.is_pass_due = true;
        self.look_further().await?;
        while self.pass.is_some() {
            self.look_further().await?;
        }
        self.roused.extend(self.book.iter().map(|(id, _)| id.clone()));
        self.rouse_all().await
    }

    /// Looks at one more page of all streams, if a pass is due. What the log cannot tell now is
    /// asked again in the next turn.
    pub(super) async fn look_further(&mut self) -> Result<(), NotWritten> {
        if self.book.len() == 0 {
            (self.pass, self.is_pass_due) = (None, false);
            return Ok(());
        }
        if self.pass.is_none() && std::mem::take(&mut self.is_pass_due) {
            self.book.marks.begin_pass();
            self.pass = Some(Pass::new(Glob::everything()));
        }
        let Some(mut pass) = self.pass.take() else { return Ok(()) };
        let page = match pass.page(&*self.log).await {
            Ok(page) => page,
            Err(error) => return Err(NotWritten::Unavailable(unavailable(error))),
        };
        for listed in &page.streams {
            if !self.book.followers(&listed.path).is_empty() {
                self.book.marks.met(listed.head.incarnation);
                self.moved(&listed.path, Sight::of(&listed.head)).await?;
            }
        }
        if pass.go_on(page.next) {
            self.pass = Some(pass);
        } else {
            self.book.marks.end_pass();
            self.look_for_the_gone().await?;
        }
        self.rouse_all().await
    }

    /// Looks at streams with links: those that are gone are on no page.
    async fn look_for_the_gone(&mut self) -> Result<(), NotWritten> {
        let links = self.book.iter().flat_map(|(_, subscription)| subscription.links.keys());
        // In one order, so that a seed of the simulation replays.
        let paths: BTreeSet<_> = links.cloned().collect();
        for path in &paths {
            self.look_at(path).await?;
        }
        Ok(())
    }

    /// Links what is there already, at its tail; how named streams stand. For those that only the
    /// pattern finds, a watermark is enough.
    pub(super) async fn link_existing(
        &mut self,
        subscription: &mut Subscription,
    ) -> Result<Vec<(StreamPath, Sight)>, CreateError> {
        let (mut sights, mut marks) = (Vec::new(), Vec::new());
        for path in subscription.config.streams.clone() {
            let sight = look(&*self.log, &path).await?;
            let named = subscription.name(&path, sight, Some(sight.tail));
            named.iter().for_each(|event| subscription.apply(event));
            sights.push((path, sight));
        }
        let mut pass = subscription.config.pattern.clone().map(Pass::new);
        while let Some(current) = &mut pass {
            let page = current.page(&*self.log).await.map_err(unavailable)?;
            for listed in &page.streams {
                let (path, sight) = (&listed.path, Sight::of(&listed.head));
                let mark = Mark::new(listed.head.incarnation, sight.tail);
                if sight.tail == Offset::START || subscription.links.contains_key(path) {
                    continue;
                }
                match self.book.may_mark(path, mark) {
                    true => marks.push(mark),
                    // Another subscription has not come so far, and has no room for a link.
                    false => {
                        let acked = Some(sight.tail);
                        let link =
                            Link { is_matched: true, acked, life: sight.life, ..Link::default() };
                        subscription.apply(&Event::Linked(Linked { path: path.clone(), link }));
                        sights.push((path.clone(), sight));
                    }
                }
            }
            if !current.go_on(page.next) {
                pass = None;
            }
        }
        if subscription.links.len() > self.links_max {
            return Err(TooMany.into());
        }
        for marks in marks.chunks(MARKS_PER_MESSAGE_MAX) {
            self.write_down(&Line::Marks { marks: marks.to_vec() });
        }
        Ok(sights)
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

/// How streams stand that a pattern covers and that have no link.
pub(super) async fn look_at_unlinked(
    log: &dyn Log,
    marks: &Marks,
    paths: Vec<StreamPath>,
) -> Result<HashMap<StreamPath, Unlinked>, Unavailable> {
    let mut unlinked = HashMap::with_capacity(paths.len());
    for path in paths {
        let stands = match look(log, &path).await?.incarnation() {
            Some(life) => Unlinked::Marked(marks.get(life).unwrap_or_default()),
            None => Unlinked::Gone,
        };
        unlinked.insert(path, stands);
    }
    Ok(unlinked)
}

impl Sight {
    fn of(head: &Head) -> Self {
        Self { tail: head.tail, life: Some(head.incarnation.get()) }
    }

    pub(super) fn incarnation(self) -> Option<Incarnation> {
        self.life.map(Incarnation::new)
    }
}

pub(super) fn unavailable(error: log::ListError) -> Unavailable {
    match error {
        log::ListError::Unavailable(why) => why,
        other => Unavailable::Read(other.to_string()),
    }
}
