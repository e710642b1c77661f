//! Quarantine: which session ends the process?
//!
//! A session under which the process has ended three times without progress is a suspect. Suspects
//! run while nothing else does, many together at first, fewer with each further death, at last
//! alone: only a death in that time is held against a session. Others wait for as long as a
//! suspect needs to make progress, within a bound.

use std::{collections::BTreeSet, time::Duration};

use super::{Command, Machine, Now, State};
use crate::{
    SessionId,
    caps::{
        DEATHS_BEFORE_QUARANTINE, PROBATION_FIRST, PROBATION_MAX, QUARANTINE_DRAIN,
        QUARANTINE_GATHERING, QUARANTINE_GROUP_MAX, QUARANTINE_PATIENCE,
    },
    fleet::facts::Facts,
};

/// Failures while it was alone, deaths beside others, and when it came: those with the fewest go
/// first, so that a process that is killed from outside does not kill the same one each time.
type Rank = (u32, u32, u64);

/// Suspects.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    waiting: BTreeSet<(Rank, SessionId)>,
    /// Since when the first of those waits.
    since: Option<Duration>,
    /// Whether those that work were told to end.
    is_cleared: bool,
    inside: BTreeSet<SessionId>,
    /// Until when those inside have nothing beside them.
    until: Duration,
    /// Groups that the process has survived: the next ones are larger, so that many suspects of
    /// deaths from outside recover soon.
    survived: u32,
}

impl Quarantine {
    /// The deaths under a session, if they are too many.
    pub(super) fn suspects(&self, facts: &Facts) -> Option<u32> {
        let runner = facts.runner.as_ref();
        let died_now =
            runner.is_some_and(|it| !it.is_released && it.incarnation == facts.place.1.get());
        let deaths = facts.deaths + u32::from(died_now);
        (deaths >= DEATHS_BEFORE_QUARANTINE).then_some(deaths)
    }

    pub(super) fn enter(&mut self, session: SessionId, rank: Rank, now: Now) {
        self.since.get_or_insert(now.elapsed);
        self.waiting.insert((rank, session));
    }

    /// It has made progress, or it does not work any more.
    pub(super) fn leave(&mut self, session: &SessionId) {
        if self.inside.remove(session) && self.inside.is_empty() {
            self.survived = self.survived.saturating_add(1);
        }
    }

    /// When it is to be asked next.
    pub(super) fn next_tick(&self, now: Now) -> Option<Duration> {
        if !self.inside.is_empty() {
            return Some(self.until);
        }
        let since = self.since?;
        let drained = QUARANTINE_PATIENCE + QUARANTINE_DRAIN;
        let times = [QUARANTINE_GATHERING, QUARANTINE_PATIENCE, drained];
        times.into_iter().map(|time| since + time).find(|at| *at > now.elapsed)
    }

    /// The next suspects that run together, and whether it is one that is alone for good.
    fn next_group(&mut self, now: Now) -> (Vec<SessionId>, bool) {
        let Some(((_, deaths, _), _)) = self.waiting.first() else { return (Vec::new(), false) };
        let deaths = *deaths;
        let base = group_max(deaths);
        let count = base.checked_shl(self.survived).unwrap_or(0);
        let count = count.clamp(base, QUARANTINE_GROUP_MAX);
        let alike = |((_, other, _), _): &&(Rank, SessionId)| *other <= deaths;
        let group: Vec<_> = self.waiting.iter().take_while(alike).take(count).cloned().collect();
        group.iter().for_each(|member| _ = self.waiting.remove(member));
        self.since = (!self.waiting.is_empty()).then_some(now.elapsed);
        self.is_cleared = false;
        self.until = now.elapsed + probation(deaths);
        let group: Vec<_> = group.into_iter().map(|(_, session)| session).collect();
        self.inside.extend(group.iter().cloned());
        // One with fewer deaths is alone only since there are no others to be alone with.
        let is_alone = base == 1 && group.len() == 1;
        (group, is_alone)
    }
}

impl Machine {
    /// Lets suspects in, and tells whether nothing else may start meanwhile.
    pub(super) fn quarantine_pump(&mut self, now: Now) -> bool {
        if !self.quarantine.inside.is_empty() {
            if now.elapsed < self.quarantine.until {
                return true;
            }
            self.share_all();
        }
        let Some(since) = self.quarantine.since else { return false };
        let waited = now.elapsed.saturating_sub(since);
        // As long as sessions are looked at, there may be more suspects.
        let gathers = self.looking > 0 || waited < QUARANTINE_GATHERING;
        if (gathers || !self.turns.is_empty()) && waited < QUARANTINE_PATIENCE {
            return false;
        }
        if self.working.is_empty() {
            // Those that idle could begin to work at any moment.
            while let Some((_, session)) = self.warm.pop_first() {
                self.end(&session);
            }
            let (group, is_alone) = self.quarantine.next_group(now);
            group.into_iter().for_each(|session| self.start(session, is_alone));
        } else if waited >= QUARANTINE_PATIENCE + QUARANTINE_DRAIN && !self.quarantine.is_cleared {
            self.quarantine.is_cleared = true;
            let working: Vec<_> = self.working.iter().cloned().collect();
            working.iter().for_each(|session| self.end(session));
        }
        true
    }

    /// Whether suspects are, or wait to be, alone.
    #[cfg(test)]
    pub(super) fn quarantine_is_busy(&self) -> bool {
        !self.quarantine.inside.is_empty() || self.quarantine.since.is_some()
    }

    /// Another agent works beside those in quarantine.
    pub(super) fn share_quarantine(&mut self, session: &SessionId) {
        if !self.quarantine.inside.is_empty() && !self.quarantine.inside.contains(session) {
            self.share_all();
        }
    }

    fn share_all(&mut self) {
        for session in std::mem::take(&mut self.quarantine.inside) {
            let Some(known) = self.sessions.get(&session) else { continue };
            if let State::Running { number, .. } = known.state {
                self.commands.push(Command::Share(session, number));
            }
        }
    }
}

/// How many suspects of so many deaths run together.
fn group_max(deaths: u32) -> usize {
    let halvings = deaths.saturating_sub(DEATHS_BEFORE_QUARANTINE).saturating_mul(2);
    QUARANTINE_GROUP_MAX.checked_shr(halvings).unwrap_or(0).max(1)
}

/// How long they have nothing beside them: a session that ends the process later than that needs
/// longer.
fn probation(deaths: u32) -> Duration {
    let times = deaths.saturating_sub(DEATHS_BEFORE_QUARANTINE).min(16);
    PROBATION_FIRST.checked_mul(1 << times).unwrap_or(PROBATION_MAX).min(PROBATION_MAX)
}
