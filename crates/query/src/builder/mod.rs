//! Queries written in Rust.

mod column;
mod function;

use std::marker::PhantomData;

use smol_str::SmolStr;

pub use self::{
    column::Column,
    function::{Case, all, any, concat, list, object, when},
};
use crate::{
    ir::{Expr, Form, Include, Join, JoinKind, Order, Query, Rows, Source, View},
    row::Row,
};

/// All rows of the collection that is called like their type.
///
/// The type of the rows, `R`, goes with the query as long as it shows whole rows.
pub fn from<R: Row>() -> Find<R> {
    from_as(R::NAME, R::NAME)
}

/// All rows of a collection or of a query with a name, under a name of their own.
pub fn from_as<R>(collection: &str, alias: &str) -> Find<R> {
    let source = Source { rows: Rows::Collection(collection.into()), alias: alias.into() };
    Find { query: Query::of(source), rows: PhantomData }
}

/// All rows of another query, under a name of their own.
pub fn from_query<R>(query: impl Into<Query>, alias: &str) -> Find<R> {
    let rows = Rows::Query(Box::new(query.into()));
    Find { query: Query::of(Source { rows, alias: alias.into() }), rows: PhantomData }
}

/// The rows of several queries, one after the other, under a name of their own.
///
/// ```
/// # use query::{Row, from, union_all}; use serde::{Deserialize, Serialize};
/// # #[derive(Clone, Debug, Serialize, Deserialize, Row)]
/// # struct Note { id: String, pinned: bool, stars: i64 }
/// let pinned = from::<Note>().filter(Note::pinned.eq(true));
/// let loved = from::<Note>().filter(Note::stars.gt(3));
/// let shown = union_all::<Note>([pinned.into(), loved.into()], "shown");
/// # let mut db = query::Database::new();
/// # db.collection("note", Note::schema())?;
/// db.live(shown.query())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn union_all<R>(queries: impl IntoIterator<Item = Query>, alias: &str) -> Find<R> {
    let rows = Rows::Union(queries.into_iter().collect());
    Find { query: Query::of(Source { rows, alias: alias.into() }), rows: PhantomData }
}

/// Rows that are data.
#[derive(Clone, Copy, Debug)]
pub struct Dynamic;

/// A query on its way.
#[derive(Clone, Debug)]
#[must_use]
pub struct Find<R> {
    query: Query,
    rows: PhantomData<fn() -> R>,
}

impl<R> From<Query> for Find<R> {
    fn from(query: Query) -> Self {
        Self { query, rows: PhantomData }
    }
}

impl<R> From<Find<R>> for Query {
    fn from(find: Find<R>) -> Self {
        find.query
    }
}

impl<R> Find<R> {
    /// The query as data.
    #[must_use]
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Only rows for which this holds.
    pub fn filter(mut self, filter: impl Into<Expr>) -> Self {
        self.query.filters.push(filter.into());
        self
    }

    /// Sorted by this; where it is equal, by what comes next.
    pub fn order_by(mut self, order: impl Into<Order>) -> Self {
        self.query.order_by.push(order.into());
        self
    }

    /// At most so many rows.
    pub fn limit(mut self, limit: usize) -> Self {
        self.query.limit = Some(limit);
        self
    }

    /// Without the first rows.
    pub fn offset(mut self, offset: usize) -> Self {
        self.query.offset = offset;
        self
    }

    /// Over what is synced alone, without writes that are not confirmed.
    pub fn synced(mut self) -> Self {
        self.query.view = View::Synced;
        self
    }

    /// With the rows of another collection that have an equal value, and only where there are any.
    pub fn join<O: Row>(self, left: impl Into<Expr>, right: impl Into<Expr>) -> Find<Dynamic> {
        self.join_with(JoinKind::Inner, collection::<O>(), [(left.into(), right.into())])
    }

    /// With the rows of another collection that have an equal value, if there are any.
    pub fn left_join<O: Row>(self, left: impl Into<Expr>, right: impl Into<Expr>) -> Find<Dynamic> {
        self.join_with(JoinKind::Left, collection::<O>(), [(left.into(), right.into())])
    }

    /// With all rows of another collection, and ours that have an equal value.
    pub fn right_join<O: Row>(
        self,
        left: impl Into<Expr>,
        right: impl Into<Expr>,
    ) -> Find<Dynamic> {
        self.join_with(JoinKind::Right, collection::<O>(), [(left.into(), right.into())])
    }

    /// With all rows of another collection, and all of ours; together where values are equal.
    pub fn full_join<O: Row>(self, left: impl Into<Expr>, right: impl Into<Expr>) -> Find<Dynamic> {
        self.join_with(JoinKind::Full, collection::<O>(), [(left.into(), right.into())])
    }

    /// With the rows of any source.
    pub fn join_with(
        mut self,
        kind: JoinKind,
        source: Source,
        on: impl IntoIterator<Item = (Expr, Expr)>,
    ) -> Find<Dynamic> {
        self.query.joins.push(Join { kind, source, on: on.into_iter().collect() });
        self.dynamic()
    }

    /// One row for each group of rows that agree in this.
    pub fn group_by(mut self, by: impl Into<Expr>) -> Find<Dynamic> {
        self.query.group_by.push(by.into());
        self.dynamic()
    }

    /// Only groups for which this holds.
    pub fn having(mut self, having: impl Into<Expr>) -> Self {
        self.query.having.push(having.into());
        self
    }

    /// Shows this under a name, and nothing else that is not selected.
    pub fn select(mut self, name: &str, expr: impl Into<Expr>) -> Find<Dynamic> {
        self.query.select.get_or_insert_default().push((name.into(), expr.into()));
        self.dynamic()
    }

    /// Equal rows once.
    pub fn distinct(mut self) -> Self {
        self.query.distinct = true;
        self
    }

    fn dynamic(self) -> Find<Dynamic> {
        Find { query: self.query, rows: PhantomData }
    }
}

/// The collection of these rows as a source.
fn collection<R: Row>() -> Source {
    Source { rows: Rows::Collection(R::NAME.into()), alias: R::NAME.into() }
}

/// The rows of a query that belong to an outer row, as a list. A filter of the query ties them.
#[must_use]
pub fn include(query: impl Into<Query>) -> Expr {
    included(query, Form::List)
}

/// The only column of the rows that belong to an outer row, as one text.
#[must_use]
pub fn include_text(query: impl Into<Query>) -> Expr {
    included(query, Form::Text)
}

/// The first of the rows that belong to an outer row.
#[must_use]
pub fn include_one(query: impl Into<Query>) -> Expr {
    included(query, Form::One)
}

fn included(query: impl Into<Query>, form: Form) -> Expr {
    Expr::Include(Box::new(Include { query: query.into(), form }))
}

macro_rules! aggregates {
    ($($(#[$doc:meta])* $name:ident = $function:literal;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(of: impl Into<Expr>) -> Expr {
            Expr::aggregate($function, [of.into()])
        }
    )*};
}

aggregates! {
    /// How many rows of the group have a value.
    count = "count";
    /// How many different values there are in the group.
    count_distinct = "countDistinct";
    /// The sum over the group.
    sum = "sum";
    /// The average over the group.
    avg = "avg";
    /// The least of the group.
    min = "min";
    /// The greatest of the group.
    max = "max";
    /// All values of the group, in the order of their rows' keys.
    collect = "collect";
}

/// How many rows the group has.
#[must_use]
pub fn count_rows() -> Expr {
    Expr::aggregate("count", [])
}

/// A virtual column of the source that the query calls so: `$synced`, `$origin`, `$key`,
/// `$collection`, `$position`.
#[must_use]
pub fn meta(alias: &str, name: &str) -> Expr {
    Expr::Ref(vec![SmolStr::new(alias), SmolStr::new(name)])
}
