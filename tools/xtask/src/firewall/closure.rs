//! Questions about graphs: what is reached from here, and is there a ring.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::metadata::{Dependency, Metadata, Node, Package};

/// Every package linked into the package `from`, by name, with the shortest chain that leads there.
pub(super) fn chains<'a>(metadata: &'a Metadata, from: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
    let names: BTreeMap<&str, &str> =
        metadata.packages.iter().map(|package| (&*package.id, &*package.name)).collect();
    let nodes: BTreeMap<&str, &Node> = metadata
        .resolve
        .iter()
        .flat_map(|graph| &graph.nodes)
        .map(|node| (&*node.id, node))
        .collect();
    let mut chains = BTreeMap::new();
    let mut seen = BTreeSet::from([from]);
    let mut queue = VecDeque::from([(from, Vec::new())]);
    while let Some((id, mut chain)) = queue.pop_front() {
        let name = names.get(id).copied().unwrap_or(id);
        chain.push(name);
        let edges = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        for next in edges.filter(|edge| edge.is_linked()).map(|edge| edge.pkg.as_str()) {
            if seen.insert(next) {
                queue.push_back((next, chain.clone()));
            }
        }
        // Breadth first, so the first chain to a name is a shortest one.
        chains.entry(name).or_insert(chain);
    }
    chains
}

/// The features of `target` that a dependency on it switches on, directly or through others.
pub(super) fn active_features<'a>(
    dependency: &'a Dependency,
    target: &'a Package,
) -> BTreeSet<&'a str> {
    let mut active = BTreeSet::new();
    let mut queue: Vec<&str> = dependency.features.iter().map(String::as_str).collect();
    if dependency.uses_default_features {
        queue.push("default");
    }
    while let Some(feature) = queue.pop() {
        if active.insert(feature) {
            queue.extend(target.features.get(feature).into_iter().flatten().map(String::as_str));
        }
    }
    active
}

/// Some ring of the graph, its first member repeated at the end.
pub(super) fn find_ring<N: Ord + Copy>(
    nodes: impl Iterator<Item = N>,
    next: impl Fn(N) -> Vec<N>,
) -> Option<Vec<N>> {
    let mut done = BTreeSet::new();
    nodes.into_iter().find_map(|node| walk(node, &next, &mut done, &mut Vec::new()))
}

fn walk<N: Ord + Copy>(
    node: N,
    next: &impl Fn(N) -> Vec<N>,
    done: &mut BTreeSet<N>,
    path: &mut Vec<N>,
) -> Option<Vec<N>> {
    if let Some(start) = path.iter().position(|earlier| *earlier == node) {
        let ring = path[start..].iter().copied().chain([node]);
        return Some(ring.collect());
    }
    if done.contains(&node) {
        return None;
    }
    path.push(node);
    let ring = next(node).into_iter().find_map(|neighbour| walk(neighbour, next, done, path));
    path.pop();
    done.insert(node);
    ring
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(edges: &'static [(char, char)]) -> Option<String> {
        let nodes: BTreeSet<char> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
        let next =
            |node| edges.iter().filter(|(from, _)| *from == node).map(|(_, to)| *to).collect();
        find_ring(nodes.into_iter(), next).map(String::from_iter)
    }

    #[test]
    fn a_ring_is_found_and_a_diamond_is_none() {
        assert_eq!(ring(&[('a', 'b'), ('b', 'c'), ('c', 'b')]).as_deref(), Some("bcb"));
        assert_eq!(ring(&[('a', 'b'), ('a', 'c'), ('b', 'd'), ('c', 'd')]), None);
    }
}
