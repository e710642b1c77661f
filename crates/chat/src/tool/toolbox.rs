//! The tools of a run, by name.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{Tool, ToolSpec, content::capped_result, schema::shortened};
use crate::{
    Id, ToolResult,
    caps::{TOOL_OUTPUT_BYTES_DEFAULT, TOOLS_MAX, TOOLS_TOLD_MAX},
    machine::DISCOVERY_TOOL,
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
    /// A tool has the name of the one that tells of lazy tools.
    #[error(
        "a tool is named {DISCOVERY_TOOL:?}, as is the one that tells of lazy tools, and {lazy:?} \
         is lazy; give it another name, or make no tool lazy"
    )]
    NamedLikeDiscovery {
        /// A tool that is lazy.
        lazy: Id,
    },
}

impl Toolbox {
    /// A box of these.
    ///
    /// # Errors
    /// If two have one name, or there are more than [`TOOLS_MAX`]; or if one is called like the
    /// tool that tells of lazy ones, and there are lazy ones.
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
        let lazy = by_name.values().find(|tool| tool.spec().lazy);
        if let (Some(lazy), true) = (lazy, by_name.contains_key(DISCOVERY_TOOL)) {
            return Err(BadToolbox::NamedLikeDiscovery { lazy: lazy.spec().name.clone() });
        }
        Ok(Self { tools: Arc::new(by_name) })
    }

    /// What a tool of this name answered, as far as it may: nobody can say more than that.
    pub(crate) fn capped(&self, name: &str, result: ToolResult) -> ToolResult {
        let bytes_max = self.get(name).map(|tool| tool.spec().output_bytes_max);
        capped_result(result, bytes_max.unwrap_or(TOOL_OUTPUT_BYTES_DEFAULT))
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
