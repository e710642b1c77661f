//! The supervisor as a pure machine: it is told what has happened and when, and says what to do.
//! It never awaits, reads no clock and draws nothing at random.
//!
//! ```text
//!             moved                 work, free                a turn
//!   at rest ─────────► look ──────────────────► turn queued ─────────► running ─► look again
//!      ▲                │ │ work, a lease holds
//!      └─ nothing to do ┘ ├───────────► leased   ── moved, or the lease is over ──► look
//!                         ├───────────► parked   ── moved, or its time is over ───► look
//!                         └─ failed ──► backoff  ── its time is over ─────────────► look
//! ```
//!
//! A session is in exactly one of these states, so nothing runs twice at once. Whatever a session
//! leaves, it leaves by a look that began after its last known move, so no move is missed.

mod lease;
mod quarantine;
mod queue;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use sys::UnixMs;
use wire::{Offset, Position};

use self::{
    lease::{Claim, Observed, Until},
    quarantine::Quarantine,
};
use super::facts::{Facts, Place, Waiting};
use crate::{
    SessionId,
    caps::{
        FAILURE_PAUSE_FIRST, FAILURE_PAUSE_MAX, LEASED_LOOK_PAUSE, SHELF_PAUSE_FIRST,
        SHELF_PAUSE_MAX, WALL_CLOCK_PAUSE,
    },
};

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// By the monotonic clock: leases, backoff and pauses are judged by it.
    pub(super) elapsed: Duration,
    /// By the wall clock, which may step: the times of rows are told by it.
    pub(super) wall: UnixMs,
}

/// How much there may be at a time, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) running_max: usize,
    pub(super) waiting_max: usize,
    pub(super) warm_max: usize,
    pub(super) looks_max: usize,
    pub(super) queued_max: usize,
    pub(super) known_max: usize,
    pub(super) idle_max: Duration,
    pub(super) lease: Duration,
}

/// Who a supervisor is.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// Its own id.
    pub(super) supervisor: String,
    /// The opening of an exclusive log that it runs in, if it is one.
    pub(super) home: Option<String>,
}

/// What has happened.
#[derive(Debug)]
pub(super) enum Event {
    /// A session has come at least as far as this.
    Moved(SessionId, Place),
    /// A look is over.
    Looked(SessionId, u64, Result<Facts, Trouble>),
    /// An agent does something else.
    Paced(SessionId, u64, Pace),
    /// The death of an agent's process is not its own from here on.
    Shared(SessionId, u64),
    /// An agent has ended, or could not be started.
    Ended(SessionId, u64, Ended),
    /// What is done for a session at rest was left out, since too much of it waits.
    PassedOver(SessionId),
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Look at a session.
    Look(SessionId, u64),
    /// Start the agent of a session.
    Start(SessionId, u64, Terms),
    /// End it in peace.
    End(SessionId, u64),
    /// It does not run alone any more, so it has to write that down.
    Share(SessionId, u64),
    /// Go through all candidates.
    Survey,
}

/// On what terms an agent is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// The takeover that is over; 0 if there was none.
    pub(super) after: u64,
    /// Whether nothing else works in this process meanwhile.
    pub(super) is_alone: bool,
}

/// Why a look failed, or an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It may fare better later.
    Passing,
    /// It will fail again.
    Lasting,
}

/// How an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It had nothing to do, or was to end.
    Peace,
    /// Another runner has this takeover.
    TakenOver(u64),
    /// It failed.
    Failed(Trouble),
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Works,
    /// It only waits for others.
    Waits,
    Idles,
}

/// Decides who runs.
#[derive(Debug)]
pub(super) struct Machine {
    limits: Limits,
    identity: Identity,
    sessions: HashMap<SessionId, Session>,
    /// Those that are to be looked at, in order.
    looks: VecDeque<SessionId>,
    looking: usize,
    /// Those that wait for a turn, in order, and from when on each may have it.
    turns: VecDeque<(Duration, SessionId)>,
    /// Jobs of agents, whatever these are doing.
    jobs: usize,
    /// Those whose agent works.
    working: BTreeSet<SessionId>,
    /// Those whose agent waits for others, and those whose agent idles; the longest first.
    waiting: BTreeMap<u64, SessionId>,
    warm: BTreeMap<u64, SessionId>,
    timers: BTreeSet<(Duration, SessionId)>,
    wall_timers: BTreeSet<(UnixMs, SessionId)>,
    /// Those that are parked, and when the time of each is over.
    parked: BTreeSet<(Duration, SessionId)>,
    /// Where sessions were seen at rest.
    rested: HashMap<SessionId, Place>,
    quarantine: Quarantine,
    /// Sessions were forgotten for want of room: go through all at this time.
    survey_at: Option<Duration>,
    /// The same, by the wall clock.
    survey_at_wall: Option<UnixMs>,
    count: u64,
    commands: Vec<Command>,
}

/// What is remembered of a session that is not at rest.
#[derive(Debug)]
struct Session {
    state: State,
    timer: Option<Duration>,
    wall_timer: Option<UnixMs>,
    /// When its time is over while it is parked.
    parked_until: Option<Duration>,
    /// Failures in a row.
    failures: u32,
    /// What had happened when it was parked last, and how often it was in a row.
    parked_at: Option<Position>,
    parked_times: u32,
    /// What had happened when its agent was started, and what it had waited for before: if both
    /// are the same when it has ended, it was started for nothing. A wait whose time is over before
    /// it is seen is something to start for.
    started_at: Option<(Option<Position>, Option<Waiting>)>,
    observed: Option<Observed>,
    /// The latest takeover that a runner of ours was told of.
    fence: u64,
}

#[derive(Debug)]
enum State {
    LookQueued,
    Looking { number: u64, is_dirty: bool },
    TurnQueued(u64),
    Suspected(u64),
    Running { number: u64, pace: Pace, ticket: u64, is_ending: bool },
    Backoff,
    Parked(Option<Place>),
    Leased { looked: Duration },
}

impl Machine {
    pub(super) fn new(limits: Limits, identity: Identity) -> Self {
        Self {
            limits,
            identity,
            sessions: HashMap::new(),
            looks: VecDeque::new(),
            looking: 0,
            turns: VecDeque::new(),
            jobs: 0,
            working: BTreeSet::new(),
            waiting: BTreeMap::new(),
            warm: BTreeMap::new(),
            timers: BTreeSet::new(),
            wall_timers: BTreeSet::new(),
            parked: BTreeSet::new(),
            rested: HashMap::new(),
            quarantine: Quarantine::default(),
            survey_at: None,
            survey_at_wall: None,
            count: 0,
            commands: Vec::new(),
        }
    }

    /// Takes what has happened, and says what to do.
    pub(super) fn handle(&mut self, event: Event, now: Now) -> Vec<Command> {
        match event {
            Event::Moved(session, place) => self.moved(session, place, now),
            Event::Looked(session, number, looked) => self.looked(&session, number, looked, now),
            Event::Paced(session, number, pace) => self.paced(&session, number, pace, now),
            Event::Shared(session, number) => {
                if self.is_running(&session, number) {
                    self.quarantine.leave(&session);
                }
            }
            Event::Ended(session, number, ended) => self.ended(&session, number, ended, now),
            Event::PassedOver(session) => self.passed_over(&session, now),
            Event::Tick => {}
        }
        self.ring(now);
        self.pump(now);
        std::mem::take(&mut self.commands)
    }

    /// How long it may be left without being told that time has passed.
    pub(super) fn next_tick(&self, now: Now) -> Option<Duration> {
        let timer = self.timers.first().map(|(at, _)| at.saturating_sub(now.elapsed));
        // The wall clock may step, so it is looked at from time to time.
        let wall = self.wall_timers.first().map(|(at, _)| *at);
        let wall = wall.into_iter().chain(self.survey_at_wall).min();
        let wall = wall.map(|at| at.since(now.wall).min(WALL_CLOCK_PAUSE));
        let survey_at = self.survey_at.filter(|_| self.has_room());
        let turn_at = self.turns.front().filter(|_| self.has_turn()).map(|(at, _)| *at);
        // One whose time has come waits for something else, which will be told.
        let turn_at = turn_at.filter(|at| *at > now.elapsed);
        let others = [survey_at, turn_at, self.quarantine.next_tick(now)].into_iter().flatten();
        let others = others.map(|at| at.saturating_sub(now.elapsed));
        timer.into_iter().chain(wall).chain(others).min()
    }

    /// Whether there is room for more candidates.
    pub(super) fn has_room(&self) -> bool {
        self.looks.len() + self.turns.len() < self.limits.queued_max / 2
    }

    fn moved(&mut self, session: SessionId, place: Place, now: Now) {
        let Some(known) = self.sessions.get_mut(&session) else {
            let is_at_rest = self.rested.get(&session).is_some_and(|at| !is_past(place, *at));
            if !is_at_rest {
                self.rested.remove(&session);
                self.queue_new(session, now);
            }
            return;
        };
        match &mut known.state {
            State::Looking { is_dirty, .. } => *is_dirty = true,
            State::Parked(at) if at.is_none_or(|at| is_past(place, at)) => {
                self.queue_look(&session);
            }
            // Runners that hold a lease write all the time: they are not looked at for each word.
            State::Leased { looked } => {
                let at = (*looked + LEASED_LOOK_PAUSE).max(now.elapsed);
                if known.timer.is_none_or(|timer| at < timer) {
                    self.set_timer(&session, at);
                }
            }
            // What is queued or runs is looked at, or reads by itself, after this.
            _ => {}
        }
    }

    fn looked(
        &mut self,
        session: &SessionId,
        number: u64,
        looked: Result<Facts, Trouble>,
        now: Now,
    ) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let State::Looking { number: own, is_dirty } = known.state else { return };
        if own != number {
            return;
        }
        self.looking -= 1;
        match looked {
            Ok(facts) if !facts.has_work => self.rest(session, &facts, is_dirty, now),
            Ok(facts) => self.decide(session, &facts, is_dirty, now),
            Err(Trouble::Passing) => self.back_off(session, now),
            Err(Trouble::Lasting) => {
                self.forget(session);
                if is_dirty {
                    self.queue_new(session.clone(), now);
                }
            }
        }
    }

    /// A session has no work, and is left alone until it moves or chunks can be dropped of it.
    fn rest(&mut self, session: &SessionId, facts: &Facts, is_dirty: bool, now: Now) {
        let due = facts.due.filter(|due| *due > now.wall);
        if let (Some(due), false) = (due, is_dirty) {
            let until = Until { wall: Some(due), elapsed: None };
            return self.park(session, Some(facts.place), facts.moved, until, now);
        }
        self.forget(session);
        match is_dirty {
            true => self.queue_new(session.clone(), now),
            false => self.remember_rest(session, facts.place),
        }
    }

    /// A session that was seen at rest was not kept as it should be, since too many were: it is
    /// found again when all are gone through.
    fn passed_over(&mut self, session: &SessionId, now: Now) {
        self.rested.remove(session);
        self.survey_by(now.elapsed + SHELF_PAUSE_FIRST);
    }

    /// A session has work: who does it, and when.
    fn decide(&mut self, session: &SessionId, facts: &Facts, is_dirty: bool, now: Now) {
        let (identity, lease) = (self.identity.clone(), self.limits.lease);
        let Some(known) = self.sessions.get_mut(session) else { return };
        let started = known.started_at.take();
        let waiting = facts.runner.as_ref().and_then(|runner| runner.waiting);
        let stands = (facts.moved, waiting);
        let claim = match known.judge(facts, &identity, lease, now) {
            // It was started for nothing, and would be again.
            Claim::Free { .. } if started == Some(stands) => {
                let runner = facts.runner.as_ref().and_then(|runner| runner.supervisor.as_ref());
                match runner.is_some_and(|other| *other != identity.supervisor) {
                    // Another supervisor had it since, and was perhaps told to end: it may have
                    // left what it was about to do. Two of them are not to pass it on for ever.
                    true => Claim::Waits(known.handed_back(facts.moved, now)),
                    false => Claim::Waits(Until::MOVE),
                }
            }
            claim => claim,
        };
        match claim {
            // What it waits for may have come while it was looked at.
            Claim::Waits(_) if is_dirty => {
                known.started_at = started;
                self.queue_look(session);
            }
            Claim::Waits(until) => {
                self.park(session, Some(facts.place), facts.moved, until, now);
            }
            Claim::Held { until } => {
                let again = now.elapsed + LEASED_LOOK_PAUSE;
                let at = if is_dirty { until.min(again) } else { until };
                self.set_state(session, State::Leased { looked: now.elapsed });
                self.set_timer(session, at);
            }
            Claim::Free { after } => {
                known.started_at = Some(stands);
                self.queue_turn(session, facts, after, now);
            }
        }
    }

    fn paced(&mut self, session: &SessionId, number: u64, pace: Pace, now: Now) {
        if !self.is_running(session, number) {
            return;
        }
        self.leave_bucket(session);
        let fresh = self.next_number();
        let Some(known) = self.sessions.get_mut(session) else { return };
        if let State::Running { pace: own, ticket, .. } = &mut known.state {
            (*own, *ticket) = (pace, fresh);
        }
        self.clear_timers(session);
        match pace {
            Pace::Works => {
                self.working.insert(session.clone());
                self.share_quarantine(session);
            }
            Pace::Waits => _ = self.waiting.insert(fresh, session.clone()),
            Pace::Idles => {
                self.warm.insert(fresh, session.clone());
                self.set_timer(session, now.elapsed + self.limits.idle_max);
            }
        }
        if pace != Pace::Works {
            self.quarantine.leave(session);
        }
    }

    fn ended(&mut self, session: &SessionId, number: u64, ended: Ended, now: Now) {
        if !self.is_running(session, number) {
            return;
        }
        self.leave_bucket(session);
        self.quarantine.leave(session);
        self.jobs -= 1;
        let Some(known) = self.sessions.get_mut(session) else { return };
        match ended {
            Ended::Peace => {
                known.failures = 0;
                if matches!(known.state, State::Running { pace: Pace::Works, .. }) {
                    // It was told to end: what it has left undone is there to be done.
                    known.started_at = None;
                }
                self.queue_look(session);
            }
            Ended::TakenOver(epoch) => {
                known.fence = known.fence.max(epoch);
                known.started_at = None;
                self.queue_look(session);
            }
            Ended::Failed(Trouble::Passing) => {
                known.started_at = None;
                self.back_off(session, now);
            }
            Ended::Failed(Trouble::Lasting) => {
                known.started_at = None;
                let moved = known.parked_at;
                self.park(session, None, moved, Until::MOVE, now);
            }
        }
    }

    /// Leaves a session alone until it moves, or for a while that grows.
    fn park(
        &mut self,
        session: &SessionId,
        place: Option<Place>,
        moved: Option<Position>,
        until: Until,
        now: Now,
    ) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        known.failures = 0;
        known.parked_times = match known.parked_at == moved {
            true => known.parked_times.saturating_add(1),
            false => 1,
        };
        known.parked_at = moved;
        let pause = doubled(SHELF_PAUSE_FIRST, known.parked_times - 1, SHELF_PAUSE_MAX);
        self.set_state(session, State::Parked(place));
        let at = now.elapsed + pause;
        let at = until.elapsed.map_or(at, |until| at.min(until));
        self.set_timer(session, at);
        let Some(known) = self.sessions.get_mut(session) else { return };
        if let Some(wall) = until.wall {
            known.wall_timer = Some(wall);
            self.wall_timers.insert((wall, session.clone()));
        }
        let wall_at = until.wall.map(|wall| now.elapsed.saturating_add(wall.since(now.wall)));
        let at = wall_at.map_or(at, |wall_at| at.min(wall_at));
        known.parked_until = Some(at);
        self.parked.insert((at, session.clone()));
        self.make_room();
    }

    /// Looks at a session again, after a pause that grows.
    fn back_off(&mut self, session: &SessionId, now: Now) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let pause = doubled(FAILURE_PAUSE_FIRST, known.failures, FAILURE_PAUSE_MAX);
        known.failures = known.failures.saturating_add(1);
        self.set_state(session, State::Backoff);
        self.set_timer(session, now.elapsed + pause);
    }
}

impl Session {
    /// How long a session is left alone that another supervisor has given back as it was.
    fn handed_back(&self, moved: Option<Position>, now: Now) -> Until {
        let times = if self.parked_at == moved { self.parked_times } else { 0 };
        let pause = doubled(FAILURE_PAUSE_FIRST, times, FAILURE_PAUSE_MAX);
        Until { wall: None, elapsed: Some(now.elapsed + pause) }
    }
}

/// Whether a session that was seen there has moved from the other place. The start is what a log
/// tells of a stream that was deleted.
fn is_past(seen: Place, at: Place) -> bool {
    let is_deleted = seen.0 == Offset::START && at.0 != Offset::START;
    seen.1 != at.1 || seen.0 > at.0 || is_deleted
}

/// A pause that doubles each time, up to a bound.
fn doubled(first: Duration, times: u32, max: Duration) -> Duration {
    first.checked_mul(1 << times.min(16)).unwrap_or(max).min(max)
}
