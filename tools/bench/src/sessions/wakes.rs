//! A message in a session that no process has in memory: how soon the first token of the answer
//! lasts, and what is read of the log for it.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use agent::{Agent, Home, Lease};
use anyhow::{Context as _, Result, ensure};
use log::{Freshness, Log};
use sessions::{Actions, Deed, Fleet, FleetSettings, Say, SessionId};
use wire::{Address, Offset, ReadFrom};

use super::{
    history::{self, AGENT},
    meter::Meter,
};
use crate::agent::{
    figures::{Figures, Samples},
    models::{Notes, Talker},
    place::{Place, path_of},
};

/// Words of an answer.
const WORDS: u32 = 5;
/// How long a supervisor that has gone through all sessions is watched before one is asked: one
/// that looks at sessions that rest would be caught.
const SETTLE: Duration = Duration::from_millis(200);
/// How long an agent idles before its session rests; short, so that a run does not take an hour.
const IDLE: Duration = Duration::from_millis(100);
/// The session that is old.
pub(super) const OLD: &str = "old";

/// The name of the figure that counts.
pub(super) fn first_token(messages: usize) -> String {
    format!("first token after a cold wake, {messages} messages")
}

pub(super) fn read_name(messages: usize) -> String {
    format!("bytes read for a cold wake, {messages} messages")
}

/// Asks a session of this age, each time in a log that was just opened.
pub(super) async fn measure(root: &Path, messages: usize, times: usize) -> Result<Figures> {
    let mut place = Place::open(root).await?;
    let session = make_old(&place, messages).await?;
    let mut tokens = Samples::default();
    let mut bytes = Vec::new();
    for number in 0..times {
        place = place.reopen().await?;
        let woken = wake(&place, &session, &format!("wake-{number}")).await?;
        tokens.push(woken.asked, woken.first);
        bytes.push(woken.bytes_read);
    }
    place.close().await;
    bytes.sort_unstable();
    let mut figures = Figures::default();
    figures.latencies.push(tokens.latency(&first_token(messages), None)?);
    let median = bytes[bytes.len() / 2] as f64 / 1024.0;
    figures.amount(&read_name(messages), median, "KiB");
    Ok(figures)
}

/// Makes a session of this age that has rested once, as every session does after it was answered.
pub(super) async fn make_old(place: &Place, messages: usize) -> Result<SessionId> {
    let address = place.session(OLD).await?;
    let session = SessionId::of(&path_of(OLD)?).context("a session has an id")?;
    history::fill(place, &address, messages).await?;
    bring_to_rest(place, &session).await?;
    Ok(session)
}

/// Has a supervisor find that the session owes nothing, and note that.
pub(super) async fn bring_to_rest(place: &Place, session: &SessionId) -> Result<()> {
    let meter = Meter::new(place.log.clone(), session);
    let (_, fleet) = staff(place, &meter)?;
    meter.rested(&place.sys).await?;
    fleet.shutdown().await;
    Ok(())
}

struct Woken {
    asked: Instant,
    first: Instant,
    bytes_read: u64,
}

/// Starts what `headwater dev` starts, asks, and waits for the answer and the rest after it.
async fn wake(place: &Place, session: &SessionId, id: &str) -> Result<Woken> {
    let meter = Meter::new(place.log.clone(), session);
    let (actions, fleet) = staff(place, &meter)?;
    fleet.surveyed().await;
    tokio::time::sleep(SETTLE).await;
    let early = meter.bytes_read();
    ensure!(early == 0, "{early} bytes of a session that rests were read before it was asked");
    let address = Address::from(session.path().clone());
    let tail = place.log.head(&address).await?.tail;
    let asked = Instant::now();
    actions.act(session, "ada", Deed::Say(Say::named(id, "Hello?"))).await?;
    let first = until(place, &address, tail, is_chunk).await?;
    let bytes_read = meter.bytes_read();
    ensure!(bytes_read > 0, "a cold session cannot be answered without reading it");
    until(place, &address, tail, is_end).await?;
    meter.rested(&place.sys).await?;
    fleet.shutdown().await;
    Ok(Woken { asked, first, bytes_read })
}

/// Actions and a supervisor of their own, that share nothing with any before them.
fn staff(place: &Place, meter: &Arc<Meter>) -> Result<(Actions, Fleet)> {
    let log: Arc<dyn Log> = meter.clone();
    let actions = Actions::for_agent(&place.sys, log.clone(), AGENT);
    let (sys, sessions) = (place.sys.clone(), actions.sessions().clone());
    let start = move |session: SessionId, lease: Lease| {
        let model = Talker::new(WORDS, None, Notes::default());
        let agent = Agent::builder(AGENT).model(Arc::new(model)).lease(lease);
        let agent = agent.session(log.clone(), session.path().clone()).sessions(&sessions);
        let sys = sys.clone();
        async move { agent.start(&sys).await }
    };
    let fleet = launch(place, &actions, IDLE, start)?;
    Ok((actions, fleet))
}

/// The supervisor of the sessions of these actions.
pub(super) fn launch<F>(
    place: &Place,
    actions: &Actions,
    idle_max: Duration,
    start: impl Fn(SessionId, Lease) -> F + Send + Sync + 'static,
) -> Result<Fleet>
where
    F: Future<Output = Result<agent::RunningAgent, agent::AgentError>> + Send + 'static,
{
    // As `headwater dev` does: no other process has this log open.
    let home = Some(Home::draw(&place.sys.chance));
    let settings = FleetSettings { home, idle_max, ..FleetSettings::default() };
    Ok(Fleet::launch(&place.sys, actions.sessions(), AGENT, settings, start)?)
}

/// Waits until a message of the stream is such, and tells when that was.
async fn until(
    place: &Place,
    address: &Address,
    mut from: Offset,
    is_such: fn(&[u8]) -> bool,
) -> Result<Instant> {
    loop {
        let chunk = place.log.read(address, ReadFrom::At(from), 1 << 20).await?;
        if chunk.messages().any(is_such) {
            return Ok(Instant::now());
        }
        from = chunk.next;
        if chunk.freshness != Freshness::Behind {
            place.log.tail(address, from).await?;
        }
    }
}

fn is_chunk(message: &[u8]) -> bool {
    message.starts_with(br#"{"type":"chunk""#)
}

/// Whether an event ends a generation that has said all.
pub(super) fn is_end(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message);
    text.starts_with(r#"{"type":"generation""#) && text.contains(r#""status":"completed""#)
}
