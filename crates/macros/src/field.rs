//! `#[derive(Field)]`

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Result, spanned::Spanned};

use crate::names::{Said, in_case};

pub(crate) fn expand(input: &DeriveInput, krate: &str) -> Result<TokenStream> {
    let said = Said::read(&input.attrs)?;
    let Data::Enum(data) = &input.data else {
        let why = "only an enum can be a field; mark fields of other types `#[row(json)]`";
        return Err(Error::new(input.span(), why));
    };
    let krate = said.krate(krate)?;
    let (mut idents, mut names) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.span(), "a word of a column carries no data"));
        }
        let own = Said::read(&variant.attrs)?;
        let plain = variant.ident.to_string();
        names.push(own.rename.unwrap_or_else(|| in_case(&plain, said.rename_all.as_deref())));
        idents.push(&variant.ident);
    }
    let ty = &input.ident;
    Ok(quote! {
        impl #krate::Field for #ty {
            fn kind() -> #krate::Kind {
                #krate::Kind::Text
            }

            fn to_value(&self) -> #krate::Value {
                match self {
                    #(Self::#idents => #krate::Value::word(#names),)*
                }
            }

            fn from_value(value: &#krate::Value) -> ::core::option::Option<Self> {
                match value.as_text()?.as_ref() {
                    #(#names => ::core::option::Option::Some(Self::#idents),)*
                    _ => ::core::option::Option::None,
                }
            }

            fn json_schema() -> #krate::Value {
                #krate::Value::object([(
                    "enum",
                    #krate::Value::list([#(#krate::Value::word(#names)),*]),
                )])
            }
        }

        impl ::core::convert::From<#ty> for #krate::Expr {
            fn from(word: #ty) -> Self {
                #krate::Expr::Val(#krate::Field::to_value(&word))
            }
        }
    })
}
