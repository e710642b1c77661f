//! Models by their names.

use std::sync::Arc;

use chat::{Model, ModelError, ModelErrorKind};
use sys::Sys;

use crate::{Anthropic, Ollama, OpenAi};

/// How models are named, for whoever asks for one that nobody knows.
const NAMES: &str = "openai:NAME, openai-chat:NAME, anthropic:NAME or ollama:NAME";

/// A model by its name, such as `openai:gpt-5` or `ollama:qwen3`; what else it needs is in the
/// environment. `openai` is the Responses API, `openai-chat` is Chat Completions, which more servers
/// speak.
///
/// # Errors
/// `UnknownModel` if nobody knows the name; else what the provider's builder says.
pub fn by_name(
    name: &str,
    environment: &dyn Fn(&str) -> Option<String>,
    sys: &Sys,
) -> Result<Arc<dyn Model>, ModelError> {
    let (provider, model) = name.split_once(':').unwrap_or((name, ""));
    let unknown = |why: &str| {
        let why = format!("{why}; name a model as {NAMES}");
        Err(ModelError::new(provider, ModelErrorKind::UnknownModel, why))
    };
    match (provider, model) {
        ("openai" | "openai-chat" | "anthropic" | "ollama", "") => {
            unknown("which model is not said")
        }
        ("openai", model) => OpenAi::responses(model).environment(environment).build(sys),
        ("openai-chat", model) => OpenAi::chat(model).environment(environment).build(sys),
        ("anthropic", model) => Anthropic::new(model).environment(environment).build(sys),
        ("ollama", model) => Ollama::new(model).environment(environment).build(sys),
        _ => unknown("there is no such provider"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expect: Result<&str, (ModelErrorKind, &str)>) {
        let key = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-secret".to_owned());
        match (by_name(name, &key, &Sys::real()), expect) {
            (Ok(model), Ok(expect)) => {
                assert_eq!(model.name().to_string(), expect);
                assert!(!format!("{model:?}").contains("secret"));
            }
            (Err(error), Err((kind, why))) => {
                assert_eq!(error.kind, kind);
                assert!(error.message.contains(why), "{error}");
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn a_name_leads_to_a_model_or_says_why_not() {
        check("openai:gpt-5", Ok("openai:gpt-5"));
        check("openai-chat:gpt-4o", Ok("openai:gpt-4o"));
        check("ollama:qwen3:8b", Ok("ollama:qwen3:8b"));
        check("openai", Err((ModelErrorKind::UnknownModel, "which model")));
        check("nobody:x", Err((ModelErrorKind::UnknownModel, "openai:NAME")));
        let error = by_name("openai:gpt-5", &|_| None, &Sys::real()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::MissingKey);
        assert!(error.to_string().starts_with("openai: there is no key; set OPENAI_API_KEY"));
    }
}
