//! Rows as State Protocol values, and back.

use query::{Key, Record, Row, Value};
use serde::{Deserialize, Deserializer, de::MapAccess, de::Visitor};
use serde_json::value::RawValue;
use state::Json;

/// How the rows of one type are read and written.
pub(crate) struct Codec {
    decode: fn(&str) -> Result<Record, serde_json::Error>,
    encode: fn(&Record) -> Option<String>,
    key_column: &'static str,
    has_number_key: bool,
    known: Vec<String>,
}

impl Codec {
    pub(crate) fn of<R: Row>() -> Self {
        let columns = R::columns();
        let is_key = |column: &&query::ColumnDef| column.name == R::KEY;
        let has_number_key =
            columns.iter().find(is_key).is_some_and(|key| key.kind == query::Kind::Number);
        Self {
            decode: |json| serde_json::from_str::<R>(json).map(Record::typed),
            encode: |record| serde_json::to_string(record.as_typed::<R>()?).ok(),
            key_column: R::KEY,
            has_number_key,
            known: columns.into_iter().map(|column| column.name.to_string()).collect(),
        }
    }

    /// Reads a row, which has a certain key on the wire.
    pub(crate) fn decode(&self, key: &str, value: &Json) -> Result<Record, serde_json::Error> {
        let first = (self.decode)(value.as_str());
        if first.is_ok() {
            return first;
        }
        // Other writers may leave the key out of the row, since the message has it.
        let key = match self.has_number_key {
            true => key.parse::<i64>().map_or_else(|_| key.into(), serde_json::Value::from),
            false => serde_json::Value::from(key),
        };
        match Json::of(&key).ok().and_then(|key| value.set(self.key_column, &key).ok()) {
            Some(value) => (self.decode)(value.as_str()).or(first),
            None => first,
        }
    }

    /// The key of the database for a key on the wire.
    pub(crate) fn key(&self, key: &str) -> Key {
        match key.parse::<i64>() {
            Ok(number) if self.has_number_key => Value::Int(number),
            _ => Value::from(key),
        }
    }

    /// Writes a row, with the fields that only others know.
    pub(crate) fn encode(&self, record: &Record, others: Option<&Json>) -> Option<Json> {
        let own: Json = (self.encode)(record)?.parse().ok()?;
        match others {
            Some(others) => others.merge(&own).ok(),
            None => Some(own),
        }
    }

    /// The fields of a row that its type does not know.
    pub(crate) fn others(&self, value: &Json) -> Option<Json> {
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
