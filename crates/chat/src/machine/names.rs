//! Names of tool calls: unique in a conversation, whatever providers say.

use std::collections::BTreeSet;

use crate::{Id, Message, Part};

/// The calls that a conversation has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CallNames(BTreeSet<Id>);

impl CallNames {
    pub(super) fn of<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Self {
        let parts = messages.into_iter().flat_map(|message| &message.parts);
        let ids = parts.filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.id.clone()),
            _ => None,
        });
        Self(ids.collect())
    }

    pub(super) fn with<'a>(mut self, ids: impl Iterator<Item = &'a Id>) -> Self {
        self.0.extend(ids.cloned());
        self
    }

    /// The provider's id for a call, unless it has none, or has given it before: then ours.
    pub(super) fn take(&mut self, theirs: Option<Id>, ours: Id) -> Id {
        let theirs = theirs.filter(|id| !id.is_empty() && !self.0.contains(id));
        let id = theirs.unwrap_or(ours);
        self.0.insert(id.clone());
        id
    }
}
