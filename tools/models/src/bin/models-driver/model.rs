//! The models, as whoever uses them makes them.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use chat::Model;
use models::{Scenario, Wire};
use providers::{Anthropic, Gemini, Key, Ollama, OpenAi, TransportSettings};
use sys::Sys;

use crate::run::Manner;

/// The model that plays this scenario.
pub(crate) fn model(
    sys: &Sys,
    url: &str,
    wire: Wire,
    scenario: Scenario,
    manner: Manner,
) -> Result<Arc<dyn Model>> {
    let name = scenario.name();
    let key = Key::new("key-of-the-fixture");
    let settings = TransportSettings {
        attempts_max: 3,
        retry_time: Duration::from_secs(10),
        ..TransportSettings::default()
    };
    let openai = format!("{url}/openai/v1");
    Ok(match wire {
        Wire::Chat if manner.is_compatible() => {
            OpenAi::compatible(name, openai).key(key).settings(settings).build(sys)?
        }
        Wire::Chat => OpenAi::chat(name).base_url(openai).key(key).settings(settings).build(sys)?,
        Wire::Responses => {
            OpenAi::responses(name).base_url(openai).key(key).settings(settings).build(sys)?
        }
        Wire::Anthropic => Anthropic::new(name)
            .base_url(format!("{url}/anthropic"))
            .key(key)
            .settings(settings)
            .build(sys)?,
        Wire::Gemini => Gemini::new(name)
            .base_url(format!("{url}/gemini"))
            .key(key)
            .settings(settings)
            .build(sys)?,
        Wire::Ollama => {
            Ollama::new(name).base_url(format!("{url}/ollama")).settings(settings).build(sys)?
        }
    })
}
