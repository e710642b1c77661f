//! Rows as State Protocol values, and back.

use std::collections::BTreeMap;

use query::{CollectionId, Database, Key, Record, Row, Schema, Value, View};
use serde::{Deserialize, Deserializer, de::MapAccess, de::Visitor};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use state::Json;

use super::admit::Rule;

/// How the rows of one type are read and written.
pub(crate) struct Codec {
    form: Form,
    key_column: SmolStr,
    has_number_key: bool,
    known: Vec<String>,
    /// Which writes to a row are too late.
    pub(super) rule: Option<Rule>,
}

/// What rows are.
enum Form {
    Typed {
        decode: fn(&str) -> Result<Record, serde_json::Error>,
        encode: fn(&Record) -> Option<String>,
    },
    /// Data: what columns they have is known to the collection alone.
    Dynamic,
}

impl Codec {
    pub(crate) fn of<R: Row>() -> Self {
        let columns = R::columns();
        let is_key = |column: &&query::ColumnDef| column.name == R::KEY;
        let has_number_key =
            columns.iter().find(is_key).is_some_and(|key| key.kind == query::Kind::Number);
        Self {
            form: Form::Typed {
                decode: |json| serde_json::from_str::<R>(json).map(Record::typed),
                encode: |record| serde_json::to_string(record.as_typed::<R>()?).ok(),
            },
            key_column: R::KEY.into(),
            has_number_key,
            known: columns.into_iter().map(|column| column.name.to_string()).collect(),
            rule: None,
        }
    }

    pub(crate) fn dynamic(schema: &Schema) -> Self {
        let is_key = |column: &&query::ColumnDef| column.name == schema.key();
        let key = schema.columns().iter().find(is_key);
        let has_number_key = key.is_some_and(|key| key.kind == query::Kind::Number);
        let key_column = schema.key().into();
        Self { form: Form::Dynamic, key_column, has_number_key, known: Vec::new(), rule: None }
    }

    /// Reads a row of a collection, which has a certain key on the wire.
    pub(crate) fn decode(
        &self,
        key: &str,
        value: &Json,
        (id, database): (CollectionId, &mut Database),
    ) -> Result<Record, String> {
        let mut read = |json: &str| match self.form {
            Form::Typed { decode, .. } => decode(json).map_err(|error| error.to_string()),
            Form::Dynamic => {
                let record = database.record(id, json).map_err(|error| error.to_string())?;
                database.check(id, &record).map_err(|error| error.to_string())?;
                Ok(record)
            }
        };
        let first = read(value.as_str());
        if first.as_ref().is_ok_and(|record| is_key(&record.get(&self.key_column), key)) {
            return first;
        }
        // Other writers may leave the key out of the row, since the message has it; and if a row
        // says something else, the message is right.
        let key = match number(key).filter(|_| self.has_number_key) {
            Some(number) => number,
            None => Value::from(key),
        };
        match Json::of(&key).ok().and_then(|key| value.set(&self.key_column, &key).ok()) {
            Some(value) => match (read(value.as_str()), first) {
                (Err(_), Err(first)) => Err(first),
                (second, _) => second,
            },
            None => first,
        }
    }

    /// What a key on the wire may be in the database: a text, a number, or nobody knows which.
    pub(crate) fn keys(&self, key: &str) -> [Option<Key>; 2] {
        let text = Value::from(key);
        match (number(key), self.has_number_key, &self.form) {
            (Some(number), true, _) => [Some(number), None],
            (Some(number), false, Form::Dynamic) if is_key(&number, key) => {
                [Some(text), Some(number)]
            }
            _ => [Some(text), None],
        }
    }

    /// The key of the database for a key on the wire.
    pub(crate) fn key(&self, key: &str, (id, database): (CollectionId, &Database)) -> Key {
        match self.keys(key) {
            // Only the row itself knows what its key is.
            [Some(text), Some(number)] => {
                let is_there = |view| database.get(id, &number, view).is_some();
                if is_there(View::Visible) || is_there(View::Synced) { number } else { text }
            }
            [Some(key), None] | [None, Some(key)] => key,
            [None, None] => Value::from(key),
        }
    }

    /// The key of a row that was read.
    pub(super) fn key_of(&self, record: &Record) -> Key {
        record.get(&self.key_column).into_owned()
    }

    /// Writes a row, with the fields that only others know.
    pub(crate) fn encode(&self, record: &Record, others: Option<&Json>) -> Option<Json> {
        let own = match self.form {
            Form::Typed { encode, .. } => encode(record)?,
            Form::Dynamic => serde_json::to_string(&record.to_tuple()).ok()?,
        };
        let own: Json = own.parse().ok()?;
        match others {
            Some(others) => self.with_others(own, others),
            None => Some(own),
        }
    }

    fn with_others(&self, own: Json, others: &Json) -> Option<Json> {
        let others: BTreeMap<String, Box<RawValue>> = others.read().ok()?;
        let others: Vec<_> =
            others.iter().map(|(name, value)| (name, Json::from(&**value))).collect();
        let with = |row: Json, (name, value): &(&String, Json)| row.set(name, value).ok();
        let is_readable = |row: &Json| match self.form {
            Form::Typed { decode, .. } => decode(row.as_str()).is_ok(),
            Form::Dynamic => true,
        };
        let all = others.iter().try_fold(own.clone(), with)?;
        if is_readable(&all) {
            return Some(all);
        }
        // Some of them are fields of the type under another name, which it has taken over.
        Some(
            others.iter().fold(own, |row, other| {
                with(row.clone(), other).filter(is_readable).unwrap_or(row)
            }),
        )
    }

    /// The fields of a row that its type does not know.
    pub(crate) fn others(&self, value: &Json) -> Option<Json> {
        if matches!(self.form, Form::Dynamic) {
            return None;
        }
        let fields: Fields<'_> = serde_json::from_str(value.as_str()).ok()?;
        let is_other = |name: &str| !self.known.iter().any(|known| known == name);
        let others = fields.0.iter().filter(|(name, _)| is_other(name));
        let others: BTreeMap<&str, &RawValue> =
            others.map(|(name, raw)| (name.as_str(), *raw)).collect();
        if others.is_empty() { None } else { Json::of(&others).ok() }
    }
}

/// A number that a key on the wire may be.
fn number(key: &str) -> Option<Value> {
    match key.parse::<i64>() {
        Ok(number) => Some(Value::Int(number)),
        Err(_) => key.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from),
    }
}

/// True if a key is this one on the wire.
fn is_key(own: &Value, key: &str) -> bool {
    match own {
        Value::Text(text) => text == key,
        Value::Missing | Value::Null => false,
        other => other.to_string() == key,
    }
}

/// The fields of an object, their values as they are written.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Each)
    }
}
