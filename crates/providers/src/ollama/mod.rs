//! Ollama: models on this machine, or near it.

mod decoder;
mod encoder;

use std::sync::Arc;

use chat::{Abilities, Id, Model, ModelError, ModelErrorKind, Request, Structured};
use http::{HeaderValue, StatusCode};
use sys::Sys;

pub use self::decoder::OllamaDecoder;
use self::encoder::OllamaEncoder;
use crate::{
    Key, PlainHttp, TransportSettings,
    builder::{reached_by, set},
    openai::{bearer, failure, outgoing},
    transport::{Access, Remote},
    wire::{Framing, Outgoing, Wire},
};

/// Where Ollama listens if nobody says otherwise.
pub const OLLAMA_BASE_URL: &str = "http://127.0.0.1:11434";
/// The port, if a host comes without one.
const OLLAMA_PORT: u16 = 11434;
/// The variable of the environment that says where Ollama is.
pub const OLLAMA_HOST_VARIABLE: &str = "OLLAMA_HOST";
/// The variable of the environment that holds a key, where one is needed.
pub const OLLAMA_KEY_VARIABLE: &str = "OLLAMA_API_KEY";

/// A model of Ollama, about to be reached.
#[derive(Clone, Debug)]
#[must_use = "build it"]
pub struct Ollama {
    model: Id,
    base_url: Option<String>,
    key: Option<Key>,
    settings: TransportSettings,
}

impl Ollama {
    /// A model by its name, such as `qwen3:8b`.
    pub fn new(model: impl Into<Id>) -> Self {
        let settings = TransportSettings::default();
        Self { model: model.into(), base_url: None, key: None, settings }
    }

    reached_by!("http://127.0.0.1:11434");

    /// Takes from the environment what was not given: `OLLAMA_HOST` and `OLLAMA_API_KEY`.
    ///
    /// Whoever writes `http://` in front of a host means it, wherever that host is.
    pub fn environment(mut self, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name| set(variable, name);
        self.key = self.key.or_else(|| set(OLLAMA_KEY_VARIABLE).map(|key| Key::new(&key)));
        if let (None, Some(host)) = (&self.base_url, set(OLLAMA_HOST_VARIABLE)) {
            if host.trim().starts_with("http://") && self.key.is_none() {
                self.settings.plain_http = PlainHttp::Anywhere;
            }
            self.base_url = Some(url_of(host.trim()));
        }
        self
    }

    /// The model.
    ///
    /// # Errors
    /// `Unsupported` if the base URL is none that requests may go to; `MissingKey` if the key
    /// cannot be sent.
    pub fn build(self, sys: &Sys) -> Result<Arc<dyn Model>, ModelError> {
        let provider = Id::from("ollama");
        let key = self.key.filter(|key| !key.is_empty());
        let authorization = key.as_ref().map(|key| bearer(&provider, key)).transpose()?;
        let access = Access {
            provider: provider.clone(),
            base_url: self.base_url.unwrap_or_else(|| OLLAMA_BASE_URL.to_owned()),
            key,
            settings: self.settings,
        };
        // A schema holds for all that the model says, calls of tools included.
        let abilities = Abilities { structured: Structured::Final };
        let wire = OllamaWire { provider, model: self.model.clone(), authorization };
        Ok(Arc::new(Remote::new(sys, self.model, abilities, wire, access)?))
    }
}

/// The URL that `OLLAMA_HOST` means, which may be a host, a port or a URL.
fn url_of(host: &str) -> String {
    let (scheme, rest) = match host.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => ("http", host),
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let has_port = authority.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if has_port => (name, port.to_owned()),
        _ if host.contains("://") => (authority, String::new()),
        _ => (authority, OLLAMA_PORT.to_string()),
    };
    // A server that listens everywhere is reached here.
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        name => name,
    };
    match port.is_empty() {
        true => format!("{scheme}://{name}{path}"),
        false => format!("{scheme}://{name}:{port}{path}"),
    }
}

/// Ollama's own API.
#[derive(Debug)]
struct OllamaWire {
    provider: Id,
    model: Id,
    authorization: Option<HeaderValue>,
}

impl Wire for OllamaWire {
    type Decoder = OllamaDecoder;

    fn encode(&self, request: &Request) -> Result<Outgoing, ModelError> {
        let Self { provider, model, authorization } = self;
        let body = OllamaEncoder { provider, model }.body(request)?;
        Ok(outgoing("/api/chat", authorization.as_ref(), body))
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn decoder(&self) -> OllamaDecoder {
        OllamaDecoder::new(self.provider.clone())
    }

    fn failure(&self, status: StatusCode, body: &[u8]) -> ModelError {
        let mut error = failure::refused(&self.provider, status, body);
        if error.kind == ModelErrorKind::UnknownModel {
            error.message = format!("{}; get it with `ollama pull {}`", error.message, self.model);
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_a_port_or_a_url() {
        let check = |host: &str, url: &str| assert_eq!(url_of(host), url, "{host}");
        check("127.0.0.1", OLLAMA_BASE_URL);
        check("0.0.0.0", OLLAMA_BASE_URL);
        check(":8080", "http://127.0.0.1:8080");
        check("nas:8080", "http://nas:8080");
        check("[::]:8080", "http://[::1]:8080");
        check("[::1]", "http://[::1]:11434");
        check("http://nas", "http://nas");
        check("https://ollama.com/sub", "https://ollama.com/sub");
    }
}
