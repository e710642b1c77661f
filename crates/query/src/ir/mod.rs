//! Queries as data: what the builder makes, what travels as JSON, what is compiled.

mod json;
mod subset;

use std::fmt;

use smol_str::SmolStr;

pub(crate) use self::subset::subsets;
pub use self::{json::BadQuery, subset::Subset};
use crate::value::Value;

/// A query.
///
/// Its clauses work in this order: sources and joins, filters, groups, having, select, distinct,
/// order, window.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Where rows come from first.
    pub from: Source,
    /// What is joined to them, from left to right.
    pub joins: Vec<Join>,
    /// Which of them count: all of these must hold.
    pub filters: Vec<Expr>,
    /// What makes a group.
    pub group_by: Vec<Expr>,
    /// Which groups count.
    pub having: Vec<Expr>,
    /// What is shown of a row; without it the row itself, or one field for each source of a join.
    pub select: Option<Vec<(SmolStr, Expr)>>,
    /// Whether equal rows are shown once.
    pub distinct: bool,
    /// What rows are sorted by; where all of it is equal, their keys decide.
    pub order_by: Vec<Order>,
    /// How many rows are shown at most.
    pub limit: Option<usize>,
    /// How many are left out before the first.
    pub offset: usize,
    /// Which state of the collections it looks at.
    pub view: View,
}

/// Which state of its collections a query looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// What the user sees: synced rows with pending writes on them.
    #[default]
    Visible,
    /// Synced rows alone.
    Synced,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The rows.
    pub rows: Rows,
    /// What the query calls them.
    pub alias: SmolStr,
}

/// Rows to begin with.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows {
    /// Those of a collection, or of a query that is defined by this name.
    Collection(SmolStr),
    /// Those of another query.
    Query(Box<Query>),
    /// Those of several queries, one after the other.
    Union(Vec<Query>),
}

/// One join.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// What becomes of rows without a partner.
    pub kind: JoinKind,
    /// The rows on the right.
    pub source: Source,
    /// Pairs that must be equal, an expression of the left and one of the right.
    pub on: Vec<(Expr, Expr)>,
}

/// What becomes of rows without a partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// They are left out.
    Inner,
    /// Those of the left stay.
    Left,
    /// Those of the right stay.
    Right,
    /// All stay.
    Full,
}

impl JoinKind {
    pub(crate) fn keeps_left(self) -> bool {
        matches!(self, Self::Left | Self::Full)
    }

    pub(crate) fn keeps_right(self) -> bool {
        matches!(self, Self::Right | Self::Full)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inner => "inner",
            Self::Left => "left",
            Self::Right => "right",
            Self::Full => "full",
        }
    }
}

/// Whether rows may come out of joins of these kinds without this source.
pub(crate) fn may_be_missing(slot: usize, kinds: &[JoinKind]) -> bool {
    let by_itself = slot > 0 && kinds[slot - 1].keeps_left();
    by_itself || kinds[slot..].iter().any(|kind| kind.keeps_right())
}

/// An expression over the rows of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// An alias, a column and a way into it; or a column alone if there is only one source.
    Ref(Vec<SmolStr>),
    /// A value.
    Val(Value),
    /// A function of expressions.
    Call(SmolStr, Vec<Expr>),
    /// An aggregate over a group.
    Aggregate(SmolStr, Vec<Expr>),
    /// The rows of another query that belong to this one. Only to be selected.
    Include(Box<Include>),
}

/// A query nested in each row of another one. Its filters tie it to the outer row: one of them is
/// `eq` of an expression of its own and one of the outer query.
#[derive(Clone, Debug, PartialEq)]
pub struct Include {
    /// The inner query.
    pub query: Query,
    /// What is made of its rows.
    pub form: Form,
}

/// What is made of included rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// A list of them.
    #[default]
    List,
    /// Their only column as a text, one row after the other.
    Text,
    /// The first of them.
    One,
}

/// One expression to sort by.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// What to compare.
    pub expr: Expr,
    /// Up or down.
    pub is_descending: bool,
    /// Whether rows without a value come last, not first.
    pub is_nulls_last: bool,
    /// Whether texts that differ in case only count as equal.
    pub folds_case: bool,
}

/// For people: `eq(m.role, "user")`.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ref(path) => f.write_str(&path.join(".")),
            Self::Val(value) => write!(f, "{value}"),
            Self::Include(_) => f.write_str("include(…)"),
            Self::Call(name, args) | Self::Aggregate(name, args) => {
                write!(f, "{name}(")?;
                for (index, arg) in args.iter().enumerate() {
                    write!(f, "{}{arg}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl Query {
    /// All rows of a source.
    #[must_use]
    pub fn of(from: Source) -> Self {
        Self {
            from,
            joins: Vec::new(),
            filters: Vec::new(),
            group_by: Vec::new(),
            having: Vec::new(),
            select: None,
            distinct: false,
            order_by: Vec::new(),
            limit: None,
            offset: 0,
            view: View::Visible,
        }
    }

    /// All sources of this query, from left to right.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        std::iter::once(&self.from).chain(self.joins.iter().map(|join| &join.source))
    }
}

impl Expr {
    /// A reference.
    #[must_use]
    pub fn path<N: AsRef<str>>(path: impl IntoIterator<Item = N>) -> Self {
        Self::Ref(path.into_iter().map(SmolStr::new).collect())
    }

    /// A value.
    #[must_use]
    pub fn val(value: impl Into<Value>) -> Self {
        Self::Val(value.into())
    }

    /// A function of expressions.
    #[must_use]
    pub fn call(function: &str, args: impl IntoIterator<Item = Self>) -> Self {
        Self::Call(SmolStr::new(function), args.into_iter().collect())
    }

    /// An aggregate of expressions.
    #[must_use]
    pub fn aggregate(function: &str, args: impl IntoIterator<Item = Self>) -> Self {
        Self::Aggregate(SmolStr::new(function), args.into_iter().collect())
    }

    /// The expressions right below this one.
    pub fn children(&self) -> &[Self] {
        match self {
            Self::Call(_, args) | Self::Aggregate(_, args) => args,
            Self::Ref(_) | Self::Val(_) | Self::Include(_) => &[],
        }
    }

    /// True if there is an aggregate in it.
    #[must_use]
    pub fn has_aggregate(&self) -> bool {
        matches!(self, Self::Aggregate(..)) || self.children().iter().any(Self::has_aggregate)
    }
}
