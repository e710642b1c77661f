//! What the world is told when a run begins and ends.

use serde_json::{Map, Value, json};

use super::{Failure, Machine};
use crate::{
    Id, StopReason,
    agui::{Custom, Event, Outcome, RunError, RunFinished, RunStarted},
};

impl Machine {
    pub(super) fn run_started(&self, parent_run_id: Option<Id>) -> Event {
        let started = RunStarted {
            thread_id: self.state.thread_id.clone(),
            run_id: self.state.run_id.clone(),
            protocol_version: None,
            parent_run_id,
            input: None,
        };
        started.into()
    }

    /// Why the model stopped. A client that heard of tool calls after their results would start
    /// another run.
    pub(super) fn stop_word(&self) -> &str {
        match &self.state.stop {
            None | Some(StopReason::ToolCalls) => StopReason::End.word(),
            Some(stop) => stop.word(),
        }
    }

    pub(super) fn run_finished(
        &self,
        outcome: Outcome,
        finish_reason: &str,
        result: Option<Value>,
    ) -> Event {
        let metadata = self.metadata(finish_reason);
        let finished = RunFinished {
            thread_id: self.state.thread_id.clone(),
            run_id: self.state.run_id.clone(),
            result,
            outcome: Some(outcome),
            usage: self.state.usage_told(),
        };
        with_metadata(finished.into(), metadata)
    }

    pub(super) fn run_error(&self, failure: &Failure) -> Event {
        let error = RunError {
            message: failure.to_string(),
            code: Some(failure.code().to_owned()),
            usage: self.state.usage_told(),
        };
        let mut metadata = self.metadata("error");
        if let Some(Value::Object(theirs)) = metadata.get_mut("tanstack") {
            theirs.insert("threadId".to_owned(), json!(self.state.thread_id));
            theirs.insert("runId".to_owned(), json!(self.state.run_id));
        }
        with_metadata(error.into(), metadata)
    }

    /// What TanStack's client wants to know beyond AG-UI.
    fn metadata(&self, finish_reason: &str) -> Map<String, Value> {
        let model = self.state.model.as_ref().unwrap_or(&self.plan.model.model);
        let theirs = json!({ "finishReason": finish_reason, "model": model });
        Map::from_iter([("tanstack".to_owned(), theirs)])
    }
}

pub(super) fn custom(name: &str, value: Value) -> Event {
    Custom { name: name.to_owned(), value }.into()
}

pub(super) fn edited(call_id: &Id, arguments: &str) -> Event {
    custom(crate::agui::ours::EDITED, json!({ "toolCallId": call_id, "arguments": arguments }))
}

fn with_metadata(mut event: Event, metadata: Map<String, Value>) -> Event {
    event.common.metadata = Some(metadata);
    event
}
