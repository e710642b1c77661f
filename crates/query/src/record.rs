//! Records: the columns of a row, typed or not; and entries, which are records in their place.

use std::{any::Any, borrow::Cow, fmt, sync::Arc};

use hashbrown::HashMap;
use smol_str::SmolStr;

use crate::{caps::COLUMNS_MAX, value::Value};

/// The columns of a row that is a Rust value. `#[derive(Row)]` writes it.
pub trait Columns: Any + Send + Sync {
    /// The names of all columns, in order.
    fn names(&self) -> &'static [&'static str];

    /// One column; [`Value::Missing`] beyond the last.
    fn column(&self, index: usize) -> Value;

    /// The same row with other values in some columns; nothing if one of them does not fit.
    fn with(&self, changes: &[(usize, Value)]) -> Option<Arc<dyn Columns>>;
}

/// The names of columns, in order. A collection's shape only ever grows at its end, so a column
/// keeps its number.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    names: Vec<SmolStr>,
    /// Only for shapes too wide to be searched.
    numbers: HashMap<SmolStr, usize, foldhash::fast::FixedState>,
}

/// From here on a table is faster than looking at each name.
const WIDE: usize = 12;

/// A row with more columns than may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {COLUMNS_MAX} different columns in one collection or object")]
pub struct TooManyColumns;

impl Shape {
    /// A shape of these columns.
    #[must_use]
    pub fn of<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut shape = Self::default();
        for name in names {
            shape.add(SmolStr::new(name));
        }
        shape
    }

    /// How many columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there is no column.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name of a column.
    #[must_use]
    pub fn name(&self, index: usize) -> Option<&str> {
        self.names.get(index).map(SmolStr::as_str)
    }

    /// The column of this name.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<usize> {
        if self.names.len() < WIDE {
            return self.names.iter().position(|own| own == name);
        }
        self.numbers.get(name).copied()
    }

    /// The column of this name, which is added if it is new.
    pub(crate) fn learn(shape: &mut Arc<Self>, name: &str) -> Result<usize, TooManyColumns> {
        if let Some(index) = shape.index(name) {
            return Ok(index);
        }
        if shape.len() >= COLUMNS_MAX {
            return Err(TooManyColumns);
        }
        Arc::make_mut(shape).add(SmolStr::new(name));
        Ok(shape.len() - 1)
    }

    fn add(&mut self, name: SmolStr) {
        self.names.push(name);
        if self.names.len() >= WIDE {
            for (index, name) in self.names.iter().enumerate().skip(self.numbers.len()) {
                self.numbers.insert(name.clone(), index);
            }
        }
    }
}

/// The columns of a row that is data: values in the order of a [`Shape`].
#[derive(Clone)]
pub struct Tuple {
    shape: Arc<Shape>,
    values: Arc<[Value]>,
}

impl Tuple {
    pub(crate) fn new(shape: Arc<Shape>, values: impl Into<Arc<[Value]>>) -> Self {
        Self { shape, values: values.into() }
    }

    /// A tuple of these fields; the shape learns those it does not know. Fields beyond the cap of
    /// a shape are left out.
    pub(crate) fn of(
        fields: impl IntoIterator<Item = (SmolStr, Value)>,
        shape: &mut Arc<Shape>,
    ) -> Self {
        let mut values = Vec::with_capacity(shape.len());
        for (name, value) in fields {
            let Ok(index) = Shape::learn(shape, &name) else { continue };
            if values.len() <= index {
                values.resize(index + 1, Value::Missing);
            }
            values[index] = value;
        }
        Self::new(shape.clone(), values)
    }

    /// How many columns it has a place for.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// One column.
    #[must_use]
    pub fn column(&self, index: usize) -> &Value {
        self.values.get(index).unwrap_or(&Value::Missing)
    }

    /// The column of this name, unless it is missing.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let value = self.column(self.shape.index(name)?);
        (!matches!(value, Value::Missing)).then_some(value)
    }

    /// Names and values of all columns that are there, in order.
    pub fn present(&self) -> impl Iterator<Item = (&str, &Value)> {
        let names = self.shape.names.iter().map(SmolStr::as_str);
        names.zip(self.values.iter()).filter(|(_, value)| !matches!(value, Value::Missing))
    }

    /// This tuple with other values in some columns of a shape that is its own, earlier or later.
    pub(crate) fn with(
        &self,
        changes: impl IntoIterator<Item = (usize, Value)>,
        shape: &Arc<Shape>,
    ) -> Self {
        let mut values = self.values.to_vec();
        for (index, value) in changes {
            if values.len() <= index {
                values.resize(index + 1, Value::Missing);
            }
            values[index] = value;
        }
        // A write that waits knows the columns of its time; the row may have learned more since.
        let shape = if shape.len() < self.shape.len() { &self.shape } else { shape };
        Self::new(shape.clone(), values)
    }

    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }
}

/// Equal if they have the same columns with the same values, whatever their shapes.
impl PartialEq for Tuple {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.values, &other.values) && Arc::ptr_eq(&self.shape, &other.shape) {
            return true;
        }
        if Arc::ptr_eq(&self.shape, &other.shape) {
            let len = self.values.len().max(other.values.len());
            return (0..len).all(|index| self.column(index) == other.column(index));
        }
        self.present().count() == other.present().count()
            && self.present().all(|(name, value)| other.get(name) == Some(value))
    }
}

impl Eq for Tuple {}

impl fmt::Debug for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.present()).finish()
    }
}

/// The columns of a row. Cheap to clone.
#[derive(Clone)]
pub enum Record {
    /// Columns that are data.
    Tuple(Tuple),
    /// Columns that are a Rust value.
    Typed(Arc<dyn Columns>),
}

impl Record {
    /// A Rust value as a record.
    pub fn typed<T: Columns>(row: T) -> Self {
        Self::Typed(Arc::new(row))
    }

    /// One column.
    #[must_use]
    pub fn column(&self, index: usize) -> Cow<'_, Value> {
        match self {
            Self::Tuple(tuple) => Cow::Borrowed(tuple.column(index)),
            Self::Typed(row) => Cow::Owned(row.column(index)),
        }
    }

    /// The column of this name; missing if there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> Cow<'_, Value> {
        match self {
            Self::Tuple(tuple) => Cow::Borrowed(tuple.get(name).unwrap_or(&Value::Missing)),
            Self::Typed(row) => {
                let index = row.names().iter().position(|own| *own == name);
                Cow::Owned(index.map_or(Value::Missing, |index| row.column(index)))
            }
        }
    }

    /// The same record with other values in some columns; nothing if one of them does not fit.
    pub(crate) fn with(&self, changes: &[(usize, Value)], shape: &Arc<Shape>) -> Option<Self> {
        match self {
            Self::Tuple(tuple) => Some(Self::Tuple(tuple.with(changes.iter().cloned(), shape))),
            Self::Typed(row) => row.with(changes).map(Self::Typed),
        }
    }

    /// The names of its columns, in order.
    pub(crate) fn names(&self) -> Vec<SmolStr> {
        match self {
            Self::Tuple(tuple) => tuple.shape.names.clone(),
            Self::Typed(row) => row.names().iter().map(|name| SmolStr::new_static(name)).collect(),
        }
    }

    /// The Rust value, if it is a `T`.
    #[must_use]
    pub fn as_typed<T: Columns>(&self) -> Option<&T> {
        match self {
            Self::Tuple(_) => None,
            Self::Typed(row) => (&**row as &dyn Any).downcast_ref(),
        }
    }

    /// The same columns as data.
    #[must_use]
    pub fn to_tuple(&self) -> Tuple {
        match self {
            Self::Tuple(tuple) => tuple.clone(),
            Self::Typed(row) => {
                let values = (0..row.names().len()).map(|index| row.column(index));
                Tuple::new(Arc::new(Shape::of(row.names())), values.collect::<Vec<_>>())
            }
        }
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tuple(this), Self::Tuple(other)) => this == other,
            (Self::Typed(this), Self::Typed(other)) => {
                let names = this.names();
                Arc::ptr_eq(this, other)
                    || std::ptr::eq(names, other.names())
                        && (0..names.len()).all(|index| this.column(index) == other.column(index))
            }
            _ => self.to_tuple() == other.to_tuple(),
        }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_tuple().fmt(f)
    }
}

/// What names a row within its collection or result: a text, a number, or several values for a row
/// that was made of several.
pub type Key = Value;

/// Who wrote what a row shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Somebody else.
    #[default]
    Remote,
    /// This client.
    Local,
}

/// What is known of a row beside its columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Where in its stream the row was written first, if it comes from one.
    pub position: Option<u64>,
    /// Whether something that is not confirmed yet lies on it.
    pub is_pending: bool,
    /// Who wrote it last.
    pub origin: Origin,
}

/// A row in its place: key, columns, and what else is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// Its columns.
    pub record: Record,
    /// What else is known.
    pub meta: Meta,
}
