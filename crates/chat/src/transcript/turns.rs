//! The messages of a transcript, and where everything stands in them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::{
    Id, Message, Part, Role, ToolResult,
    agui::{Content, ContentPart, Source, ours},
    caps::{TRANSCRIPT_BYTES_MAX, TRANSCRIPT_MESSAGES_MAX, TRANSCRIPT_PARTS_MAX},
    convert::piece_id,
};

use super::TranscriptError;

/// Messages with their answers. Answers are kept beside, so that an index stays what it is when one
/// arrives late.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    turns: Vec<Turn>,
    messages: BTreeMap<Id, usize>,
    pub(super) texts: BTreeMap<Id, Place>,
    pub(super) thoughts: BTreeMap<Id, Place>,
    pub(super) calls: BTreeMap<Id, Place>,
    answered: BTreeSet<Id>,
    /// What grew last: deltas come in a row.
    pub(super) latest: Option<Latest>,
    /// Texts that the event at hand has ended and that said nothing, with their messages.
    pub(super) emptied: Vec<(Id, usize)>,
    bytes: usize,
    count: usize,
    /// Whether the last message is but thoughts that do not say where they belong.
    pub(super) is_adrift: bool,
}

#[derive(Clone, Debug)]
struct Turn {
    message: Message,
    answers: Vec<Answer>,
}

#[derive(Clone, Debug)]
struct Answer {
    /// Which part of the message is answered.
    part: usize,
    message: Message,
}

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) turn: usize,
    /// `None` if a text has ended and said nothing.
    pub(super) part: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Latest {
    pub(super) kind: BlockOf,
    pub(super) id: Id,
    pub(super) place: Place,
}

/// What a block is. Ids are unique only among blocks of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockOf {
    Text,
    Thoughts,
    Call,
}

impl Turns {
    pub(super) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.turns.iter().flat_map(|turn| {
            let answers = turn.answers.iter().map(|answer| &answer.message);
            std::iter::once(&turn.message).chain(answers)
        })
    }

    pub(super) fn into_messages(self) -> Vec<Message> {
        let all = self.turns.into_iter().flat_map(|turn| {
            let answers = turn.answers.into_iter().map(|answer| answer.message);
            std::iter::once(turn.message).chain(answers)
        });
        all.collect()
    }

    /// Adds what was said before; what is known already is passed over.
    pub(super) fn add(
        &mut self,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), TranscriptError> {
        for message in messages {
            let bytes = message.parts.iter().map(bytes_of).sum();
            let answered = message.results().next().map(|result| result.call_id.clone());
            let place = answered.and_then(|call| self.calls.get(&call).copied());
            match place {
                Some(place) if message.role == Role::Tool => {
                    if message.results().all(|result| !self.answered.contains(&result.call_id)) {
                        self.has_place()?;
                        self.count(bytes)?;
                        self.attach(place, message);
                    }
                }
                _ if self.messages.contains_key(&message.id) => {}
                _ => {
                    self.count(bytes)?;
                    self.begin(message)?;
                }
            }
        }
        Ok(())
    }

    /// Another message, and where everything in it stands.
    pub(super) fn begin(&mut self, message: Message) -> Result<usize, TranscriptError> {
        self.has_place()?;
        let turn = self.turns.len();
        self.is_adrift = false;
        self.count += 1;
        self.messages.insert(message.id.clone(), turn);
        for (index, part) in message.parts.iter().enumerate() {
            let (place, id) = (Place { turn, part: Some(index) }, piece_id(&message.id, index));
            match part {
                Part::Text(_) => {
                    self.texts.entry(message.id.clone()).or_insert(place);
                    self.texts.insert(id, place);
                }
                Part::Thinking(_) => {
                    self.thoughts.insert(id, place);
                }
                Part::ToolCall(call) => {
                    self.calls.insert(call.id.clone(), place);
                }
                Part::ToolResult(result) => {
                    self.answered.insert(result.call_id.clone());
                }
                _ => {}
            }
        }
        self.turns.push(Turn { message, answers: Vec::new() });
        Ok(turn)
    }

    /// The message of this id; a new one if there is none.
    pub(super) fn message(
        &mut self,
        event: &'static str,
        id: &Id,
        role: Role,
        subagent: Option<&Id>,
    ) -> Result<usize, TranscriptError> {
        if let Some(turn) = self.messages.get(id).copied() {
            let by = self.turns[turn].message.role;
            return match by == role {
                true => Ok(turn),
                false => Err(TranscriptError::WrongRole { event, id: id.clone(), role: by }),
            };
        }
        if let Some(turn) = self.adrift(subagent).filter(|_| role == Role::Assistant) {
            let before = std::mem::replace(&mut self.turns[turn].message.id, id.clone());
            self.messages.remove(&before);
            self.messages.insert(id.clone(), turn);
            self.is_adrift = false;
            return Ok(turn);
        }
        let mut message = Message::new(id.clone(), role, Vec::new());
        if let Some(subagent) = subagent {
            ours::set(&mut message.metadata, ours::SUBAGENT_RUN_ID, json!(subagent));
        }
        self.begin(message)
    }

    /// The last message, if it is but thoughts of this agent that belong nowhere yet.
    pub(super) fn adrift(&self, subagent: Option<&Id>) -> Option<usize> {
        let last = self.turns.last().filter(|_| self.is_adrift)?;
        let by = ours::find(&last.message.metadata, ours::SUBAGENT_RUN_ID).and_then(Value::as_str);
        (by == subagent.map(Id::as_str)).then_some(self.turns.len() - 1)
    }

    pub(super) fn find_message(&self, id: &Id) -> Option<(usize, Role)> {
        self.messages.get(id).map(|turn| (*turn, self.turns[*turn].message.role))
    }

    pub(super) fn part(&mut self, place: Place) -> Option<&mut Part> {
        self.turns.get_mut(place.turn)?.message.parts.get_mut(place.part?)
    }

    pub(super) fn message_mut(&mut self, turn: usize) -> Option<&mut Message> {
        self.turns.get_mut(turn).map(|turn| &mut turn.message)
    }

    /// Whether it is the last part of its message.
    pub(super) fn is_last(&self, place: Place) -> bool {
        let parts = self.turns.get(place.turn).map(|turn| turn.message.parts.len());
        place.part.is_some_and(|part| parts == Some(part + 1))
    }

    /// Another part of a message.
    pub(super) fn push_part(&mut self, turn: usize, part: Part) -> Result<Place, TranscriptError> {
        let message = &mut self.turns[turn].message;
        if message.parts.len() >= TRANSCRIPT_PARTS_MAX {
            return Err(TranscriptError::TooManyParts { id: message.id.clone() });
        }
        message.parts.push(part);
        Ok(Place { turn, part: Some(message.parts.len() - 1) })
    }

    /// The answer to a call.
    pub(super) fn answer(
        &mut self,
        id: &Id,
        result: ToolResult,
        metadata: Map<String, Value>,
    ) -> Result<(), TranscriptError> {
        let Some(place) = self.calls.get(&result.call_id).copied() else {
            let (event, id) = ("TOOL_CALL_RESULT", result.call_id);
            return Err(TranscriptError::Unknown { event, what: "call", id });
        };
        self.has_place()?;
        let call = result.call_id.clone();
        let part = Part::ToolResult(result);
        let bytes = bytes_of(&part);
        let mut message = Message::new(id.clone(), Role::Tool, vec![part]);
        message.metadata = metadata;
        if self.answered.contains(&call) {
            // The same answer may be told again when a stream is taken up again.
            let mut answers = self.turns[place.turn].answers.iter();
            return match answers.any(|answer| answer.message == message) {
                true => Ok(()),
                false => Err(TranscriptError::AnsweredTwice { id: call }),
            };
        }
        self.count(bytes)?;
        self.attach(place, message);
        Ok(())
    }

    fn attach(&mut self, place: Place, message: Message) {
        let part = place.part.unwrap_or_default();
        self.answered.extend(message.results().map(|result| result.call_id.clone()));
        self.count += 1;
        let answers = &mut self.turns[place.turn].answers;
        let at = answers.partition_point(|answer| answer.part < part);
        answers.insert(at, Answer { part, message });
    }

    /// Counts bytes, if there is room for them.
    pub(super) const fn count(&mut self, bytes: usize) -> Result<(), TranscriptError> {
        if bytes > TRANSCRIPT_BYTES_MAX - self.bytes {
            return Err(TranscriptError::TooLong);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Whether there is room for so many bytes.
    pub(super) const fn has_bytes(&self, bytes: usize) -> Result<(), TranscriptError> {
        match bytes > TRANSCRIPT_BYTES_MAX - self.bytes {
            true => Err(TranscriptError::TooLong),
            false => Ok(()),
        }
    }

    const fn has_place(&self) -> Result<(), TranscriptError> {
        match self.count >= TRANSCRIPT_MESSAGES_MAX {
            true => Err(TranscriptError::TooManyMessages),
            false => Ok(()),
        }
    }
}

fn bytes_of(part: &Part) -> usize {
    let media = |source: &Source| match source {
        Source::Data { value, .. } | Source::Url { value, .. } | Source::File { value, .. } => {
            value.len()
        }
    };
    match part {
        Part::Text(text) => text.text.len(),
        Part::Thinking(thinking) => thinking.text.len(),
        Part::ToolCall(call) => call.arguments.len(),
        Part::Image(it) | Part::Audio(it) | Part::Video(it) | Part::Document(it) => {
            media(&it.source)
        }
        Part::ToolResult(result) => match &result.content {
            Content::Text(text) => text.len(),
            Content::Parts(parts) => parts
                .iter()
                .map(|part| match part {
                    ContentPart::Text(text) => text.text.len(),
                    ContentPart::Image(it)
                    | ContentPart::Audio(it)
                    | ContentPart::Video(it)
                    | ContentPart::Document(it) => media(&it.source),
                })
                .sum(),
        },
    }
}
