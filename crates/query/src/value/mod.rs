//! Values: what a column holds, and what an expression comes to.

mod json;
mod list;
mod order;
mod rope;
mod sort;

use std::{borrow::Cow, fmt, sync::Arc};

use smol_str::SmolStr;

pub use self::{json::BadValue, list::List, rope::Rope};
pub(crate) use self::{
    json::parse_tuple,
    sort::{Collation, Direction, Nulls, SortKey, SortSpec},
};
use crate::record::Tuple;

/// One value: JSON, and the absence of it.
///
/// Short texts and numbers are held in place; everything else is shared, so a clone is cheap.
/// Values are equal by content, also across representations: `1` and `1.0` are one number, a text
/// and a [`Rope`] of its pieces are one text.
#[derive(Clone, Default)]
pub enum Value {
    /// No such column, or nothing on the other side of an outer join.
    #[default]
    Missing,
    /// JSON's `null`.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number. Never a whole one that fits [`Value::Int`].
    Float(f64),
    /// A text.
    Text(SmolStr),
    /// A text that grows at its end without being copied.
    Rope(Rope),
    /// Values in order.
    List(List),
    /// Named values.
    Object(Arc<Tuple>),
}

const _: () = assert!(size_of::<Value>() == 24, "rows are made of values: keep them small");

impl Value {
    /// A number, in its one representation.
    #[must_use]
    pub fn number(number: f64) -> Self {
        // 2^63 is the first float above every i64, so the cast below is exact.
        let fits = number.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&number);
        #[expect(clippy::cast_possible_truncation, reason = "checked to fit")]
        if fits { Self::Int(number as i64) } else { Self::Float(number) }
    }

    /// Text.
    #[must_use]
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(SmolStr::new(text))
    }

    /// A text that lives as long as the program.
    #[must_use]
    pub const fn word(text: &'static str) -> Self {
        Self::Text(SmolStr::new_static(text))
    }

    /// A list of values.
    #[must_use]
    pub fn list(values: impl IntoIterator<Item = Self>) -> Self {
        Self::List(values.into_iter().collect())
    }

    /// True if this is `null` or missing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Missing | Self::Null)
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Rope(rope) => Some(Cow::Owned(rope.to_string())),
            _ => None,
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "asked for as a float")]
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The whole number, if it is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// True or false, if it is one of them.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// A field of an object, or an element of a list by its number; else missing.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        match self {
            Self::Object(object) => object.get(name).cloned().unwrap_or_default(),
            Self::List(list) => {
                let index = name.parse().ok();
                index.and_then(|index| list.get(index)).cloned().unwrap_or_default()
            }
            _ => Self::Missing,
        }
    }

    /// What kind of value this is, for messages to people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing => "nothing",
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) | Self::Rope(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            _ => fmt::Display::fmt(self, f),
        }
    }
}

/// As JSON; what is missing shows as `null`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

macro_rules! from {
    ($($type:ty => |$value:ident| $body:expr;)*) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $body
            }
        }
    )*};
}

from! {
    bool => |value| Self::Bool(value);
    i8 => |value| Self::Int(value.into());
    i16 => |value| Self::Int(value.into());
    i32 => |value| Self::Int(value.into());
    i64 => |value| Self::Int(value);
    u8 => |value| Self::Int(value.into());
    u16 => |value| Self::Int(value.into());
    u32 => |value| Self::Int(value.into());
    u64 => |value| large(value);
    usize => |value| large(value as u64);
    f32 => |value| Self::number(value.into());
    f64 => |value| Self::number(value);
    &str => |value| Self::Text(value.into());
    &String => |value| Self::Text(value.into());
    String => |value| Self::Text(value.into());
    SmolStr => |value| Self::Text(value);
    Rope => |value| Self::Rope(value);
}

#[expect(clippy::cast_precision_loss, reason = "numbers above i64 are floats")]
fn large(number: u64) -> Value {
    i64::try_from(number).map_or_else(|_| Value::Float(number as f64), Value::Int)
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::list(values.into_iter().map(Into::into))
    }
}
