//! Queues, turns and timers of the machine.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use super::{Command, Machine, Now, Pace, Session, State, Terms};
use crate::{
    SessionId,
    caps::{LOAD_PAUSE, LOAD_PAUSE_MAX, LOAD_SPREAD_MS, RESTED_MAX},
    fleet::facts::{Facts, Place},
};

impl Machine {
    /// Starts what may start, ends what must make room.
    pub(super) fn pump(&mut self, now: Now) {
        while self.looking < self.limits.looks_max {
            let Some(session) = self.looks.pop_front() else { break };
            let number = self.next_number();
            self.looking += 1;
            self.set_state(&session, State::Looking { number, is_dirty: false });
            self.commands.push(Command::Look(session, number));
        }
        if !self.quarantine_pump(now) {
            while self.has_turn()
                && self.turns.front().is_some_and(|(at, _)| *at <= now.elapsed)
                && let Some((_, session)) = self.turns.pop_front()
            {
                self.start(session, false);
            }
        }
        while self.waiting.len() > self.limits.waiting_max {
            let Some((_, longest)) = self.waiting.pop_first() else { break };
            self.end(&longest);
        }
        while self.warm.len() > self.limits.warm_max {
            let Some((_, longest)) = self.warm.pop_first() else { break };
            self.end(&longest);
        }
        let is_due = self.survey_at.is_some_and(|at| at <= now.elapsed);
        if is_due && self.has_room() {
            self.survey_at = None;
            self.commands.push(Command::Survey);
        }
    }

    /// Whether one more may begin. Those that wait or idle take no turn, but their number is
    /// bounded, too.
    pub(super) fn has_turn(&self) -> bool {
        let limits = &self.limits;
        let jobs_max = limits.running_max + limits.waiting_max + limits.warm_max;
        self.working.len() < limits.running_max && self.jobs < jobs_max
    }

    pub(super) fn start(&mut self, session: SessionId, is_alone: bool) {
        let number = self.next_number();
        let Some(known) = self.sessions.get_mut(&session) else { return };
        let (State::TurnQueued(after) | State::Suspected(after)) = known.state else { return };
        let (pace, is_ending) = (Pace::Works, false);
        known.state = State::Running { number, pace, ticket: number, is_ending };
        self.jobs += 1;
        self.working.insert(session.clone());
        self.commands.push(Command::Start(session, number, Terms { after, is_alone }));
    }

    /// Ends the agent of a session in peace.
    pub(super) fn end(&mut self, session: &SessionId) {
        self.clear_timers(session);
        let Some(known) = self.sessions.get_mut(session) else { return };
        if let State::Running { number, is_ending, .. } = &mut known.state
            && !std::mem::replace(is_ending, true)
        {
            self.commands.push(Command::End(session.clone(), *number));
        }
    }

    /// A session that nothing was known of is to be looked at.
    pub(super) fn queue_new(&mut self, session: SessionId, now: Now) {
        if self.looks.len() + self.turns.len() >= self.limits.queued_max {
            // It is found again once there is room.
            return self.survey_by(now.elapsed);
        }
        self.sessions.insert(session.clone(), Session::new());
        self.looks.push_back(session);
    }

    pub(super) fn queue_look(&mut self, session: &SessionId) {
        self.set_state(session, State::LookQueued);
        self.looks.push_back(session.clone());
    }

    /// A session waits for a turn, or, if the process has ended under it too often, to be alone.
    pub(super) fn queue_turn(&mut self, session: &SessionId, facts: &Facts, after: u64, now: Now) {
        match self.quarantine.suspects(facts) {
            Some(deaths) => {
                self.set_state(session, State::Suspected(after));
                let number = self.next_number();
                self.quarantine.enter(session.clone(), (facts.failures, deaths, number), now);
            }
            None => {
                self.set_state(session, State::TurnQueued(after));
                let pause = self.load_pause(session);
                self.turns.push_back((now.elapsed + pause, session.clone()));
            }
        }
    }

    /// How long a session is left to other supervisors. They see it at the same time, and the one
    /// with the least work is to claim it; of two with as much work, either. They need not know of
    /// each other for that.
    fn load_pause(&self, session: &SessionId) -> Duration {
        if self.working.is_empty() {
            return Duration::ZERO;
        }
        let working = u32::try_from(self.working.len()).unwrap_or(u32::MAX);
        let mut hasher = DefaultHasher::new();
        (&self.identity.supervisor, session.as_str()).hash(&mut hasher);
        let spread = hasher.finish() % LOAD_SPREAD_MS;
        LOAD_PAUSE.saturating_mul(working).min(LOAD_PAUSE_MAX) + Duration::from_millis(spread)
    }

    /// Takes note of where a session rests, if there is room.
    pub(super) fn remember_rest(&mut self, session: &SessionId, place: Place) {
        if self.rested.len() < RESTED_MAX {
            self.rested.insert(session.clone(), place);
        }
    }

    /// Forgets sessions that are parked while there are too many, those first whose time is over
    /// last. A survey finds them again by then.
    pub(super) fn make_room(&mut self) {
        while self.parked.len() > self.limits.known_max
            && let Some((at, session)) = self.parked.pop_last()
        {
            let wall = self.sessions.get(&session).and_then(|known| known.wall_timer);
            self.forget(&session);
            self.survey_by(at);
            // The wall clock may step before that.
            self.survey_at_wall = self.survey_at_wall.into_iter().chain(wall).min();
        }
    }

    pub(super) fn forget(&mut self, session: &SessionId) {
        self.clear_timers(session);
        self.sessions.remove(session);
    }

    pub(super) fn survey_by(&mut self, at: Duration) {
        self.survey_at = Some(self.survey_at.map_or(at, |other| other.min(at)));
    }

    pub(super) fn is_running(&self, session: &SessionId, number: u64) -> bool {
        let state = self.sessions.get(session).map(|known| &known.state);
        matches!(state, Some(State::Running { number: own, .. }) if *own == number)
    }

    /// A running session is none of those that work, wait or idle any more.
    pub(super) fn leave_bucket(&mut self, session: &SessionId) {
        self.working.remove(session);
        let state = self.sessions.get(session).map(|known| &known.state);
        if let Some(State::Running { ticket, .. }) = state {
            self.waiting.remove(ticket);
            self.warm.remove(ticket);
        }
    }

    pub(super) fn set_state(&mut self, session: &SessionId, state: State) {
        self.clear_timers(session);
        if let Some(known) = self.sessions.get_mut(session) {
            known.state = state;
        }
    }

    pub(super) fn set_timer(&mut self, session: &SessionId, at: Duration) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        if let Some(before) = known.timer.replace(at) {
            self.timers.remove(&(before, session.clone()));
        }
        self.timers.insert((at, session.clone()));
    }

    pub(super) fn clear_timers(&mut self, session: &SessionId) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        if let Some(at) = known.timer.take() {
            self.timers.remove(&(at, session.clone()));
        }
        if let Some(at) = known.wall_timer.take() {
            self.wall_timers.remove(&(at, session.clone()));
        }
        if let Some(at) = known.parked_until.take() {
            self.parked.remove(&(at, session.clone()));
        }
    }

    /// Times that are over.
    pub(super) fn ring(&mut self, now: Now) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now.elapsed
            && let Some((_, session)) = self.timers.pop_first()
        {
            self.rung(&session);
        }
        while let Some((at, _)) = self.wall_timers.first()
            && *at <= now.wall
            && let Some((_, session)) = self.wall_timers.pop_first()
        {
            self.rung(&session);
        }
        if self.survey_at_wall.is_some_and(|at| at <= now.wall) {
            self.survey_at_wall = None;
            self.survey_by(now.elapsed);
        }
    }

    fn rung(&mut self, session: &SessionId) {
        let Some(known) = self.sessions.get(session) else { return };
        match known.state {
            State::Running { ticket, .. } => {
                self.warm.remove(&ticket);
                self.end(session);
            }
            _ => self.queue_look(session),
        }
    }

    pub(super) const fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}

impl Session {
    const fn new() -> Self {
        Self {
            state: State::LookQueued,
            timer: None,
            wall_timer: None,
            parked_until: None,
            failures: 0,
            parked_at: None,
            parked_times: 0,
            started_at: None,
            observed: None,
            fence: 0,
        }
    }
}
