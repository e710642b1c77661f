//! Models by their names.

use std::sync::Arc;

use chat::{Model, ModelError, ModelErrorKind};
use sys::Sys;

use crate::{Anthropic, Gemini, Ollama, OpenAi, scripted::Scripted};

/// How models are named, for whoever asks for one that nobody knows.
#[cfg(not(feature = "genai"))]
const NAMES: &str =
    "scripted, openai:NAME, openai-chat:NAME, anthropic:NAME, gemini:NAME or ollama:NAME";
#[cfg(feature = "genai")]
const NAMES: &str = "scripted, openai:NAME, openai-chat:NAME, anthropic:NAME, gemini:NAME, \
                     ollama:NAME or genai:NAME";

/// A model by its name, such as `openai:gpt-5` or `ollama:qwen3`; what else it needs is in the
/// environment. `openai` is the Responses API, `openai-chat` is Chat Completions, which more
/// servers speak. With the feature `genai`, `genai:groq::NAME` is reached through that crate.
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
        ("", _) => unknown("the name is empty"),
        ("scripted", "") => Ok(Arc::new(Scripted::demo(sys.clone()))),
        ("openai" | "openai-chat" | "anthropic" | "gemini" | "ollama", "") => {
            unknown("which model is not said")
        }
        ("openai", model) => OpenAi::responses(model).environment(environment).build(sys),
        ("openai-chat", model) => OpenAi::chat(model).environment(environment).build(sys),
        ("anthropic", model) => Anthropic::new(model).environment(environment).build(sys),
        ("gemini", model) => Gemini::new(model).environment(environment).build(sys),
        ("ollama", model) => Ollama::new(model).environment(environment).build(sys),
        #[cfg(feature = "genai")]
        ("genai", "") => unknown("which model is not said"),
        #[cfg(feature = "genai")]
        ("genai", model) => crate::GenAi::new(model).environment(environment).build(sys),
        ("scripted", _) => unknown("there is only one scripted model"),
        _ => unknown("there is no such provider"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expect: Result<&str, (ModelErrorKind, &str)>) {
        let key = |name: &str| name.ends_with("_API_KEY").then(|| "sk-secret".to_owned());
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
        check("anthropic:claude-sonnet-5", Ok("anthropic:claude-sonnet-5"));
        check("gemini:gemini-3-pro", Ok("gemini:gemini-3-pro"));
        check("gemini:a?b", Err((ModelErrorKind::Unsupported, "no model is named")));
        check("ollama:qwen3:8b", Ok("ollama:qwen3:8b"));
        check("openai", Err((ModelErrorKind::UnknownModel, "which model")));
        check("nobody:x", Err((ModelErrorKind::UnknownModel, "openai:NAME")));
        let error = by_name("openai:gpt-5", &|_| None, &Sys::real()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::MissingKey);
        assert!(error.to_string().starts_with("openai: there is no key; set OPENAI_API_KEY"));
        for (name, variables) in [
            ("anthropic:claude", "anthropic: there is no key; set ANTHROPIC_API_KEY"),
            ("gemini:gemini", "gemini: there is no key; set GEMINI_API_KEY or GOOGLE_API_KEY"),
        ] {
            let error = by_name(name, &|_| None, &Sys::real()).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::MissingKey);
            assert!(error.to_string().starts_with(variables), "{error}");
        }
    }
}
