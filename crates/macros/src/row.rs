//! `#[derive(Row)]`

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Type, spanned::Spanned};

use crate::names::{Said, in_case, words};

/// One column.
struct Column<'a> {
    field: &'a Ident,
    ty: &'a Type,
    name: String,
    said: Said,
}

pub(crate) fn expand(input: &DeriveInput, krate: &str) -> Result<TokenStream> {
    let said = Said::read(&input.attrs)?;
    let columns = columns(input, &said)?;
    let key = key(input, &columns)?;
    if let Some(param) = input.generics.params.first() {
        return Err(Error::new(param.span(), "a row has no type parameters"));
    }
    let krate = said.krate(krate)?;
    let (row, vis) = (&input.ident, &input.vis);
    let name = said.name.clone().unwrap_or_else(|| words(&row.to_string()).join("_"));
    let (key_name, key_field) = (&key.name, key.field);
    let names: Vec<_> = columns.iter().map(|column| &column.name).collect();
    let handles = columns.iter().map(|column| {
        let (field, ty, name) = (column.field, column.ty, &column.name);
        let doc = format!("The column `{name}`.");
        quote! {
            #[doc = #doc]
            #[allow(non_upper_case_globals)]
            #vis const #field: #krate::Column<#row, #ty> = #krate::Column::new(#name);
        }
    });
    let reads = columns.iter().enumerate().map(|(index, column)| {
        let read = column.read(&krate);
        quote! { #index => #read, }
    });
    let writes = columns.iter().enumerate().map(|(index, column)| {
        let (field, write) = (column.field, column.write(&krate));
        quote! { #index => row.#field = #write?, }
    });
    let defs = columns.iter().map(|column| column.def(&krate));
    Ok(quote! {
        impl #row {
            #(#handles)*
        }

        impl #krate::Columns for #row {
            fn names(&self) -> &'static [&'static str] {
                &[#(#names),*]
            }

            fn column(&self, index: usize) -> #krate::Value {
                match index {
                    #(#reads)*
                    _ => #krate::Value::Missing,
                }
            }

            fn with(
                &self,
                changes: &[(usize, #krate::Value)],
            ) -> ::core::option::Option<::std::sync::Arc<dyn #krate::Columns>> {
                let mut row = ::core::clone::Clone::clone(self);
                for (index, value) in changes {
                    match index {
                        #(#writes)*
                        _ => return ::core::option::Option::None,
                    }
                }
                ::core::option::Option::Some(::std::sync::Arc::new(row))
            }
        }

        impl #krate::Row for #row {
            const NAME: &'static str = #name;
            const KEY: &'static str = #key_name;

            fn key(&self) -> #krate::Key {
                #krate::Field::to_value(&self.#key_field)
            }

            fn columns() -> ::std::vec::Vec<#krate::ColumnDef> {
                ::std::vec![#(#defs),*]
            }
        }
    })
}

impl Column<'_> {
    fn read(&self, krate: &syn::Path) -> TokenStream {
        let field = self.field;
        if self.said.is_json {
            quote! { #krate::Value::of(&self.#field).unwrap_or_default() }
        } else {
            quote! { #krate::Field::to_value(&self.#field) }
        }
    }

    fn write(&self, krate: &syn::Path) -> TokenStream {
        if self.said.is_json {
            quote! { #krate::Value::read(value).ok() }
        } else {
            quote! { #krate::Field::from_value(value) }
        }
    }

    fn def(&self, krate: &syn::Path) -> TokenStream {
        let (name, ty) = (&self.name, self.ty);
        let is_optional = self.said.has_default;
        if self.said.is_json {
            return quote! { #krate::ColumnDef::any(#name) };
        }
        quote! { #krate::ColumnDef::of::<#ty>(#name, #is_optional) }
    }
}

fn columns<'a>(input: &'a DeriveInput, whole: &Said) -> Result<Vec<Column<'a>>> {
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        _ => return Err(Error::new(input.span(), "only a struct can be a row")),
    };
    let Fields::Named(fields) = fields else {
        return Err(Error::new(fields.span(), "the columns of a row need names"));
    };
    let mut columns = Vec::new();
    for field in &fields.named {
        let said = Said::read(&field.attrs)?;
        let Some(ident) = &field.ident else { continue };
        if said.is_flat {
            return Err(Error::new(field.span(), "columns cannot be flattened: name them here"));
        }
        if said.is_skipped {
            continue;
        }
        let plain = ident.to_string();
        let plain = plain.trim_start_matches("r#");
        let name = said.rename.clone();
        let name = name.unwrap_or_else(|| in_case(plain, whole.rename_all.as_deref()));
        columns.push(Column { field: ident, ty: &field.ty, name, said });
    }
    Ok(columns)
}

/// The field marked as key, or the one called `id`.
fn key<'a, 'b>(input: &DeriveInput, columns: &'b [Column<'a>]) -> Result<&'b Column<'a>> {
    let mut marked = columns.iter().filter(|column| column.said.is_key);
    match (marked.next(), marked.next()) {
        (Some(_), Some(second)) => {
            Err(Error::new(second.field.span(), "a row has one key: mark one field"))
        }
        (Some(key), None) => Ok(key),
        (None, _) => columns.iter().find(|column| column.name == "id").ok_or_else(|| {
            Error::new(input.ident.span(), "a row needs a key: a field `id`, or `#[row(key)]`")
        }),
    }
}
