//! What collections there are, and their columns.

use std::{
    any::{Any, TypeId},
    fmt,
    sync::Arc,
};

use smol_str::SmolStr;

use crate::{
    caps::COLUMNS_BY_QUERY_MAX,
    definition::Definitions,
    record::{Record, Shape},
    row::Row,
    value::Value,
};

/// A collection of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionId(pub(crate) usize);

/// What kind of values a column has, beside `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Nothing is known.
    #[default]
    Any,
    /// True or false.
    Bool,
    /// Numbers.
    Number,
    /// Texts.
    Text,
    /// Lists.
    List,
    /// Objects.
    Object,
}

impl Kind {
    /// The kind of a value; a `null` may be any.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Missing | Value::Null => Self::Any,
            Value::Bool(_) => Self::Bool,
            Value::Int(_) | Value::Float(_) => Self::Number,
            Value::Text(_) | Value::Rope(_) => Self::Text,
            Value::List(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }

    pub(crate) fn may_be(self, other: Self) -> bool {
        self == Self::Any || other == Self::Any || self == other
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any value",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Object => "an object",
        })
    }
}

/// One column of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its name.
    pub name: SmolStr,
    /// Its kind.
    pub kind: Kind,
    /// Whether every row must have a value in it.
    pub is_required: bool,
    /// Its JSON Schema.
    pub json_schema: Value,
}

impl ColumnDef {
    /// A column that may be empty.
    #[must_use]
    pub fn new(name: &str, kind: Kind) -> Self {
        Self { name: name.into(), kind, is_required: false, json_schema: Value::Null }
    }

    /// A column in which every row has a value.
    #[must_use]
    pub fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}

/// The columns of a collection.
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) key: SmolStr,
    pub(crate) shape: Arc<Shape>,
    pub(crate) columns: Vec<ColumnDef>,
    /// Whether rows may have columns that are not declared.
    pub(crate) is_open: bool,
    /// The type of all rows; without it they are data.
    pub(crate) row_type: Option<TypeId>,
}

impl Schema {
    /// Rows with any columns, named by the one called `key`.
    #[must_use]
    pub fn open(key: &str) -> Self {
        let shape = Arc::new(Shape::of([key]));
        let columns = Vec::new();
        Self { key: key.into(), shape, columns, is_open: true, row_type: None }
    }

    /// Rows with these columns, named by the one called `key`. Rows may have others, which survive
    /// but cannot be asked for.
    #[must_use]
    pub fn declared(key: &str, columns: impl IntoIterator<Item = ColumnDef>) -> Self {
        let columns: Vec<_> = columns.into_iter().collect();
        let shape = Arc::new(Shape::of(columns.iter().map(|column| &column.name)));
        Self { key: key.into(), shape, columns, is_open: false, row_type: None }
    }

    /// The same columns, of rows that are all of one type.
    pub(crate) fn of_rows<R: Row>(self) -> Self {
        Self { row_type: Some(TypeId::of::<R>()), ..self }
    }

    /// The column that names a row.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether a record is of the type of all rows, or its columns have the numbers of these.
    pub(crate) fn is_of(&self, record: &Record) -> bool {
        match record {
            Record::Tuple(tuple) => {
                if self.row_type.is_some() {
                    return false;
                }
                let own = tuple.shape();
                // A shape only ever grows at its end, so earlier records have the first columns.
                Arc::ptr_eq(own, &self.shape)
                    || (0..own.len()).all(|index| own.name(index) == self.shape.name(index))
            }
            Record::Typed(row) => match self.row_type {
                Some(own) => (&**row as &dyn Any).type_id() == own,
                None => {
                    let is_column =
                        |(index, name): (usize, &&str)| self.shape.name(index) == Some(name);
                    row.names().iter().enumerate().all(is_column)
                }
            },
        }
    }

    /// The declared columns.
    #[must_use]
    pub fn columns(&self) -> &[ColumnDef] {
        &self.columns
    }
}

/// All collections of a database, by number.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    collections: Vec<Listed>,
    pub(crate) definitions: Definitions,
}

#[derive(Debug)]
struct Listed {
    name: SmolStr,
    schema: Schema,
}

impl Catalog {
    pub(crate) fn add(&mut self, name: &str, schema: Schema) -> CollectionId {
        self.collections.push(Listed { name: name.into(), schema });
        CollectionId(self.collections.len() - 1)
    }

    pub(crate) fn find(&self, name: &str) -> Option<CollectionId> {
        self.collections.iter().position(|listed| listed.name == name).map(CollectionId)
    }

    /// What may be a source.
    pub(crate) fn all(&self) -> Vec<SmolStr> {
        let collections = self.collections.iter().map(|listed| &listed.name);
        collections.chain(self.definitions.keys()).cloned().collect()
    }

    pub(crate) fn name(&self, id: CollectionId) -> &SmolStr {
        &self.collections[id.0].name
    }

    pub(crate) fn schema(&self, id: CollectionId) -> &Schema {
        &self.collections[id.0].schema
    }

    /// Where rows learn columns.
    pub(crate) fn shape_mut(&mut self, id: CollectionId) -> &mut Arc<Shape> {
        &mut self.collections[id.0].schema.shape
    }

    /// The number of the column that names a row.
    pub(crate) fn key_column(&self, id: CollectionId) -> Option<usize> {
        let schema = self.schema(id);
        schema.shape.index(&schema.key)
    }

    /// The columns one may ask for.
    pub(crate) fn names(&self, id: CollectionId) -> Vec<SmolStr> {
        let shape = &self.schema(id).shape;
        (0..shape.len()).filter_map(|index| shape.name(index)).map(SmolStr::new).collect()
    }

    /// A column by its name. One that no row has yet exists in an open collection.
    pub(crate) fn column(&mut self, id: CollectionId, name: &str) -> Option<(usize, Kind)> {
        let schema = &mut self.collections[id.0].schema;
        if schema.is_open {
            // Queries may come from outside, and must leave rows room for columns of their own.
            let is_known = schema.shape.index(name).is_some();
            if !is_known && schema.shape.len() >= COLUMNS_BY_QUERY_MAX {
                return None;
            }
            return Some((Shape::learn(&mut schema.shape, name).ok()?, Kind::Any));
        }
        let index = schema.columns.iter().position(|column| column.name == name)?;
        Some((index, schema.columns[index].kind))
    }
}
