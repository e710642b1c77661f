//! Every bound of this crate.

/// Different columns in one collection or object.
pub const COLUMNS_MAX: usize = 1_024;
/// Columns that a collection without a schema has before queries cannot ask for new ones.
pub const COLUMNS_BY_QUERY_MAX: usize = COLUMNS_MAX / 2;
/// Sources in one query, sub-queries counted with theirs.
pub const SOURCES_MAX: usize = 32;
/// How deep queries and expressions may nest.
pub const DEPTH_MAX: usize = 64;
/// Queries with a name in one database.
pub const DEFINITIONS_MAX: usize = 1_024;
/// Nodes of all expressions of one query.
pub const EXPRESSIONS_MAX: usize = 10_000;
/// Indexes of one collection.
pub const INDEXES_MAX: usize = 16;
/// Fewer rows are read faster than an index is made.
pub const INDEX_ROWS_MIN: usize = 256;
/// How often a column is looked up before it gets an index.
pub const INDEX_LOOKUPS_MIN: u32 = 2;
/// How often an order is missed by those who read it once: it takes as long to make as to read
/// all rows some times.
pub const INDEX_ORDERS_MIN: u32 = 8;
/// Columns and orders of one collection that are counted because an index for them was missed.
pub const INDEX_WISHES_MAX: usize = 256;
/// Rows that a window holds beyond its end at least, before it reads the next ones.
pub const WINDOW_SPARE_MIN: usize = 64;
/// Longer names are not compared with those that there are.
pub const NAME_LEN_SUGGESTED_MAX: usize = 64;
/// Characters of an expression that an error quotes.
pub const QUOTE_LEN_MAX: usize = 120;
/// Writes of one database that wait for confirmation.
pub const PENDING_MAX: usize = 100_000;
/// Bytes of a text that a function makes of others. One that would be longer is `null` where it is
/// made of a row, and refuses the query where it is made of constants.
pub const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The size of a list or an object that a query makes, as JSON: that of the largest row. What would
/// be larger is treated as a text that is too long.
pub const VALUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// What all values together come to that the expressions of one source, or of the query over its
/// sources, make of constants, as JSON.
pub const CONSTANTS_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a format of `strftime`: three of them can ask for twenty. A longer one makes no sense.
pub const FORMAT_BYTES_MAX: usize = 1_024;
/// How often a pattern may look at each character. Whether a text fits that takes longer is
/// unknown: `null`.
pub const PATTERN_LOOKS_MAX: usize = 64;

/// What a live query may remember, in bytes; `Database::bound_queries` sets another bound. One that
/// outgrows it is stopped.
pub const QUERY_BYTES_MAX: usize = 1 << 30;
/// Rows that a join may bring together in one tick. They are all there at once, whatever becomes of
/// them.
pub const JOIN_ROWS_MAX: usize = 1 << 22;
/// How many rows change at least before a query is weighed again; a large one is weighed when as
/// many have changed as it holds.
pub const WEIGHED_ROWS_MIN: usize = 256;

const _: () = assert!(TEXT_BYTES_MAX <= CONSTANTS_BYTES_MAX);
const _: () = assert!(CONSTANTS_BYTES_MAX <= VALUE_BYTES_MAX);
