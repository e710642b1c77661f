//! Gemini: `streamGenerateContent` of Google's Gemini API.
//!
//! [`GeminiDecoder`] reads an answer: adjacent words of one kind are one block, a signed part ends
//! its block, calls come whole. Only a `finishReason`, or the reason why a question is not let
//! through, makes an answer whole.
//!
//! A request is put into turns (`turns`), its schemas into those that Gemini takes (`schema`), and
//! its settings into what the model's generation allows (`generation`, `encode`).

mod body;
mod decode;
mod encode;
mod failure;
mod frame;
mod generation;
mod schema;
#[cfg(test)]
mod tests;
mod turns;
mod wire;

use std::sync::Arc;

use chat::{Abilities, Id, Model, ModelError, ModelErrorKind};
use http::HeaderValue;
use sys::Sys;

pub use self::decode::GeminiDecoder;
use self::{generation::Generation, turns::unsupported, wire::Content};
use crate::{
    Key, TransportSettings,
    builder::{reached_by, set},
    transport::{Access, Remote},
};

/// Where Google's Gemini API begins.
pub const GEMINI_BASE_URL: &str = "https://generativelanguage.googleapis.com";
/// The variables of the environment that hold the key; the first one that is set counts.
pub const GEMINI_KEY_VARIABLES: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// The variable of the environment that holds another base URL.
pub const GEMINI_BASE_URL_VARIABLE: &str = "GEMINI_BASE_URL";

/// What errors and model names call it.
const PROVIDER: &str = "gemini";
/// What calls of the code that Gemini runs are named.
const CODE_EXECUTION: &str = "code_execution";

/// A model of Gemini, about to be reached.
///
/// ```
/// # use providers::Gemini;
/// # fn run(sys: &sys::Sys) -> Result<(), chat::ModelError> {
/// let model = Gemini::new("gemini-3-pro").environment(&providers::environment).build(sys)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "build it"]
pub struct Gemini {
    model: Id,
    base_url: Option<String>,
    key: Option<Key>,
    settings: TransportSettings,
}

impl Gemini {
    /// A model by its name, such as `gemini-3-pro`, or with its folder, such as `tunedModels/mine`.
    pub fn new(model: impl Into<Id>) -> Self {
        let settings = TransportSettings::default();
        Self { model: model.into(), base_url: None, key: None, settings }
    }

    reached_by!("https://generativelanguage.googleapis.com");

    /// Takes from the environment what was not given: `GEMINI_API_KEY`, or else `GOOGLE_API_KEY`,
    /// and `GEMINI_BASE_URL`.
    pub fn environment(mut self, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name| set(variable, name);
        let key = || GEMINI_KEY_VARIABLES.into_iter().find_map(set).map(|key| Key::new(&key));
        self.key = self.key.or_else(key);
        self.base_url = self.base_url.or_else(|| set(GEMINI_BASE_URL_VARIABLE));
        self
    }

    /// The model.
    ///
    /// # Errors
    /// `MissingKey` if there is none, or none that can be sent; `Unsupported` if the base URL is
    /// none that requests may go to, or the model has a name that no path can hold.
    pub fn build(self, sys: &Sys) -> Result<Arc<dyn Model>, ModelError> {
        let key = key_header(self.key.as_ref())?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/@".contains(&byte);
        if self.model.is_empty() || !self.model.bytes().all(is_plain) {
            let remedy = "use letters, digits, -, ., _, @ and /";
            return Err(unsupported(format!("no model is named {:?}; {remedy}", self.model)));
        }
        let access = Access {
            provider: PROVIDER.into(),
            base_url: self.base_url.unwrap_or_else(|| GEMINI_BASE_URL.to_owned()),
            key: self.key,
            settings: self.settings,
        };
        let abilities = Abilities { structured: Generation::of(&self.model).structured() };
        let wire = Content { model: self.model.clone(), key };
        Ok(Arc::new(Remote::new(sys, self.model, abilities, wire, access)?))
    }
}

fn key_header(key: Option<&Key>) -> Result<HeaderValue, ModelError> {
    let missing = |why: String| ModelError::new(PROVIDER, ModelErrorKind::MissingKey, why);
    let Some(key) = key.filter(|key| !key.is_empty()) else {
        let variables = GEMINI_KEY_VARIABLES.join(" or ");
        let why =
            format!("there is no key; set {variables}, or give the model one where it is made");
        return Err(missing(why));
    };
    key.header("").ok_or_else(|| {
        let why = "the key holds characters that no header can, or is too long; copy it again";
        missing(why.to_owned())
    })
}
