//! What serde calls things.

use syn::{Attribute, LitStr, Path, Result};

/// What attributes say of a field, a variant or the whole.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) rename: Option<String>,
    pub(crate) rename_all: Option<String>,
    pub(crate) is_skipped: bool,
    pub(crate) has_default: bool,
    pub(crate) is_flat: bool,
    pub(crate) is_key: bool,
    pub(crate) is_json: bool,
    pub(crate) name: Option<String>,
    pub(crate) path: Option<Path>,
}

impl Said {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut said = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident("serde") {
                said.serde(attribute)?;
            } else if attribute.path().is_ident("row") {
                said.row(attribute)?;
            }
        }
        Ok(said)
    }

    /// Where the items of the query crate are found: where it says, or else here.
    pub(crate) fn krate(&self, here: &str) -> Result<Path> {
        self.path.clone().map_or_else(|| syn::parse_str(here), Ok)
    }

    fn row(&mut self, attribute: &Attribute) -> Result<()> {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("key") {
                self.is_key = true;
            } else if meta.path.is_ident("json") {
                self.is_json = true;
            } else if meta.path.is_ident("name") {
                self.name = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("crate") {
                self.path = Some(meta.value()?.parse::<LitStr>()?.parse()?);
            } else {
                return Err(meta.error("`row` knows key, json, name = \"…\" and crate = \"…\""));
            }
            Ok(())
        })
    }

    /// Serde's own derive complains of what makes no sense, so here it is passed over.
    fn serde(&mut self, attribute: &Attribute) -> Result<()> {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("rename") && meta.input.peek(syn::Token![=]) {
                self.rename = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("rename_all") && meta.input.peek(syn::Token![=]) {
                self.rename_all = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("skip") {
                self.is_skipped = true;
            } else if meta.path.is_ident("flatten") {
                self.is_flat = true;
            } else if meta.path.is_ident("default") {
                self.has_default = true;
                skip_value(&meta)?;
            } else {
                skip_value(&meta)?;
            }
            Ok(())
        })
    }
}

fn skip_value(meta: &syn::meta::ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(syn::Token![=]) {
        meta.value()?.parse::<syn::Lit>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let content;
        syn::parenthesized!(content in meta.input);
        content.parse::<proc_macro2::TokenStream>()?;
    }
    Ok(())
}

/// A name in one of serde's cases. Fields are written in snake case, variants in Pascal case.
pub(crate) fn in_case(name: &str, case: Option<&str>) -> String {
    let Some(case) = case else { return name.to_owned() };
    let words = words(name);
    let pascal = || words.iter().map(|word| capital(word)).collect::<String>();
    match case {
        "lowercase" => words.concat(),
        "UPPERCASE" => words.concat().to_uppercase(),
        "snake_case" => words.join("_"),
        "SCREAMING_SNAKE_CASE" => words.join("_").to_uppercase(),
        "kebab-case" => words.join("-"),
        "SCREAMING-KEBAB-CASE" => words.join("-").to_uppercase(),
        "PascalCase" => pascal(),
        "camelCase" => {
            let pascal = pascal();
            let mut letters = pascal.chars();
            let first = letters.next().map(|first| first.to_lowercase().to_string());
            first.unwrap_or_default() + letters.as_str()
        }
        _ => name.to_owned(),
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// `in_reply_to` and `InReplyTo` are the words in, reply, to.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words = Vec::<String>::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        words.push(String::new());
        for (index, letter) in part.chars().enumerate() {
            if letter.is_uppercase() && index > 0 {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(letter.to_lowercase());
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::in_case;

    #[test]
    fn names_are_those_that_serde_gives() {
        for (name, case, expected) in [
            ("in_reply_to", Some("camelCase"), "inReplyTo"),
            ("in_reply_to", Some("PascalCase"), "InReplyTo"),
            ("in_reply_to", Some("kebab-case"), "in-reply-to"),
            ("in_reply_to", None, "in_reply_to"),
            ("InReplyTo", Some("snake_case"), "in_reply_to"),
            ("InReplyTo", Some("camelCase"), "inReplyTo"),
            ("Pending", Some("lowercase"), "pending"),
            ("Pending", Some("SCREAMING_SNAKE_CASE"), "PENDING"),
            ("InReplyTo", Some("lowercase"), "inreplyto"),
        ] {
            assert_eq!(in_case(name, case), expected);
        }
    }
}
