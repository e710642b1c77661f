//! `headwater stream effects`: the durable effects of a stream, and how far they are.

use live::{EffectStatus, StreamDb};
use serde::Serialize;
use wire::Timestamp;

use super::{args::EffectsArgs, verbs::Session};
use crate::failure::Failure;

/// One effect, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    name: &'a str,
    /// Everything before is done.
    cursor: Option<u64>,
    lag: Option<u64>,
    last_seen: Option<String>,
}

/// An effect that was forgotten, for programs.
#[derive(Serialize)]
struct Forgotten<'a> {
    path: &'a str,
    forgotten: &'a str,
}

impl Session {
    pub(super) async fn effects(&self, args: EffectsArgs) -> Result<(), Failure> {
        let EffectsArgs { path, forget } = args;
        let log = self.target.log(&self.sys).await?;
        let effects = live::effects(&log, path.clone(), &self.sys).await;
        let effects = effects.map_err(|error| Failure::about(&path, error))?;
        let Some(name) = forget else {
            return effects.iter().try_for_each(|effect| self.tell_effect(effect));
        };
        if !effects.iter().any(|effect| effect.name == name) {
            let known: Vec<_> = effects.iter().map(|effect| effect.name.as_str()).collect();
            let why = format!("there is no effect {name:?}; there are {known:?}");
            return Err(Failure::about(&path, why));
        }
        let db = StreamDb::builder(log, path.clone(), &self.sys).open();
        let db = db.map_err(|error| Failure::about(&path, error))?;
        let forgotten = db.forget_effect(&name).await;
        db.close().await;
        forgotten.map_err(|error| Failure::about(&path, error))?;
        let shown = Forgotten { path: path.as_str(), forgotten: &name };
        self.printer.result(|| format!("{path} has forgotten the effect {name:?}"), &shown)
    }

    fn tell_effect(&self, effect: &EffectStatus) -> Result<(), Failure> {
        let EffectStatus { name, position, lag, last_seen, .. } = effect;
        let last_seen = last_seen.map(|at| Timestamp::from_unix_ms(at.get()).to_string());
        let cursor = position.map(|position| position.get());
        let shown = Shown { name, cursor, lag: *lag, last_seen };
        let sentence = || {
            let place = match (cursor, lag) {
                (Some(cursor), Some(lag)) => format!("cursor {cursor}, lag {lag}"),
                _ => "no cursor yet".to_owned(),
            };
            let seen = shown.last_seen.as_deref().unwrap_or("at an unknown time");
            format!("{name}: {place}, last seen {seen}")
        };
        self.printer.result(sentence, &shown)
    }
}
