//! The timeline of a session: its history rather than its rows, so that attempts that were
//! abandoned are there, too. It is folded from the messages of the stream, one by one.

use std::collections::HashMap;

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
    /// Whether something happened before that is not told.
    pub(super) has_earlier: bool,
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

/// The newest generations, and where what was read of the session begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    pub(super) count: usize,
    pub(super) from: u64,
}

/// A timeline that is being folded: every message is looked up, none is searched for.
#[derive(Debug, Default)]
pub(super) struct Fold {
    drafts: Vec<Draft>,
    draft_of: HashMap<String, usize>,
    /// Where people said something.
    said: Vec<u64>,
    runners: Vec<(u64, Takeover)>,
    runner_of: HashMap<(String, u64), usize>,
    stops: Vec<(u64, Stop)>,
    resolutions: Vec<(u64, Resolution)>,
    /// Rows that were looked at: what a test counts.
    looks: u64,
}

/// A generation of which rows are known. In a session that was compacted its own row comes last,
/// since it was written last.
#[derive(Debug, Default)]
struct Draft {
    row: Option<Generation>,
    /// Where it was made, if that was told.
    made: Option<u64>,
    /// Where its last row stands.
    last: u64,
    steps: Vec<Work>,
    step_of: HashMap<String, usize>,
    calls: Vec<Called>,
    call_of: HashMap<String, usize>,
    /// Chunks of steps that are not known yet.
    chunks: HashMap<String, u64>,
}

impl Fold {
    /// Takes the next message of the stream, which stands here, and its row was made there.
    pub(super) fn take(&mut self, stands: u64, made: Option<u64>, body: &state::Body<'_>) {
        let state::Body::Change(change) = body else { return };
        let Some(value) = change.value.map(|value| value.get()) else { return };
        self.looks += 1;
        match &*change.type_name {
            name if name == Message::NAME => {
                let is_said = row(value).is_some_and(|row: Message| row.role == Role::User);
                self.said.extend(is_said.then_some(stands));
            }
            name if name == Generation::NAME => self.generation(stands, made, row(value)),
            name if name == Step::NAME => self.step(stands, row(value)),
            name if name == ToolCall::NAME => self.call(stands, row(value)),
            name if name == Chunk::NAME => self.chunk(stands, row(value)),
            name if name == Runner::NAME => self.runner(stands, row(value)),
            name if name == Stop::NAME => {
                self.stops.extend(row(value).map(|stop| (stands, stop)));
            }
            name if name == Resolution::NAME => {
                self.resolutions.extend(row(value).map(|decided| (stands, decided)));
            }
            _ => {}
        }
    }

    /// How many generations were heard of.
    pub(super) fn generations(&self) -> usize {
        self.drafts.len()
    }

    /// All of it.
    pub(super) fn whole(self) -> Timeline {
        self.since(0, usize::MAX)
    }

    /// The newest generations that were read from their beginning on.
    pub(super) fn newest(self, newest: Newest) -> Timeline {
        let begins = self.begins(newest);
        let first = begins.len().saturating_sub(newest.count);
        let Some(made) = begins.get(first).copied() else { return self.since(u64::MAX, 0) };
        let is_first = |draft: &&Draft| draft.made == Some(made);
        let row = self.drafts.iter().find(is_first).and_then(|draft| draft.row.as_ref());
        // What it answers was said before it began.
        let heard = row.map(|row| row.read_after.map_or(row.read_up_to, |after| after + 1));
        let from = heard.map_or(made, |heard| heard.min(made));
        Timeline { has_earlier: true, ..self.since(from, begins.len() - first) }
    }

    /// Whether so many are there, and all that happened since they began.
    pub(super) fn has(&self, newest: Newest) -> bool {
        let begins = self.begins(newest);
        let Some(first) = begins.len().checked_sub(newest.count) else { return false };
        let Some(oldest) = begins.get(first) else { return true };
        let is_cut = |draft: &Draft| draft.made.is_none_or(|made| made < newest.from);
        !self.drafts.iter().any(|draft| is_cut(draft) && draft.last > *oldest)
    }

    /// Where the generations began of which the beginning was read, in order.
    fn begins(&self, newest: Newest) -> Vec<u64> {
        let begun = self.drafts.iter().filter(|draft| draft.row.is_some());
        let begun = begun.filter_map(|draft| draft.made).filter(|made| *made >= newest.from);
        let mut begins: Vec<u64> = begun.collect();
        begins.sort_unstable();
        begins
    }

    /// What stands here or later, and the newest `count` generations.
    fn since(self, from: u64, count: usize) -> Timeline {
        let mut drafts = self.drafts;
        drafts.retain(|draft| draft.row.is_some());
        // Those that did not say where they were made keep their order, and come first.
        drafts.sort_by_key(|draft| draft.made);
        let drafts = drafts.split_off(drafts.len().saturating_sub(count));
        let generations = drafts.into_iter().filter_map(|Draft { row, steps, calls, .. }| {
            Some(Answered { row: row?, steps, calls })
        });
        Timeline {
            messages: self.said.iter().filter(|at| **at >= from).count(),
            generations: generations.collect(),
            runners: rest(self.runners, from),
            stops: rest(self.stops, from),
            resolutions: rest(self.resolutions, from),
            has_earlier: false,
        }
    }

    fn draft(&mut self, stands: u64, generation: &str) -> &mut Draft {
        self.looks += 1;
        let index = self.draft_of.get(generation).copied().unwrap_or_else(|| {
            self.drafts.push(Draft::default());
            self.draft_of.insert(generation.to_owned(), self.drafts.len() - 1);
            self.drafts.len() - 1
        });
        let draft = &mut self.drafts[index];
        draft.last = draft.last.max(stands);
        draft
    }

    fn generation(&mut self, stands: u64, made: Option<u64>, row: Option<Generation>) {
        let Some(row) = row else { return };
        let draft = self.draft(stands, &row.id);
        draft.made = draft.made.or(made);
        draft.row = Some(row);
    }

    fn step(&mut self, stands: u64, row: Option<Step>) {
        let Some(row) = row else { return };
        let draft = self.draft(stands, &row.generation_id);
        let chunks = draft.chunks.remove(&row.id).unwrap_or_default();
        let index = *draft.step_of.entry(row.id.clone()).or_insert_with(|| {
            draft.steps.push(Work { id: row.id, turn: row.turn, attempts: Vec::new() });
            draft.steps.len() - 1
        });
        let attempt = Attempt {
            attempt: row.attempt,
            status: word(&row.status),
            started_at: Some(row.started_at),
            completed_at: row.completed_at,
            chunks,
            error: row.error,
            ..Attempt::default()
        };
        let attempts = &mut draft.steps[index].attempts;
        let seen = attempts.len() as u64;
        note(attempts, attempt, &word(&StepStatus::Started));
        self.looks += seen;
    }

    fn call(&mut self, stands: u64, row: Option<ToolCall>) {
        let Some(row) = row else { return };
        let Some(generation) = &row.generation_id else { return };
        let draft = self.draft(stands, generation);
        let status = word(&row.status);
        let index = *draft.call_of.entry(row.id.clone()).or_insert_with(|| {
            draft.calls.push(Called {
                id: row.id.clone(),
                message_id: row.message_id.clone(),
                name: row.name.clone(),
                args: row.args.clone(),
                status: Value::Null,
                effect: serde_json::to_value(row.effect).unwrap_or_default(),
                result: None,
                attempts: Vec::new(),
            });
            draft.calls.len() - 1
        });
        let call = &mut draft.calls[index];
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
        let seen = call.attempts.len() as u64;
        note(&mut call.attempts, attempt, "executing");
        self.looks += seen;
    }

    fn chunk(&mut self, stands: u64, row: Option<Chunk>) {
        let Some(row) = row else { return };
        if row.is_final {
            return;
        }
        let draft = self.draft(stands, &row.generation_id);
        let known = match &row.message_id {
            Some(message) => draft.step_of.get(message).copied(),
            None => draft.steps.len().checked_sub(1),
        };
        match known.and_then(|index| draft.steps[index].attempts.last_mut()) {
            Some(attempt) => attempt.chunks += 1,
            None => *draft.chunks.entry(row.message_id.unwrap_or_default()).or_default() += 1,
        }
    }

    fn runner(&mut self, stands: u64, row: Option<Runner>) {
        let Some(Runner { id, runner, epoch, claimed_at, released_at, .. }) = row else { return };
        self.looks += 1;
        match self.runner_of.get(&(id.clone(), epoch)) {
            Some(known) => self.runners[*known].1.released_at = released_at,
            None => {
                self.runner_of.insert((id.clone(), epoch), self.runners.len());
                let takeover = Takeover { agent: id, runner, epoch, claimed_at, released_at };
                self.runners.push((stands, takeover));
            }
        }
    }
}

/// Those that stand here or later.
fn rest<T>(placed: Vec<(u64, T)>, from: u64) -> Vec<T> {
    placed.into_iter().filter(|(at, _)| *at >= from).map(|(_, it)| it).collect()
}

/// Notes how an attempt is now; those before it that have not ended were abandoned.
fn note(attempts: &mut Vec<Attempt>, mut now: Attempt, under_way: &str) {
    now.duration_ms = duration_ms(now.started_at.as_deref(), now.completed_at.as_deref());
    match attempts.iter_mut().find(|known| known.attempt == now.attempt) {
        Some(known) => *known = Attempt { chunks: known.chunks + now.chunks, ..now },
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

    fn write(fold: &mut Fold, name: &str, value: &Value) {
        let message = json!({
            "type": name, "key": value["id"], "value": value,
            "headers": {"operation": "upsert"},
        });
        let stands = fold.looks;
        fold.take(stands, Some(stands), &state::decode(message.to_string().as_bytes()).body);
    }

    #[test]
    fn an_attempt_that_was_followed_by_another_was_abandoned() {
        let mut fold = Fold::default();
        let generation = json!({
            "id": "a-0", "agentName": "a", "status": "generating", "model": "m", "readUpTo": 0,
            "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z",
        });
        write(&mut fold, "generation", &generation);
        let step = |attempt: u32, status: &str, end: Option<&str>| {
            json!({
                "id": "a-0:1", "generationId": "a-0", "turn": 1, "status": status,
                "attempt": attempt, "firstChunk": 0, "startedAt": "2026-01-01T00:00:01.000Z",
                "completedAt": end,
            })
        };
        let chunk = json!({"id": "a-0:c0", "generationId": "a-0", "index": 0, "type": "text",
            "content": "x"});
        write(&mut fold, "step", &step(1, "started", None));
        write(&mut fold, "chunk", &chunk);
        write(&mut fold, "step", &step(2, "started", None));
        write(&mut fold, "step", &step(2, "completed", Some("2026-01-01T00:00:02.500Z")));
        fold.take(9, None, &state::decode(b"nonsense").body);
        let timeline = fold.whole();
        let attempts = &timeline.generations[0].steps[0].attempts;
        let told: Vec<_> =
            attempts.iter().map(|it| (it.attempt, it.status.as_str(), it.chunks)).collect();
        assert_eq!(told, [(1, "abandoned", 1), (2, "completed", 0)]);
        assert_eq!(attempts[1].duration_ms, Some(1500));
    }

    /// A session with so many generations, each of two turns and a call, takeovers and all.
    fn long(generations: u32) -> Fold {
        let mut fold = Fold::default();
        let at = "2026-01-01T00:00:00.000Z";
        for number in 0..generations {
            let id = format!("a-{number}");
            let generation = |status: &str| {
                json!({
                    "id": id, "agentName": "a", "status": status, "model": "m",
                    "readUpTo": number, "createdAt": at, "updatedAt": at,
                })
            };
            let runner = json!({
                "id": "a", "runner": "r", "epoch": number, "incarnation": 1, "claimedAt": at,
            });
            write(&mut fold, "runner", &runner);
            write(&mut fold, "generation", &generation("generating"));
            for turn in 1..3 {
                let step = json!({
                    "id": format!("{id}:{turn}"), "generationId": id, "turn": turn,
                    "status": "started", "attempt": 1, "firstChunk": 0, "startedAt": at,
                });
                let call = json!({
                    "id": format!("{id}:{turn}:0"), "generationId": id, "name": "look",
                    "messageId": format!("{id}:{turn}"), "args": {}, "status": "pending",
                    "effect": "pure", "attempt": 1, "createdAt": at, "updatedAt": at,
                });
                write(&mut fold, "step", &step);
                write(&mut fold, "toolCall", &call);
            }
            write(&mut fold, "generation", &generation("completed"));
        }
        fold
    }

    #[test]
    fn the_work_grows_with_the_session_and_not_faster() {
        let (short, long) = (long(300), long(3000));
        let looks = (short.looks, long.looks);
        assert_eq!(long.whole().generations.len(), 3000);
        let (short, long) = looks;
        assert!(long <= 12 * short, "{short} looks for 300 generations, {long} for 3,000");
    }

    #[test]
    fn what_a_compaction_has_ordered_by_its_last_write_loses_no_turn() {
        // A row stands where it was written last, and a generation is written after its turns.
        let mut fold = Fold::default();
        let at = "2026-01-01T00:00:00.000Z";
        let chunk = json!({"id": "a-0:c0", "generationId": "a-0", "messageId": "a-0:1",
            "index": 0, "type": "text", "content": "x"});
        let call = json!({
            "id": "a-0:1:0", "generationId": "a-0", "messageId": "a-0:1", "name": "look",
            "args": {}, "status": "completed", "effect": "pure", "attempt": 1,
            "createdAt": at, "updatedAt": at,
        });
        let step = json!({
            "id": "a-0:1", "generationId": "a-0", "turn": 1, "status": "completed", "attempt": 2,
            "firstChunk": 0, "startedAt": at, "completedAt": at,
        });
        let generation = json!({
            "id": "a-0", "agentName": "a", "status": "completed", "model": "m", "readUpTo": 0,
            "createdAt": at, "updatedAt": at,
        });
        write(&mut fold, "chunk", &chunk);
        write(&mut fold, "toolCall", &call);
        write(&mut fold, "step", &step);
        write(&mut fold, "generation", &generation);
        let timeline = fold.whole();
        assert_eq!(timeline.generations.len(), 1);
        let told = &timeline.generations[0];
        assert_eq!(told.calls.len(), 1);
        let attempts: Vec<_> = told.steps.iter().flat_map(|step| &step.attempts).collect();
        let told: Vec<_> = attempts.iter().map(|it| (it.attempt, it.chunks)).collect();
        assert_eq!(told, [(2, 1)]);
    }

    #[test]
    fn the_newest_are_told_with_what_happened_since() {
        let newest = Newest { count: 2, from: 0 };
        assert!(long(3).has(newest));
        let told = long(3).newest(newest);
        let ids: Vec<_> = told.generations.iter().map(|it| it.row.id.as_str()).collect();
        assert_eq!(ids, ["a-1", "a-2"]);
        assert!(told.has_earlier);
        assert!(!long(1).has(newest), "one is less than two");
        // A generation that was made before what was read is not told, since half of it is missing.
        let cut = Newest { count: 3, from: 5 };
        assert!(!long(3).has(cut));
        assert_eq!(long(3).newest(cut).generations.len(), 2);
    }
}
