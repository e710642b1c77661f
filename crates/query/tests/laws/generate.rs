//! Random rows, steps and queries, all of them well formed.

use query::{Expr, Form, Include, Join, JoinKind, Order, Query, Rows, Source, Value, View};

use crate::{
    choices::Choices,
    model::{COLLECTIONS, Local, Row, Synced},
};

/// The columns rows may have; every row has the first.
const COLUMNS: [&str; 6] = ["id", "a", "b", "s", "ref", "tags"];

/// Columns that few rows have, so that most are learned late.
const LATE: [&str; 4] = ["x", "y", "z", "w"];

/// How many sources a query has, or few more: joins of more take long to work out naively.
const SOURCES: usize = 5;

pub(crate) fn key(c: &mut Choices) -> Value {
    match c.below(7) {
        5 => "one".into(),
        6 => Value::number(1.5),
        number => number.into(),
    }
}

fn column_value(c: &mut Choices, column: &str) -> Value {
    match (column, c.below(10)) {
        (_, 8) => Value::Null,
        (_, 9) => Value::Missing,
        ("id" | "ref", _) => key(c),
        ("a", 6 | 7) => c.pick(&["x", "Y"]).into(),
        ("a", _) => Value::number(c.below(9) as f64 / 2.0 - 1.0),
        ("b", 0..4) => c.chance(1, 2).into(),
        ("b", _) => c.below(3).into(),
        ("tags", _) => Value::list((0..c.below(3)).map(Value::from)),
        _ => c.pick(&["", "a", "A", "b", "Ab", "aB", "é"]).into(),
    }
}

fn columns(c: &mut Choices) -> Row {
    let mut row = Row::new();
    for column in &COLUMNS[1..] {
        let value = column_value(c, column);
        if !matches!(value, Value::Missing) {
            row.insert((*column).into(), value);
        }
    }
    if c.chance(1, 8) {
        row.insert(c.pick(&LATE).into(), c.below(3).into());
    }
    row
}

fn row(c: &mut Choices) -> Row {
    let id = key(c);
    let mut row = columns(c);
    row.insert("id".into(), id);
    row
}

/// Rows to begin with.
pub(crate) fn rows(c: &mut Choices) -> Vec<(usize, Synced)> {
    let count = 6 + c.below(14);
    (0..count).map(|_| (c.below(COLLECTIONS.len()), Synced::Put(row(c)))).collect()
}

/// Synced writes; the few keys make sure that some are written several times.
pub(crate) fn synced(c: &mut Choices, most: usize) -> Vec<(usize, Synced)> {
    let count = 1 + c.below(most);
    let write = |c: &mut Choices| match c.below(24) {
        0..17 => Synced::Put(row(c)),
        17 => Synced::Insert(row(c)),
        23 => Synced::Truncate,
        _ => Synced::Delete(key(c)),
    };
    (0..count).map(|_| (c.below(COLLECTIONS.len()), write(c))).collect()
}

/// Writes of a transaction, some of which may have to be refused.
pub(crate) fn local(c: &mut Choices) -> Vec<(usize, Local)> {
    let count = 1 + c.below(3);
    let write = |c: &mut Choices| match c.below(8) {
        0..3 => Local::Insert(row(c)),
        6 => Local::Delete(key(c)),
        7 => Local::Update(key(c), columns(c)),
        5 if c.chance(1, 4) => Local::Update(key(c), row(c)),
        _ => {
            let column = c.pick(&COLUMNS[1..]);
            let value = column_value(c, column);
            Local::Update(key(c), Row::from([(column.into(), value)]))
        }
    };
    (0..count).map(|_| (c.below(COLLECTIONS.len()), write(c))).collect()
}

/// A source and what may be asked of it.
#[derive(Clone)]
struct Known {
    alias: String,
    columns: Vec<String>,
}

type Sources = [Known];

/// A query of any shape.
pub(crate) fn query(c: &mut Choices) -> Query {
    c.limit_sources(SOURCES);
    let (mut query, _) = shaped(c, 2);
    if c.chance(1, 6) {
        query.view = View::Synced;
    }
    query
}

fn shaped(c: &mut Choices, depth: usize) -> (Query, Vec<String>) {
    let (mut query, sources) = body(c, depth);
    let columns = match c.below(8) {
        0..3 => rows_as_they_are(c, &mut query, &sources),
        3 | 4 => selected(c, &mut query, &sources, depth),
        5 => distinct(c, &mut query, &sources),
        _ => grouped(c, &mut query, &sources),
    };
    window(c, &mut query);
    (query, columns)
}

/// Sources, joins and filters.
fn body(c: &mut Choices, depth: usize) -> (Query, Vec<Known>) {
    let (from, known) = source(c, depth);
    let (mut query, mut sources) = (Query::of(from), vec![known]);
    let joins = [0, 0, 0, 1, 1, 2];
    let joins = c.pick(&joins).min(c.sources_left());
    for _ in 0..joins {
        let (source, known) = source(c, depth);
        let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full];
        let kind = c.pick(&kinds);
        let pairs = 1 + usize::from(c.chance(1, 5));
        let on = (0..pairs).map(|_| {
            let own = joinable(c, std::slice::from_ref(&known));
            let pair = (joinable(c, &sources), own);
            if c.chance(1, 4) { (pair.1, pair.0) } else { pair }
        });
        query.joins.push(Join { kind, source, on: on.collect() });
        sources.push(known);
    }
    let filters = c.pick(&[0, 0, 0, 1, 1, 2]);
    query.filters = (0..filters).map(|_| predicate(c, &sources, 2)).collect();
    (query, sources)
}

fn source(c: &mut Choices, depth: usize) -> (Source, Known) {
    let alias = c.name();
    let kind = if depth == 0 || c.sources_left() == 0 { 0 } else { c.below(8) };
    let (rows, columns) = match kind {
        6 => {
            let (query, columns) = shaped(c, depth - 1);
            let mut query = query;
            query.view = if c.chance(1, 5) { View::Synced } else { View::Visible };
            (Rows::Query(Box::new(query)), columns)
        }
        7 => union(c, depth - 1),
        _ => {
            c.take_source();
            let name = c.pick(&COLLECTIONS);
            (Rows::Collection(name.into()), COLUMNS.map(String::from).into())
        }
    };
    (Source { rows, alias: (&*alias).into() }, Known { alias, columns })
}

/// What can be asked of a union is what its first branch selects.
fn union(c: &mut Choices, depth: usize) -> (Rows, Vec<String>) {
    let count = 1 + c.below(3).min(c.sources_left());
    let mut branches: Vec<_> = (0..count).map(|_| shaped(c, depth)).collect();
    for (query, _) in &mut branches {
        query.view = if c.chance(1, 5) { View::Synced } else { View::Visible };
    }
    let (first, columns) = &branches[0];
    let columns = if first.select.is_some() { columns.clone() } else { vec!["$key".into()] };
    (Rows::Union(branches.into_iter().map(|(query, _)| query).collect()), columns)
}

fn column_of(c: &mut Choices, sources: &Sources) -> Expr {
    let source = c.pick(sources);
    match c.below(12) {
        10 => Expr::path([&*source.alias, "$key"]),
        11 if sources.len() == 1 => Expr::path([c.pick(&source.columns)]),
        _ => Expr::path([&source.alias, &c.pick(&source.columns)]),
    }
}

/// A value to compare with, mostly one that the column may have.
fn constant(c: &mut Choices, like: &Expr) -> Value {
    let column = match like {
        Expr::Ref(path) => COLUMNS.iter().find(|own| path.last().is_some_and(|last| last == *own)),
        _ => None,
    };
    let any = c.pick(&COLUMNS);
    let column = column.copied().filter(|_| !c.chance(1, 6)).unwrap_or(any);
    match column_value(c, column) {
        Value::Missing => Value::Null,
        value => value,
    }
}

/// Something to show or to sort by.
fn scalar(c: &mut Choices, sources: &Sources) -> Expr {
    let column = column_of(c, sources);
    match c.below(14) {
        0..6 => column,
        6 => Expr::call("add", [column, Expr::val(1)]),
        7 => Expr::call("multiply", [column, Expr::val(0.5)]),
        8 => Expr::call("coalesce", [column, column_of(c, sources), Expr::val("none")]),
        9 => Expr::call("upper", [column]),
        10 => Expr::call("length", [column]),
        11 => Expr::call("concat", [column, Expr::val("-"), column_of(c, sources)]),
        12 => Expr::path([&*c.pick(sources).alias, "$synced"]),
        _ => {
            let constant = Expr::Val(constant(c, &column));
            Expr::call("caseWhen", [predicate(c, sources, 0), column, constant])
        }
    }
}

fn predicate(c: &mut Choices, sources: &Sources, depth: usize) -> Expr {
    let kinds = if depth == 0 { 9 } else { 12 };
    let column = column_of(c, sources);
    match c.below(kinds) {
        0 => Expr::call("not", [Expr::call("isNull", [column])]),
        1 | 2 => {
            let constant = Expr::Val(constant(c, &column));
            Expr::call(c.pick(&["ne", "ne", "eq"]), [column, constant])
        }
        3 => {
            let constant = Expr::Val(constant(c, &column));
            Expr::call(c.pick(&["gt", "gte", "lt", "lte"]), [column, constant])
        }
        4 => Expr::call(c.pick(&["lte", "eq", "ne"]), [column, column_of(c, sources)]),
        5 => {
            let list: Vec<_> = (0..c.below(6)).map(|_| constant(c, &column)).collect();
            Expr::call("in", [column, Expr::Val(Value::list(list))])
        }
        6 => Expr::call(c.pick(&["isNull", "isUndefined"]), [column]),
        7 => {
            let name = c.pick(&["like", "contains", "startsWith"]);
            Expr::call(name, [column, Expr::val(c.pick(&["", "%", "a%", "_B", "a"]))])
        }
        8 => {
            let synced = Expr::path([&*c.pick(sources).alias, "$synced"]);
            if c.chance(1, 4) { column } else { synced }
        }
        9 => Expr::call("not", [predicate(c, sources, depth - 1)]),
        _ => {
            let count = c.below(4);
            let args: Vec<_> = (0..count).map(|_| predicate(c, sources, depth - 1)).collect();
            Expr::call(c.pick(&["or", "or", "and"]), args)
        }
    }
}

fn rows_as_they_are(c: &mut Choices, query: &mut Query, sources: &Sources) -> Vec<String> {
    orders(c, query, |c| scalar(c, sources));
    match sources {
        [only] => only.columns.clone(),
        _ => sources.iter().map(|source| source.alias.clone()).collect(),
    }
}

fn selected(c: &mut Choices, query: &mut Query, sources: &Sources, depth: usize) -> Vec<String> {
    let mut select: Vec<_> = (0..1 + c.below(3)).map(|_| (c.name(), scalar(c, sources))).collect();
    let shown: Vec<_> = select.iter().map(|(name, _)| name.clone()).collect();
    orders(c, query, |c| match c.below(3) {
        2 => Expr::path(["$selected", &c.pick(&shown)]),
        _ => scalar(c, sources),
    });
    let includes = c.pick(&[0, 1, 1, 2]).min(c.sources_left());
    for _ in 0..includes {
        let at = c.below(select.len() + 1);
        select.insert(at, (c.name(), include(c, sources, depth)));
    }
    let names = select.iter().map(|(name, _)| name.clone()).collect();
    query.select = Some(named(select));
    names
}

fn named(select: Vec<(String, Expr)>) -> Vec<(smol_str::SmolStr, Expr)> {
    select.into_iter().map(|(name, expr)| (name.into(), expr)).collect()
}

/// Rows nested in rows; nested twice at most.
fn include(c: &mut Choices, outer: &Sources, depth: usize) -> Expr {
    let (mut query, sources) = body(c, depth.min(1));
    let form = c.pick(&[Form::List, Form::Text, Form::One]);
    let tie = [joinable(c, &sources), joinable(c, outer)];
    let tie = if c.chance(1, 3) { [tie[1].clone(), tie[0].clone()] } else { tie };
    let at = c.below(query.filters.len() + 1);
    query.filters.insert(at, Expr::call("eq", tie));
    if form == Form::Text {
        query.select = Some(named(vec![("text".into(), scalar(c, &sources))]));
        orders(c, &mut query, |c| scalar(c, &sources));
    } else if c.chance(1, 2) {
        let depth = depth.saturating_sub(1);
        if depth > 0 {
            selected(c, &mut query, &sources, depth);
        } else {
            query.select = Some(named(vec![(c.name(), scalar(c, &sources))]));
        }
    } else {
        orders(c, &mut query, |c| scalar(c, &sources));
    }
    window(c, &mut query);
    query.view = if c.chance(1, 8) { View::Synced } else { View::Visible };
    Expr::Include(Box::new(Include { query, form }))
}

/// A column to join by, mostly one that others have the values of.
fn joinable(c: &mut Choices, sources: &Sources) -> Expr {
    let source = c.pick(sources);
    let is_key = |column: &&String| ["id", "ref", "$key"].contains(&column.as_str());
    let keys: Vec<_> = source.columns.iter().filter(is_key).cloned().collect();
    let columns = if keys.is_empty() || c.chance(1, 4) { &source.columns } else { &keys };
    Expr::path([&source.alias, &c.pick(columns)])
}

fn distinct(c: &mut Choices, query: &mut Query, sources: &Sources) -> Vec<String> {
    let select: Vec<_> = (0..1 + c.below(2)).map(|_| (c.name(), scalar(c, sources))).collect();
    let names: Vec<_> = select.iter().map(|(name, _)| name.clone()).collect();
    query.distinct = true;
    orders(c, query, |c| {
        let (name, expr) = c.pick(&select);
        if c.chance(1, 2) { expr } else { Expr::path(["$selected", &name]) }
    });
    query.select = Some(named(select));
    names
}

fn aggregate(c: &mut Choices, sources: &Sources) -> Expr {
    let names = ["count", "countDistinct", "sum", "avg", "min", "max", "collect"];
    match c.below(8) {
        7 => Expr::aggregate("count", []),
        index => Expr::aggregate(names[index], [scalar(c, sources)]),
    }
}

fn grouped(c: &mut Choices, query: &mut Query, sources: &Sources) -> Vec<String> {
    let by = c.pick(&[1, 1, 1, 2, 0]);
    query.group_by = (0..by).map(|_| scalar(c, sources)).collect();
    let mut select = Vec::new();
    for by in &query.group_by {
        select.push((c.name(), by.clone()));
    }
    for _ in 0..1 + c.below(2) {
        select.push((c.name(), aggregate(c, sources)));
    }
    let shown = select.clone();
    let column = |c: &mut Choices| match c.below(4) {
        0 => aggregate(c, sources),
        1 => c.pick(&shown).1,
        _ => Expr::path(["$selected", &c.pick(&shown).0]),
    };
    if c.chance(1, 3) {
        let kinds = c.below(3);
        let least = Expr::aggregate("count", [Expr::val(true)]);
        query.having.push(match kinds {
            0 => Expr::call("gt", [least, Expr::val(1)]),
            1 => Expr::call("not", [Expr::call("isNull", [column(c)])]),
            _ => Expr::call("lte", [column(c), Expr::val(c.below(4))]),
        });
    }
    orders(c, query, column);
    if c.chance(1, 5) {
        query.distinct = true;
        query.order_by.clear();
    }
    let names = select.iter().map(|(name, _)| name.clone()).collect();
    query.select = Some(named(select));
    names
}

fn orders(c: &mut Choices, query: &mut Query, mut expr: impl FnMut(&mut Choices) -> Expr) {
    query.order_by = (0..c.pick(&[0, 1, 1, 2, 3]))
        .map(|_| Order {
            expr: expr(c),
            is_descending: c.chance(1, 2),
            is_nulls_last: c.chance(1, 2),
            folds_case: c.chance(1, 3),
        })
        .collect();
}

fn window(c: &mut Choices, query: &mut Query) {
    if query.order_by.is_empty() || c.chance(1, 2) {
        return;
    }
    query.limit = c.chance(4, 5).then(|| c.pick(&[2, 1, 3, 4, 6, 0]));
    query.offset = c.pick(&[0, 0, 0, 1, 2, 4]);
}
