//! Where reasonable engines differ.

/// How expressions and aggregates treat what is not there or not of the right kind.
///
/// | | [`Sql`](Self::Sql) | [`Tanstack`](Self::Tanstack) |
/// |---|---|---|
/// | `null` and what is missing | one and the same | two values, two groups |
/// | `1 + null`, `"5" - 2` | `null`, `null` | `1`, `3` |
/// | `1 < "x"` | unknown | as JavaScript compares |
/// | `2 not in [1, null]` | unknown | true |
/// | `sum`, `avg`, `min`, `max` of `null` | leave it out | take it for `0` |
/// | aggregates over no row, no `group by` | one row | no row |
/// | unknown columns and aliases | an error | missing |
/// | rows that tie | by key, member by member | by key as text |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Semantics {
    /// As SQL has it. The default.
    #[default]
    Sql,
    /// As `@tanstack/db` 0.15 has it, for comparison with it.
    Tanstack,
}
