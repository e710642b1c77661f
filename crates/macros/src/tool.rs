//! `#[tool]`

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitInt, LitStr, Meta, Pat, PatType,
    Path, Result, ReturnType, Signature, Type, parse::Parser, spanned::Spanned,
};

/// The longest name that every provider allows.
const NAME_LEN_MAX: usize = 64;

const OPTIONS: &str = "`tool` knows name = \"…\", needs_approval, needs_approval = |…| …, \
     effect = \"pure\" | \"idempotent\" | \"once\", lazy, output, time_max_secs = 5, \
     output_bytes_max = 1000 and crate = \"…\"";

/// What the attribute says of the tool.
#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    path: Option<Path>,
    effect: Option<Ident>,
    has_output: bool,
    /// Calls on the builder.
    calls: Vec<TokenStream>,
    /// A rule for arguments that a person must agree to.
    rule: Option<Expr>,
}

/// An argument that a model gives.
struct Argument<'a> {
    name: &'a Ident,
    ty: &'a Type,
    /// Attributes of the field that it becomes.
    attributes: Vec<TokenStream>,
    default: Option<TokenStream>,
}

/// Where an argument of the function comes from.
enum Given<'a> {
    Model(Argument<'a>),
    Context,
}

pub(crate) fn expand(options: TokenStream, item: TokenStream, krate: &str) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(item)?;
    let options = Options::read(options)?;
    check(&function.sig)?;
    let krate = options.path.clone().map_or_else(|| syn::parse_str(krate), Ok)?;
    let name = name(&function.sig.ident, options.name.as_ref())?;
    let description = docs(&function.attrs);
    if description.is_empty() {
        let why = "a model must know what the tool is for: say it in a doc comment";
        return Err(Error::new(function.sig.ident.span(), why));
    }
    let given = given(&function.sig)?;
    let arguments: Vec<_> = given.iter().filter_map(Given::argument).collect();
    let mut calls = options.calls.clone();
    if let Some(effect) = &options.effect {
        calls.push(quote! { .effect(#krate::Effect::#effect) });
    }
    if options.has_output {
        let answer = answer_type(&function.sig.output)?;
        calls.push(quote! { .output::<#answer>() });
    }
    if let Some(rule) = &options.rule {
        let names = arguments.iter().map(|argument| argument.name);
        calls.push(quote! {
            .approve_when(|arguments: &__Arguments| (#rule)(#(&arguments.#names),*))
        });
    }
    let fields = fields(&arguments, &krate);
    let names: Vec<_> = arguments.iter().map(|argument| argument.name).collect();
    let passed = given.iter().map(|given| match given {
        Given::Model(argument) => argument.name.to_token_stream(),
        Given::Context => quote! { __context },
    });
    let answer = if is_result(&function.sig.output) {
        quote! { answer.map_err(#krate::ToolError::new) }
    } else {
        quote! { ::core::result::Result::Ok::<_, #krate::ToolError>(answer) }
    };
    let (outer, inner): (Vec<_>, Vec<_>) =
        function.attrs.iter().partition(|attribute| is_outer(attribute));
    let (vis, ident, run) = (&function.vis, &function.sig.ident, inner_function(&function));
    Ok(quote! {
        #(#outer)*
        #vis fn #ident() -> #krate::Tool {
            #fields
            #(#inner)*
            #run
            let built = #krate::Tool::builder(#name, #description)
                .input::<__Arguments>()
                #(#calls)*
                .run(|arguments: __Arguments, __context: #krate::ToolContext| async move {
                    let __Arguments { #(#names),* } = arguments;
                    let answer = __run(#(#passed),*).await;
                    #answer
                });
            match built {
                ::core::result::Result::Ok(tool) => tool,
                ::core::result::Result::Err(bad) => ::core::panic!("{bad}"),
            }
        }
    })
}

impl Options {
    fn read(options: TokenStream) -> Result<Self> {
        let mut read = Self::default();
        let parser = syn::meta::parser(|meta| {
            let Some(option) = meta.path.get_ident() else { return Err(meta.error(OPTIONS)) };
            match option.to_string().as_str() {
                "name" => read.name = Some(meta.value()?.parse()?),
                "crate" => read.path = Some(meta.value()?.parse::<LitStr>()?.parse()?),
                "needs_approval" if meta.input.peek(syn::Token![=]) => {
                    read.rule = Some(meta.value()?.parse()?);
                }
                "needs_approval" => read.calls.push(quote! { .needs_approval() }),
                "lazy" => read.calls.push(quote! { .lazy() }),
                "output" => read.has_output = true,
                "effect" => read.effect = Some(effect(&meta.value()?.parse()?)?),
                "time_max_secs" => {
                    let seconds: LitInt = meta.value()?.parse()?;
                    let seconds: u64 = seconds.base10_parse()?;
                    read.calls
                        .push(quote! { .time_max(::core::time::Duration::from_secs(#seconds)) });
                }
                "output_bytes_max" => {
                    let bytes: LitInt = meta.value()?.parse()?;
                    let bytes: usize = bytes.base10_parse()?;
                    read.calls.push(quote! { .output_bytes_max(#bytes) });
                }
                _ => return Err(meta.error(OPTIONS)),
            }
            Ok(())
        });
        parser.parse2(options)?;
        Ok(read)
    }
}

impl<'a> Given<'a> {
    fn argument(&self) -> Option<&Argument<'a>> {
        match self {
            Self::Model(argument) => Some(argument),
            Self::Context => None,
        }
    }
}

impl<'a> Argument<'a> {
    fn read(argument: &'a PatType) -> Result<Self> {
        let Pat::Ident(pattern) = &*argument.pat else {
            let why = "give this argument a name: a model calls it by that";
            return Err(Error::new(argument.pat.span(), why));
        };
        if let Type::Reference(reference) = &*argument.ty {
            let why = "a tool owns its arguments: take a `String`, a `Vec` or such";
            return Err(Error::new(reference.span(), why));
        }
        if let Type::ImplTrait(generic) = &*argument.ty {
            return Err(Error::new(generic.span(), "a tool has no type parameters"));
        }
        let (name, ty) = (&pattern.ident, &*argument.ty);
        let mut read = Self { name, ty, attributes: Vec::new(), default: None };
        for attribute in &argument.attrs {
            if attribute.path().is_ident("arg") {
                read.arg(attribute)?;
            } else if ["doc", "serde", "schemars"].iter().any(|at| attribute.path().is_ident(at)) {
                read.attributes.push(attribute.to_token_stream());
            } else {
                let why = "an argument takes doc comments, `arg`, `serde` and `schemars`";
                return Err(Error::new(attribute.span(), why));
            }
        }
        Ok(read)
    }

    /// `#[arg("what it is", default = 3)]`
    fn arg(&mut self, attribute: &Attribute) -> Result<()> {
        let known = "`arg` knows \"a description\", default and default = …";
        let Meta::List(list) = &attribute.meta else {
            return Err(Error::new(attribute.span(), known));
        };
        list.parse_args_with(|input: syn::parse::ParseStream<'_>| {
            while !input.is_empty() {
                if input.peek(LitStr) {
                    let description: LitStr = input.parse()?;
                    self.attributes.push(quote! { #[doc = #description] });
                } else {
                    let word: Ident = input.parse()?;
                    if word != "default" {
                        return Err(Error::new(word.span(), known));
                    }
                    self.default = Some(default(input)?);
                }
                if !input.is_empty() {
                    input.parse::<syn::Token![,]>()?;
                }
            }
            Ok(())
        })
    }

    fn default_ident(&self) -> Ident {
        let plain = self.name.to_string();
        format_ident!("__default_{}", plain.trim_start_matches("r#"))
    }
}

/// What stands after `default`.
fn default(input: syn::parse::ParseStream<'_>) -> Result<TokenStream> {
    if !input.peek(syn::Token![=]) {
        return Ok(quote! { ::core::default::Default::default() });
    }
    input.parse::<syn::Token![=]>()?;
    Ok(match input.parse()? {
        // A text is written as it is, and becomes what the argument is.
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            quote! { ::core::convert::From::from(#text) }
        }
        value => value.into_token_stream(),
    })
}

/// Whether the function can be a tool.
fn check(signature: &Signature) -> Result<()> {
    if signature.asyncness.is_none() {
        let why = "a tool is async: write `async fn`, even if it does not wait";
        return Err(Error::new(signature.fn_token.span(), why));
    }
    if let Some(receiver) = signature.receiver() {
        let why = "a tool is a function of its own: use `Tool::builder` to give it something";
        return Err(Error::new(receiver.span(), why));
    }
    if let Some(parameter) = signature.generics.params.first() {
        return Err(Error::new(parameter.span(), "a tool has no type parameters"));
    }
    if let Some(unsafety) = &signature.unsafety {
        return Err(Error::new(unsafety.span(), "a tool is safe: a model calls it as it likes"));
    }
    Ok(())
}

fn given(signature: &Signature) -> Result<Vec<Given<'_>>> {
    let mut given = Vec::new();
    for input in &signature.inputs {
        let FnArg::Typed(argument) = input else { continue };
        given.push(match &*argument.ty {
            ty if is_context(ty) => Given::Context,
            Type::Reference(reference) if is_context(&reference.elem) => {
                return Err(Error::new(reference.span(), "take the `ToolContext` by value"));
            }
            _ => Given::Model(Argument::read(argument)?),
        });
    }
    Ok(given)
}

fn name(ident: &Ident, said: Option<&LitStr>) -> Result<String> {
    let (name, span) = said.map_or_else(
        || (ident.to_string().trim_start_matches("r#").to_owned(), ident.span()),
        |said| (said.value(), said.span()),
    );
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_letter) {
        return Ok(name);
    }
    let why = format!(
        "{name:?} cannot be the name of a tool: use 1 to {NAME_LEN_MAX} of the letters a-z and \
         A-Z, digits, `_` and `-`"
    );
    Err(Error::new(span, why))
}

fn effect(word: &LitStr) -> Result<Ident> {
    let variant = match word.value().as_str() {
        "pure" => "Pure",
        "idempotent" => "Idempotent",
        "once" => "Once",
        _ => {
            let why = "an effect is \"pure\", \"idempotent\" or \"once\"";
            return Err(Error::new(word.span(), why));
        }
    };
    Ok(Ident::new(variant, word.span()))
}

/// The arguments as a struct, and the defaults of those that have one.
fn fields(arguments: &[&Argument<'_>], krate: &Path) -> TokenStream {
    let fields = arguments.iter().map(|argument| {
        let Argument { name, ty, attributes, default } = argument;
        let default = default.as_ref().map(|_| {
            let path = argument.default_ident().to_string();
            quote! { #[serde(default = #path)] }
        });
        quote! { #(#attributes)* #default #name: #ty }
    });
    let defaults = arguments.iter().filter_map(|argument| {
        let (ident, ty) = (argument.default_ident(), argument.ty);
        let value = argument.default.as_ref()?;
        Some(quote! { fn #ident() -> #ty { #value } })
    });
    let path = krate.to_token_stream().to_string().replace(' ', "");
    let (serde, schemars) = (format!("{path}::serde"), format!("{path}::schemars"));
    quote! {
        #(#defaults)*
        #[derive(#krate::serde::Deserialize, #krate::schemars::JsonSchema)]
        #[serde(crate = #serde, deny_unknown_fields)]
        #[schemars(crate = #schemars)]
        struct __Arguments { #(#fields),* }
    }
}

/// The function as it was written, under another name.
fn inner_function(function: &ItemFn) -> TokenStream {
    let mut signature = function.sig.clone();
    signature.ident = Ident::new("__run", signature.ident.span());
    for input in &mut signature.inputs {
        if let FnArg::Typed(argument) = input {
            argument.attrs.clear();
        }
    }
    let body = &function.block;
    quote! {
        // A tool is async even if it does not wait.
        #[allow(clippy::unused_async)]
        #signature #body
    }
}

fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value()),
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<_> =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n").trim().to_owned()
}

/// What is said of the tool, and not of what it does.
fn is_outer(attribute: &Attribute) -> bool {
    ["doc", "cfg", "deprecated", "must_use"].iter().any(|name| attribute.path().is_ident(name))
}

fn is_context(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|last| last.ident == "ToolContext")
}

fn is_result(output: &ReturnType) -> bool {
    match output {
        ReturnType::Type(_, ty) => last_segment(ty).is_some_and(|last| last.ident == "Result"),
        ReturnType::Default => false,
    }
}

/// What a tool answers if it does not fail.
fn answer_type(output: &ReturnType) -> Result<TokenStream> {
    let ReturnType::Type(_, ty) = output else { return Ok(quote! { () }) };
    if !is_result(output) {
        return Ok(ty.to_token_stream());
    }
    let arguments = last_segment(ty).map(|last| &last.arguments);
    let Some(syn::PathArguments::AngleBracketed(generics)) = arguments else {
        let why = "`output` must see the type: write `Result<Type, Error>`";
        return Err(Error::new(ty.span(), why));
    };
    Ok(generics.args.first().to_token_stream())
}

fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Group(group) => last_segment(&group.elem),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &str, item: &str, expected: &str) {
        let (options, item) = (options.parse().unwrap(), item.parse().unwrap());
        let error = expand(options, item, "::chat").unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_cannot_be_a_tool_is_told() {
        for (item, expected) in [
            ("/** A. */ fn a() {}", "a tool is async"),
            ("async fn a() {}", "say it in a doc comment"),
            ("/** A. */ async fn a(&self) {}", "a function of its own"),
            ("/** A. */ async fn a<T>(t: T) {}", "no type parameters"),
            ("/** A. */ async fn a(t: impl Into<String>) {}", "no type parameters"),
            ("/** A. */ async unsafe fn a() {}", "a tool is safe"),
            ("/** A. */ async fn a((b, c): (u8, u8)) {}", "give this argument a name"),
            ("/** A. */ async fn a(b: &str) {}", "owns its arguments"),
            ("/** A. */ async fn a(c: &ToolContext) {}", "by value"),
            ("/** A. */ async fn a(#[inline] b: u8) {}", "takes doc comments"),
            ("/** A. */ async fn a(#[arg(defualt = 3)] b: u8) {}", "`arg` knows"),
            ("/** A. */ async fn a(#[arg] b: u8) {}", "`arg` knows"),
            ("/** A. */ async fn größe() {}", "cannot be the name of a tool"),
            ("/** A. */ struct A;", "expected"),
        ] {
            check("", item, expected);
        }
    }

    #[test]
    fn what_no_tool_can_be_told_is_refused() {
        for (options, expected) in [
            ("pure", "`tool` knows"),
            ("a::b", "`tool` knows"),
            ("name = \"a b\"", "cannot be the name of a tool"),
            ("effect = \"twice\"", "an effect is"),
            ("time_max_secs = \"5\"", "expected integer"),
            ("output", "must see the type"),
        ] {
            check(options, "/** A. */ async fn a() -> fmt::Result { todo() }", expected);
        }
    }
}
