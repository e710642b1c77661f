//! Expressions turned into others that mean the same elsewhere.

use smol_str::SmolStr;

use super::{ROW, SELECTED};
use crate::{
    Semantics,
    catalog::Kind,
    error::QueryError,
    expr::{Expr, Function, result_kind},
    ir::{self, Query},
    value::Value,
};

/// What must all hold for this to hold.
pub(super) fn conjuncts(filter: Expr, semantics: Semantics) -> Vec<Expr> {
    match filter {
        // There, a value that is neither true nor false passes within `and`, and not alone.
        Expr::Call { function: Function::And, args, .. }
            if semantics == Semantics::Sql || args.iter().all(is_truth) =>
        {
            args.into_vec().into_iter().flat_map(|arg| conjuncts(arg, semantics)).collect()
        }
        filter => vec![filter],
    }
}

/// Whether it is true, false or unknown, and nothing else.
fn is_truth(expr: &Expr) -> bool {
    match expr {
        Expr::Const(value) => matches!(value, Value::Bool(_) | Value::Null),
        Expr::Call { function, .. } => result_kind(*function) == Kind::Bool,
        Expr::Column { .. } | Expr::Virtual { .. } | Expr::Row { .. } => false,
    }
}

pub(super) fn all_of(mut filters: Vec<Expr>, semantics: Semantics) -> Option<Expr> {
    match filters.len() {
        0 => None,
        1 => filters.pop(),
        _ => Some(Expr::Call { function: Function::And, args: filters.into(), semantics }),
    }
}

/// There, groups pass if JavaScript takes the result for true.
pub(super) fn truth(having: &ir::Expr, semantics: Semantics) -> ir::Expr {
    match semantics {
        Semantics::Sql => having.clone(),
        Semantics::Tanstack => ir::Expr::call("not", [ir::Expr::call("not", [having.clone()])]),
    }
}

/// The orders of a query, with what is selected in place of its name.
pub(super) fn substituted(query: &Query) -> Vec<ir::Order> {
    let select = query.select.as_deref().unwrap_or_default();
    let put =
        |order: &ir::Order| ir::Order { expr: selected(&order.expr, select), ..order.clone() };
    query.order_by.iter().map(put).collect()
}

/// `$selected.name` is what is selected under that name.
pub(super) fn selected(expr: &ir::Expr, select: &[(SmolStr, ir::Expr)]) -> ir::Expr {
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

pub(super) fn path_selected<'a>(
    path: &'a [SmolStr],
    select: &'a [(SmolStr, ir::Expr)],
) -> Option<(&'a ir::Expr, &'a [SmolStr])> {
    let [first, name, rest @ ..] = path else { return None };
    let (_, expr) = select.iter().find(|(own, _)| own == name)?;
    (first == SELECTED).then_some((expr, rest))
}

/// An expression over distinct rows, which have nothing but what is selected.
pub(super) fn shown_only(
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

pub(super) fn flatten(filter: &ir::Expr, found: &mut Vec<ir::Expr>) {
    match filter {
        ir::Expr::Call(name, args) if name == "and" => {
            args.iter().for_each(|arg| flatten(arg, found));
        }
        _ => found.push(filter.clone()),
    }
}

pub(super) fn has_reference(expr: &ir::Expr) -> bool {
    matches!(expr, ir::Expr::Ref(_)) || expr.children().iter().any(has_reference)
}

/// Whether every reference begins with one of these.
pub(super) fn names_only(expr: &ir::Expr, is_own: &impl Fn(&SmolStr) -> bool) -> bool {
    match expr {
        ir::Expr::Ref(path) => path.first().is_some_and(is_own),
        _ => expr.children().iter().all(|child| names_only(child, is_own)),
    }
}
