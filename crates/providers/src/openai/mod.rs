//! OpenAI, by both of its wires, and servers that speak like it.

mod chat_decoder;
mod chat_encoder;
pub(crate) mod failure;
mod responses_decoder;
mod responses_encoder;
mod responses_items;
mod responses_words;
pub(crate) mod words;

use std::sync::Arc;

use ::chat::{Abilities, Id, Model, ModelError, ModelErrorKind, Request, Structured};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};
use sys::Sys;

pub use self::{chat_decoder::ChatDecoder, responses_decoder::ResponsesDecoder};
use self::{chat_encoder::ChatEncoder, responses_encoder::ResponsesEncoder};
use crate::{
    Key, TransportSettings,
    builder::{reached_by, set},
    transport::{Access, Remote},
    wire::{Framing, Outgoing, Wire},
};

/// Where OpenAI's API begins.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
/// The variable of the environment that holds the key.
pub const OPENAI_KEY_VARIABLE: &str = "OPENAI_API_KEY";
/// The variable of the environment that holds another base URL.
pub const OPENAI_BASE_URL_VARIABLE: &str = "OPENAI_BASE_URL";

/// A model of OpenAI, or of a server that speaks like it, about to be reached.
///
/// ```
/// # use providers::OpenAi;
/// # fn run(sys: &sys::Sys) -> Result<(), chat::ModelError> {
/// let model = OpenAi::responses("gpt-5").environment(&providers::environment).build(sys)?;
/// let local = OpenAi::compatible("qwen3", "http://127.0.0.1:8000/v1").build(sys)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "build it"]
pub struct OpenAi {
    provider: Id,
    model: Id,
    api: Api,
    dialect: Dialect,
    base_url: Option<String>,
    key: Option<Key>,
    settings: TransportSettings,
    structured: Structured,
}

/// Which of the two wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    Chat,
    Responses,
}

/// Whose words: some of OpenAI's are not known to all who speak like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    OpenAi,
    Compatible,
}

impl OpenAi {
    /// A model by Chat Completions.
    pub fn chat(model: impl Into<Id>) -> Self {
        Self {
            provider: "openai".into(),
            model: model.into(),
            api: Api::Chat,
            dialect: Dialect::OpenAi,
            base_url: None,
            key: None,
            settings: TransportSettings::default(),
            structured: Structured::Combined,
        }
    }

    /// A model by the Responses API. Nothing is stored with OpenAI.
    pub fn responses(model: impl Into<Id>) -> Self {
        Self { api: Api::Responses, ..Self::chat(model) }
    }

    /// A model of a server that speaks like Chat Completions. It may need no key.
    ///
    /// It is taken to answer by a schema only without tools; see [`OpenAi::structured`].
    pub fn compatible(model: impl Into<Id>, base_url: impl Into<String>) -> Self {
        Self {
            provider: "compatible".into(),
            dialect: Dialect::Compatible,
            base_url: Some(base_url.into()),
            structured: Structured::Final,
            ..Self::chat(model)
        }
    }

    /// What the provider is called in names and errors.
    pub fn provider(mut self, name: impl Into<Id>) -> Self {
        self.provider = name.into();
        self
    }

    reached_by!("https://api.openai.com/v1");

    /// How the model answers by a schema.
    pub fn structured(mut self, structured: Structured) -> Self {
        self.structured = structured;
        self
    }

    /// Takes from the environment what was not given: `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
    pub fn environment(mut self, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name| set(variable, name);
        self.key = self.key.or_else(|| set(OPENAI_KEY_VARIABLE).map(|key| Key::new(&key)));
        self.base_url = self.base_url.or_else(|| set(OPENAI_BASE_URL_VARIABLE));
        self
    }

    /// The model.
    ///
    /// # Errors
    /// `MissingKey` if there is none, or none that can be sent; `Unsupported` if the base URL is
    /// none that requests may go to.
    pub fn build(self, sys: &Sys) -> Result<Arc<dyn Model>, ModelError> {
        let authorization = match (&self.key, self.dialect) {
            (Some(key), _) if !key.is_empty() => Some(bearer(&self.provider, key)?),
            (_, Dialect::Compatible) => None,
            (_, Dialect::OpenAi) => {
                let why = format!(
                    "there is no key; set {OPENAI_KEY_VARIABLE}, or give the model one where it \
                     is made"
                );
                return Err(ModelError::new(self.provider, ModelErrorKind::MissingKey, why));
            }
        };
        let access = Access {
            provider: self.provider.clone(),
            base_url: self.base_url.unwrap_or_else(|| OPENAI_BASE_URL.to_owned()),
            key: self.key,
            settings: self.settings,
        };
        let abilities = Abilities { structured: self.structured };
        let (provider, model, dialect) = (self.provider, self.model.clone(), self.dialect);
        match self.api {
            Api::Chat => {
                let wire = ChatWire { provider, model, dialect, authorization };
                Ok(Arc::new(Remote::new(sys, self.model, abilities, wire, access)?))
            }
            Api::Responses => {
                let wire = ResponsesWire { provider, model, authorization };
                Ok(Arc::new(Remote::new(sys, self.model, abilities, wire, access)?))
            }
        }
    }
}

/// The header that holds a key, as most providers want it.
pub(crate) fn bearer(provider: &Id, key: &Key) -> Result<HeaderValue, ModelError> {
    key.header("Bearer ").ok_or_else(|| {
        let why = "the key holds characters that no header can, or is too long; copy it again";
        ModelError::new(provider.clone(), ModelErrorKind::MissingKey, why)
    })
}

/// A request of JSON with a key.
pub(crate) fn outgoing(
    path: &str,
    authorization: Option<&HeaderValue>,
    body: Map<String, Value>,
) -> Outgoing {
    let headers = authorization.map(|value| (header::AUTHORIZATION, value.clone()));
    let headers: Vec<(HeaderName, HeaderValue)> = headers.into_iter().collect();
    let body = Bytes::from(Value::Object(body).to_string());
    Outgoing { path_and_query: path.to_owned(), headers, body }
}

/// Chat Completions.
#[derive(Debug)]
struct ChatWire {
    provider: Id,
    model: Id,
    dialect: Dialect,
    authorization: Option<HeaderValue>,
}

impl Wire for ChatWire {
    type Decoder = ChatDecoder;

    fn encode(&self, request: &Request) -> Result<Outgoing, ModelError> {
        let Self { provider, model, dialect, authorization } = self;
        let body = ChatEncoder { provider, model, dialect: *dialect }.body(request)?;
        Ok(outgoing("/chat/completions", authorization.as_ref(), body))
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self) -> ChatDecoder {
        ChatDecoder::new(self.provider.clone())
    }

    fn failure(&self, status: StatusCode, body: &[u8]) -> ModelError {
        failure::refused(&self.provider, status, body)
    }
}

/// The Responses API.
#[derive(Debug)]
struct ResponsesWire {
    provider: Id,
    model: Id,
    authorization: Option<HeaderValue>,
}

impl Wire for ResponsesWire {
    type Decoder = ResponsesDecoder;

    fn encode(&self, request: &Request) -> Result<Outgoing, ModelError> {
        let Self { provider, model, authorization } = self;
        let body = ResponsesEncoder { provider, model }.body(request)?;
        Ok(outgoing("/responses", authorization.as_ref(), body))
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self) -> ResponsesDecoder {
        ResponsesDecoder::new(self.provider.clone())
    }

    fn failure(&self, status: StatusCode, body: &[u8]) -> ModelError {
        failure::refused(&self.provider, status, body)
    }
}
