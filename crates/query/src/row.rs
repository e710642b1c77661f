//! Typed rows: Rust structs with a key and columns.

use std::collections::BTreeMap;

use serde::{Serialize, de::DeserializeOwned};
use smol_str::SmolStr;

use crate::{
    catalog::{ColumnDef, Kind, Schema},
    record::{Columns, Key},
    value::Value,
};

/// A struct whose values are rows.
///
/// ```
/// use query::{Field, Row};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Serialize, Deserialize, Row)]
/// #[serde(rename_all = "camelCase")]
/// struct Message {
///     id: String,
///     session_id: String,
///     role: Role,
///     text: String,
///     #[serde(default)]
///     tokens: Option<u32>,
///     /// Anything that serde can write.
///     #[row(json)]
///     extra: std::collections::HashMap<String, String>,
/// }
///
/// #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Field)]
/// #[serde(rename_all = "lowercase")]
/// enum Role {
///     User,
///     Assistant,
/// }
///
/// let query = query::from::<Message>()
///     .filter(Message::role.eq(Role::User))
///     .filter(Message::session_id.eq("s1"))
///     .order_by(Message::tokens.desc())
///     .limit(10);
/// assert_eq!(Message::NAME, "message");
/// # let _ = query;
/// ```
///
/// The key is the field marked `#[row(key)]`, or else the one called `id`. Columns have the names
/// that serde gives to the fields. `#[row(name = "…")]` names the collection, which is otherwise
/// the struct's name in snake case.
pub trait Row: Columns + Clone + Serialize + DeserializeOwned {
    /// What a collection of these rows is called; also their type in a stream.
    const NAME: &'static str;
    /// The column that names a row.
    const KEY: &'static str;

    /// What names this row.
    fn key(&self) -> Key;

    /// The columns, in order.
    fn columns() -> Vec<ColumnDef>;

    /// The schema of a collection of these rows.
    #[must_use]
    fn schema() -> Schema {
        Schema::declared(Self::KEY, Self::columns()).of_rows::<Self>()
    }

    /// The schema as JSON Schema.
    #[must_use]
    fn json_schema() -> Value {
        let columns = Self::columns();
        let properties = columns.iter().map(|column| (&column.name, column.json_schema.clone()));
        let required = columns.iter().filter(|column| column.is_required);
        Value::object([
            ("$schema", Value::from("https://json-schema.org/draft/2020-12/schema")),
            ("title", Value::from(Self::NAME)),
            ("type", Value::from("object")),
            ("properties", Value::object(properties)),
            ("required", Value::list(required.map(|column| Value::from(column.name.clone())))),
        ])
    }
}

/// A type that a column can have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the type of a column",
    note = "derive `Field` for it, or mark the field `#[row(json)]` to keep it as JSON"
)]
pub trait Field: Sized {
    /// What kind of values it comes to.
    fn kind() -> Kind;

    /// Whether a row may be without it.
    #[must_use]
    fn is_optional() -> bool {
        false
    }

    /// The value.
    fn to_value(&self) -> Value;

    /// The value as this type, if it is one.
    fn from_value(value: &Value) -> Option<Self>;

    /// Its JSON Schema.
    #[must_use]
    fn json_schema() -> Value {
        let name = match Self::kind() {
            Kind::Any => return Value::object::<&str>([]),
            Kind::Bool => "boolean",
            Kind::Number => "number",
            Kind::Text => "string",
            Kind::List => "array",
            Kind::Object => "object",
        };
        Value::object([("type", Value::from(name))])
    }
}

macro_rules! whole_numbers {
    ($($type:ty)*) => {$(
        impl Field for $type {
            fn kind() -> Kind {
                Kind::Number
            }

            fn to_value(&self) -> Value {
                Value::from(*self)
            }

            fn from_value(value: &Value) -> Option<Self> {
                value.as_int()?.try_into().ok()
            }

            fn json_schema() -> Value {
                Value::object([("type", Value::from("integer"))])
            }
        }
    )*};
}

whole_numbers!(i8 i16 i32 i64 u8 u16 u32 u64 usize);

macro_rules! fields {
    ($($type:ty, $kind:ident, |$own:ident| $to:expr, |$value:ident| $from:expr;)*) => {$(
        impl Field for $type {
            fn kind() -> Kind {
                Kind::$kind
            }

            fn to_value(&self) -> Value {
                let $own = self;
                $to
            }

            fn from_value($value: &Value) -> Option<Self> {
                $from
            }
        }
    )*};
}

#[expect(clippy::cast_possible_truncation, reason = "the column is a small float")]
fn small(value: &Value) -> Option<f32> {
    value.as_number().map(|number| number as f32)
}

fields! {
    bool, Bool, |own| Value::Bool(*own), |value| value.as_bool();
    f32, Number, |own| Value::from(*own), |value| small(value);
    f64, Number, |own| Value::from(*own), |value| value.as_number();
    String, Text, |own| Value::from(own.as_str()), |value| value.as_text().map(Into::into);
    SmolStr, Text, |own| Value::Text(own.clone()), |value| value.as_text().map(SmolStr::new);
    Value, Any, |own| own.clone(), |value| Some(value.clone());
    serde_json::Value, Any, |own| Value::from(own.clone()), |value| value.read().ok();
}

impl<T: Field> Field for Option<T> {
    fn kind() -> Kind {
        T::kind()
    }

    fn is_optional() -> bool {
        true
    }

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_value)
    }

    fn from_value(value: &Value) -> Option<Self> {
        if value.is_nothing() { Some(None) } else { T::from_value(value).map(Some) }
    }

    fn json_schema() -> Value {
        let null = Value::object([("type", Value::from("null"))]);
        Value::object([("anyOf", Value::list([T::json_schema(), null]))])
    }
}

impl<T: Field> Field for Vec<T> {
    fn kind() -> Kind {
        Kind::List
    }

    fn to_value(&self) -> Value {
        Value::list(self.iter().map(T::to_value))
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(list) => list.iter().map(T::from_value).collect(),
            _ => None,
        }
    }

    fn json_schema() -> Value {
        Value::object([("type", Value::from("array")), ("items", T::json_schema())])
    }
}

impl<T: Field> Field for BTreeMap<String, T> {
    fn kind() -> Kind {
        Kind::Object
    }

    fn to_value(&self) -> Value {
        Value::object(self.iter().map(|(name, value)| (name, value.to_value())))
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Object(object) => {
                let fields = object.present();
                fields.map(|(name, value)| Some((name.into(), T::from_value(value)?))).collect()
            }
            _ => None,
        }
    }
}

impl ColumnDef {
    /// A column of values of this type.
    #[must_use]
    pub fn of<T: Field>(name: &str, has_default: bool) -> Self {
        Self {
            name: name.into(),
            kind: T::kind(),
            is_required: !T::is_optional() && !has_default,
            json_schema: T::json_schema(),
        }
    }

    /// A column of any values.
    #[must_use]
    pub fn any(name: &str) -> Self {
        let json_schema = Value::object::<&str>([]);
        Self { name: name.into(), kind: Kind::Any, is_required: false, json_schema }
    }
}
