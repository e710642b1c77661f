//! What a filter says of single columns: which values they must have, or between which they lie.

use std::ops::Bound;

use super::{
    Lookup,
    feed::{Kindred, Probe, Span, end},
};
use crate::{
    Semantics,
    expr::{Expr, Function, Virtual},
    value::Value,
};

/// Rows that can pass a filter: each of these finds them all.
#[derive(Debug, Default)]
pub(super) struct Narrowed {
    pub(super) lookups: Vec<Lookup>,
    pub(super) spans: Vec<Span>,
    /// Whether the lookups say all that the filter says.
    pub(super) is_exact: bool,
}

/// What a filter says of the columns of rows whose key is the column of this number.
pub(super) fn narrow(filter: &Expr, key: Option<usize>) -> Narrowed {
    let mut found = Narrowed::default();
    found.is_exact = found.take(filter, key);
    found
}

/// What of a row an expression is, if it can be looked up.
pub(super) fn probe(expr: &Expr, key: Option<usize>) -> Option<Probe> {
    match expr {
        Expr::Column { column, path, .. } if path.is_empty() => Some(match key {
            Some(key) if key == *column => Probe::Key,
            _ => Probe::Column(*column),
        }),
        Expr::Virtual { what, .. } => Some(match what {
            Virtual::Key => Probe::Key,
            Virtual::Synced => Probe::Synced,
            Virtual::Origin => Probe::Origin,
            Virtual::Position => Probe::Position,
        }),
        _ => None,
    }
}

impl Narrowed {
    /// Takes in a filter; true if the lookups say all of it.
    fn take(&mut self, filter: &Expr, key: Option<usize>) -> bool {
        let (function, args, semantics) = match filter {
            Expr::Call { function, args, semantics } => (function, &**args, *semantics),
            Expr::Const(Value::Bool(true)) => return true,
            Expr::Const(Value::Bool(false) | Value::Null) => {
                // No row has none of all keys.
                self.lookups.push(Lookup { column: Probe::Key, values: Box::default() });
                return true;
            }
            _ => return false,
        };
        match (function, args) {
            (Function::And, args) => {
                let is_exact = |is_exact, arg| self.take(arg, key) && is_exact;
                args.iter().fold(true, is_exact)
            }
            (Function::Eq, [own, Expr::Const(value)] | [Expr::Const(value), own]) => {
                let lookup = lookup(own, key, [value]);
                // JavaScript has an equality of its own.
                let is_exact = lookup.is_some() && semantics == Semantics::Sql;
                self.lookups.extend(lookup);
                is_exact
            }
            (Function::In, [own, Expr::Const(Value::List(list))]) => {
                self.lookups.extend(lookup(own, key, list.iter()));
                false
            }
            // JavaScript has an order of its own, too.
            (function, [a, b]) if semantics == Semantics::Sql => {
                self.spans(*function, a, b, key);
                false
            }
            _ => false,
        }
    }

    fn spans(&mut self, function: Function, a: &Expr, b: &Expr, key: Option<usize>) {
        let (own, value, function) = match (a, b) {
            (own, Expr::Const(value)) => (own, value, function),
            (Expr::Const(value), own) => match mirrored(function) {
                Some(function) => (own, value, function),
                None => return,
            },
            _ => return,
        };
        let (Some(column), Some(_)) = (probe(own, key), Kindred::of(value)) else { return };
        let Some((from, to)) = ends(function, value) else { return };
        let is_same = |span: &&mut Span| {
            let kind = |value: Option<&Value>| value.map(Value::kind);
            span.column == column && kind(end(&span.from).or(end(&span.to))) == Some(value.kind())
        };
        match self.spans.iter_mut().find(is_same) {
            Some(span) => {
                span.from = later(span.from.clone(), from);
                span.to = earlier(span.to.clone(), to);
            }
            None => self.spans.push(Span { column, from, to }),
        }
    }
}

/// The function with its arguments the other way round.
fn mirrored(function: Function) -> Option<Function> {
    Some(match function {
        Function::Gt => Function::Lt,
        Function::Gte => Function::Lte,
        Function::Lt => Function::Gt,
        Function::Lte => Function::Gte,
        _ => return None,
    })
}

/// Where values for which this holds lie.
fn ends(function: Function, value: &Value) -> Option<(Bound<Value>, Bound<Value>)> {
    use Bound::{Excluded, Included, Unbounded};
    let own = || value.clone();
    Some(match function {
        Function::Gt => (Excluded(own()), Unbounded),
        Function::Gte => (Included(own()), Unbounded),
        Function::Lt => (Unbounded, Excluded(own())),
        Function::Lte => (Unbounded, Included(own())),
        Function::Like => {
            let pattern = value.as_text()?;
            let prefix = pattern.split(['%', '_']).next().unwrap_or_default();
            if prefix.len() == pattern.len() {
                return Some((Included(own()), Included(own())));
            }
            beginning_with(prefix)?
        }
        Function::StartsWith => beginning_with(&value.as_text()?)?,
        _ => return None,
    })
}

/// All texts that begin so; nothing if all do.
fn beginning_with(prefix: &str) -> Option<(Bound<Value>, Bound<Value>)> {
    let mut next = Some(prefix).filter(|prefix| !prefix.is_empty())?.to_owned();
    while let Some(last) = next.pop() {
        // The next character, if there is one; surrogates are none.
        let after = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(after) = after {
            next.push(after);
            let to = Bound::Excluded(Value::from(next));
            return Some((Bound::Included(Value::from(prefix)), to));
        }
    }
    Some((Bound::Included(Value::from(prefix)), Bound::Unbounded))
}

fn later(a: Bound<Value>, b: Bound<Value>) -> Bound<Value> {
    let rank = |bound: &Bound<Value>| (end(bound).cloned(), matches!(bound, Bound::Excluded(_)));
    if rank(&a) >= rank(&b) { a } else { b }
}

fn earlier(a: Bound<Value>, b: Bound<Value>) -> Bound<Value> {
    let rank = |bound: &Bound<Value>| (end(bound).cloned(), matches!(bound, Bound::Included(_)));
    match (&a, &b) {
        (Bound::Unbounded, _) => b,
        (_, Bound::Unbounded) => a,
        _ if rank(&a) <= rank(&b) => a,
        _ => b,
    }
}

fn lookup<'a>(
    own: &Expr,
    key: Option<usize>,
    values: impl IntoIterator<Item = &'a Value>,
) -> Option<Lookup> {
    let column = probe(own, key)?;
    // Nothing equals nothing.
    let mut values: Vec<_> =
        values.into_iter().filter(|value| !value.is_nothing()).cloned().collect();
    // Lists and objects are not worth an index, and a lookup must find all rows that can pass.
    if values.iter().any(|value| matches!(value, Value::List(_) | Value::Object(_))) {
        return None;
    }
    values.sort_unstable();
    values.dedup();
    Some(Lookup { column, values: values.into() })
}
