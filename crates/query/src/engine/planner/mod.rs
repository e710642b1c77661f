//! From a query to a plan: names are resolved, filters go down as far as they may, and what
//! cannot be is refused.

mod explain;
mod grouped;
mod include;
mod rewrite;

use std::sync::Arc;

use smol_str::SmolStr;

use self::{
    grouped::Grouped,
    rewrite::{all_of, conjuncts, has_reference, names_only, shown_only, substituted},
};
use super::{
    distinct::Distinct,
    feed::Ordered,
    include::Include,
    join::{Input, Join},
    leaf::Leaf,
    narrow::probe,
    nest::Nest,
    output::{Output, Select},
    plan::{Node, Order, Plan},
    union::Union,
    window::{Sorting, Window},
};
use crate::{
    Semantics,
    caps::{DEPTH_MAX, SOURCES_MAX},
    catalog::{Catalog, CollectionId},
    error::{BadJoin, QueryError},
    expr::{Expr, Scope, Slot, SlotColumns},
    ir::{self, JoinKind, Query, Rows, Source, View, may_be_missing},
    record::Shape,
    value::{Collation, Direction, Nulls, SortSpec, Value},
};

/// What a query that is grouped calls the rows of its groups.
const GROUP: &str = "$group";
/// What a query calls the row it shows.
const SELECTED: &str = "$selected";
/// What a query that is distinct calls its rows.
const ROW: &str = "$row";

/// Compiles a query over the collections of a catalog.
pub(crate) fn compile(
    query: &Query,
    catalog: &mut Catalog,
    semantics: Semantics,
) -> Result<Plan, QueryError> {
    let mut planner =
        Planner { semantics, leaves: Vec::new(), depth: 0, explanation: String::new() };
    let mut plan = planner.plan(query, catalog, query.view)?;
    plan.watches = planner.leaves;
    plan.explanation = planner.explanation;
    Ok(plan)
}

struct Planner {
    semantics: Semantics,
    leaves: Vec<super::Watch>,
    depth: usize,
    explanation: String,
}

/// The sources of a query on their way to one node.
struct Sources {
    nodes: Vec<Option<Node>>,
    /// For each source, the filters that only it decides.
    filters: Vec<Vec<Expr>>,
}

impl Planner {
    fn plan(
        &mut self,
        query: &Query,
        catalog: &mut Catalog,
        view: View,
    ) -> Result<Plan, QueryError> {
        check(query)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(QueryError::TooDeep);
        }
        let mut scope = Scope::new(catalog, self.semantics);
        let node = self.body(query, &query.filters, &mut scope, view)?;
        let plan = match Grouped::of(query, self.semantics) {
            Some(grouped) => self.grouped(query, grouped, node, &mut scope),
            None => self.ungrouped(query, node, &mut scope, view),
        };
        self.depth -= 1;
        plan
    }

    /// Sources, joins and filters.
    fn body(
        &mut self,
        query: &Query,
        filters: &[ir::Expr],
        scope: &mut Scope<'_>,
        view: View,
    ) -> Result<Node, QueryError> {
        let mut sources = Vec::new();
        for source in query.sources() {
            sources.push(self.source(source, scope, view)?);
            if self.leaves.len() > SOURCES_MAX {
                return Err(QueryError::TooLarge);
            }
        }
        let kinds: Vec<_> = query.joins.iter().map(|join| join.kind).collect();
        let (pushed, rest) = self.split_filters(filters, &kinds, scope)?;
        let mut sources =
            Sources { nodes: Vec::from_iter(sources.into_iter().map(Some)), filters: pushed };
        let mut node = self.filtered_source(&mut sources, 0, scope);
        for (index, join) in query.joins.iter().enumerate() {
            let (left_on, right_on) = self.conditions(join, index + 1, scope)?;
            self.note(&format!("{} join {}", join.kind.name(), join.source.alias));
            let left = Input { node, on: left_on, width: index + 1 };
            let node_right = self.filtered_source(&mut sources, index + 1, scope);
            let right = Input { node: node_right, on: right_on, width: 1 };
            node = Node::Join(Box::new(Join::new(join.kind, left, right, self.semantics)));
        }
        Ok(match all_of(rest, self.semantics) {
            Some(filter) => {
                self.note("filter what was joined");
                Node::Filter(Box::new(node), filter)
            }
            None => node,
        })
    }

    fn source(
        &mut self,
        source: &Source,
        scope: &mut Scope<'_>,
        view: View,
    ) -> Result<Node, QueryError> {
        let alias = source.alias.clone();
        if scope.slot(&alias).is_some() {
            return Err(QueryError::DuplicateAlias { alias });
        }
        let (node, columns) = match &source.rows {
            Rows::Collection(name) => match scope.catalog.find(name) {
                Some(id) => (Node::Leaf(self.leaf(id, view)), SlotColumns::Collection(id)),
                None => self.named(name, scope, view)?,
            },
            Rows::Query(query) => {
                self.note(&format!("sub-query {alias}"));
                self.sub_query(query, scope, view)?
            }
            Rows::Union(queries) => self.union(queries, scope, view)?,
        };
        scope.slots.push(Slot { alias, columns });
        Ok(node)
    }

    /// The rows of a query that has a name. Definitions do not need each other, so this ends.
    fn named(
        &mut self,
        name: &SmolStr,
        scope: &mut Scope<'_>,
        view: View,
    ) -> Result<(Node, SlotColumns), QueryError> {
        let Some(query) = scope.catalog.definitions.get(name).cloned() else {
            let known = scope.catalog.all();
            return Err(QueryError::UnknownCollection { name: name.clone(), known });
        };
        self.note(&format!("query {name}"));
        self.sub_query(&query, scope, view)
    }

    fn sub_query(
        &mut self,
        query: &Query,
        scope: &mut Scope<'_>,
        view: View,
    ) -> Result<(Node, SlotColumns), QueryError> {
        let plan = self.plan(query, scope.catalog, narrowed(query, view))?;
        let columns = plan.columns.clone();
        Ok((Node::Query(Box::new(plan)), columns))
    }

    fn leaf(&mut self, id: CollectionId, view: View) -> Leaf {
        let leaf = Leaf::new(self.leaves.len(), (id, None), view, None);
        self.leaves.push(leaf.watch.clone());
        leaf
    }

    fn union(
        &mut self,
        queries: &[Query],
        scope: &mut Scope<'_>,
        view: View,
    ) -> Result<(Node, SlotColumns), QueryError> {
        self.note(&format!("union of {}", queries.len()));
        let (mut branches, mut columns, mut shape) = (Vec::new(), Vec::new(), Arc::default());
        let mut is_growing = false;
        for query in queries {
            let plan = self.plan(query, scope.catalog, narrowed(query, view))?;
            let names = column_names(&plan.columns, scope.catalog);
            let places = names.iter().map(|name| Shape::learn(&mut shape, name));
            let places = places.collect::<Result<Vec<_>, _>>();
            columns.push(places.map_err(|_| QueryError::TooLarge)?);
            is_growing |= match &plan.columns {
                SlotColumns::Collection(id) => scope.catalog.schema(*id).is_open,
                SlotColumns::Growing(_) => true,
                SlotColumns::Fixed(_) => false,
            };
            branches.push(plan);
        }
        let known = shape.clone();
        let known =
            if is_growing { SlotColumns::Growing(known) } else { SlotColumns::Fixed(known) };
        Ok((Node::Union(Union { branches, columns, shape }), known))
    }

    /// Filters for one source that may go below the joins, and all others.
    fn split_filters(
        &self,
        filters: &[ir::Expr],
        kinds: &[JoinKind],
        scope: &mut Scope<'_>,
    ) -> Result<(Vec<Vec<Expr>>, Vec<Expr>), QueryError> {
        let (mut pushed, mut rest) = (vec![Vec::new(); kinds.len() + 1], Vec::new());
        for filter in filters {
            for filter in conjuncts(scope.resolve(filter)?, self.semantics) {
                let mut slots = Vec::new();
                filter.slots(&mut slots);
                slots.dedup();
                match slots[..] {
                    [slot] if !may_be_missing(slot, kinds) => {
                        pushed[slot].push(filter.moved(&|_| 0));
                    }
                    [] if kinds.is_empty() => pushed[0].push(filter),
                    _ => rest.push(filter),
                }
            }
        }
        Ok((pushed, rest))
    }

    fn filtered_source(&mut self, sources: &mut Sources, slot: usize, scope: &Scope<'_>) -> Node {
        let filter = all_of(std::mem::take(&mut sources.filters[slot]), self.semantics);
        let node = sources.nodes[slot].take().expect("every source is used once");
        match (node, filter) {
            (Node::Leaf(leaf), filter) => {
                let super::Watch { collection, view, .. } = leaf.watch;
                let key = scope.catalog.key_column(collection);
                let leaf = Leaf::new(leaf.number, (collection, key), view, filter);
                self.explain_leaf(&leaf, scope);
                self.leaves[leaf.number] = leaf.watch.clone();
                Node::Leaf(leaf)
            }
            (node, Some(filter)) => Node::Filter(Box::new(node), filter),
            (node, None) => node,
        }
    }

    /// What is compared on both sides of a join.
    fn conditions(
        &self,
        join: &ir::Join,
        slot: usize,
        scope: &mut Scope<'_>,
    ) -> Result<(Vec<Expr>, Vec<Expr>), QueryError> {
        let alias = &join.source.alias;
        let bad = |side, why| QueryError::JoinCondition { alias: alias.clone(), side, why };
        if join.on.is_empty() {
            return Err(bad(BadJoin::Empty, "it needs a pair of expressions that must be equal"));
        }
        let (mut left_on, mut right_on) = (Vec::new(), Vec::new());
        for pair in &join.on {
            let (mut left, mut right) = (scope.resolve(&pair.0)?, scope.resolve(&pair.1)?);
            let slots = |expr: &Expr| {
                let mut slots = Vec::new();
                expr.slots(&mut slots);
                slots
            };
            if slots(&left).contains(&slot) && !slots(&right).contains(&slot) {
                std::mem::swap(&mut left, &mut right);
            }
            let (left_slots, right_slots) = (slots(&left), slots(&right));
            if let Some(side) = self.stranger((&pair.0, &pair.1), slot, scope) {
                return Err(bad(side, "one side names a source that is not there"));
            }
            if left_slots.is_empty() || right_slots.is_empty() {
                return Err(bad(BadJoin::NoSource, "both sides must name a source"));
            }
            if left_slots == right_slots {
                return Err(bad(BadJoin::SameSource, "both sides name the same source"));
            }
            if left_slots.iter().any(|own| *own >= slot) {
                return Err(bad(BadJoin::Left, "one side must be of the sources before it"));
            }
            if right_slots.iter().any(|own| *own != slot) {
                return Err(bad(BadJoin::Right, "one side must be of the source that is joined"));
            }
            left_on.push(left);
            right_on.push(right.moved(&|_| 0));
        }
        Ok((left_on, right_on))
    }

    /// Which side of a condition names sources that are not there.
    fn stranger(
        &self,
        (left, right): (&ir::Expr, &ir::Expr),
        slot: usize,
        scope: &Scope<'_>,
    ) -> Option<BadJoin> {
        let joined = &scope.slots[slot].alias;
        let is_stranger = |expr: &ir::Expr| has_reference(expr) && !scope.knows(expr);
        let is_joined = |expr: &ir::Expr| names_only(expr, &|alias| alias == joined);
        let other = match (is_stranger(left), is_stranger(right)) {
            (true, _) => right,
            (_, true) => left,
            _ => return None,
        };
        Some(if has_reference(other) && is_joined(other) { BadJoin::Left } else { BadJoin::Right })
    }

    fn ungrouped(
        &mut self,
        query: &Query,
        mut node: Node,
        scope: &mut Scope<'_>,
        view: View,
    ) -> Result<Plan, QueryError> {
        if !query.having.is_empty() {
            return Err(QueryError::HavingWithoutGroups);
        }
        if query.distinct {
            let select = self.select(query, scope)?;
            return self.distinct(query, node, select, None, scope);
        }
        let order_by = substituted(query);
        if order_by.iter().any(|order| order.expr.has_aggregate()) {
            return Err(QueryError::OrderByAggregate);
        }
        let order = self.order(query, &order_by, scope)?;
        if let (Node::Leaf(leaf), Order::Windowed(window)) = (&mut node, &order) {
            leaf.watch.order = first_rows(leaf, window, scope);
            self.leaves[leaf.number].order = leaf.watch.order.clone();
        }
        let (output, includes, columns) = self.output(query, scope, view)?;
        let nest = Nest::new(output, includes, false);
        Ok(Plan::of(node, order, nest, columns))
    }

    fn distinct(
        &mut self,
        query: &Query,
        node: Node,
        select: Select,
        having: Option<Expr>,
        scope: &mut Scope<'_>,
    ) -> Result<Plan, QueryError> {
        self.note("distinct");
        let columns = SlotColumns::Fixed(select.shape.clone());
        let mut order_by = query.order_by.clone();
        for order in &mut order_by {
            order.expr = shown_only(&order.expr, query, self.semantics)?;
        }
        let mut scope = Scope::new(scope.catalog, self.semantics);
        scope.slots.push(Slot { alias: ROW.into(), columns: columns.clone() });
        let order = self.order(query, &order_by, &mut scope)?;
        let nest = Nest::new(Output::Same, Vec::new(), false);
        let distinct = Some(Distinct::new(select));
        Ok(Plan { having, distinct, ..Plan::of(node, order, nest, columns) })
    }

    fn select(&self, query: &Query, scope: &mut Scope<'_>) -> Result<Select, QueryError> {
        let Some(select) = &query.select else { return Err(QueryError::DistinctWithoutSelect) };
        let exprs = select.iter().map(|(_, expr)| scope.resolve(expr));
        let exprs = exprs.collect::<Result<Box<[_]>, _>>()?;
        let shape = Arc::new(Shape::of(select.iter().map(|(name, _)| name)));
        Ok(Select { shape, exprs })
    }

    fn order(
        &mut self,
        query: &Query,
        order_by: &[ir::Order],
        scope: &mut Scope<'_>,
    ) -> Result<Order, QueryError> {
        let mut by = Vec::new();
        for order in order_by {
            let spec = SortSpec {
                direction: if order.is_descending {
                    Direction::Descending
                } else {
                    Direction::Ascending
                },
                nulls: if order.is_nulls_last { Nulls::Last } else { Nulls::First },
                collation: match (order.folds_case, self.semantics) {
                    (true, _) => Collation::FoldCase,
                    (false, Semantics::Sql) => Collation::Binary,
                    (false, Semantics::Tanstack) => Collation::Utf16,
                },
            };
            by.push((scope.resolve(&order.expr)?, spec));
        }
        if by.is_empty() {
            return Ok(Order::ByKey);
        }
        let sorting = Sorting { by, semantics: self.semantics };
        if query.limit.is_none() && query.offset == 0 {
            self.note("order");
            return Ok(Order::Sorted(sorting));
        }
        let limit = query.limit.unwrap_or(usize::MAX);
        self.note(&format!(
            "order, offset {}, limit {limit}: a window of an ordered tree",
            query.offset
        ));
        Ok(Order::Windowed(Box::new(Window::new(sorting, query.offset, limit))))
    }

    /// What is shown of rows that are not grouped.
    fn output(
        &mut self,
        query: &Query,
        scope: &mut Scope<'_>,
        view: View,
    ) -> Result<(Output, Vec<Include>, SlotColumns), QueryError> {
        let Some(select) = &query.select else {
            if let [only] = &scope.slots[..] {
                return Ok((Output::Same, Vec::new(), only.columns.clone()));
            }
            let shape = Arc::new(Shape::of(scope.slots.iter().map(|slot| &slot.alias)));
            let exprs = (0..scope.slots.len()).map(|slot| Expr::Row { slot }).collect();
            let columns = SlotColumns::Fixed(shape.clone());
            return Ok((Output::Select(Select { shape, exprs }), Vec::new(), columns));
        };
        let (mut exprs, mut includes) = (Vec::new(), Vec::new());
        for (column, (name, expr)) in select.iter().enumerate() {
            match expr {
                ir::Expr::Include(include) => {
                    includes.push(self.include(column, name, include, scope, view)?);
                    exprs.push(Expr::Const(Value::Missing));
                }
                _ => exprs.push(scope.resolve(expr)?),
            }
        }
        let shape = Arc::new(Shape::of(select.iter().map(|(name, _)| name)));
        let columns = SlotColumns::Fixed(shape.clone());
        Ok((Output::Select(Select { shape, exprs: exprs.into() }), includes, columns))
    }
}

/// The order in which the rows of a window can be read, one after the other, as far as needed.
fn first_rows(leaf: &Leaf, window: &Window, scope: &Scope<'_>) -> Option<Ordered> {
    let [(expr, spec)] = &window.sorting.by[..] else { return None };
    let is_plain = scope.semantics == Semantics::Sql && spec.collation == Collation::Binary;
    if !is_plain || window.limit == usize::MAX {
        return None;
    }
    Some(Ordered {
        within: leaf.only()?,
        by: probe(expr, scope.catalog.key_column(leaf.watch.collection))?,
        direction: spec.direction,
        nulls: spec.nulls,
        reach: window.reach(),
    })
}

/// What is wrong whatever the collections are.
fn check(query: &Query) -> Result<(), QueryError> {
    let is_windowed = query.limit.is_some() || query.offset > 0;
    if is_windowed && query.order_by.is_empty() {
        return Err(QueryError::WindowWithoutOrder);
    }
    if query.distinct && query.select.is_none() {
        return Err(QueryError::DistinctWithoutSelect);
    }
    Ok(())
}

fn column_names(columns: &SlotColumns, catalog: &Catalog) -> Vec<SmolStr> {
    match columns {
        SlotColumns::Collection(id) => catalog.names(*id),
        SlotColumns::Fixed(shape) | SlotColumns::Growing(shape) => {
            (0..shape.len()).filter_map(|index| shape.name(index)).map(SmolStr::new).collect()
        }
    }
}

/// What a query within another looks at: synced rows if either of both asks for them.
fn narrowed(query: &Query, view: View) -> View {
    if query.view == View::Synced { View::Synced } else { view }
}
