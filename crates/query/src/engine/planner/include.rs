//! Includes: queries nested in the rows of others.

use smol_str::SmolStr;

use super::{
    Planner, check,
    grouped::Grouped,
    narrowed,
    rewrite::{flatten, names_only, substituted},
};
use crate::{
    Semantics,
    caps::DEPTH_MAX,
    engine::{
        include::{Include, Parts},
        nest::Nest,
        plan::Order,
        window::Sorting,
    },
    error::QueryError,
    expr::Scope,
    ir::{self, Form, Query, View},
};

impl Planner {
    pub(super) fn include(
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
        if let Some(clause) = misplaced_clause(query, self.semantics) {
            return Err(QueryError::GroupedInclude { name: name.clone(), clause });
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
}

/// What would make other rows of those that are tied to the outer ones.
fn misplaced_clause(query: &Query, semantics: Semantics) -> Option<&'static str> {
    let clauses = [
        (query.distinct, "distinct"),
        (Grouped::of(query, semantics).is_some(), "groups and aggregates"),
        (!query.having.is_empty(), "having"),
    ];
    clauses.into_iter().find_map(|(is_there, clause)| is_there.then_some(clause))
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
