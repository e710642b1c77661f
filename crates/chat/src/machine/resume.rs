//! Interrupts: what a suspended run waits for, and how it is resumed.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Decision, Input, Machine, Misfed, Phase};
use crate::{
    CallEnd, Id, Place, ToolResult,
    agui::{Content, Event, Interrupt, ResumeEntry, ResumeStatus},
};

const APPROVAL: &str = "approval_";
const CLIENT_TOOL: &str = "client_tool_";

/// What a person says to an approval, in any of the forms that clients send.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Plain(bool),
    Full(FullAnswer),
}

/// A key that nobody knows may be a misspelt one, and changes what is meant.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FullAnswer {
    approved: bool,
    #[serde(default)]
    edited_args: Option<Value>,
    #[serde(default)]
    payload: Option<Value>,
}

impl Machine {
    /// What the run waits for: decisions, and tools of the client.
    #[must_use]
    pub fn interrupts(&self) -> Vec<Interrupt> {
        let Phase::Tools(batch) = &self.state.phase else { return Vec::new() };
        let approvals = batch.undecided().into_iter().map(|call| self.approval(&call));
        let client_tools = batch.ready(Place::Client);
        let client_tools = client_tools.into_iter().map(|call| self.client_tool(&call));
        approvals.chain(client_tools).collect()
    }

    /// Begins a run that goes on from the suspended one.
    ///
    /// # Errors
    /// If it is not suspended.
    pub fn resume(&mut self, run_id: impl Into<Id>) -> Result<Vec<Event>, Misfed> {
        if self.state.is_running {
            return Err(Misfed::NotNow { input: "a resumption", step: "to go on with the run" });
        }
        let parent = std::mem::replace(&mut self.state.run_id, run_id.into());
        self.state.is_running = true;
        Ok(vec![self.run_started(Some(parent))])
    }

    /// The first tool that the run waits for and that it was not given again.
    #[must_use]
    pub fn missing_tool(&self) -> Option<Id> {
        let Phase::Tools(batch) = &self.state.phase else { return None };
        let open = [batch.undecided(), batch.ready(Place::Server), batch.ready(Place::Client)];
        let is_missing = |call: &Call| self.plan.tools.get(&call.name).is_none();
        open.into_iter().flatten().find(is_missing).map(|call| call.name)
    }

    /// What an answer to an interrupt means to the machine. Whatever is not a clear yes is a no.
    ///
    /// # Errors
    /// If there is no such interrupt.
    pub fn read_answer(&self, entry: &ResumeEntry) -> Result<Input, Misfed> {
        let unknown = || Misfed::UnknownInterrupt { interrupt_id: entry.interrupt_id.clone() };
        let open = self.interrupts();
        let interrupt = open.iter().find(|interrupt| interrupt.id == entry.interrupt_id);
        let call_id = interrupt.and_then(|interrupt| interrupt.tool_call_id.clone());
        let call_id = call_id.ok_or_else(unknown)?;
        if entry.status == ResumeStatus::Cancelled {
            return Ok(Input::Decided { call_id, decision: Decision::Cancel });
        }
        if entry.interrupt_id.starts_with(APPROVAL) {
            let decision = read_decision(entry.payload.as_ref());
            return Ok(Input::Decided { call_id, decision });
        }
        self.check_output(&call_id, entry.payload.as_ref())?;
        let content = Content::Text(told(entry.payload.as_ref()));
        Ok(Input::Tool(ToolResult { call_id, content, end: CallEnd::Done }))
    }

    /// Whether the answer of a tool of the client is what the tool promises.
    fn check_output(&self, call_id: &Id, answer: Option<&Value>) -> Result<(), Misfed> {
        let Phase::Tools(batch) = &self.state.phase else { return Ok(()) };
        let calls = batch.ready(Place::Client);
        let call = calls.iter().find(|call| call.id == *call_id);
        let Some(tool) = call.and_then(|call| self.plan.tools.get(&call.name)) else {
            return Ok(());
        };
        let checked = tool.check_output(answer.unwrap_or(&Value::Null));
        checked.map_err(|bad| Misfed::BadOutput { why: bad.to_string() })
    }

    fn approval(&self, call: &Call) -> Interrupt {
        let input = self.plan.tools.get(&call.name).map(|tool| tool.spec().input.clone());
        let schema = json!({
            "type": "object",
            "properties": { "approved": { "type": "boolean" }, "editedArgs": input },
            "required": ["approved"],
        });
        let message = format!("May {:?} be called?", call.name.as_str());
        interrupt(APPROVAL, "tool_approval", call, message, schema)
    }

    fn client_tool(&self, call: &Call) -> Interrupt {
        let tool = self.plan.tools.get(&call.name);
        let output = tool.and_then(|tool| tool.spec().output.clone());
        let message = format!("The client is to run {:?}.", call.name.as_str());
        interrupt(CLIENT_TOOL, "client_tool", call, message, output.unwrap_or_else(|| json!({})))
    }
}

fn interrupt(prefix: &str, reason: &str, call: &Call, message: String, schema: Value) -> Interrupt {
    let about = json!({ "toolName": call.name, "arguments": call.arguments });
    let response_schema = match schema {
        Value::Object(schema) => Some(schema),
        _ => None,
    };
    Interrupt {
        id: Id::from(format!("{prefix}{}", call.id)),
        reason: reason.to_owned(),
        message: Some(message),
        tool_call_id: Some(call.id.clone()),
        response_schema,
        metadata: Some(Map::from_iter([(crate::agui::ours::KEY.to_owned(), about)])),
        ..Interrupt::default()
    }
}

fn read_decision(payload: Option<&Value>) -> Decision {
    let answer = payload.and_then(|payload| Answer::deserialize(payload).ok());
    match answer {
        Some(Answer::Plain(true)) => Decision::Approve { edited: None },
        Some(Answer::Full(FullAnswer { approved: true, edited_args, .. })) => {
            Decision::Approve { edited: edited_args }
        }
        Some(Answer::Full(FullAnswer { payload: Some(answer), .. })) => {
            Decision::Deny { answer: Some(told(Some(&answer))) }
        }
        Some(Answer::Plain(false) | Answer::Full(_)) | None => Decision::Deny { answer: None },
    }
}

/// Texts as they are, everything else as JSON.
fn told(payload: Option<&Value>) -> String {
    match payload {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
