//! Chunks: one event that stands for the start, the content and the end of something.
//!
//! A chunk continues what the chunk before it opened, or opens something new if it names another
//! id. What chunks have opened is ended by the next event of the same producer. Every subagent is a
//! producer of its own, and so is the agent itself.

use std::collections::BTreeMap;

use crate::Id;

use super::{
    Common, Event, EventKind, ReasoningMessageContent, ReasoningMessageEnd, ReasoningMessageStart,
    TextMessageContent, TextMessageEnd, TextMessageStart, TextRole, ToolCallArgs, ToolCallEnd,
    ToolCallStart,
};

/// Writes chunks out as the events that they stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunks {
    /// What is open, by the subagent whose it is.
    lanes: BTreeMap<Option<Id>, Lane>,
}

/// What has become of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expanded {
    /// It is as it was, and comes after what was written.
    Kept,
    /// It was a chunk; what was written stands for it.
    Replaced,
}

/// A chunk that continues nothing, or not what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event}: {why}")]
pub struct BadChunk {
    /// Its type.
    pub event: &'static str,
    /// What is wrong with it.
    pub why: String,
}

/// What chunks have opened.
#[derive(Clone, Debug, PartialEq)]
struct Lane {
    id: Id,
    opened: Opened,
    owner: Option<Id>,
}

#[derive(Clone, Debug, PartialEq)]
enum Opened {
    Text { role: TextRole, name: Option<String> },
    Call { name: String, parent: Option<Id> },
    Thoughts,
}

/// A chunk of any kind.
struct Chunk<'a> {
    event: &'static str,
    id: Option<&'a Id>,
    delta: Option<&'a String>,
    said: Said<'a>,
    common: &'a Common,
}

enum Said<'a> {
    Text { role: Option<TextRole>, name: Option<&'a String> },
    Call { name: Option<&'a String>, parent: Option<&'a Id> },
    Thoughts,
}

impl Chunks {
    /// Writes what comes before an event, and what a chunk stands for, to the end of `out`.
    ///
    /// # Errors
    /// If a chunk continues nothing, or contradicts what it continues. Nothing is changed then.
    pub fn expand(&mut self, event: &Event, out: &mut Vec<Event>) -> Result<Expanded, BadChunk> {
        if let Some(chunk) = Chunk::of(event) {
            self.take(&chunk, out)?;
            return Ok(Expanded::Replaced);
        }
        if self.lanes.is_empty() {
            return Ok(Expanded::Kept);
        }
        match &event.kind {
            EventKind::RunStarted(_)
            | EventKind::RunFinished(_)
            | EventKind::RunError(_)
            | EventKind::MessagesSnapshot(_) => self.end_all(out),
            EventKind::Raw(_)
            | EventKind::ActivitySnapshot(_)
            | EventKind::ActivityDelta(_)
            | EventKind::ReasoningEncryptedValue(_)
            | EventKind::SubagentStarted(_)
            | EventKind::Unknown(_) => {}
            _ => self.end(event.common.subagent_run_id.as_ref(), out),
        }
        Ok(Expanded::Kept)
    }

    /// Ends all that chunks have opened: the stream is over.
    pub fn end_all(&mut self, out: &mut Vec<Event>) {
        out.extend(std::mem::take(&mut self.lanes).into_values().map(Lane::end));
    }

    fn end(&mut self, owner: Option<&Id>, out: &mut Vec<Event>) {
        out.extend(self.lanes.remove(&owner.cloned()).map(Lane::end));
    }

    fn take(&mut self, chunk: &Chunk<'_>, out: &mut Vec<Event>) -> Result<(), BadChunk> {
        let owner = self.owner_of(chunk)?;
        let continued = self.lanes.get(&owner).filter(|lane| chunk.continues(lane));
        if let Some(lane) = continued {
            chunk.agree(lane)?;
            out.extend(chunk.content(lane, Place::Later));
            return Ok(());
        }
        let lane = chunk.lane()?;
        self.end(owner.as_ref(), out);
        out.push(chunk.start(&lane));
        out.extend(chunk.content(&lane, Place::First));
        self.lanes.insert(owner, lane);
        Ok(())
    }

    /// Whose chunk it is.
    fn owner_of(&self, chunk: &Chunk<'_>) -> Result<Option<Id>, BadChunk> {
        let tag = chunk.common.subagent_run_id.as_ref();
        if let Some(id) = chunk.id {
            let holder = self.lanes.iter().find(|(_, lane)| chunk.fits(lane) && lane.id == *id);
            return match (holder, tag) {
                (Some((owner, _)), Some(tag)) if owner.as_ref() != Some(tag) => {
                    let owner = owner.as_deref().unwrap_or("the agent itself");
                    Err(chunk.bad(format!("{id:?} belongs to {owner}, not to {tag}")))
                }
                (Some((owner, _)), _) => Ok(owner.clone()),
                (None, tag) => Ok(tag.cloned()),
            };
        }
        if tag.is_some() || self.lanes.get(&None).is_some_and(|lane| chunk.fits(lane)) {
            return Ok(tag.cloned());
        }
        let mut fitting = self.lanes.iter().filter(|(_, lane)| chunk.fits(lane));
        match (fitting.next(), fitting.next()) {
            (Some(_), Some(_)) => {
                let why = "it could continue several; name its id or its subagentRunId";
                Err(chunk.bad(why.into()))
            }
            (Some((owner, _)), None) => Ok(owner.clone()),
            (None, _) => Ok(None),
        }
    }
}

/// Where in its block a chunk stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Later,
}

impl<'a> Chunk<'a> {
    fn of(event: &'a Event) -> Option<Self> {
        let (name, id, delta, said) = match &event.kind {
            EventKind::TextMessageChunk(chunk) => {
                let said = Said::Text { role: chunk.role, name: chunk.name.as_ref() };
                ("TEXT_MESSAGE_CHUNK", &chunk.message_id, &chunk.delta, said)
            }
            EventKind::ToolCallChunk(chunk) => {
                let (name, parent) = (&chunk.tool_call_name, &chunk.parent_message_id);
                let said = Said::Call { name: name.as_ref(), parent: parent.as_ref() };
                ("TOOL_CALL_CHUNK", &chunk.tool_call_id, &chunk.delta, said)
            }
            EventKind::ReasoningMessageChunk(chunk) => {
                ("REASONING_MESSAGE_CHUNK", &chunk.message_id, &chunk.delta, Said::Thoughts)
            }
            _ => return None,
        };
        let (id, delta) = (id.as_ref(), delta.as_ref());
        Some(Self { event: name, id, delta, said, common: &event.common })
    }

    fn fits(&self, lane: &Lane) -> bool {
        matches!(
            (&self.said, &lane.opened),
            (Said::Text { .. }, Opened::Text { .. })
                | (Said::Call { .. }, Opened::Call { .. })
                | (Said::Thoughts, Opened::Thoughts)
        )
    }

    fn continues(&self, lane: &Lane) -> bool {
        self.fits(lane) && self.id.is_none_or(|id| *id == lane.id)
    }

    /// What this chunk opens.
    fn lane(&self) -> Result<Lane, BadChunk> {
        let missing = |field: &str| {
            self.bad(format!("it has no {field:?}, and there is nothing that it could continue"))
        };
        let (field, opened) = match self.said {
            Said::Text { role, name } => {
                let (role, name) = (role.unwrap_or_default(), name.cloned());
                ("messageId", Opened::Text { role, name })
            }
            Said::Call { name, parent } if self.id.is_some() => {
                let name = name.ok_or_else(|| missing("toolCallName"))?.clone();
                ("toolCallId", Opened::Call { name, parent: parent.cloned() })
            }
            Said::Call { .. } => return Err(missing("toolCallId")),
            Said::Thoughts => ("messageId", Opened::Thoughts),
        };
        let id = self.id.ok_or_else(|| missing(field))?.clone();
        Ok(Lane { id, opened, owner: self.common.subagent_run_id.clone() })
    }

    /// A chunk may repeat what the first one said, and nothing else.
    fn agree(&self, lane: &Lane) -> Result<(), BadChunk> {
        let field = match (&self.said, &lane.opened) {
            (Said::Text { role: Some(said), .. }, Opened::Text { role, .. }) if said != role => {
                "role"
            }
            (Said::Text { name: Some(said), .. }, Opened::Text { name, .. })
                if name.as_ref() != Some(said) =>
            {
                "name"
            }
            (Said::Call { name: Some(said), .. }, Opened::Call { name, .. }) if *said != name => {
                "toolCallName"
            }
            (Said::Call { parent: Some(said), .. }, Opened::Call { parent, .. })
                if parent.as_ref() != Some(said) =>
            {
                "parentMessageId"
            }
            _ => return Ok(()),
        };
        Err(self.bad(format!("its {field:?} is not the one that {:?} began with", lane.id)))
    }

    fn start(&self, lane: &Lane) -> Event {
        let id = lane.id.clone();
        let mut event: Event = match &lane.opened {
            Opened::Text { role, name } => {
                TextMessageStart { message_id: id, role: Some(*role), name: name.clone() }.into()
            }
            Opened::Call { name, parent } => ToolCallStart {
                tool_call_id: id,
                tool_call_name: name.clone(),
                parent_message_id: parent.clone(),
            }
            .into(),
            Opened::Thoughts => {
                ReasoningMessageStart { message_id: id, role: "reasoning".into() }.into()
            }
        };
        event.common.metadata.clone_from(&self.common.metadata);
        event.common.subagent_run_id.clone_from(&lane.owner);
        if !self.has_content() {
            event.common.others.clone_from(&self.common.others);
            event.common.others.remove("role");
        }
        event
    }

    const fn has_content(&self) -> bool {
        self.delta.is_some() || self.common.raw_event.is_some()
    }

    fn content(&self, lane: &Lane, place: Place) -> Option<Event> {
        let says_more = self.common.metadata.is_some() || !self.common.others.is_empty();
        if !self.has_content() && (place == Place::First || !says_more) {
            return None;
        }
        let (id, delta) = (lane.id.clone(), self.delta.cloned().unwrap_or_default());
        let mut event: Event = match lane.opened {
            Opened::Text { .. } => TextMessageContent { message_id: id, delta }.into(),
            Opened::Call { .. } => ToolCallArgs { tool_call_id: id, delta }.into(),
            Opened::Thoughts => ReasoningMessageContent { message_id: id, delta }.into(),
        };
        event.common = self.common.clone();
        event.common.subagent_run_id.clone_from(&lane.owner);
        Some(event)
    }

    fn bad(&self, why: String) -> BadChunk {
        BadChunk { event: self.event, why }
    }
}

impl Lane {
    fn end(self) -> Event {
        let Self { id, opened, owner } = self;
        let mut event: Event = match opened {
            Opened::Text { .. } => TextMessageEnd { message_id: id }.into(),
            Opened::Call { .. } => ToolCallEnd { tool_call_id: id }.into(),
            Opened::Thoughts => ReasoningMessageEnd { message_id: id }.into(),
        };
        event.common.subagent_run_id = owner;
        event
    }
}
