//! What is in a query, by name: to see that random ones have it all.

use query::{Expr, Form, JoinKind, Query, Rows, View};

pub(crate) const ALL: [&str; 30] = [
    "filter",
    "inner",
    "left",
    "right",
    "full",
    "two joins",
    "self-join",
    "group",
    "whole group",
    "count",
    "countDistinct",
    "sum",
    "avg",
    "min",
    "max",
    "collect",
    "having",
    "order",
    "several orders",
    "nocase",
    "window",
    "offset",
    "distinct",
    "sub-query",
    "union",
    "list",
    "text",
    "one",
    "nested include",
    "synced",
];

/// Tells every shape that a query has.
pub(crate) fn of(query: &Query, tell: &mut impl FnMut(&'static str)) {
    let mut tell_if = |shape, holds| {
        if holds {
            tell(shape);
        }
    };
    let select = || query.select.iter().flatten().map(|(_, expr)| expr);
    tell_if("filter", !query.filters.is_empty());
    tell_if("two joins", query.joins.len() == 2);
    tell_if("self-join", query.joins.iter().any(|join| join.source.rows == query.from.rows));
    tell_if("group", !query.group_by.is_empty());
    tell_if("whole group", query.group_by.is_empty() && select().any(Expr::has_aggregate));
    tell_if("having", !query.having.is_empty());
    tell_if("order", !query.order_by.is_empty());
    tell_if("several orders", query.order_by.len() > 1);
    tell_if("nocase", query.order_by.iter().any(|order| order.folds_case));
    tell_if("window", query.limit.is_some());
    tell_if("offset", query.offset > 0);
    tell_if("distinct", query.distinct);
    tell_if("synced", query.view == View::Synced);
    for join in &query.joins {
        tell(match join.kind {
            JoinKind::Inner => "inner",
            JoinKind::Left => "left",
            JoinKind::Right => "right",
            JoinKind::Full => "full",
        });
    }
    select().for_each(|expr| of_selected(expr, tell));
    for source in query.sources() {
        match &source.rows {
            Rows::Collection(_) => {}
            Rows::Query(inner) => {
                tell("sub-query");
                of(inner, tell);
            }
            Rows::Union(branches) => {
                tell("union");
                branches.iter().for_each(|branch| of(branch, tell));
            }
        }
    }
}

fn of_selected(expr: &Expr, tell: &mut impl FnMut(&'static str)) {
    match expr {
        Expr::Aggregate(name, _) => ALL.iter().filter(|own| *own == name).for_each(|own| tell(own)),
        Expr::Include(include) => {
            tell(match include.form {
                Form::List => "list",
                Form::Text => "text",
                Form::One => "one",
            });
            let is_include = |(_, expr): &(_, Expr)| matches!(expr, Expr::Include(_));
            if include.query.select.iter().flatten().any(is_include) {
                tell("nested include");
            }
        }
        _ => {}
    }
}
