//! A script: what is said, turn by turn. It is data, so it may be a file.

use chat::{Id, ModelErrorKind, ModelEvent, StopReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a model says, turn by turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The turns.
    pub turns: Vec<Turn>,
}

/// What a model says in one turn. Unless it says why it ends, it ends by itself or waits for the
/// tools it has called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Turn {
    /// In this order.
    pub says: Vec<Say>,
}

/// Something that a model says or does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Say {
    /// A text, word by word.
    Text(String),
    /// Thoughts, word by word.
    Think(String),
    /// A call, its arguments piece by piece.
    Call(Call),
    /// Several calls whose pieces come in turn.
    Calls(Vec<Call>),
    /// Any event, as it is.
    Event(ModelEvent),
    /// Nothing for so many milliseconds.
    PauseMs(u64),
    /// Why it ends; nothing comes after. `null` if it does not say.
    Stop(Option<StopReason>),
    /// It fails; nothing comes after.
    Fail(Fail),
    /// The connection breaks; nothing comes after.
    Disconnect,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub name: Id,
    /// Its arguments. A text is sent as it is, so that they may be broken.
    #[serde(default)]
    pub arguments: Value,
    /// The call; one is made from the conversation unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fail {
    /// What it means.
    pub kind: ModelErrorKind,
    /// What happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long the model wants to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Turn {
    /// A turn in which nothing is said.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Then says this.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.say(Say::Text(text.into()))
    }

    /// Then thinks this.
    #[must_use]
    pub fn think(self, thoughts: impl Into<String>) -> Self {
        self.say(Say::Think(thoughts.into()))
    }

    /// Then calls this tool.
    #[must_use]
    pub fn call(self, name: impl Into<Id>, arguments: Value) -> Self {
        self.say(Say::Call(Call::new(name, arguments)))
    }

    /// Then calls these tools, all at once.
    #[must_use]
    pub fn calls(self, calls: impl IntoIterator<Item = Call>) -> Self {
        self.say(Say::Calls(calls.into_iter().collect()))
    }

    /// Then says this.
    #[must_use]
    pub fn event(self, event: ModelEvent) -> Self {
        self.say(Say::Event(event))
    }

    /// Then waits.
    #[must_use]
    pub fn pause_ms(self, ms: u64) -> Self {
        self.say(Say::PauseMs(ms))
    }

    /// Then ends, and says why.
    #[must_use]
    pub fn stop(self, reason: StopReason) -> Self {
        self.say(Say::Stop(Some(reason)))
    }

    /// Then ends, and does not say why.
    #[must_use]
    pub fn stop_without_reason(self) -> Self {
        self.say(Say::Stop(None))
    }

    /// Then fails.
    #[must_use]
    pub fn fail(self, kind: ModelErrorKind) -> Self {
        self.say(Say::Fail(Fail { kind, message: None, retry_after_ms: None }))
    }

    /// Then breaks off.
    #[must_use]
    pub fn disconnect(self) -> Self {
        self.say(Say::Disconnect)
    }

    /// Then says or does this.
    #[must_use]
    pub fn say(mut self, say: Say) -> Self {
        self.says.push(say);
        self
    }
}

impl Call {
    /// A call of this tool.
    #[must_use]
    pub fn new(name: impl Into<Id>, arguments: Value) -> Self {
        Self { name: name.into(), arguments, id: None }
    }
}

impl FromIterator<Turn> for Script {
    fn from_iter<T: IntoIterator<Item = Turn>>(turns: T) -> Self {
        Self { turns: turns.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_script_is_data() {
        let script: Script = [
            Turn::new().think("hm").calls([Call::new("a", json!({"b": 1}))]).pause_ms(5),
            Turn::new().text("x").stop(StopReason::Length),
            Turn::new().text("x").stop_without_reason(),
            Turn::new().fail(ModelErrorKind::RateLimited),
            Turn::new().disconnect(),
        ]
        .into_iter()
        .collect();
        let data = json!({"turns": [
            [{"think": "hm"}, {"calls": [{"name": "a", "arguments": {"b": 1}}]}, {"pause-ms": 5}],
            [{"text": "x"}, {"stop": "length"}],
            [{"text": "x"}, {"stop": null}],
            [{"fail": {"kind": "rate-limited"}}],
            ["disconnect"],
        ]});
        assert_eq!(serde_json::to_value(&script).unwrap(), data);
        assert_eq!(serde_json::from_value::<Script>(data).unwrap(), script);
    }
}
