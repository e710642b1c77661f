//! The derives: a struct becomes a row, an enum becomes a value of a column.
//!
//! They are documented where they are used: see `query::Row` and `query::Field`.

mod field;
mod names;
mod row;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct a row of a collection: its key, its columns, a handle for each of them, and its
/// JSON Schema.
#[proc_macro_derive(Row, attributes(row))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    row::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes an enum of plain words a value that a column can have.
#[proc_macro_derive(Field, attributes(row))]
pub fn derive_field(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    field::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
