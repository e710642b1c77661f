//! What the columns of a shape are, by the header that says so.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::postgres::{self, BadText};

/// The columns of a shape. Columns it does not know are texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns(BTreeMap<String, Column>);

/// One column, as much of it as matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Column {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// How deep its arrays are; zero if it is no array.
    #[serde(default)]
    pub(crate) dims: usize,
}

/// A value that is not what its column says. It never holds the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column:?} is no {kind}: {why}")]
pub(crate) struct BadColumn {
    column: String,
    kind: String,
    why: BadText,
}

impl Columns {
    pub(crate) fn parse(header: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(header).map(Self)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Column> {
        self.0.get(name)
    }

    /// A row as it came, as JSON.
    pub(crate) fn read(&self, row: Map<String, Value>) -> Result<Map<String, Value>, BadColumn> {
        let read = row.into_iter().map(|(name, value)| {
            let value = self.value(&name, value)?;
            Ok((name, value))
        });
        read.collect()
    }

    /// One column of a row, if it is there and is what it should be.
    pub(crate) fn read_one(&self, name: &str, value: Option<&Value>) -> Option<Value> {
        self.value(name, value?.clone()).ok()
    }

    fn value(&self, name: &str, value: Value) -> Result<Value, BadColumn> {
        let (Some(column), Value::String(text)) = (self.0.get(name), &value) else {
            return Ok(value);
        };
        let bad = |why| BadColumn { column: name.to_owned(), kind: column.kind.clone(), why };
        postgres::read(text, column).map_err(bad)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_is_read_by_its_columns() {
        let columns = Columns::parse(
            r#"{"id":{"type":"int8","pk_index":0,"not_null":true},
                "tags":{"type":"text","dims":1},"name":{"type":"varchar","max_length":9}}"#,
        )
        .unwrap();
        let Value::Object(row) = json!({
            "id": "9007199254740993", "tags": "{a,\"b c\"}", "name": null, "new": "7",
        }) else {
            unreachable!()
        };
        let read = columns.read(row).unwrap();
        let id = 9_007_199_254_740_993_i64;
        let wanted = json!({"id": id, "tags": ["a", "b c"], "name": null, "new": "7"});
        assert_eq!(Value::Object(read), wanted);
    }

    #[test]
    fn what_does_not_fit_is_told_without_its_value() {
        let columns = Columns::parse(r#"{"id":{"type":"int4"}}"#).unwrap();
        let Value::Object(row) = json!({"id": "secret"}) else { unreachable!() };
        let told = columns.read(row).unwrap_err().to_string();
        assert_eq!(told, r#"column "id" is no int4: it is no whole number"#);
        assert!(Columns::parse("[]").is_err());
    }
}
