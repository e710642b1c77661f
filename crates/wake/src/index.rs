//! Who follows a stream: found by the stream's name, whatever else there is to follow.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use wire::{Glob, StreamPath};

use crate::SubscriptionId;

/// Patterns as a tree of their segments, and single streams by name. A look-up walks along the
/// segments of one path: patterns that do not match cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Index {
    streams: BTreeMap<StreamPath, BTreeSet<SubscriptionId>>,
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    /// By the next segment as it stands.
    named: BTreeMap<Box<str>, Node>,
    /// By a next segment with a star in it.
    starred: BTreeMap<Box<str>, Node>,
    /// After any number of segments.
    deep: Option<Box<Node>>,
    /// Patterns that end here.
    ends: BTreeSet<SubscriptionId>,
}

impl Index {
    pub(crate) fn add_stream(&mut self, path: &StreamPath, id: &SubscriptionId) {
        self.streams.entry(path.clone()).or_default().insert(id.clone());
    }

    pub(crate) fn remove_stream(&mut self, path: &StreamPath, id: &SubscriptionId) {
        if let Some(followers) = self.streams.get_mut(path) {
            followers.remove(id);
            if followers.is_empty() {
                self.streams.remove(path);
            }
        }
    }

    pub(crate) fn add_pattern(&mut self, glob: &Glob, id: &SubscriptionId) {
        let mut node = &mut self.root;
        for segment in glob.as_str().split('/') {
            node = node.child(segment);
        }
        node.ends.insert(id.clone());
    }

    pub(crate) fn remove_pattern(&mut self, glob: &Glob, id: &SubscriptionId) {
        let segments: Vec<&str> = glob.as_str().split('/').collect();
        self.root.remove(&segments, id);
    }

    /// All who follow the stream.
    pub(crate) fn followers(&self, path: &StreamPath) -> BTreeSet<SubscriptionId> {
        let mut found = self.streams.get(path).cloned().unwrap_or_default();
        let mut walk = Walk { here: vec![&self.root], ..Walk::default() };
        walk.open_deep();
        for segment in path.segments() {
            walk.step(segment);
        }
        walk.here.iter().for_each(|node| found.extend(node.ends.iter().cloned()));
        found
    }
}

/// A walk along the segments of a path, through all patterns at once. Each node is visited once
/// per segment, however many ways lead to it.
#[derive(Default)]
struct Walk<'a> {
    /// Where the patterns that match so far go on.
    here: Vec<&'a Node>,
    /// Nodes after a `**`: once reached, they stay.
    deep: Vec<&'a Node>,
    seen: HashSet<*const Node>,
}

impl Walk<'_> {
    fn step(&mut self, segment: &str) {
        let mut next = self.deep.clone();
        for node in &self.here {
            next.extend(node.named.get(segment));
            let starred = node.starred.iter();
            let matching = starred.filter(|(pattern, _)| wire::segment_matches(pattern, segment));
            next.extend(matching.map(|(_, node)| node));
        }
        self.here = next;
        self.open_deep();
    }

    fn open_deep(&mut self) {
        let mut index = 0;
        while let Some(node) = self.here.get(index).copied() {
            index += 1;
            if let Some(deep) = node.deep.as_deref()
                && self.seen.insert(deep)
            {
                self.here.push(deep);
                self.deep.push(deep);
            }
        }
    }
}

impl Node {
    fn child(&mut self, segment: &str) -> &mut Self {
        match segment {
            "**" => self.deep.get_or_insert_default(),
            starred if starred.contains('*') => self.starred.entry(starred.into()).or_default(),
            named => self.named.entry(named.into()).or_default(),
        }
    }

    /// True if nothing is left here.
    fn remove(&mut self, segments: &[&str], id: &SubscriptionId) -> bool {
        match segments.split_first() {
            None => {
                self.ends.remove(id);
            }
            Some((&"**", rest)) => {
                self.deep.take_if(|deep| deep.remove(rest, id));
            }
            Some((first, rest)) => {
                let children =
                    if first.contains('*') { &mut self.starred } else { &mut self.named };
                if children.get_mut(*first).is_some_and(|child| child.remove(rest, id)) {
                    children.remove(*first);
                }
            }
        }
        self.is_empty()
    }

    fn is_empty(&self) -> bool {
        let has_children =
            self.deep.is_some() || !self.named.is_empty() || !self.starred.is_empty();
        !has_children && self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_glob() -> impl Strategy<Value = Glob> {
        prop::collection::vec(
            prop_oneof!["[ab]", "[ab]\\*", Just("*".into()), Just("**".into())],
            1..5,
        )
        .prop_map(|segments: Vec<String>| segments.join("/").parse().unwrap())
    }

    fn any_path() -> impl Strategy<Value = StreamPath> {
        prop::collection::vec("[ab]{1,2}", 1..5)
            .prop_map(|segments| segments.join("/").parse().unwrap())
    }

    proptest! {
        #[test]
        fn it_finds_what_matches(
            globs in prop::collection::vec(any_glob(), 0..12),
            gone in prop::collection::vec(any::<bool>(), 12),
            paths in prop::collection::vec(any_path(), 1..12),
        ) {
            let id = |index: usize| index.to_string().parse::<SubscriptionId>().unwrap();
            let mut index = Index::default();
            for (n, glob) in globs.iter().enumerate() {
                index.add_pattern(glob, &id(n));
            }
            for (n, glob) in globs.iter().enumerate().filter(|(n, _)| gone[*n]) {
                index.remove_pattern(glob, &id(n));
            }
            for path in &paths {
                let there = globs.iter().enumerate().filter(|(n, _)| !gone[*n]);
                let matching = there.filter(|(_, glob)| glob.matches(path));
                let expected: BTreeSet<_> = matching.map(|(n, _)| id(n)).collect();
                prop_assert_eq!(index.followers(path), expected);
            }
            for (n, glob) in globs.iter().enumerate() {
                index.remove_pattern(glob, &id(n));
            }
            prop_assert!(index.root.is_empty());
        }
    }

    #[test]
    fn single_streams_come_and_go() {
        let (mut index, path) = (Index::default(), "a/b".parse().unwrap());
        let id: SubscriptionId = "s".parse().unwrap();
        index.add_stream(&path, &id);
        assert_eq!(index.followers(&path).len(), 1);
        index.remove_stream(&path, &id);
        assert!(index.followers(&path).is_empty() && index.streams.is_empty());
    }
}
