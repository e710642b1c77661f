//! Random tables: which fields there are, and which values they take.
//!
//! Domains are small, so that rows meet: equal values, ties, joins with several partners, groups
//! with several members. Every field but the key may be null or missing. Numbers are multiples of
//! a quarter, so that sums are exact in whichever order they are made.

use serde_json::{Map, Value, json};

use super::random::Random;

/// What a column holds besides null and nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whole numbers.
    Int,
    /// Multiples of small powers of two.
    Num,
    /// Any finite number; its sums depend on the order of adding.
    Ratio,
    Text,
    /// Points in time, as text.
    Stamp,
    Flag,
    /// A list of scalars.
    Tags,
    /// An object with fields of its own.
    Nest,
    /// Scalars of several types.
    Mixed,
    /// A whole row, which an outer join may leave out.
    Row,
}

impl Kind {
    /// Whether all its values can be put in one order.
    pub(super) const fn is_ordered(self) -> bool {
        matches!(self, Self::Int | Self::Num | Self::Ratio | Self::Text | Self::Stamp | Self::Flag)
    }

    /// Whether its values are equal by what they are rather than by where they came from.
    pub(super) const fn is_scalar(self) -> bool {
        self.is_ordered() || matches!(self, Self::Mixed)
    }
}

/// What the keys of a table look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    Numbers,
    Texts,
    /// Both, among them `10` and `"10"`.
    Both,
}

/// A value that may be looked up, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    /// From the alias or the row down to the value.
    pub(super) path: Vec<String>,
    pub(super) kind: Kind,
}

impl Column {
    pub(super) fn new(name: &str, kind: Kind) -> Self {
        Self { path: vec![name.to_owned()], kind }
    }

    /// The same column, seen from one level further out.
    pub(super) fn under(&self, name: &str) -> Self {
        let mut path = vec![name.to_owned()];
        path.extend_from_slice(&self.path);
        Self { path, kind: self.kind }
    }
}

#[derive(Debug)]
struct Field {
    name: String,
    kind: Kind,
}

/// A collection: its key is `id`, its `link` holds keys of any table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    keys: Keys,
    fields: Vec<Field>,
}

const TABLES: [&str; 3] = ["a", "b", "c"];
const KEYS_PER_TABLE: usize = 20;
const FIELD_KINDS: [Kind; 9] = [
    Kind::Int,
    Kind::Int,
    Kind::Num,
    Kind::Text,
    Kind::Stamp,
    Kind::Flag,
    Kind::Tags,
    Kind::Nest,
    Kind::Mixed,
];

/// `😀` and `ｚ` change places when code units are taken for characters.
const TEXTS: [&str; 13] = ["", "a", "b", "ab", "aB", "B", "ß", "é", "😀", "ｚ", "10", "x_y", "50%"];

const STAMPS: [&str; 5] = [
    "2024-01-02",
    "2024-01-02T03:04:05Z",
    "2024-01-02T03:04:05.678Z",
    "1999-12-31T23:59:59.999Z",
    "2024-02-29T12:00:00+02:00",
];

impl Table {
    pub(super) fn generate_all(random: &mut Random) -> Vec<Self> {
        let count = random.between(2, TABLES.len());
        TABLES[..count].iter().map(|name| Self::generate(name, random)).collect()
    }

    fn generate(name: &str, random: &mut Random) -> Self {
        let keys = [Keys::Numbers, Keys::Texts, Keys::Both][random.weighted(&[5, 3, 2])];
        let mut fields = vec![
            Field { name: "link".to_owned(), kind: Kind::Mixed },
            Field { name: "group".to_owned(), kind: *random.pick(&[Kind::Int, Kind::Text]) },
        ];
        for index in 0..random.between(3, 6) {
            let kind = *random.pick(&FIELD_KINDS);
            fields.push(Field { name: format!("{kind:?}{index}").to_lowercase(), kind });
        }
        Self { name: name.to_owned(), keys, fields }
    }

    /// All that can be asked of a row, seen from the row.
    pub(super) fn columns(&self) -> Vec<Column> {
        let id = match self.keys {
            Keys::Numbers => Kind::Int,
            Keys::Texts => Kind::Text,
            Keys::Both => Kind::Mixed,
        };
        let mut columns = vec![Column::new("id", id)];
        for Field { name, kind } in &self.fields {
            columns.push(Column::new(name, *kind));
            if *kind == Kind::Nest {
                columns.push(Column::new("p", Kind::Int).under(name));
                columns.push(Column::new("r", Kind::Text).under("q").under(name));
            }
        }
        columns
    }

    pub(super) fn key(&self, random: &mut Random) -> Value {
        let number = random.between(1, KEYS_PER_TABLE);
        let as_text = match self.keys {
            Keys::Numbers => false,
            Keys::Texts => true,
            Keys::Both => random.chance(50),
        };
        if as_text { json!(number.to_string()) } else { json!(number) }
    }

    /// A row with this key.
    pub(super) fn row(&self, key: &Value, random: &mut Random) -> Map<String, Value> {
        let mut row = Map::from_iter([("id".to_owned(), key.clone())]);
        for field in &self.fields {
            if let Some(value) = field.value(random) {
                row.insert(field.name.clone(), value);
            }
        }
        row
    }

    /// New values for some fields of a row, never its key.
    pub(super) fn patch(&self, random: &mut Random) -> Map<String, Value> {
        let mut patch = Map::new();
        for _ in 0..random.between(1, 2) {
            let field = random.pick(&self.fields);
            if let Some(value) = field.value(random) {
                patch.insert(field.name.clone(), value);
            }
        }
        patch
    }
}

impl Field {
    /// `None` when the row has no such field.
    fn value(&self, random: &mut Random) -> Option<Value> {
        if self.name == "link" && random.chance(70) {
            let key = random.between(1, 6);
            return Some(if random.chance(30) { json!(key.to_string()) } else { json!(key) });
        }
        match random.below(12) {
            0 => None,
            1 => Some(Value::Null),
            _ => Some(value(self.kind, random)),
        }
    }
}

/// Some value of this kind, neither null nor missing.
pub(super) fn value(kind: Kind, random: &mut Random) -> Value {
    match kind {
        Kind::Int => json!(random.below(10) as i64 - 3),
        Kind::Num | Kind::Ratio => quarters(random),
        Kind::Text => json!(random.pick(&TEXTS)),
        Kind::Stamp => json!(random.pick(&STAMPS)),
        Kind::Flag => json!(random.chance(50)),
        Kind::Tags | Kind::Row => {
            let items = 0..random.below(4);
            items.map(|_| scalar_or_null(random)).collect()
        }
        Kind::Nest => nest(random),
        Kind::Mixed => scalar(random),
    }
}

/// Printed as JavaScript prints it: without a fraction where there is none.
fn quarters(random: &mut Random) -> Value {
    let quarters = random.below(24) as i32 - 8;
    if quarters % 4 == 0 { json!(quarters / 4) } else { json!(f64::from(quarters) / 4.0) }
}

fn scalar(random: &mut Random) -> Value {
    let kind = *random.pick(&[Kind::Int, Kind::Int, Kind::Num, Kind::Text, Kind::Flag]);
    value(kind, random)
}

fn scalar_or_null(random: &mut Random) -> Value {
    if random.chance(10) { Value::Null } else { scalar(random) }
}

fn nest(random: &mut Random) -> Value {
    let mut object = Map::new();
    if random.chance(70) {
        let inner = if random.chance(15) { Value::Null } else { value(Kind::Int, random) };
        object.insert("p".to_owned(), inner);
    }
    match random.below(6) {
        0 => {}
        1 => drop(object.insert("q".to_owned(), Value::Null)),
        2 => drop(object.insert("q".to_owned(), json!({}))),
        _ => drop(object.insert("q".to_owned(), json!({ "r": random.pick(&TEXTS) }))),
    }
    Value::Object(object)
}
