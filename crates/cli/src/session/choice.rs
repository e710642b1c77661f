//! Which model answers: the one that was named, or the first that this machine can reach.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use chat::{Model, Tool};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use providers::scripted::Scripted;
use sys::Sys;

use super::clock;
use crate::{ask::weather, failure::Failure};

/// How long a local Ollama may take to say that it is there.
const PROBE_PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of its list of models.
const PROBE_BYTES_MAX: usize = 1024 * 1024;
const OLLAMA_PLACE: &str = "127.0.0.1:11434";

/// Providers whose keys may be in the environment, and the model that each is asked for.
const BY_KEY: [(&str, &str); 4] = [
    ("OPENAI_API_KEY", "openai:gpt-5-mini"),
    ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-4-5"),
    ("GEMINI_API_KEY", "gemini:gemini-2.5-flash"),
    ("GOOGLE_API_KEY", "gemini:gemini-2.5-flash"),
];

/// A model, what it may call, and why it is this one.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Vec<Tool>,
    /// For people: which, and why.
    pub(crate) why: String,
}

impl Choice {
    /// The model of this name, or the first that can be reached.
    pub(crate) async fn make(sys: &Sys, named: Option<&str>) -> Result<Self, Failure> {
        if let Some(name) = named {
            return Self::of(sys, name, "as you said");
        }
        let has_key = |name: &str| providers::environment(name).is_some_and(|key| !key.is_empty());
        if let Some((key, name)) = BY_KEY.into_iter().find(|(key, _)| has_key(key)) {
            return Self::of(sys, name, &format!("{key} is set; --model names another"));
        }
        match local_ollama(sys).await {
            Some(model) => Self::of(sys, &format!("ollama:{model}"), "Ollama is running here"),
            None => {
                Self::of(sys, "scripted", "there is no key and no Ollama; --model names another")
            }
        }
    }

    fn of(sys: &Sys, name: &str, why: &str) -> Result<Self, Failure> {
        let why = format!("{name}, {why}");
        if name == "scripted" {
            // Real models would take made-up weather for real.
            let tools = vec![weather::weather(), clock::clock()];
            return Ok(Self { model: Arc::new(Scripted::companion(sys.clone())), tools, why });
        }
        let model = providers::by_name(name, &providers::environment, sys);
        Ok(Self { model: model.map_err(Failure::refused)?, tools: Vec::new(), why })
    }
}

/// The first model of an Ollama on this machine, if there is one.
async fn local_ollama(sys: &Sys) -> Option<String> {
    let place = providers::environment("OLLAMA_HOST").filter(|place| !place.is_empty());
    let place = place.unwrap_or_else(|| OLLAMA_PLACE.to_owned());
    let place = place.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let host = place.rsplit_once(':').map_or(place.as_str(), |(host, _)| host);
    let is_here = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !is_here {
        return None;
    }
    let asked = sys.clock.timeout(PROBE_PATIENCE, models_at(&place)).await;
    asked.ok().flatten()
}

async fn models_at(place: &str) -> Option<String> {
    let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
    let request = http::Request::get(format!("http://{place}/api/tags"));
    let answer = client.request(request.body(Empty::<Bytes>::new()).ok()?).await.ok()?;
    let body = Limited::new(answer.into_body(), PROBE_BYTES_MAX).collect().await.ok()?;
    let list: serde_json::Value = serde_json::from_slice(&body.to_bytes()).ok()?;
    Some(list.get("models")?.get(0)?.get("name")?.as_str()?.to_owned())
}
