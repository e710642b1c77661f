//! Functions of expressions: each of the IR has a word here.
//!
//! ```
//! use query::{Database, Record, Row, Value, concat, from, when};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Debug, Serialize, Deserialize, Row)]
//! struct Order {
//!     id: String,
//!     customer: String,
//!     cents: i64,
//!     at: String,
//! }
//!
//! let size = when(Order::cents.gte(100_00), "large").or_when(Order::cents.gte(10_00), "usual");
//! let told = from::<Order>()
//!     .filter(Order::customer.trim().starts_with("A"))
//!     .select("what", concat([Order::customer.upper(), ", ".into(), size.otherwise("small")]))
//!     .select("euros", Order::cents.divided_by(100).round())
//!     .select("day", Order::at.date());
//!
//! let mut db = Database::new();
//! let orders = db.collection(Order::NAME, Order::schema())?;
//! let (id, customer, at) = ("1".into(), " Ada".into(), "2026-11-17T20:15:00Z".into());
//! let order = Record::typed(Order { id, customer, cents: 19_99, at });
//! # let writes = vec![(orders, query::Write::Put(order, Default::default()))];
//! # db.apply(query::Tick { writes, retires: vec![] })?;
//! let rows = db.once(told.query())?;
//! let shown = ["what", "euros", "day"].map(|name| rows[0].record.get(name).into_owned());
//! assert_eq!(shown, [Value::from(" ADA, usual"), 20.into(), "2026-11-17".into()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::Column;
use crate::{
    ir::{Expr, Order},
    row::Row,
    value::Value,
};

/// True if all of these hold.
#[must_use]
pub fn all(conditions: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::call("and", conditions)
}

/// True if one of these holds.
#[must_use]
pub fn any(conditions: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::call("or", conditions)
}

/// All of these as one text; what is not there is none.
#[must_use]
pub fn concat(parts: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::call("concat", parts)
}

/// A list of these.
#[must_use]
pub fn list(values: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::call("array", values)
}

/// An object of these fields.
#[must_use]
pub fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Expr)>) -> Expr {
    Expr::call("object", fields.into_iter().flat_map(|(name, value)| [name.into(), value]))
}

/// This value if the condition holds. What else it is, [`Case`] says.
pub fn when(condition: impl Into<Expr>, then: impl Into<Expr>) -> Case {
    Case(vec![condition.into(), then.into()])
}

/// The value of the first condition that holds.
#[derive(Clone, Debug)]
#[must_use]
pub struct Case(Vec<Expr>);

impl Case {
    /// Else this value if the condition holds.
    pub fn or_when(mut self, condition: impl Into<Expr>, then: impl Into<Expr>) -> Self {
        self.0.extend([condition.into(), then.into()]);
        self
    }

    /// Else this value.
    #[must_use]
    pub fn otherwise(mut self, value: impl Into<Expr>) -> Expr {
        self.0.push(value.into());
        self.into()
    }
}

/// `null` if no condition holds.
impl From<Case> for Expr {
    fn from(case: Case) -> Self {
        Self::call("caseWhen", case.0)
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*) = $function:literal;)*) => {
        methods!(@ [Expr] [] $($(#[$doc])* $name($($arg),*) = $function;)*);
        methods!(@ [Column<R, T>] [R: Row, T] $($(#[$doc])* $name($($arg),*) = $function;)*);
    };
    (@ [$type:ty] [$($generics:tt)*]
        $($(#[$doc:meta])* $name:ident($($arg:ident),*) = $function:literal;)*
    ) => {
        impl<$($generics)*> $type {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(self $(, $arg: impl Into<Expr>)*) -> Expr {
                    Expr::call($function, [self.into() $(, $arg.into())*])
                }
            )*

            /// Whether it is one of these.
            #[must_use]
            pub fn one_of<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Expr {
                let list = Value::list(values.into_iter().map(Into::into));
                Expr::call("in", [self.into(), Expr::Val(list)])
            }

            /// Whether it is in a list, such as a column of this row.
            #[must_use]
            pub fn within(self, list: impl Into<Expr>) -> Expr {
                Expr::call("in", [self.into(), list.into()])
            }

            /// The moment in UTC, in the words of `strftime`: `"%H:%M"`. It is a text of RFC 3339,
            /// a date, or milliseconds since 1970.
            #[must_use]
            pub fn strftime(self, format: impl Into<Expr>) -> Expr {
                Expr::call("strftime", [format.into(), self.into()])
            }

            /// Smallest first.
            #[must_use]
            pub fn asc(self) -> Order {
                Order::by(self)
            }

            /// Largest first.
            #[must_use]
            pub fn desc(self) -> Order {
                Order { is_descending: true, ..Order::by(self) }
            }
        }

        /// Whether it does not hold.
        impl<$($generics)*> std::ops::Not for $type {
            type Output = Expr;

            fn not(self) -> Expr {
                Expr::call("not", [self.into()])
            }
        }

        impl<$($generics)*> From<$type> for Order {
            fn from(operand: $type) -> Self {
                Self::by(operand)
            }
        }
    };
}

methods! {
    /// Whether both are equal.
    eq(other) = "eq";
    /// Whether both are there and not equal.
    ne(other) = "ne";
    /// Whether it is greater.
    gt(other) = "gt";
    /// Whether it is greater or equal.
    gte(other) = "gte";
    /// Whether it is less.
    lt(other) = "lt";
    /// Whether it is less or equal.
    lte(other) = "lte";
    /// Whether both hold.
    and(other) = "and";
    /// Whether one of both holds.
    or(other) = "or";
    /// Whether there is no value.
    is_null() = "isNull";
    /// Whether there is not even `null`: no such column, or no partner in an outer join.
    is_missing() = "isUndefined";
    /// Whether the text fits a pattern of `%` and `_`.
    like(pattern) = "like";
    /// Whether the text fits a pattern, whatever the case.
    ilike(pattern) = "ilike";
    /// The sum of both.
    plus(other) = "add";
    /// The difference of both.
    minus(other) = "subtract";
    /// The product of both.
    times(other) = "multiply";
    /// The quotient of both; `null` if the other is 0.
    divided_by(other) = "divide";
    /// What is left of a number divided by another, with its sign; `null` if the other is 0.
    modulo(other) = "modulo";
    /// The number without its sign.
    abs() = "abs";
    /// The greatest whole number that is not above.
    floor() = "floor";
    /// The least whole number that is not below.
    ceil() = "ceil";
    /// The nearest whole number; halves go away from 0.
    round() = "round";
    /// The text in capitals.
    upper() = "upper";
    /// The text in small letters.
    lower() = "lower";
    /// The text without white space at its ends.
    trim() = "trim";
    /// This and the other as one text; what is not there is none.
    concat(other) = "concat";
    /// The text from a character on, the first being 1, and so many of them.
    substr(start, count) = "substr";
    /// The text from a character on, the first being 1.
    substr_from(start) = "substr";
    /// The text with another part wherever it has this one.
    replace(from, to) = "replace";
    /// Whether the text begins so.
    starts_with(part) = "startsWith";
    /// Whether the text ends so.
    ends_with(part) = "endsWith";
    /// Whether the text has this part.
    contains(part) = "contains";
    /// The day of a moment, in UTC: `2026-11-17`.
    date() = "date";
    /// A moment in UTC: `2026-11-17T20:15:00.000Z`.
    datetime() = "datetime";
    /// How long the text or list is.
    length() = "length";
    /// This, or the other if there is no value.
    or_else(other) = "coalesce";
    /// A member of an object or list.
    get(name) = "get";
}

impl Order {
    fn by(expr: impl Into<Expr>) -> Self {
        Self { expr: expr.into(), is_descending: false, is_nulls_last: false, folds_case: false }
    }

    /// Rows without a value come last.
    #[must_use]
    pub fn nulls_last(self) -> Self {
        Self { is_nulls_last: true, ..self }
    }

    /// Texts that differ in case only count as equal.
    #[must_use]
    pub fn ignoring_case(self) -> Self {
        Self { folds_case: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::{Database, Record, Row, Tick, Write, expr::Function, from};

    #[derive(Clone, Debug, Serialize, Deserialize, Row)]
    struct Thing {
        id: i64,
        name: String,
        size: f64,
        tags: Vec<String>,
        at: String,
        gone: Option<String>,
    }

    fn thing() -> Thing {
        let tags = vec!["a".into(), "b".into()];
        let at = "2026-11-17T20:15:00Z".into();
        Thing { id: 7, name: " Tea ".into(), size: -2.5, tags, at, gone: None }
    }

    /// Each way to write a call, and what it comes to.
    fn calls() -> Vec<(Expr, serde_json::Value)> {
        use serde_json::json;
        let (id, name, size, tags, at, gone) =
            (Thing::id, Thing::name, Thing::size, Thing::tags, Thing::at, Thing::gone);
        vec![
            (id.eq(7), json!(true)),
            (id.ne(7), json!(false)),
            (id.gt(7), json!(false)),
            (id.gte(7), json!(true)),
            (id.lt(7), json!(false)),
            (id.lte(7), json!(true)),
            (id.one_of([6, 7]), json!(true)),
            (Expr::val("b").within(tags), json!(true)),
            (name.like("_T%"), json!(true)),
            (name.ilike("_t%"), json!(true)),
            (id.eq(7).and(id.gt(9)), json!(false)),
            (all([id.eq(7), id.gt(6), id.lt(8)]), json!(true)),
            (id.eq(7).or(id.gt(9)), json!(true)),
            (any([id.eq(6), id.eq(8)]), json!(false)),
            (!id.eq(7), json!(false)),
            (gone.is_null(), json!(true)),
            (gone.is_missing(), json!(false)),
            (gone.or_else(name), json!(" Tea ")),
            (when(id.gt(9), "large").or_when(id.gt(5), "usual").into(), json!("usual")),
            (when(id.gt(9), "large").otherwise("small"), json!("small")),
            (when(id.gt(9), "large").into(), json!(null)),
            (name.upper(), json!(" TEA ")),
            (name.lower(), json!(" tea ")),
            (name.trim(), json!("Tea")),
            (name.length(), json!(5)),
            (tags.length(), json!(2)),
            (name.trim().concat(id), json!("Tea7")),
            (concat([name.trim(), "/".into(), id.into()]), json!("Tea/7")),
            (name.substr(2, 2), json!("Te")),
            (name.substr_from(3), json!("ea ")),
            (name.replace("e", "oa"), json!(" Toaa ")),
            (name.trim().starts_with("T"), json!(true)),
            (name.trim().ends_with("T"), json!(false)),
            (name.contains("ea"), json!(true)),
            (id.plus(1), json!(8)),
            (id.minus(1), json!(6)),
            (id.times(2), json!(14)),
            (id.divided_by(2), json!(3.5)),
            (id.modulo(4), json!(3)),
            (size.abs(), json!(2.5)),
            (size.floor(), json!(-3)),
            (size.ceil(), json!(-2)),
            (size.round(), json!(-3)),
            (at.date(), json!("2026-11-17")),
            (at.datetime(), json!("2026-11-17T20:15:00.000Z")),
            (at.strftime("%H:%M"), json!("20:15")),
            (tags.get(1), json!("b")),
            (list([id.into(), name.trim()]), json!([7, "Tea"])),
            (object([("a", id.plus(1)), ("b", name.trim())]), json!({ "a": 8, "b": "Tea" })),
        ]
    }

    #[test]
    fn every_function_can_be_written_and_comes_to_what_it_says() {
        let mut db = Database::new();
        let things = db.collection(Thing::NAME, Thing::schema()).unwrap();
        let writes = vec![(things, Write::Put(Record::typed(thing()), Default::default()))];
        db.apply(Tick { writes, retires: vec![] }).unwrap();
        let mut written = BTreeSet::new();
        for (expr, expected) in calls() {
            let told = expr.to_string();
            let Expr::Call(name, _) = &expr else { panic!("{told} is no call") };
            written.insert(name.clone());
            let rows = db.once(from::<Thing>().select("x", expr).query()).unwrap();
            assert_eq!(rows[0].record.column(0).into_owned(), Value::from(expected), "{told}");
        }
        assert_eq!(written, Function::NAMES.iter().copied().map(Into::into).collect());
    }
}
