//! Groups: expressions over rows become expressions over groups.

use std::sync::Arc;

use smol_str::SmolStr;

use super::{
    GROUP, Planner, SELECTED,
    rewrite::{all_of, selected, truth},
};
use crate::{
    Semantics,
    engine::{
        aggregate::Aggregate,
        group::Groups,
        nest::Nest,
        output::Output,
        plan::{Node, Plan},
    },
    error::QueryError,
    expr::{Scope, Slot, SlotColumns},
    ir::{self, Query},
    record::Shape,
    value::Value,
};

impl Planner {
    pub(super) fn grouped(
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
        let nest = Nest::new(Output::Select(select), Vec::new(), false);
        Ok(Plan { having, ..Plan::of(node, order, nest, columns) })
    }
}

/// Groups, and which aggregates of them are asked for.
pub(super) struct Grouped {
    by: Vec<ir::Expr>,
    aggregates: Vec<(Aggregate, ir::Expr)>,
}

impl Grouped {
    pub(super) fn of(query: &Query, _semantics: Semantics) -> Option<Self> {
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
