//! The timeline of a session: its history rather than its rows, so that attempts that were
//! abandoned are there, too. It is folded from the messages of the stream, one by one.

use agent::rows::{
    Chunk, Generation, Message, Resolution, Role, Runner, Step, StepStatus, Stop, ToolCall,
};
use live::Row;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// What happened.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Timeline {
    pub(super) messages: usize,
    pub(super) generations: Vec<Answered>,
    /// Every takeover, in order.
    pub(super) runners: Vec<Takeover>,
    pub(super) stops: Vec<Stop>,
    pub(super) resolutions: Vec<Resolution>,
}

/// A generation and all that was done for it.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answered {
    #[serde(flatten)]
    pub(super) row: Generation,
    pub(super) steps: Vec<Work>,
    pub(super) calls: Vec<Called>,
}

/// One call of the model, with all attempts at it.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Work {
    pub(super) id: String,
    pub(super) turn: u32,
    pub(super) attempts: Vec<Attempt>,
}

/// One call of a tool, with all attempts at it.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Called {
    pub(super) id: String,
    pub(super) message_id: Option<String>,
    pub(super) name: String,
    pub(super) args: Value,
    pub(super) status: Value,
    pub(super) effect: Value,
    pub(super) result: Option<Value>,
    pub(super) attempts: Vec<Attempt>,
}

/// One attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attempt {
    pub(super) attempt: u32,
    /// As its row says, or `abandoned` if the next attempt began before it ended.
    pub(super) status: String,
    pub(super) started_at: Option<String>,
    pub(super) completed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<u64>,
    /// Pieces of text that were shown.
    pub(super) chunks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Somebody runs an agent.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Takeover {
    pub(super) agent: String,
    pub(super) runner: String,
    pub(super) epoch: u64,
    pub(super) claimed_at: String,
    /// When it ended in peace; none if it runs, or died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) released_at: Option<String>,
}

impl Timeline {
    /// Takes the next message of the stream.
    pub(super) fn take(&mut self, body: state::Body<'_>) {
        let state::Body::Change(change) = body else { return };
        let Some(value) = change.value.map(|value| value.get()) else { return };
        match &*change.type_name {
            name if name == Message::NAME => {
                let is_said = |row: Message| row.role == Role::User;
                self.messages += usize::from(row(value).is_some_and(is_said));
            }
            name if name == Generation::NAME => self.generation(row(value)),
            name if name == Step::NAME => self.step(row(value)),
            name if name == ToolCall::NAME => self.call(row(value)),
            name if name == Chunk::NAME => self.chunk(row(value)),
            name if name == Runner::NAME => self.runner(row(value)),
            name if name == Stop::NAME => self.stops.extend(row::<Stop>(value)),
            name if name == Resolution::NAME => self.resolutions.extend(row::<Resolution>(value)),
            _ => {}
        }
    }

    fn generation(&mut self, row: Option<Generation>) {
        let Some(row) = row else { return };
        match self.generations.iter_mut().find(|known| known.row.id == row.id) {
            Some(known) => known.row = row,
            None => {
                self.generations.push(Answered { row, steps: Vec::new(), calls: Vec::new() });
            }
        }
    }

    fn of(&mut self, generation: &str) -> Option<&mut Answered> {
        self.generations.iter_mut().rev().find(|known| known.row.id == generation)
    }

    fn step(&mut self, row: Option<Step>) {
        let Some(row) = row else { return };
        let Some(generation) = self.of(&row.generation_id) else { return };
        let steps = &mut generation.steps;
        let index = steps.iter().position(|step| step.id == row.id).unwrap_or_else(|| {
            steps.push(Work { id: row.id.clone(), turn: row.turn, attempts: Vec::new() });
            steps.len() - 1
        });
        let attempt = Attempt {
            attempt: row.attempt,
            status: word(&row.status),
            started_at: Some(row.started_at),
            completed_at: row.completed_at,
            error: row.error,
            ..Attempt::default()
        };
        note(&mut steps[index].attempts, attempt, &word(&StepStatus::Started));
    }

    fn call(&mut self, row: Option<ToolCall>) {
        let Some(row) = row else { return };
        let Some(generation) = row.generation_id.as_ref().and_then(|id| self.of(id)) else {
            return;
        };
        let calls = &mut generation.calls;
        let status = word(&row.status);
        let index = calls.iter().position(|call| call.id == row.id).unwrap_or_else(|| {
            calls.push(Called {
                id: row.id.clone(),
                message_id: row.message_id.clone(),
                name: row.name.clone(),
                args: row.args.clone(),
                status: Value::Null,
                effect: serde_json::to_value(row.effect).unwrap_or_default(),
                result: None,
                attempts: Vec::new(),
            });
            calls.len() - 1
        });
        let call = &mut calls[index];
        call.status = Value::String(status.clone());
        call.result = row.result;
        if row.attempt == 0 {
            return;
        }
        let attempt = Attempt {
            attempt: row.attempt,
            status,
            started_at: row.started_at,
            completed_at: row.completed_at,
            error: row.error,
            ..Attempt::default()
        };
        note(&mut call.attempts, attempt, "executing");
    }

    fn chunk(&mut self, row: Option<Chunk>) {
        let Some(row) = row else { return };
        let Some(generation) = self.of(&row.generation_id) else { return };
        let step = generation.steps.last_mut();
        if let Some(attempt) = step.and_then(|step| step.attempts.last_mut()) {
            attempt.chunks += u64::from(!row.is_final);
        }
    }

    fn runner(&mut self, row: Option<Runner>) {
        let Some(Runner { id, runner, epoch, claimed_at, released_at, .. }) = row else { return };
        match self.runners.iter_mut().find(|known| known.agent == id && known.epoch == epoch) {
            Some(known) => known.released_at = released_at,
            None => {
                let takeover = Takeover { agent: id, runner, epoch, claimed_at, released_at };
                self.runners.push(takeover);
            }
        }
    }
}

/// Notes how an attempt is now; those before it that have not ended were abandoned.
fn note(attempts: &mut Vec<Attempt>, mut now: Attempt, under_way: &str) {
    now.duration_ms = duration_ms(now.started_at.as_deref(), now.completed_at.as_deref());
    match attempts.iter_mut().find(|known| known.attempt == now.attempt) {
        Some(known) => *known = Attempt { chunks: known.chunks, ..now },
        None => {
            for before in attempts.iter_mut().filter(|before| before.status == under_way) {
                "abandoned".clone_into(&mut before.status);
            }
            attempts.push(now);
        }
    }
}

/// How long it took, if it ended.
pub(super) fn duration_ms(from: Option<&str>, to: Option<&str>) -> Option<u64> {
    let at = |text: &str| text.parse::<wire::Timestamp>().ok().map(|time| time.unix_ms());
    at(to?)?.checked_sub(at(from?)?)
}

fn row<R: DeserializeOwned>(value: &str) -> Option<R> {
    serde_json::from_str(value).ok()
}

/// A status as it stands in its row.
pub(super) fn word(status: &impl Serialize) -> String {
    let value = serde_json::to_value(status).unwrap_or_default();
    value.as_str().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(timeline: &mut Timeline, name: &str, value: &Value) {
        let message = json!({
            "type": name, "key": value["id"], "value": value,
            "headers": {"operation": "upsert"},
        });
        timeline.take(state::decode(message.to_string().as_bytes()).body);
    }

    #[test]
    fn an_attempt_that_was_followed_by_another_was_abandoned() {
        let mut timeline = Timeline::default();
        let generation = json!({
            "id": "a-0", "agentName": "a", "status": "generating", "model": "m", "readUpTo": 0,
            "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z",
        });
        write(&mut timeline, "generation", &generation);
        let step = |attempt: u32, status: &str, end: Option<&str>| {
            json!({
                "id": "a-0:1", "generationId": "a-0", "turn": 1, "status": status,
                "attempt": attempt, "firstChunk": 0, "startedAt": "2026-01-01T00:00:01.000Z",
                "completedAt": end,
            })
        };
        let chunk = json!({"id": "a-0:c0", "generationId": "a-0", "index": 0, "type": "text",
            "content": "x"});
        write(&mut timeline, "step", &step(1, "started", None));
        write(&mut timeline, "chunk", &chunk);
        write(&mut timeline, "step", &step(2, "started", None));
        write(&mut timeline, "step", &step(2, "completed", Some("2026-01-01T00:00:02.500Z")));
        let attempts = &timeline.generations[0].steps[0].attempts;
        let told: Vec<_> =
            attempts.iter().map(|it| (it.attempt, it.status.as_str(), it.chunks)).collect();
        assert_eq!(told, [(1, "abandoned", 1), (2, "completed", 0)]);
        assert_eq!(attempts[1].duration_ms, Some(1500));
        timeline.take(state::decode(b"nonsense").body);
    }
}
