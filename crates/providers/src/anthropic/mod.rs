//! Anthropic: the Messages API.
//!
//! [`AnthropicDecoder`] reads an answer: blocks by their index, thoughts with their signatures,
//! tools that Anthropic runs with what came of them as the wire writes it, so that it can be sent
//! back. Only `message_stop`, or a stop reason with every block ended, makes an answer whole.
//!
//! A request is put into turns (`turns`), its schemas into those that Anthropic takes (`schema`),
//! and its settings into what the model's generation allows (`generation`, `encode`).

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

pub use self::decode::AnthropicDecoder;
use self::{generation::Generation, wire::Messages};
use crate::{
    Key, TransportSettings,
    builder::{reached_by, set},
    transport::{Access, Remote},
};

/// Where Anthropic's API begins.
pub const ANTHROPIC_BASE_URL: &str = "https://api.anthropic.com";
/// The variable of the environment that holds the key.
pub const ANTHROPIC_KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";
/// The variable of the environment that holds another base URL.
pub const ANTHROPIC_BASE_URL_VARIABLE: &str = "ANTHROPIC_BASE_URL";

/// What errors and model names call it.
const PROVIDER: &str = "anthropic";

/// A model of Anthropic, about to be reached.
///
/// ```
/// # use providers::Anthropic;
/// # fn run(sys: &sys::Sys) -> Result<(), chat::ModelError> {
/// let model = Anthropic::new("claude-sonnet-5").environment(&providers::environment).build(sys)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "build it"]
pub struct Anthropic {
    model: Id,
    base_url: Option<String>,
    key: Option<Key>,
    betas: Vec<String>,
    settings: TransportSettings,
}

impl Anthropic {
    /// A model by its name, such as `claude-sonnet-5`.
    pub fn new(model: impl Into<Id>) -> Self {
        let settings = TransportSettings::default();
        Self { model: model.into(), base_url: None, key: None, betas: Vec::new(), settings }
    }

    reached_by!("https://api.anthropic.com");

    /// Asks for something that is not for everybody yet, such as
    /// `interleaved-thinking-2025-05-14`.
    pub fn beta(mut self, name: impl Into<String>) -> Self {
        self.betas.push(name.into());
        self
    }

    /// Takes from the environment what was not given: `ANTHROPIC_API_KEY` and
    /// `ANTHROPIC_BASE_URL`.
    pub fn environment(mut self, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name| set(variable, name);
        self.key = self.key.or_else(|| set(ANTHROPIC_KEY_VARIABLE).map(|key| Key::new(&key)));
        self.base_url = self.base_url.or_else(|| set(ANTHROPIC_BASE_URL_VARIABLE));
        self
    }

    /// The model.
    ///
    /// # Errors
    /// `MissingKey` if there is none, or none that can be sent; `Unsupported` if the base URL is
    /// none that requests may go to, or a beta has no name.
    pub fn build(self, sys: &Sys) -> Result<Arc<dyn Model>, ModelError> {
        let key = key_header(self.key.as_ref())?;
        let betas = betas_header(&self.betas)?;
        let access = Access {
            provider: PROVIDER.into(),
            base_url: self.base_url.unwrap_or_else(|| ANTHROPIC_BASE_URL.to_owned()),
            key: self.key,
            settings: self.settings,
        };
        let abilities = Abilities { structured: Generation::of(&self.model).structured() };
        let wire = Messages { model: self.model.clone(), key, betas };
        Ok(Arc::new(Remote::new(sys, self.model, abilities, wire, access)?))
    }
}

fn key_header(key: Option<&Key>) -> Result<HeaderValue, ModelError> {
    let missing = |why: String| ModelError::new(PROVIDER, ModelErrorKind::MissingKey, why);
    let Some(key) = key.filter(|key| !key.is_empty()) else {
        let remedy =
            format!("set {ANTHROPIC_KEY_VARIABLE}, or give the model one where it is made");
        return Err(missing(format!("there is no key; {remedy}")));
    };
    key.header("").ok_or_else(|| {
        let why = "the key holds characters that no header can, or is too long; copy it again";
        missing(why.to_owned())
    })
}

fn betas_header(names: &[String]) -> Result<Option<HeaderValue>, ModelError> {
    if names.is_empty() {
        return Ok(None);
    }
    let header = HeaderValue::from_str(&names.join(","));
    header.map(Some).map_err(|_| {
        let why = "a beta has a name that no header can hold; copy it again";
        ModelError::new(PROVIDER, ModelErrorKind::Unsupported, why)
    })
}
