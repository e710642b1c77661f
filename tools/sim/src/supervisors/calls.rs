//! Calls that executors run: who ran them and when, what a person decided, and what must hold.

use std::{collections::BTreeMap, time::Duration};

use agent::{
    caps::{CLAIM_SLACK, FOREMAN_PAUSE},
    rows::{CallStatus, CancelledBy, Claim, Decision, ToolCall},
};
use serde_json::{Value, json};
use sessions::SessionId;
use sys::UnixMs;
use wire::Timestamp;

use super::{
    Scene,
    executor::{CLAIM_LEASE, SEND},
    judge::Told,
};
use crate::oracle::{Verdict, Violation, demand};

/// Once faults stop, a call that is open has its end within this: the longest pause of a reader
/// that was cut off, the lease of an executor that is dead, and that of the one that comes after.
pub(super) const CALL_BOUND: Duration = live::caps::PAUSE_MAX
    .saturating_add(CLAIM_LEASE)
    .saturating_add(CLAIM_SLACK)
    .saturating_add(FOREMAN_PAUSE)
    .saturating_add(CLAIM_LEASE);

/// A run of a tool, by the clock of the simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) at: UnixMs,
    pub(super) attempt: u32,
    pub(super) by: String,
}

/// What executors and people have done.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// By how many milliseconds the wall clock of each executor is ahead.
    executors: BTreeMap<String, i64>,
    runs: BTreeMap<String, Vec<Run>>,
    /// What a person says of an attempt that is parked.
    decisions: BTreeMap<(String, u32), Decision>,
    /// Since when calls are known to be open.
    open: BTreeMap<String, Duration>,
}

impl Calls {
    /// Another executor, whose wall clock is ahead by so much; its name.
    pub(super) fn enlist(&mut self, skew_ms: i64) -> String {
        let name = format!("x{}", self.executors.len());
        self.executors.insert(name.clone(), skew_ms);
        name
    }

    /// A tool begins to run.
    pub(super) fn ran(&mut self, key: &str, run: Run) {
        self.runs.entry(key.to_owned()).or_default().push(run);
    }

    /// What a person says of a parked call: always the same of one attempt.
    pub(super) fn decide(
        &mut self,
        session: &SessionId,
        call: &ToolCall,
        draw: impl FnOnce() -> Decision,
    ) -> Decision {
        let about = (key_of(session, call), call.attempt);
        *self.decisions.entry(about).or_insert_with(draw)
    }

    /// Judges how long calls have been open by now.
    pub(super) fn look(&mut self, session: &SessionId, told: &Told, now: Duration) -> Verdict {
        for call in &told.calls {
            let key = key_of(session, call);
            // A parked one waits for a person.
            if call.status.is_terminal() || call.status == CallStatus::Parked {
                self.open.remove(&key);
                continue;
            }
            let since = *self.open.entry(key).or_insert(now);
            demand(now.saturating_sub(since) <= CALL_BOUND, || {
                format!("{session}: open for more than {CALL_BOUND:?}: {call:?}")
            })?;
        }
        Ok(())
    }

    /// Decisions of people.
    pub(super) fn decided(&self) -> u64 {
        self.decisions.len() as u64
    }

    /// When a claim has lapsed, by the clock of the simulation.
    fn lapses(&self, claim: &Claim) -> Verdict<UnixMs> {
        let until: Timestamp = claim
            .until
            .parse()
            .map_err(|_| Violation(format!("a claim without a time: {claim:?}")))?;
        let skew_ms = self.executors.get(name_of(&claim.by)).copied().unwrap_or_default();
        Ok(UnixMs::new(until.unix_ms().saturating_add_signed(-skew_ms)))
    }
}

/// The idempotency key of a call.
fn key_of(session: &SessionId, call: &ToolCall) -> String {
    format!("{session}/{}", call.id)
}

/// The name of an executor, as it was given: in rows, its life follows.
fn name_of(by: &str) -> &str {
    by.rsplit_once('-').map_or(by, |(name, _)| name)
}

/// The answer of a person who knows it.
pub(super) fn decided_answer() -> Value {
    json!({ "by": "ada" })
}

/// Judges every call of a session, once all is done.
pub(super) fn judge(scene: &Scene, session: &SessionId, told: &Told) -> Verdict {
    let calls = scene.calls.lock();
    for call in &told.calls {
        let claims = first_claims(told, call);
        let key = key_of(session, call);
        let runs = calls.runs.get(&key).map(Vec::as_slice).unwrap_or_default();
        judge_runs(&calls, (&key, call), &claims, runs)
            .and_then(|()| judge_end(&calls, (&key, call), &claims, told))
            .map_err(|Violation(why)| {
                Violation(format!("{session} {}: {why}; {claims:?}, {runs:?}, {call:?}", call.id))
            })?;
        let by = claims.values().map(|claim| claim.by.as_str());
        let takeovers = by.clone().zip(by.skip(1)).filter(|(one, next)| one != next);
        let mut met = scene.met.lock();
        met.claims_taken_over += takeovers.count() as u64;
        met.run_again += runs.len().saturating_sub(1) as u64;
        met.measured += u64::from(call.status == CallStatus::Completed && !runs.is_empty());
    }
    Ok(())
}

/// The claims of a call that count, by attempt.
fn first_claims<'a>(told: &'a Told, call: &ToolCall) -> BTreeMap<u32, &'a Claim> {
    let mut first = BTreeMap::new();
    for claim in told.claims.values().filter(|claim| claim.of == call.id) {
        first.entry(claim.attempt).or_insert(claim);
    }
    first
}

/// Each run was under a claim that counts, one for each attempt, and none began before the lease
/// of the one before was over. What must not run twice ran again only since a person said so.
fn judge_runs(
    calls: &Calls,
    (key, call): (&str, &ToolCall),
    claims: &BTreeMap<u32, &Claim>,
    runs: &[Run],
) -> Verdict {
    for run in runs {
        let claim = claims.get(&run.attempt);
        demand(claim.is_some_and(|claim| name_of(&claim.by) == run.by), || {
            format!("{run:?} was not under a claim that counts")
        })?;
    }
    for pair in runs.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        demand(before.attempt < after.attempt, || format!("{after:?} after {before:?}"))?;
        let Some(claim) = claims.get(&before.attempt) else { continue };
        let lapses = calls.lapses(claim)?;
        demand(lapses <= after.at, || format!("{after:?} while {claim:?} held until {lapses:?}"))?;
    }
    let decided = calls.decisions.iter().filter(|(about, _)| about.0 == key);
    let retries = decided.filter(|(_, decision)| **decision == Decision::Retry).count();
    demand(call.name != SEND || runs.len() <= 1 + retries, || {
        format!("it ran {} times, and a person wanted {retries}", runs.len())
    })
}

/// The end is what the run under the claim of its attempt said, or what a person did.
fn judge_end(
    calls: &Calls,
    (key, call): (&str, &ToolCall),
    claims: &BTreeMap<u32, &Claim>,
    told: &Told,
) -> Verdict {
    let decision = calls.decisions.get(&(key.to_owned(), call.attempt)).copied();
    let is_right = match call.status {
        CallStatus::Completed => {
            let is_said = |claim: &&Claim| {
                let answer = json!({ "by": name_of(&claim.by), "attempt": call.attempt });
                call.executor.as_ref() == Some(&claim.by) && call.result == Some(answer)
            };
            let is_decided = decision == Some(Decision::Complete);
            claims.get(&call.attempt).is_some_and(is_said)
                || (is_decided && call.result == Some(decided_answer()))
        }
        CallStatus::Failed => decision == Some(Decision::Fail),
        CallStatus::Cancelled => match call.cancelled_by {
            Some(CancelledBy::User) => told.stops > 0,
            // Executors are back before a call's time is over, whatever clocks say.
            _ => false,
        },
        CallStatus::Pending | CallStatus::Executing | CallStatus::Parked => false,
    };
    demand(is_right, || format!("ended wrongly as {:?}", call.status))
}
