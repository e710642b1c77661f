//! The derives: a struct becomes a row, an enum becomes a value of a column. And `#[tool]`: a
//! function becomes a tool.
//!
//! They are documented where they are used: see `query::Row`, `query::Field` and `chat::tool`.

mod field;
mod names;
mod row;
mod tool;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct a row of a collection: its key, its columns, a handle for each of them, and its
/// JSON Schema.
#[proc_macro_derive(Row, attributes(row))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    expand(input, row::expand, "::query")
}

/// Makes an enum of plain words a value that a column can have.
#[proc_macro_derive(Field, attributes(row))]
pub fn derive_field(input: TokenStream) -> TokenStream {
    expand(input, field::expand, "::query")
}

/// [`macro@Row`] for those who know the crate `live` alone.
#[proc_macro_derive(LiveRow, attributes(row))]
pub fn derive_live_row(input: TokenStream) -> TokenStream {
    expand(input, row::expand, "::live")
}

/// [`macro@Field`] for those who know the crate `live` alone.
#[proc_macro_derive(LiveField, attributes(row))]
pub fn derive_live_field(input: TokenStream) -> TokenStream {
    expand(input, field::expand, "::live")
}

/// Makes an `async fn` a function that returns a tool which does the same.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = tool::expand(options.into(), item.into(), "::chat");
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Expands a derive; `krate` is where its items are found unless the input says otherwise.
fn expand(
    input: TokenStream,
    derive: fn(&DeriveInput, &str) -> syn::Result<proc_macro2::TokenStream>,
    krate: &str,
) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derive(&input, krate).unwrap_or_else(|error| error.to_compile_error()).into()
}
