//! The tools of a run, by name.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{Tool, ToolSpec};
use crate::Id;

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

impl Toolbox {
    /// A box of these.
    ///
    /// # Errors
    /// If two have one name.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self, DuplicateTool> {
        let mut by_name = BTreeMap::new();
        for tool in tools {
            let name = tool.spec().name.clone();
            if by_name.insert(name.clone(), tool).is_some() {
                return Err(DuplicateTool { name });
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
            let names: Vec<_> = self.tools.keys().map(Id::as_str).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Admission::Refused {
                why: format!("there is no tool {name:?}; there are: {names}"),
            };
        };
        match tool.check(arguments) {
            Ok(arguments) => {
                let needs_approval = tool.needs_approval(&arguments);
                Admission::Admitted { arguments, needs_approval }
            }
            Err(why) => Admission::Refused { why: why.to_string() },
        }
    }
}
