//! Rows as State Protocol values, and back.

use query::{CollectionId, Database, Key, Record, Row, Schema, Value, View};
use serde::{Deserialize, Deserializer, de::MapAccess, de::Visitor};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use state::Json;

/// How the rows of one type are read and written.
pub(crate) struct Codec {
    form: Form,
    key_column: SmolStr,
    has_number_key: bool,
    known: Vec<String>,
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
        }
    }

    pub(crate) fn dynamic(schema: &Schema) -> Self {
        let is_key = |column: &&query::ColumnDef| column.name == schema.key();
        let key = schema.columns().iter().find(is_key);
        let has_number_key = key.is_some_and(|key| key.kind == query::Kind::Number);
        let key_column = schema.key().into();
        Self { form: Form::Dynamic, key_column, has_number_key, known: Vec::new() }
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
        if first.is_ok() {
            return first;
        }
        // Other writers may leave the key out of the row, since the message has it.
        let key = match self.has_number_key {
            true => key.parse::<i64>().map_or_else(|_| key.into(), serde_json::Value::from),
            false => serde_json::Value::from(key),
        };
        match Json::of(&key).ok().and_then(|key| value.set(&self.key_column, &key).ok()) {
            Some(value) => read(value.as_str()).or(first),
            None => first,
        }
    }

    /// The key of the database for a key on the wire.
    pub(crate) fn key(&self, key: &str, (id, database): (CollectionId, &Database)) -> Key {
        let Ok(number) = key.parse::<i64>() else { return Value::from(key) };
        let is_number = match self.form {
            Form::Typed { .. } => self.has_number_key,
            // Only the row itself knows what its key is.
            Form::Dynamic => {
                let number = Value::Int(number);
                self.has_number_key || database.get(id, &number, View::Visible).is_some()
            }
        };
        if is_number { Value::Int(number) } else { Value::from(key) }
    }

    /// Writes a row, with the fields that only others know.
    pub(crate) fn encode(&self, record: &Record, others: Option<&Json>) -> Option<Json> {
        let own = match self.form {
            Form::Typed { encode, .. } => encode(record)?,
            Form::Dynamic => serde_json::to_string(&record.to_tuple()).ok()?,
        };
        let own: Json = own.parse().ok()?;
        match others {
            Some(others) => others.merge(&own).ok(),
            None => Some(own),
        }
    }

    /// The fields of a row that its type does not know.
    pub(crate) fn others(&self, value: &Json) -> Option<Json> {
        if matches!(self.form, Form::Dynamic) {
            return None;
        }
        let fields: Fields<'_> = serde_json::from_str(value.as_str()).ok()?;
        let is_other = |name: &str| !self.known.iter().any(|known| known == name);
        let others = fields.0.iter().filter(|(name, _)| is_other(name));
        let others: serde_json::Map<String, serde_json::Value> = others
            .filter_map(|(name, raw)| Some((name.clone(), serde_json::from_str(raw.get()).ok()?)))
            .collect();
        if others.is_empty() { None } else { Json::of(&others).ok() }
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
