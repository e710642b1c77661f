//! Many sessions asked at once, by a model that takes a second.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use agent::{
    Agent, Lease,
    rows::{Generation, GenerationStatus},
};
use anyhow::Result;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use live::StreamDb;
use sessions::{Actions, Deed, Say, SessionId, caps::AGENT_IDLE_DEFAULT};

use super::{history::AGENT, wakes::launch};
use crate::agent::{
    figures::Figures,
    models::{Notes, Talker},
    place::Place,
};

/// An answer takes a second: the first word comes at once, each other one after a pause.
const WORDS: u32 = 11;
const PACE: Duration = Duration::from_millis(100);
pub(super) const ANSWER_SECONDS: f64 = 1.0;
/// Requests under way at a time.
const CLIENTS: usize = 64;

pub(super) fn all_answered(count: usize) -> String {
    format!("{count} sessions asked at once: all answered")
}

/// From the first question until the last session is answered.
pub(super) async fn measure(root: &Path, count: usize) -> Result<Figures> {
    let place = Place::open(root).await?;
    let actions = Actions::for_agent(&place.sys, place.log.clone(), AGENT);
    let sessions: Vec<SessionId> =
        (0..count).map(|number| format!("asked-{number}").parse()).collect::<Result<_, _>>()?;
    for session in &sessions {
        let _ = actions.create(session).await?;
    }
    let (sys, log, shared) = (place.sys.clone(), place.log.clone(), actions.sessions().clone());
    let start = move |session: SessionId, lease: Lease| {
        let model = Talker::new(WORDS, Some(PACE), Notes::default());
        let agent = Agent::builder(AGENT).model(Arc::new(model)).lease(lease);
        let agent = agent.session(log.clone(), session.path().clone()).sessions(&shared);
        let sys = sys.clone();
        async move { agent.start(&sys).await }
    };
    let fleet = launch(&place, &actions, AGENT_IDLE_DEFAULT, start)?;
    fleet.surveyed().await;
    let began = Instant::now();
    stream::iter(&sessions)
        .map(|session| actions.act(session, "ada", Deed::Say(Say::named("q", "Well?"))))
        .buffer_unordered(CLIENTS)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let posted = began.elapsed().as_secs_f64();
    for session in &sessions {
        answered(&place, session).await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    fleet.shutdown().await;
    place.close().await;
    let mut figures = Figures::default();
    figures.amount(&format!("{count} sessions asked at once: all asked"), posted, "s");
    figures.amount(&all_answered(count), seconds, "s");
    Ok(figures)
}

async fn answered(place: &Place, session: &SessionId) -> Result<()> {
    let db = StreamDb::builder(place.log.clone(), session.path().clone(), &place.sys);
    let db = db.with::<Generation>().open()?;
    let generations = db.rows::<Generation>()?;
    let mut changes = generations.changes()?;
    loop {
        let ended = generations.rows().iter().map(|row| row.status).find(|it| it.is_terminal());
        match ended {
            Some(GenerationStatus::Completed) => return Ok(()),
            Some(other) => return Err(anyhow::anyhow!("{session} ended as {other:?}")),
            None => _ = changes.next().await,
        }
    }
}
