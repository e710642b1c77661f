//! What can be wrong with a query, a row or a write.

use smol_str::SmolStr;

use crate::{
    caps::{
        COLUMNS_MAX, CONSTANTS_BYTES_MAX, DEFINITIONS_MAX, DEPTH_MAX, EXPRESSIONS_MAX,
        JOIN_ROWS_MAX, SOURCES_MAX, TEXT_BYTES_MAX,
    },
    catalog::Kind,
    expr::Function,
    record::Key,
    suggest::did_you_mean,
};

/// A query that cannot be run. Nothing was changed by trying.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// A source that does not exist.
    #[error(
        "there is no collection or query {name:?}{}; there are: {}",
        did_you_mean(name, known),
        names(known)
    )]
    UnknownCollection {
        /// What was asked for.
        name: SmolStr,
        /// What there is.
        known: Vec<SmolStr>,
    },
    /// A reference that begins with no source.
    #[error("{} begins with no source of the query; there are: {}", path.join("."), names(known))]
    UnknownAlias {
        /// The reference.
        path: Vec<SmolStr>,
        /// The sources.
        known: Vec<SmolStr>,
    },
    /// A column that the source does not have.
    #[error(
        "source {alias:?}, {of}, has no column {column:?}{}; it has: {}",
        did_you_mean(column, known),
        names(known)
    )]
    UnknownColumn {
        /// The source.
        alias: SmolStr,
        /// What it is: a collection and its name, or a sub-query.
        of: String,
        /// The column.
        column: SmolStr,
        /// What it has.
        known: Vec<SmolStr>,
    },
    /// Two sources of one name.
    #[error("two sources are called {alias:?}; give one of them another name")]
    DuplicateAlias {
        /// The name.
        alias: SmolStr,
    },
    /// A function that does not exist.
    #[error(
        "there is no function {name:?}{}; there are: {}",
        did_you_mean(name, Function::NAMES),
        Function::NAMES.join(", ")
    )]
    UnknownFunction {
        /// Its name.
        name: SmolStr,
    },
    /// An aggregate that does not exist.
    #[error("there is no aggregate {name:?}; there are: {}", crate::engine::AGGREGATES.join(", "))]
    UnknownAggregate {
        /// Its name.
        name: SmolStr,
    },
    /// Too many arguments, or too few.
    #[error("{name:?} takes {} arguments, not {given}", counts(*least, *most))]
    ArgumentCount {
        /// The function.
        name: SmolStr,
        /// How many it was given.
        given: usize,
        /// How many it takes at least.
        least: usize,
        /// How many it takes at most; `usize::MAX` if that is not bounded.
        most: usize,
    },
    /// Values that cannot meet.
    #[error("{function:?} needs {expected} in {call}, and {what} is {found}; sources: {sources}")]
    TypeMismatch {
        /// The function.
        function: &'static str,
        /// The expression it stands in.
        call: String,
        /// What does not fit.
        what: String,
        /// The sources of the query, and what each is.
        sources: String,
        /// What it needs.
        expected: Kind,
        /// What it was given.
        found: Kind,
    },
    /// An aggregate where no groups are.
    #[error("aggregate {name:?} can only stand in select, having and order by, and not in another")]
    MisplacedAggregate {
        /// The aggregate.
        name: SmolStr,
    },
    /// Rows sorted by what only groups have.
    #[error("an aggregate to order by needs group by, or an aggregate in select")]
    OrderByAggregate,
    /// An expression that has many values in one group.
    #[error("{path} is neither grouped by nor in an aggregate, so a group has many of it")]
    NotGrouped {
        /// The reference.
        path: String,
    },
    /// Groups that are filtered but not made.
    #[error("having needs group by, or an aggregate in select")]
    HavingWithoutGroups,
    /// A window over rows in no order.
    #[error("limit and offset need order by: without it nobody can say which rows are first")]
    WindowWithoutOrder,
    /// Equal rows are shown once, but what is shown is not said.
    #[error("distinct needs select")]
    DistinctWithoutSelect,
    /// A join that cannot be worked out.
    #[error("join of {alias:?}: {why}")]
    JoinCondition {
        /// The source that is joined.
        alias: SmolStr,
        /// Which side is to blame.
        side: BadJoin,
        /// What is wrong.
        why: &'static str,
    },
    /// A nested query where it has no place.
    #[error(
        "an include can only stand by itself in the select of a query without groups and distinct"
    )]
    MisplacedInclude,
    /// A nested query whose rows are groups, or equal ones shown once.
    #[error(
        "the include {name:?} cannot have {clause} of its own: put that into a sub-query, \
         include from it, and tie one of its columns to the outer query"
    )]
    GroupedInclude {
        /// The field it is selected as.
        name: SmolStr,
        /// What it must not have.
        clause: &'static str,
    },
    /// A nested query that does not say to which row its rows belong.
    #[error("the include {name:?} needs a filter eq(its own, that of the outer query)")]
    UnrelatedInclude {
        /// The field it is selected as.
        name: SmolStr,
    },
    /// A nested query of text whose rows are more than a text.
    #[error("the include {name:?} is a text, so it must select exactly one column")]
    NotOneColumn {
        /// The field it is selected as.
        name: SmolStr,
    },
    /// Rows of another type than was asked for.
    #[error(
        "the query does not show rows of the type {wanted}; ask it for rows that are data \
         (`Find::<Dynamic>::from(query)`), or for whole rows of that type"
    )]
    OtherRows {
        /// The type that was asked for.
        wanted: &'static str,
    },
    /// Queries that need each other.
    #[error("{}: a query cannot need itself; nothing was defined", cycle.join(" → "))]
    Cycle {
        /// Their names, from one of them back to it.
        cycle: Vec<SmolStr>,
    },
    /// A name that means something already.
    #[error(
        "there is a collection or a query {name:?} already; undefine it or choose another name"
    )]
    NameTaken {
        /// The name.
        name: SmolStr,
    },
    /// A name that others need.
    #[error("{name:?} is a source of {}; undefine those first", names(users))]
    NameInUse {
        /// The name.
        name: SmolStr,
        /// Who needs it.
        users: Vec<SmolStr>,
    },
    /// Too many names.
    #[error("there are {DEFINITIONS_MAX} queries with a name already; undefine some")]
    TooManyDefinitions,
    /// It nests too deep.
    #[error("the query nests deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// It is too large.
    #[error("the query has more than {EXPRESSIONS_MAX} expressions or {SOURCES_MAX} sources")]
    TooLarge,
    /// It remembers more than it may. A live query that comes to this is stopped.
    #[error(
        "the query {query} remembers about {bytes} bytes, and may {bytes_max}: ask for fewer rows \
         or columns, or raise the bound with `Database::bound_queries`"
    )]
    Outgrown {
        /// The query, as JSON.
        query: String,
        /// What it remembers.
        bytes: usize,
        /// What it may.
        bytes_max: usize,
    },
    /// Its joins bring too many rows together at once. A live query that comes to this is stopped.
    #[error(
        "the query {query} joins more than {JOIN_ROWS_MAX} rows at once: join by a column that \
         fewer rows share, or filter before"
    )]
    JoinTooLarge {
        /// The query, as JSON.
        query: String,
    },
    /// It makes too much of constants alone.
    #[error(
        "{call} is too large: a text is at most {TEXT_BYTES_MAX} bytes, and all that a query makes \
         of constants {CONSTANTS_BYTES_MAX}"
    )]
    ConstantTooLarge {
        /// What would make it.
        call: String,
    },
}

/// What is wrong with the condition of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadJoin {
    /// There is none.
    Empty,
    /// A side that names no source.
    NoSource,
    /// Both sides name the same source.
    SameSource,
    /// The left side names a source that is not on the left.
    Left,
    /// The right side names another source than the one that is joined.
    Right,
}

fn counts(least: usize, most: usize) -> String {
    match most {
        usize::MAX => format!("at least {least}"),
        _ if least == most => least.to_string(),
        _ => format!("{least} to {most}"),
    }
}

fn names(known: &[SmolStr]) -> String {
    if known.is_empty() { "none".into() } else { known.join(", ") }
}

/// A write that cannot be. Nothing of its transaction was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No such collection.
    #[error("this database has no collection {number}: the id is one of another database")]
    UnknownCollection {
        /// What its id says.
        number: usize,
    },
    /// A record that was made for another collection.
    #[error(
        "a record with the columns {found} cannot be a row of {collection:?}, which has \
         {expected}: make it with `Database::record` for this collection, or of its row type"
    )]
    ForeignRecord {
        /// The collection.
        collection: SmolStr,
        /// The columns of the record, in order.
        found: String,
        /// The columns of the collection, in order.
        expected: String,
    },
    /// A row that is there already.
    #[error("collection {collection:?} already has a row {key}")]
    DuplicateKey {
        /// The collection.
        collection: SmolStr,
        /// The row.
        key: Key,
    },
    /// A row that is not there.
    #[error("collection {collection:?} has no row {key} to {write}")]
    UnknownKey {
        /// What should be done to it: "update" or "delete".
        write: &'static str,
        /// The collection.
        collection: SmolStr,
        /// The row.
        key: Key,
    },
    /// A row without a key.
    #[error("a row of {collection:?} needs a text or a number in {column:?}, not {found}")]
    BadKey {
        /// The collection.
        collection: SmolStr,
        /// The column of the key.
        column: SmolStr,
        /// What is there.
        found: &'static str,
    },
    /// An update that would make it another row.
    #[error("row {key} of {collection:?} cannot become {new}: delete it and insert the other")]
    KeyChange {
        /// The collection.
        collection: SmolStr,
        /// The row.
        key: Key,
        /// What its key would be.
        new: Key,
    },
    /// A row that does not fit the schema.
    #[error("row {key} of {collection:?}: {field:?} must be {expected}, not {found}")]
    Schema {
        /// The collection.
        collection: SmolStr,
        /// The row.
        key: Key,
        /// The column.
        field: SmolStr,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A row that is no object, or has too many columns.
    #[error(
        "a row of {collection:?} must be a JSON object of at most {COLUMNS_MAX} columns: {why}"
    )]
    NotARow {
        /// The collection.
        collection: SmolStr,
        /// What is wrong.
        why: String,
    },
    /// A transaction that does not exist, or has come to its end.
    #[error("transaction {id} is not open any more")]
    NotOpen {
        /// Its number.
        id: u64,
    },
    /// Too many writes that are not confirmed yet.
    #[error("{pending} writes wait for confirmation already; try again when some are confirmed")]
    TooManyPending {
        /// How many there are.
        pending: usize,
    },
}

impl WriteError {
    /// True if the same write may well be fine later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::TooManyPending { .. })
    }
}
