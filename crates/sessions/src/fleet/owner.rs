//! The owner of a fleet: knows which sessions are worked on, which wait, and which failed.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use log::{List, Moved, Watch, WatchError};
use sys::{Cancellation, Canceller, Task, UnixMs};
use tokio::sync::{Semaphore, mpsc};
use wire::StreamPath;

use super::{
    Yard,
    job::{self, Pace, Rested, Ties},
    shelf::{Place, Shelf},
};
use crate::{
    SessionId, TENANT,
    caps::{FAILURE_PAUSE_FIRST, FAILURE_PAUSE_MAX, JOB_NEWS_WAITING_MAX, SESSIONS_WAITING_MAX},
};

/// Decides who runs.
pub(super) struct Owner {
    yard: Arc<Yard>,
    watch: Watch,
    ends: mpsc::Receiver<(SessionId, Rested)>,
    /// Each job has room for the one thing it tells.
    tell_end: mpsc::Sender<(SessionId, Rested)>,
    paces: mpsc::Receiver<(SessionId, u64, Pace)>,
    tell_pace: mpsc::Sender<(SessionId, u64, Pace)>,
    pauses: mpsc::Receiver<Paused>,
    tell_pause: mpsc::Sender<Paused>,
    waiting: VecDeque<SessionId>,
    /// All of `waiting`.
    is_waiting: HashSet<SessionId>,
    running: HashMap<SessionId, Running>,
    /// Those of `running` that wait for somebody else, the one that has for longest first.
    idling: BTreeMap<u64, SessionId>,
    /// Counts jobs, and how often they began to wait.
    count: u64,
    failures: HashMap<SessionId, Setback>,
    shelf: Shelf,
    /// Where to go on with looking at all sessions; none if that is done.
    survey: Option<Survey>,
}

/// How far all sessions were looked at.
struct Survey {
    after: Option<StreamPath>,
}

/// A job under way.
struct Running {
    /// Tells it from others of its session.
    number: u64,
    /// Whether the session has moved since.
    is_dirty: bool,
    /// Its place among those that wait for somebody else.
    idling: Option<u64>,
    make_room: Canceller,
    _task: Task,
}

/// Whose pause is over.
enum Paused {
    Failed(SessionId),
    /// The one of this number.
    Shelved(SessionId, u64),
}

/// What is remembered of a session whose agent failed.
#[derive(Default)]
struct Setback {
    count: u32,
    /// Whether it waits for its pause to end, whatever happens.
    is_pausing: bool,
}

/// Tells of the end of a job, however it ends.
struct Report {
    session: Option<SessionId>,
    rested: Rested,
    tell: mpsc::Sender<(SessionId, Rested)>,
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = self.tell.try_send((session, self.rested));
        }
    }
}

impl Owner {
    pub(super) fn new(yard: Arc<Yard>) -> Result<Self, WatchError> {
        let glob = format!("{TENANT}/sessions/*").parse().expect("the glob is a good one");
        let watch = yard.log.watch(glob)?;
        let (tell_end, ends) = mpsc::channel(jobs_max(&yard));
        let (tell_pace, paces) = mpsc::channel(JOB_NEWS_WAITING_MAX);
        let (tell_pause, pauses) = mpsc::channel(1);
        Ok(Self {
            yard,
            watch,
            ends,
            tell_end,
            paces,
            tell_pace,
            pauses,
            tell_pause,
            waiting: VecDeque::new(),
            is_waiting: HashSet::new(),
            running: HashMap::new(),
            idling: BTreeMap::new(),
            count: 0,
            failures: HashMap::new(),
            shelf: Shelf::default(),
            survey: Some(Survey { after: None }),
        })
    }

    pub(super) async fn run(mut self) {
        let yard = self.yard.clone();
        loop {
            self.start_waiting();
            let may_survey = self.survey.is_some() && self.waiting.is_empty();
            tokio::select! {
                biased;
                () = yard.cancellation.cancelled() => break,
                Some((session, rested)) = self.ends.recv() => self.rested(session, rested),
                Some((session, number, pace)) = self.paces.recv() => {
                    self.paced(&session, number, pace);
                }
                Some(paused) = self.pauses.recv() => self.paused(paused),
                moved = self.watch.next() => match moved {
                    Some(Moved::Stream(path, tail, life)) => self.moved(&path, (tail, life)),
                    Some(Moved::Resync) => self.survey = Some(Survey { after: None }),
                    None => break,
                },
                () = async {}, if may_survey => self.survey().await,
            }
        }
        while !self.running.is_empty() {
            let Some((session, _)) = self.ends.recv().await else { return };
            self.running.remove(&session);
        }
    }

    /// Looks at the next page of sessions.
    async fn survey(&mut self) {
        let Some(survey) = self.survey.take() else { return };
        let prefix = format!("{TENANT}/sessions/");
        let page = self.yard.log.list(List { prefix, after: survey.after.clone(), limit: 0 }).await;
        match page {
            Ok(page) => {
                for stream in &page.streams {
                    self.moved(&stream.path, (stream.head.tail, stream.head.incarnation));
                }
                if let (None, Some(next)) = (&self.survey, page.next) {
                    self.survey = Some(Survey { after: Some(next) });
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the sessions cannot be listed; trying again");
                self.yard.cancellation.rest(FAILURE_PAUSE_FIRST, &self.yard.sys).await;
                self.survey = Some(survey);
            }
        }
    }

    fn moved(&mut self, path: &StreamPath, to: Place) {
        let Some(session) = SessionId::of(path) else { return };
        match self.running.get_mut(&session) {
            Some(running) => running.is_dirty = true,
            None if self.shelf.keeps(&session, to) => {}
            None if self.failures.get(&session).is_some_and(|setback| setback.is_pausing) => {}
            None => self.wait(session),
        }
    }

    fn wait(&mut self, session: SessionId) {
        if self.is_waiting.contains(&session) {
            return;
        }
        if self.waiting.len() >= SESSIONS_WAITING_MAX {
            // It is found again once there is room.
            self.survey = Some(Survey { after: None });
            return;
        }
        self.is_waiting.insert(session.clone());
        self.waiting.push_back(session);
    }

    fn start_waiting(&mut self) {
        while self.has_turn() {
            let Some(session) = self.waiting.pop_front() else { return };
            self.is_waiting.remove(&session);
            let (yard, tell, id) = (self.yard.clone(), self.tell_end.clone(), session.clone());
            let (make_room, asked) = Cancellation::new();
            let number = self.next_number();
            let ties = Ties { number, tell: self.tell_pace.clone(), make_room: asked };
            let task = self.yard.sys.spawn.task("session", async move {
                let session = Some(id.clone());
                let mut report = Report { session, rested: Rested::Failed, tell };
                report.rested = job::run(&yard, &id, &ties).await;
            });
            let (is_dirty, idling) = (false, None);
            let running = Running { number, is_dirty, idling, make_room, _task: task };
            self.running.insert(session, running);
        }
    }

    /// Whether one more may begin. Those that wait for somebody else take no turn, but are counted.
    fn has_turn(&self) -> bool {
        let working = self.running.len() - self.idling.len();
        working < self.yard.settings.running_max.max(1) && self.running.len() < jobs_max(&self.yard)
    }

    fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// A job's agent waits for somebody else, or works again.
    fn paced(&mut self, session: &SessionId, number: u64, pace: Pace) {
        let turn = self.next_number();
        let Some(running) = self.running.get_mut(session) else { return };
        if running.number != number {
            return;
        }
        if let Some(before) = running.idling.take() {
            self.idling.remove(&before);
        }
        if pace == Pace::Waits {
            running.idling = Some(turn);
            self.idling.insert(turn, session.clone());
        }
        if self.idling.len() > self.yard.settings.waiting_max
            && let Some((_, longest)) = self.idling.pop_first()
            && let Some(running) = self.running.get_mut(&longest)
        {
            running.idling = None;
            running.make_room.cancel();
        }
    }

    fn paused(&mut self, paused: Paused) {
        match paused {
            Paused::Failed(session) => {
                if let Some(setback) = self.failures.get_mut(&session) {
                    setback.is_pausing = false;
                }
                self.wait(session);
            }
            Paused::Shelved(session, ticket) => {
                if self.shelf.is_over(&session, ticket) && !self.running.contains_key(&session) {
                    self.wait(session);
                }
            }
        }
    }

    fn rested(&mut self, session: SessionId, rested: Rested) {
        let running = self.running.remove(&session);
        if let Some(turn) = running.as_ref().and_then(|running| running.idling) {
            self.idling.remove(&turn);
        }
        let was_dirty = running.is_some_and(|running| running.is_dirty);
        match rested {
            Rested::Idle => {
                self.failures.remove(&session);
                self.shelf.forget(&session);
            }
            Rested::Worked => {
                self.failures.remove(&session);
                self.shelf.forget(&session);
                return self.wait(session);
            }
            Rested::Shelved(place, until) => {
                self.failures.remove(&session);
                return self.shelve(session, place, until);
            }
            Rested::Failed => return self.again(session),
            Rested::GivenUp => return,
        }
        if was_dirty {
            self.wait(session);
        }
    }

    /// Leaves a session alone until it moves, or for a while.
    fn shelve(&mut self, session: SessionId, place: Place, until: Option<UnixMs>) {
        let ticket = self.next_number();
        let Some(pause) = self.shelf.put(&session, place, ticket) else { return };
        let clock = &self.yard.sys.clock;
        let pause = until.map_or(pause, |until| pause.min(until.since(clock.unix_ms())));
        self.pause(pause, Paused::Shelved(session, ticket));
    }

    /// Looks at a session again, after a pause that grows.
    fn again(&mut self, session: SessionId) {
        if self.failures.len() > SESSIONS_WAITING_MAX {
            self.failures.retain(|_, setback| setback.is_pausing);
        }
        let setback = self.failures.entry(session.clone()).or_default();
        let pause = pause_after(setback.count);
        setback.count += 1;
        setback.is_pausing = true;
        self.pause(pause, Paused::Failed(session));
    }

    fn pause(&self, pause: Duration, whose: Paused) {
        let (yard, tell) = (self.yard.clone(), self.tell_pause.clone());
        self.yard.sys.spawn.task("session-pause", async move {
            if yard.cancellation.rest(pause, &yard.sys).await {
                let _ = tell.send(whose).await;
            }
        });
    }
}

/// Jobs at a time, whether they work or wait.
fn jobs_max(yard: &Yard) -> usize {
    let jobs = yard.settings.running_max.max(1).saturating_add(yard.settings.waiting_max);
    jobs.min(Semaphore::MAX_PERMITS)
}

/// The pause after so many failures before this one.
fn pause_after(failures: u32) -> Duration {
    let doubled = FAILURE_PAUSE_FIRST.checked_mul(1 << failures.min(16));
    doubled.unwrap_or(FAILURE_PAUSE_MAX).min(FAILURE_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        assert_eq!(pause_after(0), FAILURE_PAUSE_FIRST);
        assert_eq!(pause_after(2), FAILURE_PAUSE_FIRST * 4);
        assert_eq!(pause_after(1000), FAILURE_PAUSE_MAX);
    }
}
