//! What came of one scenario, as a line that can stand beside that of an SDK.

use std::collections::BTreeMap;

use chat::{Block, BlockKind, ModelEvent, StopReason, Usage};
use models::{Scenario, Wire};
use serde_json::{Value, json};

/// What a model has said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) text: String,
    thinking: String,
    signature: String,
    calls: Vec<Call>,
    /// How many tools the provider ran.
    ran: usize,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    open: BTreeMap<Block, Kind>,
}

#[derive(Debug)]
struct Call {
    name: String,
    arguments: String,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Thinking,
    Call(usize),
    Other,
}

impl Said {
    pub(crate) fn take(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Open { block, kind } => {
                let kind = match kind {
                    BlockKind::Text => Kind::Text,
                    BlockKind::Thinking => Kind::Thinking,
                    BlockKind::Call { name, .. } => {
                        let call = Call { name: name.to_string(), arguments: String::new() };
                        self.calls.push(call);
                        Kind::Call(self.calls.len() - 1)
                    }
                    BlockKind::ProviderCall { .. } => {
                        self.ran += 1;
                        Kind::Other
                    }
                    _ => Kind::Other,
                };
                self.open.insert(*block, kind);
            }
            ModelEvent::More { block, delta } => match self.open.get(block) {
                Some(Kind::Text) => self.text.push_str(delta),
                Some(Kind::Thinking) => self.thinking.push_str(delta),
                Some(Kind::Call(at)) => self.calls[*at].arguments.push_str(delta),
                Some(Kind::Other) | None => {}
            },
            ModelEvent::Sign { signature, .. } => self.signature.push_str(as_signed(signature)),
            ModelEvent::Close { block } => drop(self.open.remove(block)),
            ModelEvent::Usage(usage) => self.usage = Some(usage.clone()),
            ModelEvent::Stop(stop) => self.stop = Some(stop.clone()),
            _ => {}
        }
    }

    /// The names and arguments of the calls.
    pub(crate) fn calls(&self) -> Vec<(&str, &str)> {
        self.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect()
    }

    /// The line. `broken` says which of our own rules did not hold.
    pub(crate) fn line(
        &self,
        wire: Wire,
        scenario: Scenario,
        error: Option<&str>,
        broken: Option<&str>,
    ) -> Value {
        let calls = self.calls.iter().map(|call| {
            let arguments = serde_json::from_str(&call.arguments);
            let arguments: Value = arguments.unwrap_or_else(|_| json!(call.arguments));
            json!({"name": call.name, "arguments": arguments})
        });
        let usage = self
            .usage
            .as_ref()
            .map(|usage| json!({"input": usage.input_tokens, "output": usage.output_tokens}));
        json!({
            "provider": wire.name(),
            "scenario": scenario.name(),
            "text": self.text,
            "thinking": self.thinking,
            "signature": self.signature,
            "calls": calls.collect::<Vec<_>>(),
            "ran": self.ran,
            "usage": usage,
            "stop": self.stop.as_ref().map(StopReason::word),
            "error": error,
            "broken": broken,
        })
    }
}

/// A signature as its provider gave it.
fn as_signed(signature: &str) -> &str {
    let marked = signature.strip_prefix(providers::SIGNATURE_MARK);
    marked.and_then(|marked| marked.split_once(':')).map_or(signature, |(_, own)| own)
}
