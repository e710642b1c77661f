//! From a query to a plan: names are resolved, filters go down as far as they may, and what
//! cannot be is refused.

use std::{fmt::Write as _, sync::Arc};

use smol_str::{SmolStr, ToSmolStr};

use super::{
    aggregate::Aggregate,
    distinct::Distinct,
    feed::Probe,
    group::Groups,
    include::{Include, Parts},
    join::{Input, Join},
    leaf::Leaf,
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
    ir::{self, Form, JoinKind, Query, Rows, Source, View},
    record::Shape,
    value::{Collation, Direction, Nulls, SortSpec, Value},
};

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
            Rows::Collection(name) => {
                let Some(id) = scope.catalog.find(name) else {
                    let known = scope.catalog.all();
                    return Err(QueryError::UnknownCollection { name: name.clone(), known });
                };
                let leaf = self.leaf(id, view);
                (Node::Leaf(leaf), SlotColumns::Collection(id))
            }
            Rows::Query(query) => {
                self.note(&format!("sub-query {alias}"));
                let plan = self.plan(query, scope.catalog, narrowed(query, view))?;
                let columns = plan.columns.clone();
                (Node::Query(Box::new(plan)), columns)
            }
            Rows::Union(queries) => self.union(queries, scope, view)?,
        };
        scope.slots.push(Slot { alias, columns });
        Ok(node)
    }

    fn leaf(&mut self, id: CollectionId, view: View) -> Leaf {
        let leaf = Leaf::new(self.leaves.len(), id, view, None);
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
        for query in queries {
            let plan = self.plan(query, scope.catalog, narrowed(query, view))?;
            let names = column_names(&plan.columns, scope.catalog);
            let places = names.iter().map(|name| Shape::learn(&mut shape, name));
            let places = places.collect::<Result<Vec<_>, _>>();
            columns.push(places.map_err(|_| QueryError::TooLarge)?);
            branches.push(plan);
        }
        let fixed = SlotColumns::Fixed(shape.clone());
        Ok((Node::Union(Union { branches, columns, shape }), fixed))
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
                let leaf = Leaf::new(leaf.number, collection, view, filter);
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
        node: Node,
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
        let (output, includes, columns) = self.output(query, scope, view)?;
        let nest = Nest::new(output, includes, !matches!(order, Order::ByKey));
        Ok(Plan {
            node,
            groups: None,
            having: None,
            distinct: None,
            order,
            nest,
            columns,
            watches: Vec::new(),
            explanation: String::new(),
        })
    }

    fn grouped(
        &mut self,
        query: &Query,
        mut grouped: Grouped,
        node: Node,
        scope: &mut Scope<'_>,
    ) -> Result<Plan, QueryError> {
        let by =
            query.group_by.iter().map(|by| scope.resolve(by)).collect::<Result<Vec<_>, _>>()?;
        let select = match &query.select {
            Some(select) => select.clone(),
            None => grouped.default_select(self.semantics),
        };
        let mut rewritten = Query { select: Some(Vec::new()), ..query.clone() };
        for (name, expr) in &select {
            let expr = grouped.rewrite(expr, None)?;
            rewritten.select.get_or_insert_default().push((name.clone(), expr));
        }
        let having = query.having.iter().map(|having| grouped.rewrite(having, None));
        rewritten.having = having.collect::<Result<_, _>>()?;
        let shown = rewritten.select.clone().unwrap_or_default();
        rewritten.having.iter_mut().for_each(|having| *having = selected(having, &shown));
        for order in &mut rewritten.order_by {
            // There, the sources are gone after grouping, and so are their columns.
            let lenient = (self.semantics == Semantics::Tanstack).then_some(Value::Missing);
            order.expr = selected(&grouped.rewrite(&order.expr, lenient.as_ref())?, &shown);
        }
        let mut aggregates = Vec::new();
        for (aggregate, arg) in &grouped.aggregates {
            aggregates.push((*aggregate, scope.resolve(arg)?));
        }
        self.note(&format!("group by {} expressions, {} aggregates", by.len(), aggregates.len()));
        let width = by.len() + aggregates.len();
        let groups = Groups::new(by, aggregates, self.semantics);
        let shape = Arc::new(Shape::of((0..width).map(|index| index.to_string())));
        let mut scope = Scope::new(scope.catalog, self.semantics);
        scope.slots.push(Slot { alias: GROUP.into(), columns: SlotColumns::Fixed(shape) });
        let mut plan = self.grouped_output(&rewritten, node, &mut scope)?;
        plan.groups = Some(groups);
        Ok(plan)
    }

    fn grouped_output(
        &mut self,
        query: &Query,
        node: Node,
        scope: &mut Scope<'_>,
    ) -> Result<Plan, QueryError> {
        let mut having = Vec::new();
        for expr in &query.having {
            having.push(scope.resolve(&truth(expr, self.semantics))?);
        }
        let having = all_of(having, self.semantics);
        let select = self.select(query, scope)?;
        if query.distinct {
            return self.distinct(query, node, select, having, scope);
        }
        let order = self.order(query, &query.order_by, scope)?;
        let columns = SlotColumns::Fixed(select.shape.clone());
        let nest = Nest::new(Output::Select(select), Vec::new(), !matches!(order, Order::ByKey));
        Ok(Plan {
            node,
            groups: None,
            having,
            distinct: None,
            order,
            nest,
            columns,
            watches: Vec::new(),
            explanation: String::new(),
        })
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
        let nest = Nest::new(Output::Same, Vec::new(), !matches!(order, Order::ByKey));
        let distinct = Some(Distinct::new(select));
        Ok(Plan {
            node,
            groups: None,
            having,
            distinct,
            order,
            nest,
            columns,
            watches: Vec::new(),
            explanation: String::new(),
        })
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
        Ok(Order::Windowed(Window::new(sorting, query.offset, limit)))
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

    fn include(
        &mut self,
        column: usize,
        name: &SmolStr,
        include: &ir::Include,
        outer: &mut Scope<'_>,
        view: View,
    ) -> Result<Include, QueryError> {
        let query = &include.query;
        let view = narrowed(query, view);
        check(query)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(QueryError::TooDeep);
        }
        if query.distinct
            || Grouped::of(query, self.semantics).is_some()
            || !query.having.is_empty()
        {
            return Err(QueryError::MisplacedInclude);
        }
        if include.form == Form::Text
            && query.select.as_ref().is_none_or(|select| select.len() != 1)
        {
            return Err(QueryError::NotOneColumn { name: name.clone() });
        }
        self.note(&format!("include {name}"));
        let unrelated = || QueryError::UnrelatedInclude { name: name.clone() };
        let (tie, filters) = split_tie(query, outer).ok_or_else(unrelated)?;
        if let Some(path) = outer_reference(query, &filters, outer) {
            let known = query.sources().map(|source| source.alias.clone()).collect();
            return Err(QueryError::UnknownAlias { path, known });
        }
        let outer_tie = outer.resolve(&tie.outer)?;
        let mut scope = Scope::new(outer.catalog, self.semantics);
        let source = self.body(query, &filters, &mut scope, view)?;
        let own = scope.resolve(&tie.own)?;
        let order_by = substituted(query);
        let sorting = match self.order(
            &Query { limit: None, offset: 0, ..query.clone() },
            &order_by,
            &mut scope,
        )? {
            Order::Sorted(sorting) => sorting,
            _ => Sorting { by: Vec::new(), semantics: self.semantics },
        };
        let (output, includes, _) = self.output(query, &mut scope, view)?;
        self.depth -= 1;
        Ok(Include::new(Parts {
            column,
            form: include.form,
            source,
            own,
            outer: outer_tie,
            sorting,
            offset: query.offset,
            limit: query.limit,
            nest: Nest::new(output, includes, true),
        }))
    }

    fn note(&mut self, line: &str) {
        let _ = writeln!(self.explanation, "{:indent$}{line}", "", indent = 2 * (self.depth - 1));
    }

    fn explain_leaf(&mut self, leaf: &Leaf, scope: &Scope<'_>) {
        let name = scope.catalog.name(leaf.watch.collection).clone();
        let how = match leaf.watch.lookups.first() {
            Some(lookup) => {
                let column = match lookup.column {
                    Probe::Key => "$key".to_smolstr(),
                    Probe::Synced => "$synced".to_smolstr(),
                    Probe::Column(column) => {
                        let names = scope.catalog.names(leaf.watch.collection);
                        names.get(column).cloned().unwrap_or_default()
                    }
                };
                format!("told by {column}, one of {} values", lookup.values.len())
            }
            None => "told of every change".into(),
        };
        let filter = if leaf.filter.is_some() { ", filtered" } else { "" };
        let view = if leaf.watch.view == View::Synced { ", synced rows only" } else { "" };
        self.note(&format!("from {name}: {how}{filter}{view}"));
    }
}

/// What a query that is grouped calls the rows of its groups.
const GROUP: &str = "$group";
/// What a query calls the row it shows.
const SELECTED: &str = "$selected";
/// What a query that is distinct calls its rows.
const ROW: &str = "$row";

/// Groups, and which aggregates of them are asked for.
struct Grouped {
    by: Vec<ir::Expr>,
    aggregates: Vec<(Aggregate, ir::Expr)>,
}

impl Grouped {
    fn of(query: &Query, _semantics: Semantics) -> Option<Self> {
        let has_aggregate = |(_, expr): &(SmolStr, ir::Expr)| expr.has_aggregate();
        let is_grouped =
            !query.group_by.is_empty() || query.select.iter().flatten().any(has_aggregate);
        is_grouped.then(|| Self { by: query.group_by.clone(), aggregates: Vec::new() })
    }

    /// Without a select a group shows what it is grouped by.
    fn default_select(&self, semantics: Semantics) -> Vec<(SmolStr, ir::Expr)> {
        let name = |index: usize, by: &ir::Expr| match (by, semantics) {
            (ir::Expr::Ref(path), Semantics::Sql) => path.last().cloned().unwrap_or_default(),
            _ => format!("__key_{index}").into(),
        };
        let named = self.by.iter().enumerate();
        named.map(|(index, by)| (name(index, by), by.clone())).collect()
    }

    /// The expression over a group: what it is grouped by and its aggregates become columns.
    /// Other columns become `lenient`, or are refused.
    fn rewrite(
        &mut self,
        expr: &ir::Expr,
        lenient: Option<&Value>,
    ) -> Result<ir::Expr, QueryError> {
        let column = |index: usize| ir::Expr::path([GROUP, &index.to_string()]);
        let is_bare = lenient.is_some() && matches!(expr, ir::Expr::Ref(_));
        if let Some(index) = self.by.iter().position(|by| by == expr).filter(|_| !is_bare) {
            return Ok(column(index));
        }
        match expr {
            ir::Expr::Val(_) => Ok(expr.clone()),
            ir::Expr::Aggregate(name, args) => Ok(column(self.aggregate(name, args)?)),
            ir::Expr::Call(name, args) => {
                let args = args.iter().map(|arg| self.rewrite(arg, lenient));
                Ok(ir::Expr::Call(name.clone(), args.collect::<Result<_, _>>()?))
            }
            ir::Expr::Ref(path) if path.first().is_some_and(|first| first == SELECTED) => {
                Ok(expr.clone())
            }
            ir::Expr::Ref(path) => match lenient {
                Some(value) => Ok(ir::Expr::Val(value.clone())),
                None => Err(QueryError::NotGrouped { path: path.join(".") }),
            },
            ir::Expr::Include(_) => Err(QueryError::MisplacedInclude),
        }
    }

    /// The column of an aggregate.
    fn aggregate(&mut self, name: &SmolStr, args: &[ir::Expr]) -> Result<usize, QueryError> {
        let Some(aggregate) = Aggregate::by_name(name) else {
            return Err(QueryError::UnknownAggregate { name: name.clone() });
        };
        let arg = match (aggregate, args) {
            // Without an argument all rows count.
            (Aggregate::Count, []) => ir::Expr::Val(Value::Bool(true)),
            (_, [arg]) => arg.clone(),
            _ => {
                let least = usize::from(aggregate != Aggregate::Count);
                let given = args.len();
                return Err(QueryError::ArgumentCount {
                    name: name.clone(),
                    given,
                    least,
                    most: 1,
                });
            }
        };
        let wanted = (aggregate, arg);
        let index = self.aggregates.iter().position(|own| *own == wanted).unwrap_or_else(|| {
            self.aggregates.push(wanted);
            self.aggregates.len() - 1
        });
        Ok(self.by.len() + index)
    }
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

/// What a query within another looks at: synced rows if either of both asks for them.
fn narrowed(query: &Query, view: View) -> View {
    if query.view == View::Synced { View::Synced } else { view }
}

/// Whether rows may come out of the joins without this source.
fn may_be_missing(slot: usize, kinds: &[JoinKind]) -> bool {
    let by_itself = slot > 0 && kinds[slot - 1].keeps_left();
    by_itself || kinds[slot..].iter().any(|kind| kind.keeps_right())
}

/// What must all hold for this to hold.
fn conjuncts(filter: Expr, semantics: Semantics) -> Vec<Expr> {
    match filter {
        // There, a value that is neither true nor false passes within `and`, and not alone.
        Expr::Call { function: crate::expr::Function::And, args, .. }
            if semantics == Semantics::Sql || args.iter().all(is_truth) =>
        {
            args.into_vec().into_iter().flat_map(|arg| conjuncts(arg, semantics)).collect()
        }
        filter => vec![filter],
    }
}

/// Whether it is true, false or unknown, and nothing else.
fn is_truth(expr: &Expr) -> bool {
    use crate::expr::Function as F;
    matches!(
        expr,
        Expr::Const(Value::Bool(_) | Value::Null)
            | Expr::Call {
                function: F::Eq
                    | F::Ne
                    | F::Gt
                    | F::Gte
                    | F::Lt
                    | F::Lte
                    | F::In
                    | F::Like
                    | F::Ilike
                    | F::And
                    | F::Or
                    | F::Not
                    | F::IsNull
                    | F::IsUndefined,
                ..
            }
    )
}

fn all_of(mut filters: Vec<Expr>, semantics: Semantics) -> Option<Expr> {
    match filters.len() {
        0 => None,
        1 => filters.pop(),
        _ => Some(Expr::Call {
            function: crate::expr::Function::And,
            args: filters.into(),
            semantics,
        }),
    }
}

/// There, groups pass if JavaScript takes the result for true.
fn truth(having: &ir::Expr, semantics: Semantics) -> ir::Expr {
    match semantics {
        Semantics::Sql => having.clone(),
        Semantics::Tanstack => ir::Expr::call("not", [ir::Expr::call("not", [having.clone()])]),
    }
}

/// The orders of a query, with what is selected in place of its name.
fn substituted(query: &Query) -> Vec<ir::Order> {
    let select = query.select.as_deref().unwrap_or_default();
    let put =
        |order: &ir::Order| ir::Order { expr: selected(&order.expr, select), ..order.clone() };
    query.order_by.iter().map(put).collect()
}

/// `$selected.name` is what is selected under that name.
fn selected(expr: &ir::Expr, select: &[(SmolStr, ir::Expr)]) -> ir::Expr {
    let all = |args: &[ir::Expr]| args.iter().map(|arg| selected(arg, select)).collect();
    match expr {
        ir::Expr::Ref(path) => match path_selected(path, select) {
            Some((found, [])) => found.clone(),
            Some((found, rest)) => {
                let steps = rest.iter().map(|step| ir::Expr::val(step.as_str()));
                ir::Expr::call("get", std::iter::once(found.clone()).chain(steps))
            }
            None => expr.clone(),
        },
        ir::Expr::Call(name, args) => ir::Expr::Call(name.clone(), all(args)),
        ir::Expr::Aggregate(name, args) => ir::Expr::Aggregate(name.clone(), all(args)),
        ir::Expr::Val(_) | ir::Expr::Include(_) => expr.clone(),
    }
}

fn path_selected<'a>(
    path: &'a [SmolStr],
    select: &'a [(SmolStr, ir::Expr)],
) -> Option<(&'a ir::Expr, &'a [SmolStr])> {
    let [first, name, rest @ ..] = path else { return None };
    let (_, expr) = select.iter().find(|(own, _)| own == name)?;
    (first == SELECTED).then_some((expr, rest))
}

/// An expression over distinct rows, which have nothing but what is selected.
fn shown_only(
    expr: &ir::Expr,
    query: &Query,
    semantics: Semantics,
) -> Result<ir::Expr, QueryError> {
    let select = query.select.as_deref().unwrap_or_default();
    if let Some((name, _)) = select.iter().find(|(_, own)| own == expr) {
        return Ok(ir::Expr::path([ROW, name]));
    }
    match expr {
        ir::Expr::Ref(path) if path.first().is_some_and(|first| first == SELECTED) => {
            Ok(ir::Expr::path(std::iter::once(ROW).chain(path[1..].iter().map(SmolStr::as_str))))
        }
        ir::Expr::Ref(_) if semantics == Semantics::Tanstack => Ok(ir::Expr::Val(Value::Missing)),
        ir::Expr::Ref(path) => Err(QueryError::NotGrouped { path: path.join(".") }),
        ir::Expr::Call(name, args) => {
            let args = args.iter().map(|arg| shown_only(arg, query, semantics));
            Ok(ir::Expr::Call(name.clone(), args.collect::<Result<_, _>>()?))
        }
        _ => Ok(expr.clone()),
    }
}

/// What ties the rows of an include to outer rows.
struct Tie {
    own: ir::Expr,
    outer: ir::Expr,
}

/// The tie among the filters of an include, and the other filters.
fn split_tie(query: &Query, outer: &Scope<'_>) -> Option<(Tie, Vec<ir::Expr>)> {
    let is_own = |alias: &SmolStr| query.sources().any(|source| source.alias == *alias);
    let mut filters = Vec::new();
    query.filters.iter().for_each(|filter| flatten(filter, &mut filters));
    let sides = |filter: &ir::Expr| match filter {
        ir::Expr::Call(name, args) if name == "eq" => match &args[..] {
            [a, b] => match (names_only(a, &is_own), names_only(b, &is_own)) {
                (true, false) if outer.knows(b) => Some(Tie { own: a.clone(), outer: b.clone() }),
                (false, true) if outer.knows(a) => Some(Tie { own: b.clone(), outer: a.clone() }),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    let (index, tie) =
        filters.iter().enumerate().find_map(|(index, filter)| Some((index, sides(filter)?)))?;
    filters.remove(index);
    Some((tie, filters))
}

/// A reference to the outer query beside the tie. It would be taken for a column of the only
/// source, and be missing in every row.
fn outer_reference(query: &Query, filters: &[ir::Expr], outer: &Scope<'_>) -> Option<Vec<SmolStr>> {
    fn find(expr: &ir::Expr, is_outer: &impl Fn(&SmolStr) -> bool) -> Option<Vec<SmolStr>> {
        match expr {
            ir::Expr::Ref(path) => path.first().is_some_and(is_outer).then(|| path.clone()),
            _ => expr.children().iter().find_map(|child| find(child, is_outer)),
        }
    }
    let is_own = |alias: &SmolStr| query.sources().any(|source| source.alias == *alias);
    let is_outer = |alias: &SmolStr| outer.slot(alias).is_some() && !is_own(alias);
    let selected = query.select.iter().flatten().map(|(_, expr)| expr);
    let orders = query.order_by.iter().map(|order| &order.expr);
    let all = filters.iter().chain(selected).chain(orders);
    match outer.semantics {
        Semantics::Sql => all.into_iter().find_map(|expr| find(expr, &is_outer)),
        Semantics::Tanstack => None,
    }
}

fn flatten(filter: &ir::Expr, found: &mut Vec<ir::Expr>) {
    match filter {
        ir::Expr::Call(name, args) if name == "and" => {
            args.iter().for_each(|arg| flatten(arg, found));
        }
        _ => found.push(filter.clone()),
    }
}

fn has_reference(expr: &ir::Expr) -> bool {
    matches!(expr, ir::Expr::Ref(_)) || expr.children().iter().any(has_reference)
}

/// Whether every reference begins with one of these.
fn names_only(expr: &ir::Expr, is_own: &impl Fn(&SmolStr) -> bool) -> bool {
    match expr {
        ir::Expr::Ref(path) => path.first().is_some_and(is_own),
        _ => expr.children().iter().all(|child| names_only(child, is_own)),
    }
}

fn column_names(columns: &SlotColumns, catalog: &Catalog) -> Vec<SmolStr> {
    match columns {
        SlotColumns::Collection(id) => catalog.names(*id),
        SlotColumns::Fixed(shape) => {
            (0..shape.len()).filter_map(|index| shape.name(index)).map(SmolStr::new).collect()
        }
    }
}
