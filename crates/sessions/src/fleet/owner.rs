//! The owner of a fleet: knows which sessions are worked on, which wait, and which failed.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use log::{List, Moved, Watch, WatchError};
use sys::Task;
use tokio::sync::mpsc;
use wire::StreamPath;

use super::{
    Yard,
    job::{self, Rested},
};
use crate::{
    SessionId, TENANT,
    caps::{FAILURE_PAUSE_FIRST, FAILURE_PAUSE_MAX, SESSIONS_WAITING_MAX},
};

/// Decides who runs.
pub(super) struct Owner {
    yard: Arc<Yard>,
    watch: Watch,
    ends: mpsc::Receiver<(SessionId, Rested)>,
    /// Each job has room for the one thing it tells.
    tell_end: mpsc::Sender<(SessionId, Rested)>,
    pauses: mpsc::Receiver<SessionId>,
    tell_pause: mpsc::Sender<SessionId>,
    waiting: VecDeque<SessionId>,
    /// All of `waiting`.
    is_waiting: HashSet<SessionId>,
    running: HashMap<SessionId, Running>,
    failures: HashMap<SessionId, Setback>,
    /// Where to go on with looking at all sessions; none if that is done.
    survey: Option<Survey>,
}

/// How far all sessions were looked at.
struct Survey {
    after: Option<StreamPath>,
}

/// A job under way.
struct Running {
    /// Whether the session has moved since.
    is_dirty: bool,
    _task: Task,
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
        let (tell_end, ends) = mpsc::channel(yard.settings.running_max.max(1));
        let (tell_pause, pauses) = mpsc::channel(1);
        Ok(Self {
            yard,
            watch,
            ends,
            tell_end,
            pauses,
            tell_pause,
            waiting: VecDeque::new(),
            is_waiting: HashSet::new(),
            running: HashMap::new(),
            failures: HashMap::new(),
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
                Some(session) = self.pauses.recv() => self.paused(session),
                moved = self.watch.next() => match moved {
                    Some(Moved::Stream(path, ..)) => self.moved(&path),
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
                    self.moved(&stream.path);
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

    fn moved(&mut self, path: &StreamPath) {
        let Some(session) = SessionId::of(path) else { return };
        match self.running.get_mut(&session) {
            Some(running) => running.is_dirty = true,
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
        while self.running.len() < self.yard.settings.running_max.max(1) {
            let Some(session) = self.waiting.pop_front() else { return };
            self.is_waiting.remove(&session);
            let (yard, tell, id) = (self.yard.clone(), self.tell_end.clone(), session.clone());
            let task = self.yard.sys.spawn.task("session", async move {
                let session = Some(id.clone());
                let mut report = Report { session, rested: Rested::Failed, tell };
                report.rested = job::run(&yard, &id).await;
            });
            self.running.insert(session, Running { is_dirty: false, _task: task });
        }
    }

    fn paused(&mut self, session: SessionId) {
        if let Some(setback) = self.failures.get_mut(&session) {
            setback.is_pausing = false;
        }
        self.wait(session);
    }

    fn rested(&mut self, session: SessionId, rested: Rested) {
        let was_dirty = self.running.remove(&session).is_some_and(|running| running.is_dirty);
        match rested {
            Rested::Idle => drop(self.failures.remove(&session)),
            Rested::Worked => {
                self.failures.remove(&session);
                return self.wait(session);
            }
            Rested::Failed => return self.again(session),
            Rested::GivenUp => return,
        }
        if was_dirty {
            self.wait(session);
        }
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
        let (yard, tell) = (self.yard.clone(), self.tell_pause.clone());
        self.yard.sys.spawn.task("session-pause", async move {
            if yard.cancellation.rest(pause, &yard.sys).await {
                let _ = tell.send(session).await;
            }
        });
    }
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
