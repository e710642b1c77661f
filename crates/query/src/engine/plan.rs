//! Plans: queries that are ready to be fed.

use std::sync::Arc;

use smallvec::smallvec;

use super::{
    Change, Delta, Feed, Out, Shown, Watch,
    distinct::Distinct,
    group::Groups,
    join::Join,
    leaf::Leaf,
    nest::Nest,
    output::Output,
    union::Union,
    weight::{Owner, entry_bytes},
    window::{Sorting, Window},
};
use crate::expr::{Expr, Item, SlotColumns};

/// A compiled query with everything it must remember.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) node: Node,
    pub(super) groups: Option<Groups>,
    pub(super) having: Option<Expr>,
    pub(super) distinct: Option<Distinct>,
    pub(super) order: Order,
    pub(super) nest: Nest,
    /// The columns of its rows.
    pub(super) columns: SlotColumns,
    /// What it wants to be told, leaf by leaf. Only the outermost plan has it.
    pub(super) watches: Vec<Watch>,
    pub(super) explanation: String,
}

/// In which order rows are shown, and which.
#[derive(Debug)]
pub(super) enum Order {
    ByKey,
    Sorted(Sorting),
    Windowed(Box<Window>),
}

/// Where rows come from.
#[derive(Debug)]
pub(super) enum Node {
    Leaf(Leaf),
    Query(Box<Plan>),
    Union(Union),
    Join(Box<Join>),
    Filter(Box<Node>, Expr),
}

impl Plan {
    /// A plan without groups.
    pub(super) fn of(node: Node, order: Order, nest: Nest, columns: SlotColumns) -> Self {
        Self {
            node,
            groups: None,
            having: None,
            distinct: None,
            order,
            nest,
            columns,
            watches: Vec::new(),
            explanation: String::new(),
        }
    }

    /// What it must be told.
    pub(crate) fn watches(&self) -> &[Watch] {
        &self.watches
    }

    /// How it works, for people.
    pub(crate) fn explain(&self) -> &str {
        &self.explanation
    }

    /// Adds what became clear when it was fed first.
    pub(crate) fn explain_more(&mut self, lines: &[String]) {
        self.explanation.extend(lines.iter().map(String::as_str));
    }

    pub(crate) fn is_ordered(&self) -> bool {
        !matches!(self.order, Order::ByKey)
    }

    /// Rows it remembers, all operators together.
    pub(crate) fn heap_rows(&self) -> usize {
        let window = match &self.order {
            Order::Windowed(window) => window.heap_rows(),
            Order::ByKey | Order::Sorted(_) => 0,
        };
        self.node.heap_rows()
            + self.groups.as_ref().map_or(0, Groups::heap_rows)
            + self.distinct.as_ref().map_or(0, Distinct::heap_rows)
            + window
            + self.nest.heap_rows()
    }

    /// What that takes in memory, roughly.
    pub(crate) fn heap_bytes(&self) -> usize {
        let makes_rows = self.groups.is_some() || self.distinct.is_some();
        let owner = if makes_rows { Owner::Made } else { self.node.owner() };
        let window = match &self.order {
            Order::Windowed(window) => window.heap_bytes(owner),
            Order::ByKey | Order::Sorted(_) => 0,
        };
        self.node.heap_bytes()
            + self.groups.as_ref().map_or(0, Groups::heap_bytes)
            + self.distinct.as_ref().map_or(0, Distinct::heap_bytes)
            + window
            + self.nest.heap_bytes()
    }

    /// Whose rows it shows. Those with others nested in them count where they are put together.
    pub(super) fn owner(&self) -> Owner {
        match self.nest.output {
            Output::Same => self.node.owner(),
            Output::Select(_) if self.nest.includes.is_empty() => Owner::Made,
            Output::Select(_) => Owner::Shared,
        }
    }

    /// What the rows take that it has made and that are shown.
    pub(crate) fn shown_bytes(&self, shown: &Shown) -> usize {
        shown.heap_bytes()
            + match self.owner() {
                Owner::Shared => 0,
                Owner::Made => shown.iter().map(|entry| entry_bytes(entry)).sum(),
            }
    }

    /// Whether a join met more rows in a tick than it may. Then nothing it says is of use.
    pub(crate) fn is_overrun(&self) -> bool {
        self.node.is_overrun() || self.nest.is_overrun()
    }

    /// Takes in what it is fed; answers what changed in what it shows.
    pub(crate) fn outs(&mut self, feed: &Feed<'_>) -> Vec<Out> {
        let deltas = self.deltas(feed);
        self.nest.step(deltas, self.order.sorting(), feed)
    }

    /// Takes in what it is fed, and changes what is shown; answers that.
    pub(crate) fn show(&mut self, feed: &Feed<'_>, shown: &mut Shown) -> Vec<Out> {
        let deltas = self.deltas(feed);
        if let (Shown::ByKey(rows), true) = (&mut *shown, self.nest.is_plain()) {
            return self.nest.exchange(deltas, rows);
        }
        let outs = self.nest.step(deltas, self.order.sorting(), feed);
        shown.apply(&outs);
        outs
    }

    /// What changed in the rows that it shows, before anything is selected.
    fn deltas(&mut self, feed: &Feed<'_>) -> Vec<Delta> {
        let mut deltas = match self.first_rows(feed) {
            Some(deltas) => deltas,
            None => self.node.step(feed),
        };
        if let Some(groups) = &mut self.groups {
            deltas = match feed {
                Feed::Initial(_) => groups.begin(&deltas),
                Feed::Tick(..) => groups.step(&deltas),
            };
        }
        if let Some(having) = &self.having {
            deltas = filter(deltas, having);
        }
        if let Some(distinct) = &mut self.distinct {
            deltas = distinct.step(deltas);
        }
        match &mut self.order {
            Order::ByKey | Order::Sorted(_) => deltas,
            Order::Windowed(window) => window.step(deltas, &self.node, feed),
        }
    }

    /// The first rows of a window, if they can be read without the others.
    fn first_rows(&mut self, feed: &Feed<'_>) -> Option<Vec<Delta>> {
        match (feed, &mut self.order, &self.node) {
            (Feed::Initial(rows), Order::Windowed(window), Node::Leaf(leaf)) => {
                window.begin(leaf, *rows)
            }
            _ => None,
        }
    }

    pub(super) fn step(&mut self, feed: &Feed<'_>) -> Vec<Change> {
        self.outs(feed).into_iter().map(|out| out.change).collect()
    }
}

impl Order {
    fn sorting(&self) -> Option<&Sorting> {
        match self {
            Self::ByKey => None,
            Self::Sorted(sorting) => Some(sorting),
            Self::Windowed(window) => Some(&window.sorting),
        }
    }
}

impl Node {
    pub(super) fn step(&mut self, feed: &Feed<'_>) -> Vec<Delta> {
        match self {
            Self::Leaf(leaf) => leaf.step(feed),
            Self::Union(union) => union.step(feed),
            Self::Join(join) => join.step(feed),
            Self::Filter(input, predicate) => filter(input.step(feed), predicate),
            Self::Query(plan) => plan.step(feed).into_iter().map(delta).collect(),
        }
    }

    pub(super) fn heap_rows(&self) -> usize {
        match self {
            Self::Leaf(_) => 0,
            Self::Query(plan) => plan.heap_rows(),
            Self::Union(union) => union.branches.iter().map(Plan::heap_rows).sum(),
            Self::Join(join) => join.left.heap_rows() + join.right.heap_rows() + join.heap_rows(),
            Self::Filter(input, _) => input.heap_rows(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Leaf(_) => 0,
            Self::Query(plan) => plan.heap_bytes(),
            Self::Union(union) => union.branches.iter().map(Plan::heap_bytes).sum(),
            Self::Join(join) => {
                join.left.heap_bytes() + join.right.heap_bytes() + join.heap_bytes()
            }
            Self::Filter(input, _) => input.heap_bytes(),
        }
    }

    /// Whose rows come out of it.
    pub(super) fn owner(&self) -> Owner {
        match self {
            // Rows of a join are those of its sides, which hold them.
            Self::Leaf(_) | Self::Join(_) => Owner::Shared,
            Self::Query(plan) => plan.owner(),
            Self::Union(_) => Owner::Made,
            Self::Filter(input, _) => input.owner(),
        }
    }

    pub(super) fn is_overrun(&self) -> bool {
        match self {
            Self::Leaf(_) => false,
            Self::Query(plan) => plan.is_overrun(),
            Self::Union(union) => union.branches.iter().any(Plan::is_overrun),
            Self::Join(join) => join.is_overrun(),
            Self::Filter(input, _) => input.is_overrun(),
        }
    }
}

fn delta(change: Change) -> Delta {
    let item = |entry: Arc<_>| -> Item { smallvec![Some(entry)] };
    Delta { key: change.key, old: change.old.map(item), new: change.new.map(item) }
}

fn filter(deltas: Vec<Delta>, predicate: &Expr) -> Vec<Delta> {
    let pass = |mut delta: Delta| {
        delta.old = delta.old.filter(|item| predicate.holds(item));
        delta.new = delta.new.filter(|item| predicate.holds(item));
        (delta.old.is_some() || delta.new.is_some()).then_some(delta)
    };
    deltas.into_iter().filter_map(pass).collect()
}
