//! The tools of a run, by name.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{Tool, ToolSpec, schema::shortened};
use crate::{
    Id,
    caps::{TOOLS_MAX, TOOLS_TOLD_MAX},
};

/// The tools of a run. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Toolbox {
    tools: Arc<BTreeMap<Id, Tool>>,
}

/// Whether a call may be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// It may.
    Admitted {
        /// Its arguments.
        arguments: Value,
        /// Whether a person must agree first.
        needs_approval: bool,
    },
    /// It may not; the model is told why.
    Refused {
        /// Why, and what to do instead.
        why: String,
    },
}

/// Two tools of one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are two tools named {name:?}; give one of them another name")]
pub struct DuplicateTool {
    /// The name.
    pub name: Id,
}

/// Tools that do not fit into one box.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadToolbox {
    /// Two tools of one name.
    #[error(transparent)]
    Duplicate(#[from] DuplicateTool),
    /// Too many tools.
    #[error("there are more than {TOOLS_MAX} tools; give only those that the run needs")]
    TooMany,
}

impl Toolbox {
    /// A box of these.
    ///
    /// # Errors
    /// If two have one name, or there are more than [`TOOLS_MAX`].
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self, BadToolbox> {
        let mut by_name = BTreeMap::new();
        for tool in tools {
            let name = tool.spec().name.clone();
            if by_name.insert(name.clone(), tool).is_some() {
                return Err(DuplicateTool { name }.into());
            }
            if by_name.len() > TOOLS_MAX {
                return Err(BadToolbox::TooMany);
            }
        }
        Ok(Self { tools: Arc::new(by_name) })
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// What is known of each, by name.
    pub fn specs(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.tools.values().map(Tool::spec)
    }

    /// Whether this call may be made: the tool is there and its arguments fit.
    #[must_use]
    pub fn admit(&self, name: &str, arguments: &str) -> Admission {
        let Some(tool) = self.get(name) else {
            return Admission::Refused { why: self.no_such_tool(name) };
        };
        match tool.check(arguments) {
            Ok(arguments) => {
                let needs_approval = tool.needs_approval(&arguments);
                Admission::Admitted { arguments, needs_approval }
            }
            Err(why) => Admission::Refused { why: why.to_string() },
        }
    }

    /// A model may write any name, of any length.
    fn no_such_tool(&self, name: &str) -> String {
        let name = shortened(format!("{name:?}"));
        let known: Vec<_> = self.tools.keys().map(Id::as_str).take(TOOLS_TOLD_MAX).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let more = if self.tools.len() > TOOLS_TOLD_MAX { ", and more" } else { "" };
        format!("there is no tool {name}; there are: {known}{more}")
    }
}
