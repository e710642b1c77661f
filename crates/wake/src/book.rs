//! The book: all subscriptions, who follows what, and what is due when.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use serde::{Deserialize, Serialize};
use sys::UnixMs;
use wire::StreamPath;

use crate::{
    SubscriptionId,
    index::Index,
    open_work::marks::{Mark, Marks},
    subscription::{Event, Linked, Sight, Subscription},
};

/// What happened to one subscription in one go; a message of the diary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    #[serde(with = "crate::text")]
    pub(crate) id: SubscriptionId,
    pub(crate) events: Vec<Event>,
}

/// A message of the diary, besides the `null` with which a writer takes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    Entry(Entry),
    /// Subscriptions that found these streams by their patterns, and have no links of their own to
    /// them, have acknowledged so much.
    Marks {
        marks: Vec<Mark>,
    },
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Book {
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    index: Index,
    due: BTreeSet<(UnixMs, SubscriptionId)>,
    /// Up to where streams are at rest for all who follow them without a link.
    pub(crate) marks: Marks,
    /// Of subscriptions that are being told in parts.
    parts: BTreeMap<SubscriptionId, Vec<Linked>>,
}

impl Line {
    /// As it is written.
    pub(crate) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data can be written")
    }
}

impl Book {
    pub(crate) fn get(&self, id: &SubscriptionId) -> Option<&Subscription> {
        self.subscriptions.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SubscriptionId, &Subscription)> {
        self.subscriptions.iter()
    }

    /// Those after this id, in order.
    pub(crate) fn after(
        &self,
        id: Option<&SubscriptionId>,
    ) -> impl Iterator<Item = (&SubscriptionId, &Subscription)> {
        let start = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.subscriptions.range((start, Bound::Unbounded))
    }

    pub(crate) fn len(&self) -> usize {
        self.subscriptions.len()
    }

    pub(crate) fn followers(&self, path: &StreamPath) -> BTreeSet<SubscriptionId> {
        self.index.followers(path)
    }

    /// When something is to be done even if nobody asks.
    pub(crate) fn next_due(&self) -> Option<UnixMs> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(crate) fn due_by(&self, now: UnixMs) -> Option<SubscriptionId> {
        self.due.first().filter(|(at, _)| *at <= now).map(|(_, id)| id.clone())
    }

    pub(crate) fn read(&mut self, line: &Line) {
        match line {
            Line::Entry(entry) => self.apply(entry),
            Line::Marks { marks } => marks.iter().for_each(|mark| self.marks.set(*mark)),
        }
    }

    pub(crate) fn apply(&mut self, entry: &Entry) {
        let before = self.subscriptions.get(&entry.id).and_then(Subscription::due_at);
        for event in &entry.events {
            self.apply_event(&entry.id, event);
        }
        let after = self.subscriptions.get(&entry.id).and_then(Subscription::due_at);
        if before != after {
            before.map(|at| self.due.remove(&(at, entry.id.clone())));
            after.map(|at| self.due.insert((at, entry.id.clone())));
        }
    }

    fn apply_event(&mut self, id: &SubscriptionId, event: &Event) {
        match event {
            Event::Part(links) => {
                self.parts.entry(id.clone()).or_default().extend(links.iter().cloned());
            }
            Event::Is(subscription) => {
                self.forget(id);
                let mut subscription = (**subscription).clone();
                for linked in self.parts.remove(id).unwrap_or_default() {
                    subscription.apply(&Event::Linked(linked));
                }
                self.learn(id, &subscription);
                self.subscriptions.insert(id.clone(), subscription);
            }
            Event::Deleted => self.forget(id),
            other => {
                let Some(subscription) = self.subscriptions.get_mut(id) else { return };
                subscription.apply(other);
                match other {
                    Event::Linked(Linked { path, link }) if link.is_explicit => {
                        self.index.add_stream(path, id);
                    }
                    Event::Unlinked(path) => self.index.remove_stream(path, id),
                    _ => {}
                }
            }
        }
    }

    /// Another writer goes on: it does not end what was being told in parts.
    pub(crate) fn taken_over(&mut self) {
        self.parts.clear();
    }

    /// Learns where a stream ends.
    pub(crate) fn moved(&mut self, id: &SubscriptionId, path: &StreamPath, sight: Sight) {
        if let Some(subscription) = self.subscriptions.get_mut(id) {
            subscription.moved(path, sight);
        }
    }

    /// True if the watermark of a stream may be put here: each who would be carried along, since it
    /// has no link, is there already.
    pub(crate) fn may_mark(&self, path: &StreamPath, mark: Mark) -> bool {
        self.marks.holds(mark)
            || self.followers(path).iter().all(|id| {
                let follower = self.subscriptions.get(id);
                follower.is_none_or(|follower| follower.links.contains_key(path))
            })
    }

    fn learn(&mut self, id: &SubscriptionId, subscription: &Subscription) {
        if let Some(glob) = &subscription.config.pattern {
            self.index.add_pattern(glob, id);
        }
        for (path, _) in subscription.links.iter().filter(|(_, link)| link.is_explicit) {
            self.index.add_stream(path, id);
        }
    }

    fn forget(&mut self, id: &SubscriptionId) {
        let Some(subscription) = self.subscriptions.remove(id) else { return };
        if let Some(glob) = &subscription.config.pattern {
            self.index.remove_pattern(glob, id);
        }
        for path in subscription.links.keys() {
            self.index.remove_stream(path, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Delivery, caps::LINKS_PER_ENTRY_MAX, subscription::Link};

    #[test]
    fn a_story_that_breaks_off_changes_nothing() {
        let id: SubscriptionId = "s".parse().unwrap();
        let config = Config::new(Delivery::PullWake("wake".parse().unwrap()));
        let mut subscription = Subscription::new(config, String::new(), UnixMs::new(1));
        for n in 0..=2 * LINKS_PER_ENTRY_MAX {
            let path = format!("a/{n}").parse().unwrap();
            let link = Link { is_explicit: true, ..Link::default() };
            subscription.apply(&Event::Linked(Linked { path, link }));
        }
        let told: Vec<_> = subscription.clone().told().collect();
        assert_eq!(told.len(), 4, "three parts and the rest");
        let entry = |event: &Event| Entry { id: id.clone(), events: vec![event.clone()] };

        let mut book = Book::default();
        told.iter().for_each(|event| book.apply(&entry(event)));
        assert_eq!(book.get(&id), Some(&subscription));
        let last: StreamPath = "a/7".parse().unwrap();
        assert_eq!(book.followers(&last), BTreeSet::from([id.clone()]));

        book.apply(&entry(&Event::Unlinked(last.clone())));
        told.iter().take(3).for_each(|event| book.apply(&entry(event)));
        book.taken_over();
        let mut less = subscription;
        less.apply(&Event::Unlinked(last.clone()));
        assert_eq!(book.get(&id), Some(&less), "only parts were told");
        less.clone().told().for_each(|event| book.apply(&entry(&event)));
        assert_eq!(book.get(&id), Some(&less), "what broke off is forgotten");
        assert!(book.followers(&last).is_empty());
    }
}
