//! Models that only the crate `genai` knows: the long tail.
//!
//! What the wires of this crate speak, they speak better: they show arguments of calls as they are
//! written, bound every event, and know a whole answer from one that broke off. `genai` speaks to
//! many more. What it lets one see, and what it does not:
//!
//! - Calls are shown when they are whole, at the end of an answer.
//! - An answer is whole if `genai` says how it ended. Providers that give a reason but not the mark
//!   that ends the stream (`[DONE]`) are taken for broken off, though they may have been whole.
//! - Where `genai` makes up an end itself (Gemini, the Responses API, Vertex, Bedrock), an end
//!   without a reason is taken for broken off.
//! - One event may be as large as it likes before `genai` shows it; only their sum is bounded.
//! - Thoughts go back only if they were signed.
//! - Variables of the environment other than keys, such as regions, `genai` reads by itself.

mod call;
mod events;
mod failure;
mod request;

use std::{fmt, sync::Arc};

use ::genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    resolver::{AuthData, AuthResolver, Endpoint, ServiceTargetResolver},
};
use chat::{
    Abilities, Id, Model, ModelError, ModelErrorKind, ModelName, ModelStream, Request, Structured,
};
use futures_util::{StreamExt as _, stream};
use sys::{Cancellation, Sys};

use self::call::Call;
use crate::{
    Key, TransportSettings,
    builder::{reached_by, set},
    transport::base_url,
};

/// What errors and names call all that is reached through `genai`.
const PROVIDER: &str = "genai";

/// A model that `genai` reaches, about to be reached.
#[derive(Clone, Debug)]
#[must_use = "build it"]
pub struct GenAi {
    model: Id,
    base_url: Option<String>,
    key: Option<Key>,
    settings: TransportSettings,
}

impl GenAi {
    /// A model as `genai` names it: with its provider, such as `groq::llama-3.3-70b`, or without
    /// one where the name alone tells, such as `command-r`. What it cannot tell it takes for a
    /// model of Ollama.
    pub fn new(model: impl Into<Id>) -> Self {
        let settings = TransportSettings::default();
        Self { model: model.into(), base_url: None, key: None, settings }
    }

    reached_by!("https://api.groq.com/openai/v1/");

    /// Takes the key from the environment if it was not given, from the variable that `genai` knows
    /// for the provider, such as `GROQ_API_KEY`.
    pub fn environment(mut self, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let kind = AdapterKind::from_model(&self.model).ok();
        let name = kind.and_then(|kind| kind.default_key_env_name());
        let set = |name| set(variable, name);
        self.key = self.key.or_else(|| name.and_then(set).map(|key| Key::new(&key)));
        self
    }

    /// The model.
    ///
    /// # Errors
    /// `UnknownModel` if `genai` knows no provider for it; `MissingKey` if the provider asks for a
    /// key and there is none; `Unsupported` if the base URL is none that requests may go to.
    pub fn build(self, sys: &Sys) -> Result<Arc<dyn Model>, ModelError> {
        let kind = AdapterKind::from_model(&self.model).map_err(|error| {
            let why = format!("{error}; name the provider, such as groq::{}", self.model);
            failed(ModelErrorKind::UnknownModel, why)
        })?;
        let key = self.key.filter(|key| !key.is_empty());
        if let (None, None, Some(name)) = (&key, &self.base_url, kind.default_key_env_name()) {
            let why = format!("there is no key; set {name} or give one with `key`");
            return Err(failed(ModelErrorKind::MissingKey, why));
        }
        let base_url = match &self.base_url {
            Some(url) => Some(base_url(PROVIDER, url, self.settings.plain_http)?),
            None => None,
        };
        let client = Client::builder()
            .with_reqwest(reqwest_client(&self.settings)?)
            .with_auth_resolver(auth(key.as_ref()))
            .with_service_target_resolver(target(base_url))
            .build()
            .map_err(|error| failed(ModelErrorKind::Unavailable, error.to_string()))?;
        let name = ModelName { provider: PROVIDER.into(), model: self.model };
        let (sys, settings) = (sys.clone(), self.settings);
        let shared = Shared { name, kind, client, key, settings, sys };
        Ok(Arc::new(Reached(Arc::new(shared))))
    }
}

/// A model that `genai` reaches.
struct Reached(Arc<Shared>);

struct Shared {
    name: ModelName,
    kind: AdapterKind,
    client: Client,
    /// Known here only to take it out of errors.
    key: Option<Key>,
    settings: TransportSettings,
    sys: Sys,
}

impl Model for Reached {
    fn name(&self) -> &ModelName {
        &self.0.name
    }

    fn abilities(&self) -> Abilities {
        Abilities { structured: structured(self.0.kind) }
    }

    fn call(&self, request: Arc<Request>, cancellation: Cancellation) -> ModelStream {
        let call = Call::new(self.0.clone(), request, cancellation);
        stream::unfold(call, |call| Box::pin(call.next())).flat_map(stream::iter).boxed()
    }
}

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GenAi").field(&self.0.name).finish_non_exhaustive()
    }
}

/// How a provider answers by a schema. Of the long tail nobody knows, so it is told in words.
fn structured(kind: AdapterKind) -> Structured {
    match kind {
        AdapterKind::OpenAI | AdapterKind::OpenAIResp | AdapterKind::Gemini => Structured::Final,
        _ => Structured::Prompted,
    }
}

/// The key, and never one that `genai` finds by itself.
fn auth(key: Option<&Key>) -> AuthResolver {
    let key = key.map(|key| key.reveal().to_owned());
    AuthResolver::from_resolver_fn(move |_: ModelIden| {
        // Some providers ask nobody, but `genai` wants a word for all of them.
        Ok(Some(AuthData::from_single(key.unwrap_or_default())))
    })
}

fn target(base_url: Option<String>) -> ServiceTargetResolver {
    ServiceTargetResolver::from_resolver_fn(move |mut target: ServiceTarget| {
        if let Some(url) = base_url {
            target.endpoint = Endpoint::from_owned(format!("{url}/"));
        }
        Ok(target)
    })
}

/// A client with the same TLS and the same manners as our own transport.
fn reqwest_client(settings: &TransportSettings) -> Result<reqwest::Client, ModelError> {
    let no_tls =
        |why: String| failed(ModelErrorKind::Unavailable, format!("there is no TLS: {why}"));
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect::<rustls::RootCertStore>();
    let tls = rustls::ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(|error| no_tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(settings.connect_time)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(|error| no_tls(error.to_string()))
}

fn failed(kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
    ModelError::new(PROVIDER, kind, message)
}
