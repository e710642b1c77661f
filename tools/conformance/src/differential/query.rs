//! Random queries: every clause, alone and together.
//!
//! A query only asks for an order, or for a window on one, where there is exactly one right answer:
//! terms of one type each, and keys that settle every tie. The keys of `distinct` are hashes with
//! a random seed in @tanstack/db, so its results are compared without their order, and get no
//! window, unless they are ordered by everything in them.
//!
//! A group with one key has that value for its own key. If it is null, missing or a flag among
//! others, @tanstack/db cannot place it among the keys of other groups, and its result goes wrong;
//! so such a key always has a value, of one type. Several keys become one text and have no such
//! trouble.

use serde_json::{Map, Value, json};

use super::{
    expression::{Composer, Precision, Taste, call, literal, reference},
    random::Random,
    schema::{Column, Kind, Table},
};

/// How two results are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Row by row.
    Exact,
    /// As multisets.
    Any,
}

/// A query and what a comparison must know about it.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) ir: Value,
    pub(super) order: Order,
    /// What its rows hold, seen from a row.
    columns: Vec<Column>,
    keys: Keys,
}

/// Makes queries over some tables.
#[derive(Debug)]
pub(super) struct QueryMaker<'a> {
    pub(super) random: &'a mut Random,
    pub(super) tables: &'a [Table],
    pub(super) taste: Taste,
}

/// Whether the keys of a result settle every tie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    Total,
    Loose,
}

/// What becomes of the rows once they are found.
struct Projection {
    /// Seen from the result, under `$selected`.
    columns: Vec<Column>,
    /// What `orderBy` may look at.
    sight: Vec<Column>,
    keys: Keys,
    /// Terms that put the result in one order without any keys.
    terms: Option<Vec<Value>>,
}

const NESTING_MAX: usize = 2;
const SELECTED: &str = "$selected";

impl QueryMaker<'_> {
    pub(super) fn query(&mut self) -> Query {
        let depth = self.random.weighted(&[6, 3, 1]).min(NESTING_MAX);
        self.make(depth)
    }

    fn make(&mut self, depth: usize) -> Query {
        let mut ir = Map::new();
        let joins = self.random.weighted(&[60, 32, 8]);
        let sight = self.sources(&mut ir, depth, joins);
        self.filters(&mut ir, &sight.columns);
        let projection = match self.random.weighted(&[30, 32, 30, 8]) {
            0 => Projection::whole(sight, joins),
            1 => self.select(&mut ir, sight),
            2 => self.group(&mut ir, &sight.columns),
            _ => self.total(&mut ir, &sight.columns),
        };
        let order = self.order(&mut ir, &projection);
        Query { ir: Value::Object(ir), order, columns: projection.columns, keys: projection.keys }
    }

    /// `from` and `join`; returns what the other clauses can see.
    fn sources(&mut self, ir: &mut Map<String, Value>, depth: usize, joins: usize) -> Sight {
        let aliases = ["m", "j", "k"].map(|letter| format!("{letter}{depth}"));
        let (main, found) = self.source(depth, &aliases[0]);
        ir.insert("from".to_owned(), main);
        let mut sight = Sight { columns: Vec::new(), keys: Keys::Total };
        sight.add(&found, &aliases[0]);
        let mut clauses = Vec::new();
        for alias in &aliases[1..=joins] {
            let (mut clause, found) = self.source(depth, alias);
            let joined: Vec<_> = found.columns.iter().map(|column| column.under(alias)).collect();
            let pairs = 1 + self.random.weighted(&[85, 15]);
            let on: Vec<_> = (0..pairs).map(|_| self.pair(&sight.columns, &joined)).collect();
            let kinds = ["inner", "left", "right", "full"];
            clause["type"] = json!(kinds[self.random.weighted(&[3, 3, 2, 2])]);
            clause["on"] = json!(on);
            clauses.push(clause);
            sight.add(&found, alias);
        }
        if !clauses.is_empty() {
            ir.insert("join".to_owned(), Value::Array(clauses));
        }
        sight
    }

    fn source(&mut self, depth: usize, alias: &str) -> (Value, Sight) {
        if depth > 0 && self.random.chance(60) {
            let query = self.make(depth - 1);
            let found = Sight { columns: query.columns, keys: query.keys };
            return (json!({ "query": query.ir, "as": alias }), found);
        }
        let table = self.random.pick(self.tables);
        let found = Sight { columns: table.columns(), keys: Keys::Total };
        (json!({ "col": table.name, "as": alias }), found)
    }

    /// Two columns to join on, mostly such that have values in common.
    fn pair(&mut self, main: &[Column], joined: &[Column]) -> Value {
        let names =
            *self.random.pick(&[("link", "id"), ("id", "link"), ("group", "group"), ("", "")]);
        let left = self.joinable(main, names.0);
        let right = self.joinable(joined, names.1);
        if self.random.chance(30) { json!([right, left]) } else { json!([left, right]) }
    }

    fn joinable(&mut self, columns: &[Column], name: &str) -> Value {
        let scalars: Vec<_> = columns.iter().filter(|column| column.kind.is_scalar()).collect();
        let named =
            scalars.iter().find(|column| column.path.last().is_some_and(|last| last == name));
        let column = named.unwrap_or_else(|| self.random.pick(&scalars));
        match column.kind {
            Kind::Text if self.random.chance(15) => call("lower", [reference(column)]),
            Kind::Int if self.random.chance(15) => call("add", [reference(column), literal(1)]),
            _ => reference(column),
        }
    }

    fn filters(&mut self, ir: &mut Map<String, Value>, columns: &[Column]) {
        // A sub-query has let through less already.
        let weights = if ir["from"].get("query").is_some() { [75, 22, 3] } else { [45, 42, 13] };
        let count = self.random.weighted(&weights);
        if count > 0 {
            let filters: Vec<_> = (0..count).map(|_| self.composer(columns).filter()).collect();
            ir.insert("where".to_owned(), Value::Array(filters));
        }
    }

    fn composer<'a>(&'a mut self, columns: &'a [Column]) -> Composer<'a> {
        Composer { random: self.random, columns, taste: self.taste }
    }

    fn select(&mut self, ir: &mut Map<String, Value>, sight: Sight) -> Projection {
        if self.random.chance(32) {
            return self.distinct(ir, &sight.columns);
        }
        let mut select = Map::new();
        let mut columns = Vec::new();
        for index in 0..self.random.between(1, 4) {
            let name = format!("f{index}");
            // A query that reads this one needs a scalar to join on.
            let (expression, kind) = match index {
                0 => self.composer(&sight.columns).scalar(2),
                _ => self.field(&sight.columns),
            };
            select.insert(name.clone(), expression);
            columns.push(Column::new(&name, kind));
        }
        ir.insert("select".to_owned(), Value::Object(select));
        let mut seen = selected(&columns);
        seen.extend(sight.columns);
        Projection { columns, sight: seen, keys: sight.keys, terms: None }
    }

    fn field(&mut self, columns: &[Column]) -> (Value, Kind) {
        let mut composer = self.composer(columns);
        match composer.random.weighted(&[80, 12, 8]) {
            0 => composer.scalar(2),
            1 => match composer.pick_column(&[Kind::Tags, Kind::Nest]) {
                Some(column) => (reference(&column), Kind::Tags),
                None => composer.scalar(2),
            },
            _ => (call("array", [composer.scalar(0).0, composer.scalar(0).0]), Kind::Tags),
        }
    }

    fn distinct(&mut self, ir: &mut Map<String, Value>, columns: &[Column]) -> Projection {
        // With every field there for every row, ordering by all of them leaves no ties.
        let is_complete = self.random.chance(50);
        let mut select = Map::new();
        let mut fields = Vec::new();
        for index in 0..self.random.between(1, 2) {
            let name = format!("f{index}");
            let (expression, kind) = match (is_complete, self.random.chance(60)) {
                (true, _) => self.complete(columns),
                (false, true) => self.composer(columns).scalar_column(),
                (false, false) => self.composer(columns).scalar(1),
            };
            select.insert(name.clone(), expression);
            fields.push(Column::new(&name, kind));
        }
        ir.insert("select".to_owned(), Value::Object(select));
        ir.insert("distinct".to_owned(), json!(true));
        let sight = selected(&fields);
        let terms = is_complete.then(|| sight.iter().map(reference).collect());
        Projection { columns: fields, sight, keys: Keys::Loose, terms }
    }

    /// An expression of one type that every row has a value for.
    fn complete(&mut self, columns: &[Column]) -> (Value, Kind) {
        let kind = *self.random.pick(&[Kind::Num, Kind::Text, Kind::Text, Kind::Flag]);
        (self.composer(columns).present(kind), kind)
    }

    fn group(&mut self, ir: &mut Map<String, Value>, sight: &[Column]) -> Projection {
        let mut select = Map::new();
        let mut columns = Vec::new();
        let mut group_by = Vec::new();
        let parts = 1 + self.random.weighted(&[65, 35]);
        for index in 0..parts {
            let (expression, kind) = match (parts, self.random.chance(70)) {
                (1, _) => self.complete(sight),
                (_, true) => self.group_column(sight),
                (_, false) => self.composer(sight).scalar(1),
            };
            let name = format!("g{index}");
            if self.random.chance(85) {
                select.insert(name.clone(), expression.clone());
                columns.push(Column::new(&name, kind));
            }
            group_by.push(expression);
        }
        self.aggregates(&mut select, &mut columns, sight);
        ir.insert("groupBy".to_owned(), Value::Array(group_by));
        if self.random.chance(30) {
            ir.insert("having".to_owned(), json!([self.having(&select, &columns)]));
        }
        ir.insert("select".to_owned(), Value::Object(select));
        Projection { sight: selected(&columns), columns, keys: Keys::Total, terms: None }
    }

    fn group_column(&mut self, sight: &[Column]) -> (Value, Kind) {
        let scalars = sight.iter().filter(|column| column.kind.is_scalar()).collect::<Vec<_>>();
        let named = |column: &&&Column| column.path.last().is_some_and(|last| last == "group");
        let by_name = scalars.iter().find(named).filter(|_| self.random.chance(40));
        let column = by_name.unwrap_or_else(|| self.random.pick(&scalars));
        (reference(column), column.kind)
    }

    /// Aggregates without groups: one row, or none.
    fn total(&mut self, ir: &mut Map<String, Value>, sight: &[Column]) -> Projection {
        let mut select = Map::new();
        let mut columns = Vec::new();
        self.aggregates(&mut select, &mut columns, sight);
        if self.random.chance(20) {
            ir.insert("having".to_owned(), json!([self.having(&select, &columns)]));
        }
        ir.insert("select".to_owned(), Value::Object(select));
        Projection { sight: selected(&columns), columns, keys: Keys::Total, terms: None }
    }

    fn aggregates(
        &mut self,
        select: &mut Map<String, Value>,
        columns: &mut Vec<Column>,
        sight: &[Column],
    ) {
        for index in 0..self.random.between(1, 3) {
            let (aggregate, kind) = self.aggregate(sight);
            let name = format!("a{index}");
            select.insert(name.clone(), aggregate);
            columns.push(Column::new(&name, kind));
        }
        if self.random.chance(20) {
            let (aggregate, _) = self.aggregate(sight);
            let wrapped = match self.random.below(3) {
                0 => call("concat", [literal("="), aggregate]),
                1 => call("isNull", [aggregate]),
                _ => call("coalesce", [aggregate, literal(0)]),
            };
            select.insert("w0".to_owned(), wrapped);
            columns.push(Column::new("w0", Kind::Mixed));
        }
    }

    fn aggregate(&mut self, sight: &[Column]) -> (Value, Kind) {
        let taste = self.taste;
        let mut composer = self.composer(sight);
        let (name, argument, kind) = match composer.random.weighted(&[3, 3, 2, 3, 2, 2]) {
            0 => ("count", reference(composer.random.pick(sight)), Kind::Int),
            1 => ("sum", composer.number(1, Precision::Exact), Kind::Num),
            2 => ("avg", composer.number(1, Precision::Exact), Kind::Ratio),
            3 => {
                let name = *composer.random.pick(&["min", "max"]);
                (name, composer.number(1, Precision::Exact), Kind::Num)
            }
            // Null counts as the number 0, which no text can be compared with.
            4 => (*composer.random.pick(&["min", "max"]), composer.present(Kind::Text), Kind::Text),
            _ if taste == Taste::Wild => {
                let kinds = [Kind::Int, Kind::Num, Kind::Text, Kind::Flag, Kind::Mixed];
                let argument = composer.pick_column(&kinds);
                let argument = argument.map_or_else(|| literal(1), |column| reference(&column));
                (*composer.random.pick(&["sum", "avg"]), argument, Kind::Mixed)
            }
            _ => ("count", literal(1), Kind::Int),
        };
        (json!({ "agg": name, "args": [argument] }), kind)
    }

    fn having(&mut self, select: &Map<String, Value>, columns: &[Column]) -> Value {
        let sight = selected(columns);
        if self.random.chance(60) {
            return self.composer(&sight).filter();
        }
        let aggregate = &select["a0"];
        let comparison = *self.random.pick(&["gt", "gte", "lt", "lte", "eq"]);
        call(comparison, [aggregate.clone(), self.composer(&sight).literal(Kind::Int)])
    }

    /// `orderBy`, `limit` and `offset`, as far as the result allows.
    fn order(&mut self, ir: &mut Map<String, Value>, projection: &Projection) -> Order {
        if self.random.chance(50) {
            return Order::Any;
        }
        let terms = match &projection.terms {
            Some(terms) => {
                let mut terms = terms.clone();
                self.random.shuffle(&mut terms);
                terms
            }
            None => (0..self.random.between(1, 3)).map(|_| self.term(projection)).collect(),
        };
        let terms: Vec<_> = terms.into_iter().map(|term| self.direct(&term)).collect();
        ir.insert("orderBy".to_owned(), Value::Array(terms));
        if projection.keys == Keys::Loose && projection.terms.is_none() {
            return Order::Any;
        }
        if self.random.chance(60) {
            let limit = if self.random.chance(4) { 0 } else { self.random.between(1, 7) };
            ir.insert("limit".to_owned(), json!(limit));
        }
        if self.random.chance(30) {
            ir.insert("offset".to_owned(), json!(self.random.below(4)));
        }
        Order::Exact
    }

    fn term(&mut self, projection: &Projection) -> Value {
        let ordered = projection.sight.iter().filter(|column| column.kind.is_ordered());
        let ordered: Vec<_> = ordered.collect();
        if !ordered.is_empty() && self.random.chance(75) {
            let column = *self.random.pick(&ordered);
            return reference(column);
        }
        // An order needs one type, so wild expressions have no place here.
        let columns = &projection.sight;
        let mut composer = Composer { random: self.random, columns, taste: Taste::Tame };
        match composer.random.below(3) {
            0 => composer.number(1, Precision::Rounded),
            1 => composer.text(1),
            _ => composer.predicate(0),
        }
    }

    fn direct(&mut self, term: &Value) -> Value {
        let mut clause = json!({ "expr": term });
        if self.random.chance(60) {
            clause["dir"] = json!(self.random.pick(&["asc", "desc"]));
        }
        if self.random.chance(60) {
            clause["nulls"] = json!(self.random.pick(&["first", "last"]));
        }
        clause
    }
}

/// What a query reads: the columns in sight, and whether its keys settle ties.
struct Sight {
    columns: Vec<Column>,
    keys: Keys,
}

impl Sight {
    /// Adds what is found in one source, under its alias.
    fn add(&mut self, found: &Self, alias: &str) {
        self.columns.extend(found.columns.iter().map(|column| column.under(alias)));
        self.columns.push(Column::new(alias, Kind::Row));
        if found.keys == Keys::Loose {
            self.keys = Keys::Loose;
        }
    }
}

impl Projection {
    /// The rows as they are: with joins, each under its alias.
    fn whole(sight: Sight, joins: usize) -> Self {
        let columns = if joins > 0 { sight.columns.clone() } else { without_alias(&sight.columns) };
        Self { columns, sight: sight.columns, keys: sight.keys, terms: None }
    }
}

fn without_alias(columns: &[Column]) -> Vec<Column> {
    let inner = columns.iter().filter(|column| column.path.len() > 1);
    inner.map(|column| Column { path: column.path[1..].to_vec(), kind: column.kind }).collect()
}

fn selected(columns: &[Column]) -> Vec<Column> {
    columns.iter().map(|column| column.under(SELECTED)).collect()
}

/// A query that must be refused, and leave nothing behind.
pub(super) fn refused(random: &mut Random, table: &Table) -> Value {
    let from = json!({ "col": table.name, "as": "m" });
    let id = json!({ "ref": ["m", "id"] });
    let count = json!({ "agg": "count", "args": [id] });
    let is_one = call("eq", [id.clone(), literal(1)]);
    let on = json!([[id, { "ref": ["j", "id"] }]]);
    let join =
        |kind: &str, on: &Value| json!([{ "type": kind, "col": table.name, "as": "j", "on": on }]);
    match random.below(11) {
        0 => json!({ "from": from, "limit": 3 }),
        1 => json!({ "from": from, "distinct": true }),
        2 => json!({ "from": from, "where": [call("perhaps", [id])] }),
        3 => json!({ "from": from, "having": [is_one] }),
        4 => json!({ "from": from, "groupBy": [{ "ref": ["m", "group"] }], "select": { "f": id } }),
        5 => json!({ "from": from, "where": [call("gt", [count, literal(1)])] }),
        6 => json!({ "from": from, "select": { "f": { "agg": "middle", "args": [id] } } }),
        7 => json!({ "from": from, "orderBy": [{ "expr": count }] }),
        8 => json!({ "from": from, "join": join("sideways", &on) }),
        9 => json!({ "from": from, "join": join("inner", &json!([])) }),
        _ => json!({ "from": from, "join": join("left", &json!([[id, literal(3)]])) }),
    }
}
