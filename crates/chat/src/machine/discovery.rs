//! Lazy tools: a model first hears only of their names, and asks for those it wants.

use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;
use serde_json::json;

use crate::{CallEnd, Conversation, Id, Part, ToolCall, ToolSpec, Toolbox, agui::Content};

/// The tool that tells of the others.
pub const DISCOVERY_TOOL: &str = "discover_tools";

#[derive(Deserialize)]
struct Wanted {
    names: BTreeSet<Id>,
}

/// The tools that a model is told of after this conversation.
pub(super) fn offered(tools: &Toolbox, messages: &Conversation) -> Vec<Arc<ToolSpec>> {
    if !tools.specs().any(|spec| spec.lazy) {
        return tools.specs().map(Arc::clone).collect();
    }
    let found = discovered(messages);
    let is_hidden = |spec: &&Arc<ToolSpec>| spec.lazy && !found.contains(&spec.name);
    let hidden: Vec<_> = tools.specs().filter(is_hidden).collect();
    let mut offered: Vec<_> =
        tools.specs().filter(|spec| !is_hidden(spec)).map(Arc::clone).collect();
    if !hidden.is_empty() {
        offered.push(Arc::new(discovery_tool(&hidden)));
    }
    offered
}

/// The answer to a call of the discovery tool; `None` for any other.
pub(super) fn answer(call: &ToolCall, tools: &Toolbox) -> Option<(Content, CallEnd)> {
    if call.name != DISCOVERY_TOOL || tools.get(DISCOVERY_TOOL).is_some() {
        return None;
    }
    let Ok(wanted) = serde_json::from_str::<Wanted>(&call.arguments) else {
        let why = "its arguments must be {\"names\": [..]}, the names of tools";
        return Some((Content::Text(why.to_owned()), CallEnd::Failed));
    };
    let found = wanted.names.iter().map(|name| match tools.get(name) {
        Some(tool) => {
            let spec = tool.spec();
            json!({ "name": name, "description": spec.description, "parameters": spec.input })
        }
        None => json!({ "name": name, "error": "there is no such tool" }),
    });
    let told = json!({ "tools": found.collect::<Vec<_>>() });
    Some((Content::Text(told.to_string()), CallEnd::Done))
}

/// The names that were asked for, according to the conversation.
fn discovered(messages: &Conversation) -> BTreeSet<Id> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let calls = parts.filter_map(|part| match part {
        Part::ToolCall(call) if call.name == DISCOVERY_TOOL => Some(call),
        _ => None,
    });
    let wanted = calls.filter_map(|call| serde_json::from_str::<Wanted>(&call.arguments).ok());
    wanted.flat_map(|wanted| wanted.names).collect()
}

fn discovery_tool(hidden: &[&Arc<ToolSpec>]) -> ToolSpec {
    let names: Vec<_> = hidden.iter().map(|spec| spec.name.as_str()).collect();
    let description = format!(
        "Tells how further tools are called, so that they can be. There are: {}",
        names.join(", ")
    );
    let input = json!({
        "type": "object",
        "properties": { "names": {
            "type": "array",
            "items": { "type": "string", "enum": names },
            "description": "The tools to tell of.",
        } },
        "required": ["names"],
        "additionalProperties": false,
    });
    ToolSpec::new(DISCOVERY_TOOL, description, input)
}
