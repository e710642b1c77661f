//! An evaluator of queries that reads everything every time: nested loops and sorts.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use query::{Expr, Form, Include, Join, JoinKind, Order, Query, Rows, Source, Value, View};

use crate::{
    model::{COLLECTIONS, Fact, Model, Row},
    values,
};

/// The rows of a query, in order.
pub(crate) fn answer(query: &Query, model: &Model) -> Vec<Fact> {
    rows(query, model, query.view, None).into_iter().map(|row| row.fact).collect()
}

/// A row on its way: a fact for each source, or none.
#[derive(Clone)]
struct Item {
    key: Value,
    facts: Vec<Option<Rc<Fact>>>,
}

/// What a query is evaluated in.
#[derive(Clone, Copy)]
struct Context<'a> {
    query: &'a Query,
    model: &'a Model,
    view: View,
    outer: Option<&'a Scope<'a>>,
}

/// What names mean for a row.
struct Scope<'a> {
    context: Context<'a>,
    item: &'a Item,
}

impl<'a> Context<'a> {
    fn eval(self, item: &'a Item, expr: &Expr) -> Value {
        Scope { context: self, item }.eval(expr)
    }
}

/// A row of the answer and what it is sorted by.
struct Sorted {
    fact: Fact,
    by: Vec<Value>,
}

fn rows(query: &Query, model: &Model, view: View, outer: Option<&Scope<'_>>) -> Vec<Sorted> {
    let context = Context { query, model, view, outer };
    let mut items = source_items(&query.from, model, view);
    for (index, join) in query.joins.iter().enumerate() {
        items = joined(&items, join, index + 1, context);
    }
    items.retain(|item| {
        query.filters.iter().all(|filter| values::is_true(&context.eval(item, filter)))
    });
    let has_aggregates = query.select.iter().flatten().any(|(_, expr)| expr.has_aggregate());
    let mut rows: Vec<_> = if query.group_by.is_empty() && !has_aggregates {
        items.iter().map(|item| Scope { context, item }.shown()).collect()
    } else {
        grouped(context, &items)
    };
    if query.distinct {
        rows = distinct(rows);
    }
    rows.sort_by(|a, b| {
        let by = query.order_by.iter().zip(a.by.iter().zip(&b.by));
        let first = by.map(|(order, (a, b))| compare(order, a, b)).find(|order| order.is_ne());
        first.unwrap_or_else(|| a.fact.key.cmp(&b.fact.key))
    });
    rows.into_iter().skip(query.offset).take(query.limit.unwrap_or(usize::MAX)).collect()
}

fn source_items(source: &Source, model: &Model, view: View) -> Vec<Item> {
    let item = |fact: Rc<Fact>| Item { key: fact.key.clone(), facts: vec![Some(fact)] };
    let narrowed = |query: &Query| if query.view == View::Synced { View::Synced } else { view };
    let of_query =
        |query: &Query| rows(query, model, narrowed(query), None).into_iter().map(|row| row.fact);
    match &source.rows {
        Rows::Collection(name) => {
            let index = COLLECTIONS.iter().position(|own| own == name).unwrap();
            model.rows(index, view).into_iter().map(item).collect()
        }
        Rows::Query(query) => of_query(query).map(|fact| item(Rc::new(fact))).collect(),
        Rows::Union(queries) => {
            let branches = queries.iter().enumerate().flat_map(|(index, query)| {
                of_query(query).map(move |fact| {
                    let key = Value::list([index.into(), fact.key.clone()]);
                    Rc::new(Fact { key, ..fact })
                })
            });
            branches.map(item).collect()
        }
    }
}

fn joined(left: &[Item], join: &Join, width: usize, context: Context<'_>) -> Vec<Item> {
    let right = source_items(&join.source, context.model, context.view);
    let mut out = Vec::new();
    let mut is_met = vec![false; right.len()];
    for own in left {
        let mut is_alone = true;
        for (index, other) in right.iter().enumerate() {
            let facts = own.facts.iter().chain(&other.facts).cloned().collect();
            let pair = Item { key: Value::list([own.key.clone(), other.key.clone()]), facts };
            if join.on.iter().all(|(a, b)| holds_equal(&pair, a, b, context)) {
                out.push(pair);
                (is_alone, is_met[index]) = (false, true);
            }
        }
        if is_alone && matches!(join.kind, JoinKind::Left | JoinKind::Full) {
            let facts = own.facts.iter().cloned().chain([None]).collect();
            out.push(Item { key: Value::list([own.key.clone(), Value::Missing]), facts });
        }
    }
    if matches!(join.kind, JoinKind::Right | JoinKind::Full) {
        for (other, _) in right.iter().zip(&is_met).filter(|(_, is_met)| !**is_met) {
            let facts = std::iter::repeat_n(None, width).chain(other.facts.iter().cloned());
            let facts = facts.collect();
            out.push(Item { key: Value::list([Value::Missing, other.key.clone()]), facts });
        }
    }
    out
}

fn holds_equal(pair: &Item, a: &Expr, b: &Expr, context: Context<'_>) -> bool {
    values::is_true(&values::equal(&context.eval(pair, a), &context.eval(pair, b)))
}

impl Scope<'_> {
    fn eval(&self, expr: &Expr) -> Value {
        match expr {
            Expr::Val(value) => value.clone(),
            Expr::Ref(path) => self.reference(path),
            Expr::Call(name, args) => {
                values::call(name, &args.iter().map(|arg| self.eval(arg)).collect::<Vec<_>>())
            }
            Expr::Include(include) => self.include(include),
            Expr::Aggregate(..) => panic!("an aggregate without a group"),
        }
    }

    fn reference(&self, path: &[smol_str::SmolStr]) -> Value {
        if path[0] == "$selected" {
            let select = self.context.query.select.as_deref().unwrap();
            let (_, expr) = select.iter().find(|(name, _)| *name == path[1]).unwrap();
            return self.eval(expr);
        }
        let (slot, rest) = match (self.slot(&path[0]), self.context.outer) {
            (Some(slot), _) => (slot, &path[1..]),
            (None, Some(outer)) if outer.knows(&path[0]) => return outer.reference(path),
            // A column of the only source.
            (None, _) => (0, path),
        };
        // Joins are evaluated when not all sources are there yet.
        let Some(Some(fact)) = self.item.facts.get(slot) else { return Value::Missing };
        match rest {
            [] => object(&fact.row),
            [column] if column == "$key" => fact.key.clone(),
            [column] if column == "$synced" => (!fact.is_pending).into(),
            // Rows of a collection are this client's own as long as something pending lies on them.
            [column] if column == "$origin" => {
                if fact.is_pending { "local" } else { "remote" }.into()
            }
            [column] if column == "$collection" => {
                match &self.context.query.sources().nth(slot).unwrap().rows {
                    Rows::Collection(name) => name.as_str().into(),
                    _ => panic!("only rows of a collection are of one"),
                }
            }
            [column] => fact.row.get(column.as_str()).cloned().unwrap_or_default(),
            _ => panic!("the evaluator does not go into {path:?}"),
        }
    }

    fn slot(&self, alias: &str) -> Option<usize> {
        self.context.query.sources().position(|source| source.alias == alias)
    }

    fn knows(&self, alias: &str) -> bool {
        self.slot(alias).is_some() || self.context.outer.is_some_and(|outer| outer.knows(alias))
    }

    fn include(&self, include: &Include) -> Value {
        let view =
            if include.query.view == View::Synced { View::Synced } else { self.context.view };
        let rows = rows(&include.query, self.context.model, view, Some(self));
        let mut rows = rows.iter().map(|row| &row.fact.row);
        match include.form {
            Form::List => Value::list(rows.map(object)),
            Form::One => rows.next().map_or(Value::Null, object),
            Form::Text => {
                let name = &include.query.select.as_ref().unwrap()[0].0;
                let column = |row: &Row| row.get(name.as_str()).map_or("".into(), values::text);
                rows.map(column).collect::<String>().into()
            }
        }
    }

    /// The row as it is shown.
    fn shown(&self) -> Sorted {
        let sources: Vec<_> =
            self.context.query.sources().map(|source| source.alias.as_str()).collect();
        let facts = || self.item.facts.iter().flatten();
        let row = match (&self.context.query.select, &sources[..]) {
            (Some(select), _) => {
                let fields = select.iter().map(|(name, expr)| (name.to_string(), self.eval(expr)));
                present(fields)
            }
            (None, [_]) => facts().next().unwrap().row.clone(),
            (None, sources) => {
                let object = |fact: &Option<Rc<Fact>>| {
                    fact.as_ref().map_or(Value::Missing, |fact| object(&fact.row))
                };
                let names = sources.iter().map(ToString::to_string);
                present(names.zip(self.item.facts.iter().map(object)))
            }
        };
        let is_pending = facts().any(|fact| fact.is_pending);
        let fact = Fact { key: self.item.key.clone(), row, is_pending };
        let by = self.context.query.order_by.iter().map(|order| self.eval(&order.expr)).collect();
        Sorted { fact, by }
    }
}

fn present(fields: impl Iterator<Item = (String, Value)>) -> Row {
    fields.filter(|(_, value)| !matches!(value, Value::Missing)).collect()
}

fn object(row: &Row) -> Value {
    Value::object(row.iter().map(|(name, value)| (name, value.clone())))
}

fn grouped(context: Context<'_>, items: &[Item]) -> Vec<Sorted> {
    let query = context.query;
    let mut groups: BTreeMap<Vec<Value>, Vec<&Item>> = BTreeMap::new();
    if query.group_by.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for item in items {
        let by = query.group_by.iter().map(|by| match context.eval(item, by) {
            Value::Missing => Value::Null,
            value => value,
        });
        groups.entry(by.collect()).or_default().push(item);
    }
    let mut rows = Vec::new();
    for (by, mut members) in groups {
        members.sort_by(|a, b| a.key.cmp(&b.key));
        let group = Group { context, by: &by, members: &members };
        if !query.having.iter().all(|having| values::is_true(&group.eval(having))) {
            continue;
        }
        let fields = group.select();
        let fields = fields.iter().map(|(name, expr)| (name.clone(), group.eval(expr)));
        let row = present(fields);
        let key = if let [only] = &by[..] { only.clone() } else { Value::list(by.clone()) };
        let is_pending = members.iter().flat_map(|item| item.facts.iter().flatten());
        let is_pending = is_pending.into_iter().any(|fact| fact.is_pending);
        let sorts = query.order_by.iter().map(|order| group.eval(&order.expr)).collect();
        rows.push(Sorted { fact: Fact { key, row, is_pending }, by: sorts });
    }
    rows
}

struct Group<'a> {
    context: Context<'a>,
    by: &'a [Value],
    members: &'a [&'a Item],
}

impl Group<'_> {
    /// What is selected; without it what it is grouped by.
    fn select(&self) -> Vec<(String, Expr)> {
        if let Some(select) = &self.context.query.select {
            return select.iter().map(|(name, expr)| (name.to_string(), expr.clone())).collect();
        }
        let last = |by: &Expr| match by {
            Expr::Ref(path) => path.last().unwrap().to_string(),
            _ => panic!("the evaluator has no name for {by:?}"),
        };
        self.context.query.group_by.iter().map(|by| (last(by), by.clone())).collect()
    }

    fn eval(&self, expr: &Expr) -> Value {
        if let Some(index) = self.context.query.group_by.iter().position(|by| by == expr) {
            return self.by[index].clone();
        }
        match expr {
            Expr::Val(value) => value.clone(),
            Expr::Ref(path) if path[0] == "$selected" => {
                let select = self.select();
                let (_, expr) = select.iter().find(|(name, _)| **name == path[1]).unwrap();
                self.eval(expr)
            }
            Expr::Call(name, args) => {
                let args: Vec<_> = args.iter().map(|arg| self.eval(arg)).collect();
                values::call(name, &args)
            }
            Expr::Aggregate(name, args) => {
                let value = |item: &&Item| {
                    args.first().map_or(Value::Bool(true), |arg| self.context.eval(item, arg))
                };
                aggregate(name, self.members.iter().map(value).collect())
            }
            _ => panic!("{expr:?} is not grouped"),
        }
    }
}

fn aggregate(name: &str, values: Vec<Value>) -> Value {
    if name == "collect" {
        return Value::list(values);
    }
    let known: Vec<_> = values.into_iter().filter(|value| !value.is_nothing()).collect();
    let numbers: Vec<_> = known.iter().filter_map(Value::as_number).collect();
    let sum: f64 = numbers.iter().sum();
    match name {
        "count" => known.len().into(),
        "countDistinct" => known.iter().collect::<BTreeSet<_>>().len().into(),
        "min" => known.iter().min().cloned().unwrap_or(Value::Null),
        "max" => known.iter().max().cloned().unwrap_or(Value::Null),
        "sum" | "avg" if numbers.is_empty() => Value::Null,
        "sum" => Value::number(sum),
        "avg" => Value::number(sum / numbers.len() as f64),
        _ => panic!("the evaluator does not know {name}"),
    }
}

fn distinct(rows: Vec<Sorted>) -> Vec<Sorted> {
    let mut seen = BTreeMap::new();
    for row in rows {
        let key = object(&row.fact.row);
        let fact = Fact { key: key.clone(), is_pending: false, ..row.fact };
        seen.entry(key).or_insert(Sorted { fact, ..row });
    }
    seen.into_values().collect()
}

fn compare(order: &Order, a: &Value, b: &Value) -> Ordering {
    let folded = |value| if order.folds_case { folded(value) } else { value.clone() };
    match (a.is_nothing(), b.is_nothing()) {
        (true, true) => Ordering::Equal,
        (true, false) if order.is_nulls_last => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, true) => compare(order, b, a).reverse(),
        _ if order.is_descending => folded(b).cmp(&folded(a)),
        _ => folded(a).cmp(&folded(b)),
    }
}

/// Texts in lower case, wherever they stand.
fn folded(value: &Value) -> Value {
    match value {
        Value::List(list) => Value::list(list.iter().map(folded)),
        Value::Object(object) => {
            Value::object(object.present().map(|(name, value)| (name, folded(value))))
        }
        _ => value.as_text().map_or_else(|| value.clone(), |text| text.to_lowercase().into()),
    }
}
