//! The naive world that the machine is played against: sessions as they truly are, and what befalls
//! them.

use log::Incarnation;
use wire::Offset;

use super::super::*;
use crate::fleet::facts::{RunnerFacts, Waiting};

pub(super) const SESSIONS: usize = 6;
pub(super) const LEASE: Duration = Duration::from_secs(20);
/// Once faults stop, what is owed is done within this: the longest backoff, two leases, and the
/// patience of quarantine for each session. It is less than the shortest pause of what is parked.
const BOUND: Duration = Duration::from_secs(60 + 2 * 20 + SESSIONS as u64 * 15);
/// What is only to be kept small is found by the next pass over all sessions.
const REST_BOUND: Duration = SHELF_PAUSE_FIRST.saturating_add(BOUND);
/// What the wall clock shows when the monotonic one begins.
const WALL: UnixMs = UnixMs::new(1_000_000_000_000);
/// The opening of the log that the machine runs in, and an earlier one.
const HOME: &str = "now";
const HOME_BEFORE: &str = "before";

/// An agent that was ended while it waited for others.
const WAITING: Waiting = Waiting { until: None, left: None };

/// What befalls the world.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chance {
    /// A write to a session; the hint comes, or is lost.
    Say(usize, bool),
    /// A look of a session is read, and its result is on its way.
    Read(usize),
    /// The result of a look arrives.
    Looked(usize, Sighting),
    /// An agent answers all that waits, and idles.
    Answer(usize),
    /// An agent waits for others, for so many seconds if that is bounded.
    Wait(usize, Option<(u64, Clocks)>),
    /// What an agent has waited for comes.
    Measure(usize),
    /// An agent ends.
    End(usize, Ending),
    /// The death of an agent's process is not its own from here on.
    Shared(usize),
    /// Another supervisor runs the session, writes, or releases it.
    Rival(usize, Rival),
    /// The process has ended under a session so often, beside others and alone.
    Deaths(usize, u32, u32),
    /// Chunks can be dropped of a session in so many seconds.
    Due(usize, u64),
    /// Time passes.
    Pass(u64),
    /// The wall clock steps ahead by so many seconds.
    Step(u64),
    /// Hints were lost, which is told: every session is a candidate.
    Resync,
}

/// How a look fares.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sighting {
    Well,
    /// Well, but the session is not kept small, since too many rest.
    Crowded,
    Passing,
    Lasting,
}

/// By which clocks it is told how long an agent waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clocks {
    Wall,
    Both,
}

/// How an agent ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// As it was told to, or by itself.
    Peace,
    Passing,
    Lasting,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Rival {
    Claims,
    /// It claimed in an earlier opening of the log, before all others, and is dead.
    Claimed,
    Writes,
    Answers,
    Releases,
}

/// A session, as it truly is.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) has_work: bool,
    tail: u64,
    /// How far hints have told.
    heard: u64,
    moved: u64,
    pub(super) runner: Option<RunnerFacts>,
    deaths: u32,
    failures: u32,
    pub(super) look: Option<(u64, Option<Facts>)>,
    pub(super) job: Option<(u64, Pace)>,
    pub(super) told_to_end: bool,
    /// When what its agent waits for is over.
    deadline: Option<(Duration, Clocks)>,
    /// When chunks can be dropped of it.
    due: Option<UnixMs>,
    /// When it was answered last.
    answered_at: UnixMs,
    /// It failed in a way that lasts until it moves.
    is_broken: bool,
}

pub(super) struct World {
    machine: Machine,
    pub(super) sessions: Vec<Truth>,
    pub(super) elapsed: Duration,
    wall: UnixMs,
    limits: Limits,
}

fn id(index: usize) -> SessionId {
    format!("s{index}").parse().unwrap()
}

fn index(session: &SessionId) -> usize {
    session.as_str()[1..].parse().unwrap()
}

impl Truth {
    fn place(&self) -> Place {
        (Offset::new(self.tail, self.tail), Incarnation::new(1))
    }

    pub(super) fn write(&mut self) {
        self.tail += 1;
        self.moved = self.tail;
        self.is_broken = false;
    }

    fn facts(&self) -> Facts {
        Facts {
            has_work: self.has_work,
            due: self.due,
            moved: Some(Position::new(self.moved)),
            place: self.place(),
            runner: self.runner.clone(),
            deaths: self.deaths,
            failures: self.failures,
        }
    }

    pub(super) fn claim(&mut self, supervisor: &str) {
        let epoch = self.runner.as_ref().map_or(0, |runner| runner.epoch) + 1;
        self.tail += 1;
        self.runner = Some(RunnerFacts {
            epoch,
            incarnation: 1,
            supervisor: Some(supervisor.to_owned()),
            home: Some(HOME.to_owned()),
            lease: Some(LEASE),
            renewed: Some(Position::new(self.tail)),
            ..RunnerFacts::default()
        });
    }

    fn is_runner(&self, supervisor: &str) -> bool {
        let runner = self.runner.as_ref().filter(|runner| !runner.is_released);
        runner.is_some_and(|runner| runner.supervisor.as_deref() == Some(supervisor))
    }

    /// Claimed in an earlier opening of the log.
    pub(super) fn was_claimed(&mut self) {
        self.claim("dead");
        self.runner.iter_mut().for_each(|runner| runner.home = Some(HOME_BEFORE.to_owned()));
    }

    fn release(&mut self) {
        self.tail += 1;
        if let Some(runner) = &mut self.runner {
            runner.is_released = true;
        }
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self::within(100)
    }

    /// A world in which so many sessions can be known that do not rest.
    pub(super) fn within(known_max: usize) -> Self {
        let limits = Limits {
            running_max: 2,
            waiting_max: 1,
            warm_max: 1,
            looks_max: 2,
            queued_max: 4,
            known_max,
            idle_max: Duration::from_secs(30),
            lease: LEASE,
        };
        let identity = Identity { supervisor: "ours".to_owned(), home: Some(HOME.to_owned()) };
        let machine = Machine::new(limits, identity);
        let sessions = vec![Truth::default(); SESSIONS];
        Self { machine, sessions, elapsed: Duration::ZERO, wall: WALL, limits }
    }

    const fn now(&self) -> Now {
        Now { elapsed: self.elapsed, wall: self.wall }
    }

    fn tell(&mut self, event: Event) {
        let now = self.now();
        for command in self.machine.handle(event, now) {
            self.carry_out(command);
        }
        self.check();
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Look(session, number) => {
                let truth = &mut self.sessions[index(&session)];
                assert!(truth.look.is_none(), "{session} is looked at twice at once");
                assert!(truth.job.is_none(), "{session} is looked at while its agent runs");
                truth.look = Some((number, None));
            }
            Command::Start(session, number, terms) => {
                let alone = terms.is_alone;
                let truth = &mut self.sessions[index(&session)];
                assert!(truth.job.is_none(), "{session} runs twice at once");
                truth.job = Some((number, Pace::Works));
                truth.told_to_end = false;
                let epoch = truth.runner.as_ref().map_or(0, |runner| runner.epoch);
                if epoch == terms.after {
                    truth.claim("ours");
                }
                let works = |truth: &&Truth| matches!(truth.job, Some((_, Pace::Works)));
                let working = self.sessions.iter().filter(works).count();
                assert!(!alone || working == 1, "{session} is alone with {working}");
            }
            Command::End(session, number) => {
                let truth = &mut self.sessions[index(&session)];
                truth.told_to_end |= truth.job.is_some_and(|(own, _)| own == number);
            }
            Command::Share(..) => {}
            Command::Survey => self.hint_all(),
        }
    }

    /// What must hold at every moment.
    fn check(&self) {
        let paces = |wanted: Pace| {
            let jobs = self.sessions.iter().filter(|truth| !truth.told_to_end);
            jobs.filter(|truth| truth.job.is_some_and(|(_, pace)| pace == wanted)).count()
        };
        let quarantined = self.machine.quarantine_is_busy();
        assert!(paces(Pace::Waits) <= self.limits.waiting_max);
        assert!(paces(Pace::Idles) <= self.limits.warm_max);
        let looks = self.sessions.iter().filter(|truth| truth.look.is_some()).count();
        assert!(looks <= self.limits.looks_max);
        // Nothing waits while it could run.
        assert!(self.machine.looks.is_empty() || looks == self.limits.looks_max);
        let has_turn = self.machine.turns.front().is_some_and(|(at, _)| *at <= self.elapsed);
        if !quarantined && has_turn {
            assert!(self.machine.working.len() >= self.limits.running_max || self.jobs_are_full());
        }
        assert!(self.machine.parked.len() <= self.limits.known_max);
        for (session, known) in &self.machine.sessions {
            assert_eq!(
                matches!(known.state, State::Parked(_)),
                known.parked_until.is_some(),
                "{session}"
            );
            let truth = &self.sessions[index(session)];
            let is_running = matches!(known.state, State::Running { .. });
            assert_eq!(is_running, truth.job.is_some(), "{session}");
        }
    }

    fn jobs_are_full(&self) -> bool {
        let limits = &self.limits;
        self.machine.jobs >= limits.running_max + limits.waiting_max + limits.warm_max
    }

    pub(super) fn hint(&mut self, at: usize) {
        let place = self.sessions[at].place();
        self.sessions[at].heard = self.sessions[at].tail;
        self.tell(Event::Moved(id(at), place));
    }

    fn hint_all(&mut self) {
        (0..SESSIONS).for_each(|at| self.hint(at));
    }

    pub(super) fn read(&mut self, at: usize) {
        let facts = self.sessions[at].facts();
        if let Some((_, read)) = &mut self.sessions[at].look {
            read.get_or_insert(facts);
        }
    }

    pub(super) fn looked(&mut self, at: usize, sighting: Sighting) {
        self.read(at);
        let wall = self.wall;
        let truth = &mut self.sessions[at];
        let Some((number, Some(facts))) = truth.look.take() else { return };
        truth.is_broken |= matches!(sighting, Sighting::Lasting);
        let looked = match sighting {
            Sighting::Well | Sighting::Crowded => Ok(facts.clone()),
            Sighting::Passing => Err(Trouble::Passing),
            Sighting::Lasting => Err(Trouble::Lasting),
        };
        let rests = looked.is_ok() && !facts.has_work;
        self.tell(Event::Looked(id(at), number, looked));
        if !rests {
            return;
        }
        if matches!(sighting, Sighting::Crowded) {
            return self.tell(Event::PassedOver(id(at)));
        }
        let truth = &mut self.sessions[at];
        if facts.due.is_some_and(|due| due <= wall) && truth.place() == facts.place {
            // It is compacted, which is a move that tells nothing.
            truth.due = None;
            truth.tail += 1;
            self.hint(at);
        }
    }

    /// The agent of a session does something else, unless another runner has it.
    pub(super) fn pace(&mut self, at: usize, pace: Pace) {
        let wall = self.wall;
        let truth = &mut self.sessions[at];
        let Some((number, before)) = truth.job else { return };
        if !truth.is_runner("ours") {
            return self.end(at, Ending::Peace);
        }
        if pace == Pace::Idles {
            truth.answered_at = wall;
            (truth.has_work, truth.deaths, truth.failures) = (false, 0, 0);
            truth.write();
        }
        if pace != Pace::Waits {
            truth.deadline = None;
        }
        if before != pace {
            truth.job = Some((number, pace));
            self.tell(Event::Paced(id(at), number, pace));
        }
        self.hint(at);
    }

    /// An agent waits for others, who have so long.
    fn wait(&mut self, at: usize, time: Option<(u64, Clocks)>) {
        // It waits for a time only in the midst of an answer.
        let time = time.filter(|_| self.sessions[at].has_work);
        let time = time.map(|(secs, clocks)| (self.elapsed + Duration::from_secs(secs), clocks));
        if self.sessions[at].job.is_some() {
            self.sessions[at].deadline = time;
        }
        self.pace(at, Pace::Waits);
    }

    pub(super) fn end(&mut self, at: usize, ending: Ending) {
        let (elapsed, wall) = (self.elapsed, self.wall);
        let truth = &mut self.sessions[at];
        let Some((number, pace)) = truth.job.take() else { return };
        let epoch = truth.runner.as_ref().map_or(0, |runner| runner.epoch);
        // One that was not told to leaves nothing undone in peace.
        let may_leave = truth.told_to_end || pace == Pace::Waits || !truth.has_work;
        let ending =
            if may_leave || !matches!(ending, Ending::Peace) { ending } else { Ending::Passing };
        let ended = match (truth.is_runner("ours"), ending) {
            (true, Ending::Peace) => {
                truth.release();
                let waiting = (pace == Pace::Waits).then(|| match truth.deadline {
                    None => WAITING,
                    Some((at, clocks)) => {
                        let left = at.saturating_sub(elapsed);
                        let until = Some(wall.plus(left));
                        let is_both = matches!(clocks, Clocks::Both);
                        Waiting { until, left: is_both.then_some(left) }
                    }
                });
                truth.runner.iter_mut().for_each(|runner| runner.waiting = waiting);
                Ended::Peace
            }
            (true, Ending::Passing) => Ended::Failed(Trouble::Passing),
            (true, Ending::Lasting) => {
                truth.is_broken = true;
                Ended::Failed(Trouble::Lasting)
            }
            (false, _) => Ended::TakenOver(epoch),
        };
        let is_broken = truth.is_broken;
        self.tell(Event::Ended(id(at), number, ended));
        self.hint(at);
        self.sessions[at].is_broken = is_broken;
    }

    pub(super) fn measure(&mut self, at: usize) {
        let truth = &mut self.sessions[at];
        if truth.runner.as_mut().and_then(|runner| runner.waiting.take()).is_some() {
            truth.deadline = None;
            truth.write();
            self.hint(at);
        }
    }

    pub(super) fn rival(&mut self, at: usize, rival: Rival) {
        let truth = &mut self.sessions[at];
        match rival {
            // It respects leases, too: the job of ours is there or it is not.
            Rival::Claims if truth.job.is_none() && truth.has_work => {
                truth.deadline = None;
                truth.claim("rival");
            }
            Rival::Claimed if truth.job.is_none() && truth.runner.is_none() && truth.has_work => {
                truth.deadline = None;
                truth.was_claimed();
            }
            Rival::Writes if truth.is_runner("rival") => {
                truth.write();
                let at = Position::new(truth.tail);
                truth.runner.iter_mut().for_each(|runner| runner.renewed = Some(at));
            }
            Rival::Answers if truth.is_runner("rival") => {
                truth.has_work = false;
                truth.write();
            }
            Rival::Releases if truth.is_runner("rival") => truth.release(),
            _ => return,
        }
        self.hint(at);
    }

    pub(super) fn meet(&mut self, chance: Chance) {
        match chance {
            Chance::Say(at, is_heard) => {
                self.sessions[at].has_work = true;
                self.sessions[at].write();
                if is_heard {
                    self.hint(at);
                }
            }
            Chance::Read(at) => self.read(at),
            Chance::Looked(at, sighting) => self.looked(at, sighting),
            Chance::Answer(at) => self.pace(at, Pace::Idles),
            Chance::Wait(at, time) => self.wait(at, time),
            Chance::Measure(at) => self.measure(at),
            Chance::End(at, ending) => self.end(at, ending),
            Chance::Shared(at) => {
                if let Some((number, _)) = self.sessions[at].job {
                    self.tell(Event::Shared(id(at), number));
                }
            }
            Chance::Rival(at, rival) => self.rival(at, rival),
            Chance::Deaths(at, deaths, failures) => {
                let truth = &mut self.sessions[at];
                (truth.deaths, truth.failures) = (deaths, failures);
            }
            Chance::Due(at, secs) => {
                self.sessions[at].due = Some(self.wall.plus(Duration::from_secs(secs)));
                self.sessions[at].tail += 1;
                self.hint(at);
            }
            Chance::Step(secs) => self.wall = self.wall.plus(Duration::from_secs(secs)),
            Chance::Pass(ms) => self.pass(Duration::from_millis(ms)),
            Chance::Resync => self.hint_all(),
        }
    }

    /// Lets time pass, with every tick that was asked for.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.elapsed + time;
        loop {
            let tick = self.machine.next_tick(self.now()).map(|tick| self.elapsed + tick);
            let next = tick.map_or(until, |tick| tick.min(until)).max(self.elapsed);
            self.wall = self.wall.plus(next - self.elapsed);
            self.elapsed = next;
            self.tell(Event::Tick);
            if self.elapsed >= until {
                return;
            }
        }
    }

    /// Faults stop: whatever is asked for is done at once, and all is answered and kept small in
    /// time.
    pub(super) fn settle(&mut self) {
        for at in 0..SESSIONS {
            let truth = &mut self.sessions[at];
            // What lasts is over when the session moves. The rival is gone, and so are those who
            // were waited for without an end.
            if truth.is_broken {
                truth.write();
            }
            if truth.deadline.is_none() {
                if matches!(truth.job, Some((_, Pace::Waits))) {
                    self.pace(at, Pace::Works);
                }
                self.measure(at);
            }
            // Hints that were lost are told; no others.
            if self.sessions[at].heard < self.sessions[at].tail {
                self.hint(at);
            }
        }
        let began = (self.elapsed, self.wall);
        loop {
            let served = (0..SESSIONS).filter(|at| self.serve(*at)).count();
            let late: Vec<_> = (0..SESSIONS).filter(|at| self.is_late(*at, began)).collect();
            assert!(late.is_empty(), "{late:?} still wait: {:#?}", self.machine);
            let is_owed = |truth: &Truth| truth.has_work || truth.due.is_some();
            if !self.sessions.iter().any(is_owed) {
                return;
            }
            if served == 0 {
                let tick = self.machine.next_tick(self.now()).unwrap_or(BOUND);
                self.pass(tick.clamp(Duration::from_millis(10), Duration::from_secs(30)));
            }
        }
    }

    /// Whether a session should have been answered, or kept small, by now.
    fn is_late(&self, at: usize, began: (Duration, UnixMs)) -> bool {
        let truth = &self.sessions[at];
        let answer_by = truth.deadline.map_or(began.0, |(at, _)| at.max(began.0)) + BOUND;
        // It is kept small once it rests.
        let rest_by = truth.due.filter(|_| !truth.has_work);
        let rest_by = rest_by.map(|due| due.max(began.1).max(truth.answered_at).plus(REST_BOUND));
        (truth.has_work && self.elapsed > answer_by) || rest_by.is_some_and(|at| self.wall > at)
    }

    /// Does what is asked for of a session; false if there is nothing.
    pub(super) fn serve(&mut self, at: usize) -> bool {
        if self.sessions[at].look.is_some() {
            self.looked(at, Sighting::Well);
            return true;
        }
        let truth = &self.sessions[at];
        match truth.job {
            Some((_, Pace::Works)) => self.pace(at, Pace::Idles),
            Some((_, Pace::Waits))
                if truth.deadline.is_none_or(|(until, _)| until <= self.elapsed) =>
            {
                // It is owed from then on.
                let deadline = truth.deadline;
                self.pace(at, Pace::Works);
                self.sessions[at].deadline = deadline;
            }
            Some(_) if truth.told_to_end => self.end(at, Ending::Peace),
            _ => return false,
        }
        true
    }
}
