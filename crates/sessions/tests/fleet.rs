//! Agents of many sessions: started where there is something to do, ended where there is not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent::{Agent, AgentError, rows::Generation, rows::GenerationStatus};
use live::StreamDb;
use log::{Log, MemoryLog};
use providers::scripted::Scripted;
use sessions::{Actions, Deed, Fleet, FleetSettings, Say, SessionId};
use sys::Sys;

struct World {
    sys: Sys,
    log: Arc<dyn Log>,
    actions: Actions,
    started: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        let sys = Sys::real();
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let actions = Actions::for_agent(&sys, log.clone(), "assistant");
        Self { sys, log, actions, started: Arc::default() }
    }

    /// A fleet whose first agents cannot be started.
    fn launch(&self, settings: FleetSettings, failures: usize) -> Fleet {
        let (sys, log, started) = (self.sys.clone(), self.log.clone(), self.started.clone());
        let start = move |session: SessionId| {
            let (sys, log) = (sys.clone(), log.clone());
            let count = started.fetch_add(1, Ordering::Relaxed);
            async move {
                if count < failures {
                    return Err(AgentError::Unreadable("not yet".to_owned()));
                }
                let agent = Agent::builder("assistant");
                let agent = agent.model(Arc::new(Scripted::demo(sys.clone())));
                agent.session(log, session.path().clone()).start(&sys).await
            }
        };
        Fleet::launch(&self.sys, self.log.clone(), "assistant", settings, start).unwrap()
    }

    async fn say(&self, session: &SessionId, text: &str) {
        let _ = self.actions.create(session).await.unwrap();
        let say = Say { id: None, text: text.to_owned(), target_agent: None };
        self.actions.act(session, "ada", Deed::Say(say)).await.unwrap();
    }

    /// Waits until so many generations of a session are complete.
    async fn answered(&self, session: &SessionId, count: usize) {
        let db = StreamDb::builder(self.log.clone(), session.path().clone(), &self.sys);
        let db = db.with::<Generation>().open().unwrap();
        db.ready().await.unwrap();
        let generations = db.rows::<Generation>().unwrap();
        let mut changes = generations.changes().unwrap();
        let is_done = |row: &live::RowRef<Generation>| row.status == GenerationStatus::Completed;
        while generations.rows().iter().filter(|row| is_done(row)).count() < count {
            changes.next().await;
        }
    }
}

fn ids(count: usize) -> Vec<SessionId> {
    (0..count).map(|number| format!("s{number}").parse().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_waits_and_what_comes_is_answered_by_few_at_a_time() {
    let world = World::new();
    let sessions = ids(5);
    for session in &sessions {
        world.say(session, "hello").await;
    }
    let settings = FleetSettings { running_max: 2, idle_max: Duration::from_secs(1) };
    let fleet = world.launch(settings, 0);
    for session in &sessions {
        world.answered(session, 1).await;
    }
    // Long after all of them were ended.
    world.sys.clock.sleep(Duration::from_secs(60)).await;
    let before = world.started.load(Ordering::Relaxed);
    assert_eq!(before, 5, "what an agent writes itself starts none");
    world.say(&sessions[3], "again").await;
    world.answered(&sessions[3], 2).await;
    assert_eq!(world.started.load(Ordering::Relaxed), before + 1);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_fails_is_started_again_later() {
    let world = World::new();
    let session = &ids(1)[0];
    let fleet = world.launch(FleetSettings::default(), 3);
    world.say(session, "hello").await;
    let began = world.sys.clock.elapsed();
    world.answered(session, 1).await;
    let took = world.sys.clock.elapsed() - began;
    assert!(took >= Duration::from_secs(1 + 2 + 4), "{took:?}");
    assert_eq!(world.started.load(Ordering::Relaxed), 4);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_done_is_left_alone() {
    let world = World::new();
    let session = &ids(1)[0];
    world.say(session, "hello").await;
    let fleet = world.launch(FleetSettings::default(), 0);
    world.answered(session, 1).await;
    fleet.shutdown().await;
    let fleet = world.launch(FleetSettings::default(), 0);
    world.sys.clock.sleep(Duration::from_secs(60)).await;
    fleet.shutdown().await;
    assert_eq!(world.started.load(Ordering::Relaxed), 1);
}
