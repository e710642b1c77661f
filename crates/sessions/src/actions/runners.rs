//! Who runs the agents of a session, as its stream tells.

use std::{collections::HashMap, time::Duration};

use agent::rows::{Resolution, Runner, Stop, ToolCall};
use live::Row as _;
use state::Write;
use sys::UnixMs;
use wire::{Position, Timestamp};

use crate::fleet::{RunnerFacts, Waiting};

/// The runners of a session, by their agents.
#[derive(Debug, Default)]
pub(super) struct Runners {
    rows: HashMap<Box<str>, (Runner, Position)>,
    /// The last message of each agent, and the takeover in which it was written.
    signs: HashMap<Box<str>, (u64, Position)>,
    /// The last row that an agent may wait for.
    stirred: Option<Position>,
}

impl Runners {
    /// Takes one message that stands at a position: whatever an agent writes is a sign of life.
    pub(super) fn note(&mut self, position: Position, message: &[u8]) {
        let headers = state::decode(message).headers;
        let Some((agent, epoch)) = headers.txid.as_deref().and_then(writer_of) else { return };
        // What a compaction has written again stands where it stood.
        let sign = (epoch, headers.position.unwrap_or(position));
        match self.signs.get_mut(agent) {
            Some(known) => *known = sign.max(*known),
            None => _ = self.signs.insert(agent.into(), sign),
        }
    }

    /// Takes what is written to a row.
    pub(super) fn write(&mut self, position: Position, write: &Write) {
        let name = write.type_name.as_str();
        if [ToolCall::NAME, Stop::NAME, Resolution::NAME].contains(&name) {
            self.stirred = self.stirred.max(Some(position));
        }
        if name != Runner::NAME {
            return;
        }
        match write.value.as_ref().and_then(|value| value.read::<Runner>().ok()) {
            Some(row) => _ = self.rows.insert(write.key.as_str().into(), (row, position)),
            None => _ = self.rows.remove(write.key.as_str()),
        }
    }

    /// Who runs an agent, or ran it last.
    pub(super) fn of(&self, agent: &str) -> Option<RunnerFacts> {
        let (row, written) = self.rows.get(agent)?;
        let sign = self.signs.get(agent).filter(|(epoch, _)| *epoch == row.epoch);
        let renewed = sign.map(|(_, position)| *position);
        // Whatever it has written since, it has not only waited.
        let is_last = renewed.is_none_or(|renewed| renewed <= *written);
        let has_read = |up_to: u64| self.stirred.is_none_or(|stirred| stirred.get() < up_to);
        let waiting = row.read_up_to.filter(|up_to| is_last && has_read(*up_to)).map(|_| {
            let until = row.waits_until.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
            let until = until.map(|at| UnixMs::new(at.unix_ms()));
            Waiting { until, left: row.waits_ms.map(Duration::from_millis) }
        });
        Some(RunnerFacts {
            epoch: row.epoch,
            incarnation: row.incarnation,
            is_released: row.released_at.is_some(),
            supervisor: row.supervisor.clone(),
            home: row.home.clone(),
            lease: row.lease_ms.map(Duration::from_millis),
            renewed,
            waiting,
        })
    }
}

/// The agent that wrote a transaction, and in which takeover.
fn writer_of(txid: &str) -> Option<(&str, u64)> {
    let (rest, _) = txid.strip_prefix("agent/")?.rsplit_once('.')?;
    let (agent, epoch) = rest.rsplit_once('.')?;
    Some((agent, u64::from_str_radix(epoch, 16).ok()?))
}
