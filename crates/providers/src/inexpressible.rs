//! A schema that a provider has no words for, and where it says so.

use std::fmt;

use chat::{ModelError, ModelErrorKind};
use serde_json::{Map, Value};

/// Keys that say nothing about values.
pub(crate) const SILENT: [&str; 4] = ["$schema", "$id", "$comment", "examples"];
/// What to do about a map.
pub(crate) const FREE_KEYS: &str =
    "use a list of objects with a field for the key and one for the value";

/// What a provider has no words for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inexpressible {
    /// The JSON pointer of it.
    pub(crate) pointer: String,
    /// What it is.
    pub(crate) what: String,
    /// What to do.
    pub(crate) remedy: &'static str,
}

/// Where in a schema a walk is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pointer<'a> {
    Root,
    In(&'a Self, &'a str),
    At(&'a Self, usize),
}

impl Pointer<'_> {
    /// What is here cannot be said.
    pub(crate) fn refuse(self, what: impl Into<String>, remedy: &'static str) -> Inexpressible {
        Inexpressible { pointer: self.to_string(), what: what.into(), remedy }
    }
}

/// Each schema of a list, adapted.
pub(crate) fn each(
    schemas: &[Value],
    at: Pointer<'_>,
    adapt: impl Fn(&Value, Pointer<'_>) -> Result<Value, Inexpressible>,
) -> Result<Value, Inexpressible> {
    let numbered = schemas.iter().enumerate();
    let each = numbered.map(|(index, schema)| adapt(schema, Pointer::At(&at, index)));
    each.collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// Each schema that has a name, adapted.
pub(crate) fn each_named(
    schemas: &Map<String, Value>,
    at: Pointer<'_>,
    adapt: impl Fn(&Value, Pointer<'_>) -> Result<Value, Inexpressible>,
) -> Result<Value, Inexpressible> {
    let each = schemas
        .iter()
        .map(|(name, schema)| Ok((name.clone(), adapt(schema, Pointer::In(&at, name))?)));
    each.collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::In(parent, key) => {
                write!(f, "{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
            }
            Self::At(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

impl Inexpressible {
    /// The failure of a request; `subject` says whose schema it is.
    pub(crate) fn of(self, provider: &'static str, subject: impl fmt::Display) -> ModelError {
        let Self { pointer, what, remedy } = self;
        let at = if pointer.is_empty() { "its root".to_owned() } else { format!("{pointer:?}") };
        let message = format!("the schema of {subject} has, at {at}, {what}; {remedy}");
        ModelError::new(provider, ModelErrorKind::Unsupported, message)
    }
}

/// The schema with what a provider cannot hold anybody to as words in its description.
pub(crate) fn with_hints(
    mut schema: Map<String, Value>,
    hints: &[(&str, &Value)],
) -> Map<String, Value> {
    if hints.is_empty() {
        return schema;
    }
    let hints: Vec<_> = hints.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    let mut description = match schema.get("description") {
        Some(Value::String(text)) => format!("{text} "),
        _ => String::new(),
    };
    description.push_str(&format!("{{{}}}", hints.join(", ")));
    schema.insert("description".to_owned(), Value::String(description));
    schema
}
