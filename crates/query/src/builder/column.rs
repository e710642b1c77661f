//! Columns of row types.

use std::marker::PhantomData;

use crate::{ir::Expr, row::Row, value::Value};

/// A column of a row type.
#[derive(Debug)]
pub struct Column<R, T> {
    name: &'static str,
    of: PhantomData<fn() -> (R, T)>,
}

impl<R, T> Clone for Column<R, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, T> Copy for Column<R, T> {}

impl<R, T> Column<R, T> {
    /// The column of this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The column of the source that the query calls so.
    #[must_use]
    pub fn of(self, alias: &str) -> Expr {
        Expr::path([alias, self.name])
    }
}

impl<R: Row, T> From<Column<R, T>> for Expr {
    fn from(column: Column<R, T>) -> Self {
        column.of(R::NAME)
    }
}

impl<T: Into<Value>> From<T> for Expr {
    fn from(value: T) -> Self {
        Self::Val(value.into())
    }
}
