//! What a query may see of each collection, for sources that bring only what is asked for.

use smol_str::SmolStr;

use super::{Expr, JoinKind, Order, Query, Rows, Source, may_be_missing};
use crate::definition::Definitions;

/// Some of the rows of a collection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Subset {
    /// What holds for them all; references begin with a column. Without it, all rows.
    pub filters: Vec<Expr>,
    /// The order in which they are counted.
    pub order_by: Vec<Order>,
    /// How many there are at most.
    pub limit: Option<usize>,
}

impl Subset {
    /// All rows there are.
    #[must_use]
    pub fn everything() -> Self {
        Self { filters: Vec::new(), order_by: Vec::new(), limit: None }
    }

    /// The query of these rows of a collection.
    #[must_use]
    pub fn query(&self, collection: &str) -> Query {
        let (rows, alias) = (Rows::Collection(collection.into()), SmolStr::new(collection));
        let own = |expr: &Expr| renamed(expr, &|path| prefixed(&alias, path));
        let filters = self.filters.iter().map(own).collect();
        let order = |order: &Order| Order { expr: own(&order.expr), ..order.clone() };
        let order_by = self.order_by.iter().map(order).collect();
        let from = Source { rows, alias: alias.clone() };
        Query { filters, order_by, limit: self.limit, ..Query::of(from) }
    }
}

/// The rows that an answer may depend on, collection by collection.
pub(crate) fn subsets(query: &Query, definitions: &Definitions) -> Vec<(SmolStr, Subset)> {
    let mut found = Vec::new();
    collect(query, definitions, &mut found);
    found
}

fn collect(query: &Query, definitions: &Definitions, found: &mut Vec<(SmolStr, Subset)>) {
    for (slot, source) in query.sources().enumerate() {
        match &source.rows {
            Rows::Collection(name) => match definitions.get(name) {
                Some(defined) => collect(defined, definitions, found),
                None => {
                    let subset = subset(query, slot, source);
                    if !found.iter().any(|(own, other)| own == name && *other == subset) {
                        found.push((name.clone(), subset));
                    }
                }
            },
            Rows::Query(inner) => collect(inner, definitions, found),
            Rows::Union(all) => all.iter().for_each(|inner| collect(inner, definitions, found)),
        }
    }
    for (_, expr) in query.select.iter().flatten() {
        included(expr, definitions, found);
    }
}

fn included(expr: &Expr, definitions: &Definitions, found: &mut Vec<(SmolStr, Subset)>) {
    if let Expr::Include(include) = expr {
        // Its window counts per outer row.
        let whole = Query { limit: None, offset: 0, ..include.query.clone() };
        collect(&whole, definitions, found);
    }
    expr.children().iter().for_each(|child| included(child, definitions, found));
}

fn subset(query: &Query, slot: usize, source: &Source) -> Subset {
    let is_alone = query.joins.is_empty();
    let kinds: Vec<JoinKind> = query.joins.iter().map(|join| join.kind).collect();
    let mut all = Vec::new();
    query.filters.iter().for_each(|filter| flatten(filter, &mut all));
    let count = all.len();
    // A row that takes the place of a missing one would pass filters that the real one does not.
    let may_filter = !may_be_missing(slot, &kinds);
    let own = |expr: &Expr| own_columns(expr, &source.alias, is_alone);
    let filters: Vec<_> = all.into_iter().filter_map(own).filter(|_| may_filter).collect();
    let is_plain = is_alone && query.group_by.is_empty() && !query.distinct && !aggregates(query);
    let order_by: Vec<_> = query
        .order_by
        .iter()
        .filter_map(|order| Some(Order { expr: own(&order.expr)?, ..order.clone() }))
        .collect();
    let has_window = is_plain && filters.len() == count && order_by.len() == query.order_by.len();
    match query.limit.filter(|_| has_window && !order_by.is_empty()) {
        Some(limit) => {
            let limit = Some(limit.saturating_add(query.offset));
            Subset { filters, order_by, limit }
        }
        None => Subset { filters, order_by: Vec::new(), limit: None },
    }
}

fn aggregates(query: &Query) -> bool {
    query.select.iter().flatten().any(|(_, expr)| expr.has_aggregate())
}

fn flatten<'a>(filter: &'a Expr, found: &mut Vec<&'a Expr>) {
    match filter {
        Expr::Call(name, args) if name == "and" => {
            args.iter().for_each(|arg| flatten(arg, found));
        }
        _ => found.push(filter),
    }
}

/// The expression without the alias, if it speaks of columns of this source alone.
fn own_columns(expr: &Expr, alias: &SmolStr, is_alone: bool) -> Option<Expr> {
    let own = |path: &[SmolStr]| {
        let path = match path {
            [first, rest @ ..] if first == alias && !rest.is_empty() => rest,
            path if is_alone => path,
            _ => return None,
        };
        let is_column = path.first().is_some_and(|column| !column.starts_with('$'));
        is_column.then(|| path.to_vec())
    };
    try_renamed(expr, &own)
}

fn prefixed(alias: &SmolStr, path: &[SmolStr]) -> Vec<SmolStr> {
    std::iter::once(alias.clone()).chain(path.iter().cloned()).collect()
}

fn renamed(expr: &Expr, rename: &impl Fn(&[SmolStr]) -> Vec<SmolStr>) -> Expr {
    try_renamed(expr, &|path| Some(rename(path))).unwrap_or_else(|| expr.clone())
}

fn try_renamed(expr: &Expr, rename: &impl Fn(&[SmolStr]) -> Option<Vec<SmolStr>>) -> Option<Expr> {
    match expr {
        Expr::Ref(path) => rename(path).map(Expr::Ref),
        Expr::Val(value) => Some(Expr::Val(value.clone())),
        Expr::Call(name, args) => {
            let args = args.iter().map(|arg| try_renamed(arg, rename));
            Some(Expr::Call(name.clone(), args.collect::<Option<_>>()?))
        }
        Expr::Aggregate(..) | Expr::Include(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subsets(json: &str) -> Vec<(String, String)> {
        let query = Query::from_json(json).unwrap();
        let text = |(name, subset): (SmolStr, Subset)| {
            let json = subset.query(&name).to_json();
            (name.to_string(), json)
        };
        super::subsets(&query, &Definitions::new()).into_iter().map(text).collect()
    }

    fn same(json: &str) -> String {
        Query::from_json(json).unwrap().to_json()
    }

    #[test]
    fn a_window_over_one_collection_is_its_subset() {
        let window = r#"{"from":{"col":"m","as":"x"},
            "where":[{"fn":"eq","args":[{"ref":["x","room"]},{"val":"r"}]}],
            "orderBy":[{"expr":{"ref":["x","at"]},"dir":"desc"}],"limit":10,"offset":5}"#;
        let expected = r#"{"from":{"col":"m","as":"m"},
            "where":[{"fn":"eq","args":[{"ref":["m","room"]},{"val":"r"}]}],
            "orderBy":[{"expr":{"ref":["m","at"]},"dir":"desc"}],"limit":15}"#;
        assert_eq!(subsets(window), [("m".to_owned(), same(expected))]);
    }

    #[test]
    fn filters_go_to_the_side_of_a_join_that_they_speak_of() {
        let joined = |kind: &str| {
            format!(
                r#"{{"from":{{"col":"a","as":"a"}},
                "join":[{{"type":"{kind}","col":"b","as":"b",
                    "on":[[{{"ref":["a","id"]}},{{"ref":["b","a"]}}]]}}],
                "where":[{{"fn":"and","args":[
                    {{"fn":"gt","args":[{{"ref":["a","n"]}},{{"val":1}}]}},
                    {{"fn":"eq","args":[{{"ref":["b","k"]}},{{"val":2}}]}}]}}]}}"#
            )
        };
        let (a, b) = (
            r#"{"from":{"col":"a","as":"a"},
                "where":[{"fn":"gt","args":[{"ref":["a","n"]},{"val":1}]}]}"#,
            r#"{"from":{"col":"b","as":"b"},
                "where":[{"fn":"eq","args":[{"ref":["b","k"]},{"val":2}]}]}"#,
        );
        let all_of_b = r#"{"from":{"col":"b","as":"b"}}"#;
        let named = |a, b| vec![("a".to_owned(), same(a)), ("b".to_owned(), same(b))];
        assert_eq!(subsets(&joined("inner")), named(a, b));
        assert_eq!(subsets(&joined("left")), named(a, all_of_b));
    }

    #[test]
    fn what_a_source_cannot_know_is_not_asked_of_it() {
        let pending = r#"{"from":{"col":"m","as":"m"},
            "where":[{"fn":"eq","args":[{"ref":["m","$synced"]},{"val":false}]}],
            "orderBy":[{"expr":{"ref":["m","at"]}}],"limit":10}"#;
        let all = same(r#"{"from":{"col":"m","as":"m"}}"#);
        assert_eq!(subsets(pending), [("m".to_owned(), all)]);
    }
}
