//! Events, as they travel.
//!
//! One table names every event of AG-UI 1.0 and its fields. What the table does not know passes
//! through unchanged: events of other types, and fields beside the known ones.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};
use serde_json::{Map, Number, Value};

use crate::Id;

use super::{
    content::Content,
    legacy,
    message::Message,
    run::{Outcome, RunInput, SubagentOutcome, Usage},
};

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// What any event may say.
    pub common: Common,
}

/// What any event may say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Common {
    /// When, in milliseconds of Unix time.
    pub timestamp: Option<Number>,
    /// The provider's own event.
    pub raw_event: Option<Value>,
    /// Extra information, by key.
    pub metadata: Option<Map<String, Value>>,
    /// The subagent it belongs to.
    pub subagent_run_id: Option<Id>,
    /// Fields that nobody here knows.
    pub others: Map<String, Value>,
}

/// Who a streamed text is by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextRole {
    /// The developer of the application.
    Developer,
    /// The system prompt.
    System,
    /// The model.
    #[default]
    Assistant,
    /// A person.
    User,
}

/// What a provider's secret belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretOf {
    /// A tool call.
    ToolCall,
    /// A message.
    Message,
}

/// An event that is not what its type says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event}: {why}")]
pub struct BadEvent {
    /// Its type, if it has one.
    pub event: String,
    /// What is wrong with it.
    pub why: String,
}

/// A field of an event: it must be there, or it may be left out.
trait Field: Sized {
    fn take(fields: &mut Map<String, Value>, name: &str) -> Result<Self, String>;
    fn put<S: SerializeMap>(&self, name: &'static str, map: &mut S) -> Result<(), S::Error>;
}

impl<T: Serialize + for<'de> Deserialize<'de>> Field for Option<T> {
    fn take(fields: &mut Map<String, Value>, name: &str) -> Result<Self, String> {
        match fields.remove(name) {
            // Versions before 1.0 wrote what is absent as null.
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let read = serde_json::from_value(value);
                read.map(Some).map_err(|error| format!("its field {name:?}: {error}"))
            }
        }
    }

    fn put<S: SerializeMap>(&self, name: &'static str, map: &mut S) -> Result<(), S::Error> {
        match self {
            Some(value) => map.serialize_entry(name, value),
            None => Ok(()),
        }
    }
}

macro_rules! required {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn take(fields: &mut Map<String, Value>, name: &str) -> Result<Self, String> {
                let value = fields.remove(name).ok_or_else(|| format!("it has no {name:?}"))?;
                let bad = |error| format!("its field {name:?}: {error}");
                serde_json::from_value(value).map_err(bad)
            }

            fn put<S>(&self, name: &'static str, map: &mut S) -> Result<(), S::Error>
            where
                S: SerializeMap,
            {
                map.serialize_entry(name, self)
            }
        }
    )*};
}

required!(Id, String, Value, Content, Vec<Message>, Map<String, Value>, SecretOf);

macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $name:ident = $wire:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $key:literal,)*
        }
    )*) => {
        /// What happened.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum EventKind {
            $($(#[$doc])* $name($name),)*
            /// An event of a type that nobody here knows; its fields are among the others.
            Unknown(String),
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl From<$name> for Event {
                fn from(event: $name) -> Self {
                    Self { kind: EventKind::$name(event), common: Common::default() }
                }
            }
        )*

        impl EventKind {
            /// The type on the wire.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$name(_) => $wire,)*
                    Self::Unknown(name) => name,
                }
            }

            fn take(name: &str, fields: &mut Map<String, Value>) -> Result<Self, String> {
                Ok(match name {
                    $($wire => Self::$name($name {
                        $($field: Field::take(fields, $key)?,)*
                    }),)*
                    other => Self::Unknown(other.to_owned()),
                })
            }

            fn put<S: SerializeMap>(&self, map: &mut S) -> Result<(), S::Error> {
                match self {
                    $(Self::$name($name { $($field,)* }) => {
                        $($field.put($key, map)?;)*
                    })*
                    Self::Unknown(_) => {}
                }
                Ok(())
            }
        }
    };
}

events! {
    /// A run begins.
    RunStarted = "RUN_STARTED" {
        /// The conversation.
        thread_id: Id = "threadId",
        /// The run.
        run_id: Id = "runId",
        /// The version of the protocol.
        protocol_version: Option<String> = "protocolVersion",
        /// The run that this one goes on from.
        parent_run_id: Option<Id> = "parentRunId",
        /// What it was asked.
        input: Option<Box<RunInput>> = "input",
    }
    /// A run has ended as it should.
    RunFinished = "RUN_FINISHED" {
        /// The conversation.
        thread_id: Id = "threadId",
        /// The run.
        run_id: Id = "runId",
        /// What it came to.
        result: Option<Value> = "result",
        /// How it ended.
        outcome: Option<Outcome> = "outcome",
        /// What it cost.
        usage: Option<Vec<Usage>> = "usage",
    }
    /// A run has failed.
    RunError = "RUN_ERROR" {
        /// Why.
        message: String = "message",
        /// A word for programs.
        code: Option<String> = "code",
        /// What it cost.
        usage: Option<Vec<Usage>> = "usage",
    }
    /// A step begins.
    StepStarted = "STEP_STARTED" {
        /// The step.
        step_name: String = "stepName",
    }
    /// A step has ended.
    StepFinished = "STEP_FINISHED" {
        /// The step.
        step_name: String = "stepName",
    }
    /// A text message begins.
    TextMessageStart = "TEXT_MESSAGE_START" {
        /// The message.
        message_id: Id = "messageId",
        /// Who it is by; the assistant if not said.
        role: Option<TextRole> = "role",
        /// The name of who it is by.
        name: Option<String> = "name",
    }
    /// More of a text message.
    TextMessageContent = "TEXT_MESSAGE_CONTENT" {
        /// The message.
        message_id: Id = "messageId",
        /// What is added to it.
        delta: String = "delta",
    }
    /// A text message is whole.
    TextMessageEnd = "TEXT_MESSAGE_END" {
        /// The message.
        message_id: Id = "messageId",
    }
    /// Any of the three above in one.
    TextMessageChunk = "TEXT_MESSAGE_CHUNK" {
        /// The message; that of the chunk before if not said.
        message_id: Option<Id> = "messageId",
        /// Who it is by.
        role: Option<TextRole> = "role",
        /// What is added to it.
        delta: Option<String> = "delta",
        /// The name of who it is by.
        name: Option<String> = "name",
    }
    /// A tool call begins.
    ToolCallStart = "TOOL_CALL_START" {
        /// The call.
        tool_call_id: Id = "toolCallId",
        /// The tool.
        tool_call_name: String = "toolCallName",
        /// The message it belongs to.
        parent_message_id: Option<Id> = "parentMessageId",
    }
    /// More of the arguments of a tool call.
    ToolCallArgs = "TOOL_CALL_ARGS" {
        /// The call.
        tool_call_id: Id = "toolCallId",
        /// What is added to them.
        delta: String = "delta",
    }
    /// The arguments of a tool call are whole.
    ToolCallEnd = "TOOL_CALL_END" {
        /// The call.
        tool_call_id: Id = "toolCallId",
    }
    /// Any of the three above in one.
    ToolCallChunk = "TOOL_CALL_CHUNK" {
        /// The call; that of the chunk before if not said.
        tool_call_id: Option<Id> = "toolCallId",
        /// The tool.
        tool_call_name: Option<String> = "toolCallName",
        /// The message it belongs to.
        parent_message_id: Option<Id> = "parentMessageId",
        /// What is added to its arguments.
        delta: Option<String> = "delta",
    }
    /// A tool has answered.
    ToolCallResult = "TOOL_CALL_RESULT" {
        /// The message that the answer is.
        message_id: Id = "messageId",
        /// The call.
        tool_call_id: Id = "toolCallId",
        /// The answer.
        content: Content = "content",
        /// Always `tool`.
        role: Option<String> = "role",
    }
    /// The whole state.
    StateSnapshot = "STATE_SNAPSHOT" {
        /// The state.
        snapshot: Value = "snapshot",
    }
    /// What changed in the state, as RFC 6902 writes it.
    StateDelta = "STATE_DELTA" {
        /// The changes.
        delta: Value = "delta",
    }
    /// All messages.
    MessagesSnapshot = "MESSAGES_SNAPSHOT" {
        /// The messages.
        messages: Vec<Message> = "messages",
    }
    /// The whole of something shown among the messages.
    ActivitySnapshot = "ACTIVITY_SNAPSHOT" {
        /// Its message.
        message_id: Id = "messageId",
        /// What it is.
        activity_type: String = "activityType",
        /// How it is.
        content: Map<String, Value> = "content",
        /// Whether it takes the place of what was there.
        replace: Option<bool> = "replace",
    }
    /// What changed in something shown among the messages.
    ActivityDelta = "ACTIVITY_DELTA" {
        /// Its message.
        message_id: Id = "messageId",
        /// What it is.
        activity_type: String = "activityType",
        /// The changes, as RFC 6902 writes them.
        patch: Value = "patch",
    }
    /// The model begins to think.
    ReasoningStart = "REASONING_START" {
        /// The thoughts.
        message_id: Id = "messageId",
    }
    /// A message of thoughts begins.
    ReasoningMessageStart = "REASONING_MESSAGE_START" {
        /// The thoughts.
        message_id: Id = "messageId",
        /// Always `reasoning`.
        role: String = "role",
    }
    /// More of a message of thoughts.
    ReasoningMessageContent = "REASONING_MESSAGE_CONTENT" {
        /// The thoughts.
        message_id: Id = "messageId",
        /// What is added to them.
        delta: String = "delta",
    }
    /// A message of thoughts is whole.
    ReasoningMessageEnd = "REASONING_MESSAGE_END" {
        /// The thoughts.
        message_id: Id = "messageId",
    }
    /// Any of the three above in one.
    ReasoningMessageChunk = "REASONING_MESSAGE_CHUNK" {
        /// The thoughts; those of the chunk before if not said.
        message_id: Option<Id> = "messageId",
        /// What is added to them.
        delta: Option<String> = "delta",
    }
    /// The model has thought.
    ReasoningEnd = "REASONING_END" {
        /// The thoughts.
        message_id: Id = "messageId",
    }
    /// What a provider wants to see again and nobody else can read.
    ReasoningEncryptedValue = "REASONING_ENCRYPTED_VALUE" {
        /// What it belongs to.
        subtype: SecretOf = "subtype",
        /// The message or the call.
        entity_id: Id = "entityId",
        /// The secret.
        encrypted_value: String = "encryptedValue",
    }
    /// A subagent begins.
    SubagentStarted = "SUBAGENT_STARTED" {
        /// What it is called.
        name: String = "name",
        /// What it is for.
        description: Option<String> = "description",
        /// The subagent that called it.
        parent_subagent_run_id: Option<Id> = "parentSubagentRunId",
        /// The tool call that it is.
        parent_tool_call_id: Option<Id> = "parentToolCallId",
        /// The message it belongs to.
        parent_message_id: Option<Id> = "parentMessageId",
    }
    /// A subagent has ended as it should.
    SubagentFinished = "SUBAGENT_FINISHED" {
        /// What it came to.
        result: Option<Value> = "result",
        /// How it ended.
        outcome: Option<SubagentOutcome> = "outcome",
    }
    /// A subagent has failed.
    SubagentError = "SUBAGENT_ERROR" {
        /// Why.
        message: String = "message",
        /// A word for programs.
        code: Option<String> = "code",
    }
    /// A provider's own event.
    Raw = "RAW" {
        /// The event.
        event: Value = "event",
        /// Whose it is.
        source: Option<String> = "source",
    }
    /// An event of the application.
    Custom = "CUSTOM" {
        /// What it is.
        name: String = "name",
        /// What it says.
        value: Value = "value",
    }
}

impl Event {
    /// The type on the wire.
    #[must_use]
    pub fn name(&self) -> &str {
        self.kind.name()
    }

    /// Reads an event.
    ///
    /// # Errors
    /// If it is no object with a type, or lacks a field that its type must have.
    pub fn from_fields(mut fields: Map<String, Value>) -> Result<Self, BadEvent> {
        let Some(Value::String(name)) = fields.remove("type") else {
            let why = "it has no type, so it is no AG-UI event".into();
            return Err(BadEvent { event: "an event".into(), why });
        };
        let bad = |why| BadEvent { event: name.clone(), why };
        legacy::mend(&name, &mut fields);
        let kind = EventKind::take(&name, &mut fields).map_err(bad)?;
        let common = Common {
            timestamp: Field::take(&mut fields, "timestamp").map_err(bad)?,
            raw_event: Field::take(&mut fields, "rawEvent").map_err(bad)?,
            metadata: Field::take(&mut fields, "metadata").map_err(bad)?,
            subagent_run_id: Field::take(&mut fields, "subagentRunId").map_err(bad)?,
            others: fields,
        };
        kind.check(&common).map_err(bad)?;
        Ok(Self { kind, common })
    }
}

impl EventKind {
    /// What the types of the fields cannot say.
    fn check(&self, common: &Common) -> Result<(), String> {
        let wrong = |field: &str, what: &str| Err(format!("its field {field:?} {what}"));
        match self {
            Self::SubagentStarted(_) | Self::SubagentFinished(_) | Self::SubagentError(_)
                if common.subagent_run_id.is_none() =>
            {
                Err("it has no \"subagentRunId\"".into())
            }
            Self::RunFinished(RunFinished { outcome: Some(outcome), .. }) if outcome.is_idle() => {
                wrong("outcome", "is an interrupt without interrupts")
            }
            Self::StateDelta(event) if !event.delta.is_array() => wrong("delta", "is no list"),
            Self::ActivityDelta(event) if !event.patch.is_array() => wrong("patch", "is no list"),
            Self::ToolCallResult(event) if event.role.as_ref().is_some_and(|r| r != "tool") => {
                wrong("role", "is not \"tool\"")
            }
            Self::ReasoningMessageStart(event) if event.role != "reasoning" => {
                wrong("role", "is not \"reasoning\"")
            }
            _ => Ok(()),
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Common { timestamp, raw_event, metadata, subagent_run_id, others } = &self.common;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.name())?;
        self.kind.put(&mut map)?;
        timestamp.put("timestamp", &mut map)?;
        raw_event.put("rawEvent", &mut map)?;
        metadata.put("metadata", &mut map)?;
        subagent_run_id.put("subagentRunId", &mut map)?;
        others.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_fields(Map::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
