//! The machine against a naive model of the world: sessions that get work, looks that take time and
//! fail, agents that answer, wait, fail and lose their sessions to others.
//!
//! ```text
//! PROPTEST_CASES=20000 cargo test -p headwater-sessions --lib machine
//! ```

use std::collections::BTreeSet;

use log::Incarnation;
use proptest::prelude::*;
use wire::Offset;

use super::*;
use crate::fleet::facts::{RunnerFacts, Waiting};

const SESSIONS: usize = 6;
const LEASE: Duration = Duration::from_secs(20);
/// Once faults stop, what is owed is done within this: the longest backoff, two leases, and the
/// patience of quarantine for each session. It is less than the shortest pause of what is parked.
const BOUND: Duration = Duration::from_secs(60 + 2 * 20 + SESSIONS as u64 * 15);

/// An agent that was ended while it waited for others.
const WAITING: Waiting = Waiting { until: None, left: None };

/// What befalls the world.
#[derive(Clone, Copy, Debug)]
enum Chance {
    /// Somebody writes to a session; the hint comes, or is lost.
    Say(usize, bool),
    /// A look of a session is read, and its result is on its way.
    Read(usize),
    /// The result of a look arrives.
    Looked(usize, bool),
    /// An agent answers all that waits, and idles.
    Answer(usize),
    /// An agent waits for others.
    Wait(usize),
    /// What an agent has waited for comes.
    Measure(usize),
    /// An agent ends, as it was told to or by itself.
    End(usize, bool),
    /// Another supervisor runs the session, writes, or releases it.
    Rival(usize, Rival),
    /// The process has ended under a session so often.
    Deaths(usize, u32),
    /// Time passes.
    Pass(u64),
    /// Hints were lost, which is told: every session is a candidate.
    Resync,
}

#[derive(Clone, Copy, Debug)]
enum Rival {
    Claims,
    Writes,
    Answers,
    Releases,
}

/// A session, as it truly is.
#[derive(Clone, Debug, Default)]
struct Truth {
    has_work: bool,
    tail: u64,
    /// How far hints have told.
    heard: u64,
    moved: u64,
    runner: Option<RunnerFacts>,
    deaths: u32,
    look: Option<(u64, Option<Facts>)>,
    job: Option<(u64, Pace)>,
    told_to_end: bool,
}

struct World {
    machine: Machine,
    sessions: Vec<Truth>,
    elapsed: Duration,
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

    fn write(&mut self) {
        self.tail += 1;
        self.moved = self.tail;
    }

    fn facts(&self) -> Facts {
        Facts {
            has_work: self.has_work,
            due: None,
            moved: Some(Position::new(self.moved)),
            place: self.place(),
            runner: self.runner.clone(),
            deaths: self.deaths,
            failures: 0,
        }
    }

    fn claim(&mut self, supervisor: &str) {
        let epoch = self.runner.as_ref().map_or(0, |runner| runner.epoch) + 1;
        self.tail += 1;
        self.runner = Some(RunnerFacts {
            epoch,
            incarnation: 1,
            supervisor: Some(supervisor.to_owned()),
            lease: Some(LEASE),
            renewed: Some(Position::new(self.tail)),
            ..RunnerFacts::default()
        });
    }

    fn is_runner(&self, supervisor: &str) -> bool {
        let runner = self.runner.as_ref().filter(|runner| !runner.is_released);
        runner.is_some_and(|runner| runner.supervisor.as_deref() == Some(supervisor))
    }

    fn release(&mut self) {
        self.tail += 1;
        if let Some(runner) = &mut self.runner {
            runner.is_released = true;
        }
    }
}

impl World {
    fn new() -> Self {
        let limits = Limits {
            running_max: 2,
            waiting_max: 1,
            warm_max: 1,
            looks_max: 2,
            queued_max: 4,
            known_max: 100,
            idle_max: Duration::from_secs(30),
            lease: LEASE,
        };
        let identity = Identity { supervisor: "ours".to_owned(), home: None };
        let machine = Machine::new(limits, identity);
        let sessions = vec![Truth::default(); SESSIONS];
        Self { machine, sessions, elapsed: Duration::ZERO, limits }
    }

    fn tell(&mut self, event: Event) {
        let now = Now { elapsed: self.elapsed, wall: UnixMs::new(0).plus(self.elapsed) };
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
        if !quarantined && !self.machine.turns.is_empty() {
            assert!(self.machine.working.len() >= self.limits.running_max || self.jobs_are_full());
        }
        for (session, known) in &self.machine.sessions {
            let truth = &self.sessions[index(session)];
            let is_running = matches!(known.state, State::Running { .. });
            assert_eq!(is_running, truth.job.is_some(), "{session}");
        }
    }

    fn jobs_are_full(&self) -> bool {
        let limits = &self.limits;
        self.machine.jobs >= limits.running_max + limits.waiting_max + limits.warm_max
    }

    fn hint(&mut self, at: usize) {
        let place = self.sessions[at].place();
        self.sessions[at].heard = self.sessions[at].tail;
        self.tell(Event::Moved(id(at), place));
    }

    fn hint_all(&mut self) {
        (0..SESSIONS).for_each(|at| self.hint(at));
    }

    fn read(&mut self, at: usize) {
        let facts = self.sessions[at].facts();
        if let Some((_, read)) = &mut self.sessions[at].look {
            read.get_or_insert(facts);
        }
    }

    fn looked(&mut self, at: usize, is_well: bool) {
        self.read(at);
        let Some((number, Some(facts))) = self.sessions[at].look.take() else { return };
        let looked = if is_well { Ok(facts) } else { Err(Trouble::Passing) };
        self.tell(Event::Looked(id(at), number, looked));
    }

    /// The agent of a session does something else, unless another runner has it.
    fn pace(&mut self, at: usize, pace: Pace) {
        let truth = &mut self.sessions[at];
        let Some((number, before)) = truth.job else { return };
        if !truth.is_runner("ours") {
            return self.end(at, true);
        }
        if pace == Pace::Idles {
            (truth.has_work, truth.deaths) = (false, 0);
            truth.write();
        }
        if before != pace {
            truth.job = Some((number, pace));
            self.tell(Event::Paced(id(at), number, pace));
        }
        self.hint(at);
    }

    fn end(&mut self, at: usize, is_peace: bool) {
        let truth = &mut self.sessions[at];
        let Some((number, pace)) = truth.job.take() else { return };
        let epoch = truth.runner.as_ref().map_or(0, |runner| runner.epoch);
        // One that was not told to leaves nothing undone in peace.
        let may_leave = truth.told_to_end || pace == Pace::Waits || !truth.has_work;
        let is_peace = is_peace && may_leave;
        let ended = match (truth.is_runner("ours"), is_peace) {
            (true, true) => {
                truth.release();
                let waiting = (pace == Pace::Waits).then_some(WAITING);
                truth.runner.iter_mut().for_each(|runner| runner.waiting = waiting);
                Ended::Peace
            }
            (true, false) => Ended::Failed(Trouble::Passing),
            (false, _) => Ended::TakenOver(epoch),
        };
        self.tell(Event::Ended(id(at), number, ended));
        self.hint(at);
    }

    fn measure(&mut self, at: usize) {
        let truth = &mut self.sessions[at];
        if truth.runner.as_mut().and_then(|runner| runner.waiting.take()).is_some() {
            truth.write();
            self.hint(at);
        }
    }

    fn rival(&mut self, at: usize, rival: Rival) {
        let truth = &mut self.sessions[at];
        match rival {
            // It respects leases, too: the job of ours is there or it is not.
            Rival::Claims if truth.job.is_none() && truth.has_work => truth.claim("rival"),
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

    fn meet(&mut self, chance: Chance) {
        match chance {
            Chance::Say(at, is_heard) => {
                self.sessions[at].has_work = true;
                self.sessions[at].write();
                if is_heard {
                    self.hint(at);
                }
            }
            Chance::Read(at) => self.read(at),
            Chance::Looked(at, is_well) => self.looked(at, is_well),
            Chance::Answer(at) => self.pace(at, Pace::Idles),
            Chance::Wait(at) => self.pace(at, Pace::Waits),
            Chance::Measure(at) => self.measure(at),
            Chance::End(at, is_peace) => self.end(at, is_peace),
            Chance::Rival(at, rival) => self.rival(at, rival),
            Chance::Deaths(at, deaths) => self.sessions[at].deaths = deaths,
            Chance::Pass(ms) => self.pass(Duration::from_millis(ms)),
            Chance::Resync => self.hint_all(),
        }
    }

    /// Lets time pass, with every tick that was asked for.
    fn pass(&mut self, time: Duration) {
        let until = self.elapsed + time;
        loop {
            let now = Now { elapsed: self.elapsed, wall: UnixMs::new(0).plus(self.elapsed) };
            let tick = self.machine.next_tick(now).map(|tick| self.elapsed + tick);
            self.elapsed = tick.map_or(until, |tick| tick.min(until)).max(self.elapsed);
            self.tell(Event::Tick);
            if self.elapsed >= until {
                return;
            }
        }
    }

    /// Faults stop: whatever is asked for is done at once, and all is answered in time.
    fn settle(&mut self) {
        for at in 0..SESSIONS {
            // The rival is gone, and so are those who were waited for.
            if let Some((_, Pace::Waits)) = self.sessions[at].job {
                self.pace(at, Pace::Works);
            }
        }
        for at in 0..SESSIONS {
            self.measure(at);
            // Hints that were lost are told; no others.
            if self.sessions[at].heard < self.sessions[at].tail {
                self.hint(at);
            }
        }
        let until = self.elapsed + BOUND;
        loop {
            let mut is_quiet = true;
            for at in 0..SESSIONS {
                if self.sessions[at].look.is_some() {
                    self.looked(at, true);
                    is_quiet = false;
                }
                match self.sessions[at].job {
                    Some((_, Pace::Works)) => {
                        self.pace(at, Pace::Idles);
                        is_quiet = false;
                    }
                    Some(_) if self.sessions[at].told_to_end => {
                        self.end(at, true);
                        is_quiet = false;
                    }
                    _ => {}
                }
            }
            let owed: BTreeSet<_> =
                (0..SESSIONS).filter(|at| self.sessions[*at].has_work).collect();
            if owed.is_empty() {
                return;
            }
            assert!(self.elapsed < until, "{owed:?} still wait: {:#?}", self.machine.sessions);
            if is_quiet {
                self.pass(Duration::from_secs(1));
            }
        }
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_000)
}

fn chances() -> impl Strategy<Value = Vec<Chance>> {
    let at = || 0..SESSIONS;
    let rival = prop_oneof![
        Just(Rival::Claims),
        Just(Rival::Writes),
        Just(Rival::Answers),
        Just(Rival::Releases)
    ];
    let one = prop_oneof![
        4 => (at(), prop::bool::weighted(0.9)).prop_map(|(at, heard)| Chance::Say(at, heard)),
        2 => at().prop_map(Chance::Read),
        6 => (at(), prop::bool::weighted(0.9)).prop_map(|(at, well)| Chance::Looked(at, well)),
        4 => at().prop_map(Chance::Answer),
        2 => at().prop_map(Chance::Wait),
        2 => at().prop_map(Chance::Measure),
        2 => (at(), any::<bool>()).prop_map(|(at, peace)| Chance::End(at, peace)),
        3 => (at(), rival).prop_map(|(at, rival)| Chance::Rival(at, rival)),
        1 => (at(), 0_u32..9).prop_map(|(at, deaths)| Chance::Deaths(at, deaths)),
        3 => (1_u64..40_000).prop_map(Chance::Pass),
        1 => Just(Chance::Resync),
    ];
    prop::collection::vec(one, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn nothing_waits_while_it_could_run_and_all_that_is_owed_is_done_in_time(chances in chances()) {
        let mut world = World::new();
        for chance in chances {
            world.meet(chance);
        }
        world.settle();
    }
}

/// A session whose agent has just ended, while its last look is being read.
fn in_its_last_look() -> World {
    let mut world = World::new();
    world.meet(Chance::Say(0, true));
    world.looked(0, true);
    world.pace(0, Pace::Waits);
    world.sessions[0].told_to_end = true;
    world.end(0, true);
    // Its release is a move, too.
    world.looked(0, true);
    world.read(0);
    world
}

#[test]
fn a_move_during_the_last_look_is_looked_at_again() {
    let mut world = in_its_last_look();
    world.sessions[0].write();
    world.hint(0);
    world.looked(0, true);
    assert!(world.sessions[0].look.is_some(), "it was parked with what has come");
}

#[test]
fn without_a_move_a_session_that_was_started_for_nothing_is_parked() {
    let mut world = in_its_last_look();
    world.looked(0, true);
    assert!(world.sessions[0].look.is_none() && world.sessions[0].job.is_none());
}

#[test]
fn pauses_grow_up_to_a_bound() {
    assert_eq!(doubled(FAILURE_PAUSE_FIRST, 0, FAILURE_PAUSE_MAX), FAILURE_PAUSE_FIRST);
    assert_eq!(doubled(FAILURE_PAUSE_FIRST, 2, FAILURE_PAUSE_MAX), FAILURE_PAUSE_FIRST * 4);
    assert_eq!(doubled(FAILURE_PAUSE_FIRST, 1_000, FAILURE_PAUSE_MAX), FAILURE_PAUSE_MAX);
}

#[test]
fn a_lease_begins_when_its_renewal_is_seen_and_a_release_ends_it() {
    let mut world = World::new();
    world.sessions[0].has_work = true;
    world.sessions[0].claim("rival");
    world.hint(0);
    world.looked(0, true);
    world.pass(LEASE - Duration::from_secs(1));
    assert!(world.sessions[0].look.is_none() && world.sessions[0].job.is_none());
    world.rival(0, Rival::Writes);
    world.pass(Duration::from_secs(1));
    world.looked(0, true);
    world.pass(LEASE - Duration::from_secs(2));
    world.looked(0, true);
    assert!(world.sessions[0].job.is_none(), "its lease was renewed");
    world.rival(0, Rival::Releases);
    world.pass(LEASED_LOOK_PAUSE);
    world.looked(0, true);
    assert!(world.sessions[0].job.is_some(), "it was released");
}

#[test]
fn a_runner_that_has_waited_for_long_has_its_lease_when_that_is_over() {
    let mut world = World::new();
    world.sessions[0].has_work = true;
    world.sessions[0].claim("rival");
    let waiting = Waiting { until: None, left: Some(Duration::from_hours(1)) };
    world.sessions[0].runner.iter_mut().for_each(|runner| runner.waiting = Some(waiting));
    world.hint(0);
    world.looked(0, true);
    world.pass(LEASE * 3);
    // What it waits for has come.
    world.sessions[0].runner.iter_mut().for_each(|runner| runner.waiting = None);
    world.sessions[0].write();
    world.hint(0);
    world.looked(0, true);
    assert!(world.sessions[0].job.is_none(), "it had no time to go on");
    world.pass(LEASE);
    world.looked(0, true);
    assert!(world.sessions[0].job.is_some(), "its lease has run out");
}
