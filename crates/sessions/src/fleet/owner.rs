//! The owner of a supervisor: tells the machine what happens, and carries out what it says.

use std::{collections::BTreeMap, sync::Arc};

use agent::caps::SNAPSHOT_EVERY_BYTES;
use log::{Moved, Watch, WatchError};
use sys::{Cancellation, Canceller, Task};
use tokio::sync::{Semaphore, mpsc};
use wire::{Offset, StreamPath};

use super::{
    Yard,
    candidates::{CandidatePage, Candidates},
    job::{self, Ties},
    machine::{Command, Ended, Event, Identity, Limits, Machine, Now, Terms, Trouble},
};
use crate::{
    SessionId, TENANT,
    caps::{
        FAILURE_PAUSE_FIRST, JOB_NEWS_WAITING_MAX, LOOKS_MAX, SESSIONS_KNOWN_MAX,
        SESSIONS_WAITING_MAX,
    },
};

/// Carries out what the machine says.
pub(super) struct Owner {
    yard: Arc<Yard>,
    machine: Machine,
    watch: Watch,
    /// The one thing that each look and each job tells at its end; there is room for all.
    ends: mpsc::Receiver<Event>,
    tell_end: mpsc::Sender<Event>,
    /// What jobs tell while they are under way.
    news: mpsc::Receiver<Event>,
    tell_news: mpsc::Sender<Event>,
    pages: mpsc::Receiver<CandidatePage>,
    tell_page: mpsc::Sender<CandidatePage>,
    opened: mpsc::Receiver<Arc<Candidates>>,
    /// In order, so that a simulation ends them in the same one each time.
    jobs: BTreeMap<SessionId, Job>,
    /// Which sessions may have work; none before that is known.
    candidates: Option<Arc<Candidates>>,
    /// None if all candidates were gone through.
    survey: Option<Survey>,
}

/// An agent under way.
struct Job {
    number: u64,
    end: Canceller,
    share: Canceller,
    /// How far the session was read for its snapshots.
    read_to: Option<Offset>,
    _task: Task,
}

/// How far the candidates were gone through.
#[derive(Default)]
struct Survey {
    after: Option<StreamPath>,
    /// Whether the next page was asked for.
    is_asked: bool,
    /// Whether to begin again afterwards: more hints were lost meanwhile.
    is_stale: bool,
}

/// Tells of the end of a look or a job, however it ends.
struct Report {
    event: Option<Event>,
    tell: mpsc::Sender<Event>,
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            let _ = self.tell.try_send(event);
        }
    }
}

impl Owner {
    pub(super) fn new(yard: Arc<Yard>) -> Result<Self, WatchError> {
        let glob = format!("{TENANT}/sessions/*").parse().expect("the glob is a good one");
        let watch = yard.sessions.log().watch(glob)?;
        let limits = limits(&yard);
        let jobs_max = limits.running_max + limits.waiting_max + limits.warm_max;
        let (tell_end, ends) = mpsc::channel(jobs_max + limits.looks_max);
        let (tell_news, news) = mpsc::channel(JOB_NEWS_WAITING_MAX);
        let (tell_page, pages) = mpsc::channel(1);
        let opened = open_candidates(&yard);
        let identity = Identity {
            supervisor: yard.supervisor.clone(),
            home: yard.settings.home.map(|home| home.to_string()),
        };
        Ok(Self {
            machine: Machine::new(limits, identity),
            yard,
            watch,
            ends,
            tell_end,
            news,
            tell_news,
            pages,
            tell_page,
            opened,
            jobs: BTreeMap::new(),
            candidates: None,
            survey: Some(Survey::default()),
        })
    }

    pub(super) async fn run(mut self) {
        let yard = self.yard.clone();
        loop {
            self.ask_for_candidates();
            let tick = self.machine.next_tick(self.now());
            tokio::select! {
                biased;
                () = yard.cancellation.cancelled() => break,
                Some(event) = self.ends.recv() => self.handle(event),
                Some(event) = self.news.recv() => self.handle(event),
                Some(page) = self.pages.recv() => self.take_candidates(page),
                Some(opened) = self.opened.recv() => self.candidates = Some(opened),
                moved = self.watch.next() => match moved {
                    Some(Moved::Stream(path, tail, life)) => {
                        if let Some(session) = SessionId::of(&path) {
                            self.keep(&session, tail);
                            self.handle(Event::Moved(session, (tail, life)));
                        }
                    }
                    Some(Moved::Resync) => self.begin_survey(),
                    None => break,
                },
                () = yard.sys.clock.sleep(tick.unwrap_or_default()), if tick.is_some() => {
                    self.handle(Event::Tick);
                }
            }
        }
        self.jobs.values().for_each(|job| job.end.cancel());
        while !self.jobs.is_empty() {
            let Some(event) = self.ends.recv().await else { return };
            if let Event::Ended(session, ..) = event {
                self.jobs.remove(&session);
            }
        }
    }

    fn now(&self) -> Now {
        let clock = &self.yard.sys.clock;
        Now { elapsed: clock.elapsed(), wall: clock.unix_ms() }
    }

    fn handle(&mut self, event: Event) {
        if let Event::Ended(session, number, _) = &event
            && self.jobs.get(session).is_some_and(|job| job.number == *number)
        {
            self.jobs.remove(session);
        }
        let now = self.now();
        for command in self.machine.handle(event, now) {
            self.carry_out(command);
        }
    }

    fn carry_out(&mut self, command: Command) {
        let job = |session: &SessionId, number: u64| {
            self.jobs.get(session).filter(|job| job.number == number)
        };
        match command {
            Command::Look(session, number) => self.look(session, number),
            Command::Start(session, number, terms) => self.start(session, number, terms),
            Command::End(session, number) => {
                job(&session, number).into_iter().for_each(|job| job.end.cancel());
            }
            Command::Share(session, number) => {
                job(&session, number).into_iter().for_each(|job| job.share.cancel());
            }
            Command::Survey => self.begin_survey(),
        }
    }

    fn look(&self, session: SessionId, number: u64) {
        let (yard, tell) = (self.yard.clone(), self.tell_end.clone());
        let (candidates, news) = (self.candidates.clone(), self.tell_news.clone());
        self.yard.sys.spawn.task("session-look", async move {
            let looked = |looked| Some(Event::Looked(session.clone(), number, looked));
            let mut report = Report { event: looked(Err(Trouble::Passing)), tell };
            let facts = job::look(&yard, &session).await;
            let resting = facts.as_ref().ok().filter(|facts| !facts.has_work).cloned();
            report.event = looked(facts);
            drop(report);
            let Some(facts) = resting else { return };
            // One that is seen at rest before the index is open is found again by the survey.
            let (Some(candidates), Ok(_place)) = (candidates, yard.resting.try_acquire()) else {
                let _ = news.send(Event::PassedOver(session)).await;
                return;
            };
            job::rest(&yard, &candidates, &session, &facts).await;
        });
    }

    /// Keeps a snapshot of a session whose agent never rests, now and then: else the next process
    /// would have to read all that it has written.
    fn keep(&mut self, session: &SessionId, tail: Offset) {
        let Some(job) = self.jobs.get_mut(session) else { return };
        let read_to = *job.read_to.get_or_insert(tail);
        if tail.byte.get().saturating_sub(read_to.byte.get()) < SNAPSHOT_EVERY_BYTES {
            return;
        }
        job.read_to = Some(tail);
        let open = self.yard.sessions.of(session.path());
        self.yard.sys.spawn.task("session-snapshot", async move {
            if let Err(error) = open.lock().await.catch_up().await {
                tracing::debug!(%error, "a session cannot be read for its snapshot");
            }
        });
    }

    fn start(&mut self, session: SessionId, number: u64, terms: Terms) {
        let (yard, tell) = (self.yard.clone(), self.tell_end.clone());
        let ((end, ended), (share, shared)) = (Cancellation::new(), Cancellation::new());
        let ties = Ties { number, tell: self.tell_news.clone(), end: ended, share: shared };
        let id = session.clone();
        let task = self.yard.sys.spawn.task("session", async move {
            let ended = |ended| Some(Event::Ended(id.clone(), number, ended));
            let mut report = Report { event: ended(Ended::Failed(Trouble::Passing)), tell };
            report.event = ended(job::run(&yard, &id, terms, &ties).await);
        });
        self.jobs.insert(session, Job { number, end, share, read_to: None, _task: task });
    }

    fn begin_survey(&mut self) {
        match &mut self.survey {
            Some(survey) => survey.is_stale = survey.is_asked || survey.after.is_some(),
            None => self.survey = Some(Survey::default()),
        }
    }

    /// Asks for the next candidates, if there is room for them.
    fn ask_for_candidates(&mut self) {
        let (Some(survey), Some(candidates)) = (&mut self.survey, &self.candidates) else { return };
        if survey.is_asked || !self.machine.has_room() {
            return;
        }
        survey.is_asked = true;
        let (yard, tell, after) = (self.yard.clone(), self.tell_page.clone(), survey.after.clone());
        let candidates = candidates.clone();
        self.yard.sys.spawn.task("session-survey", async move {
            loop {
                match candidates.page(after.clone()).await {
                    Ok(page) => {
                        let _ = tell.send(page).await;
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the sessions cannot be listed; trying again");
                        if !yard.cancellation.rest(FAILURE_PAUSE_FIRST, &yard.sys).await {
                            return;
                        }
                    }
                }
            }
        });
    }

    fn take_candidates(&mut self, page: CandidatePage) {
        for (session, place) in page.sessions {
            self.handle(Event::Moved(session, place));
        }
        let Some(survey) = &mut self.survey else { return };
        survey.is_asked = false;
        self.survey = match (page.next, survey.is_stale) {
            (Some(next), is_stale) => Some(Survey { after: Some(next), is_asked: false, is_stale }),
            (None, true) => Some(Survey::default()),
            (None, false) => None,
        };
        if self.survey.is_none() {
            self.yard.surveyed.send_replace(true);
        }
    }
}

/// Opens the index beside the owner: what moves meanwhile is heard and answered, however long that
/// takes.
fn open_candidates(yard: &Arc<Yard>) -> mpsc::Receiver<Arc<Candidates>> {
    let (tell, opened) = mpsc::channel(1);
    let inner = yard.clone();
    yard.sys.spawn.task("session-index", async move {
        let candidates = tokio::select! {
            () = inner.cancellation.cancelled() => return,
            candidates = Candidates::open(&inner) => candidates,
        };
        if let Some(candidates) = candidates {
            let _ = tell.send(Arc::new(candidates)).await;
        }
    });
    opened
}

fn limits(yard: &Yard) -> Limits {
    let settings = &yard.settings;
    let bounded = |count: usize| count.min(Semaphore::MAX_PERMITS / 8);
    Limits {
        running_max: bounded(settings.running_max.max(1)),
        waiting_max: bounded(settings.waiting_max),
        warm_max: bounded(settings.warm_max),
        looks_max: LOOKS_MAX,
        queued_max: SESSIONS_WAITING_MAX,
        known_max: SESSIONS_KNOWN_MAX,
        idle_max: settings.idle_max,
        lease: settings.lease,
    }
}
