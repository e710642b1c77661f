//! A message in a session that no process has open: how soon it lasts, how soon the first token of
//! the answer lasts, and what is read of the log for it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use agent::{Agent, Home, Lease};
use anyhow::{Context as _, Result};
use log::{Answer, Chunk, Freshness, Layer, Log, ReadError};
use sessions::{Actions, Deed, Fleet, FleetSettings, Say, SessionId};
use wire::{Address, ReadFrom};

use super::history::{self, AGENT};
use crate::agent::{
    figures::{Figures, Samples},
    models::{Notes, Talker},
    place::Place,
};

/// Words of an answer.
const WORDS: u32 = 5;
/// How long a process runs before a session is asked, so that it has seen that nothing is open.
const SETTLE: Duration = Duration::from_millis(200);

/// The name of the figure that counts.
pub(super) fn first_token(messages: usize) -> String {
    format!("first token after a cold wake, {messages} messages")
}

/// Asks a session of this age, each time in a log that was just opened.
pub(super) async fn measure(root: &Path, messages: usize, times: usize) -> Result<Figures> {
    let mut place = Place::open(root).await?;
    let address = place.session("old").await?;
    let session = SessionId::of(address.stream().context("a session is a stream")?);
    let session = session.context("a session has an id")?;
    history::fill(&place, &address, messages).await?;
    // It has rested once, as every session does after it was answered.
    wake(&place, &session, "first").await?;
    let (mut posts, mut tokens) = (Samples::default(), Samples::default());
    let mut bytes = Vec::new();
    for number in 0..times {
        place = place.reopen().await?;
        let woken = wake(&place, &session, &format!("wake-{number}")).await?;
        posts.push(woken.asked, woken.posted);
        tokens.push(woken.asked, woken.first);
        bytes.push(woken.bytes_read);
    }
    place.close().await;
    bytes.sort_unstable();
    let mut figures = Figures::default();
    figures.latencies.push(tokens.latency(&first_token(messages), None)?);
    let post = format!("POST of a message to a cold session, {messages} messages");
    figures.latencies.push(posts.latency(&post, None)?);
    let read = format!("bytes read for a cold wake, {messages} messages");
    figures.amount(&read, bytes[bytes.len() / 2] as f64 / 1024.0, "KiB");
    Ok(figures)
}

struct Woken {
    asked: Instant,
    posted: Instant,
    first: Instant,
    bytes_read: u64,
}

/// Starts what `headwater dev` starts, asks, and waits for the answer and the rest after it.
async fn wake(place: &Place, session: &SessionId, id: &str) -> Result<Woken> {
    let counted = Arc::new(Counted { inner: place.log.clone(), bytes: AtomicU64::new(0) });
    let log: Arc<dyn Log> = counted.clone();
    let actions = Actions::for_agent(&place.sys, log.clone(), AGENT);
    let (sys, sessions) = (place.sys.clone(), actions.sessions().clone());
    let start = move |session: SessionId, lease: Lease| {
        let model = Talker::new(WORDS, None, Notes::default());
        let agent = Agent::builder(AGENT).model(Arc::new(model)).lease(lease);
        let agent = agent.session(log.clone(), session.path().clone()).sessions(&sessions);
        let sys = sys.clone();
        async move { agent.start(&sys).await }
    };
    let fleet = launch(place, &actions, start)?;
    tokio::time::sleep(SETTLE).await;
    counted.bytes.store(0, Ordering::Relaxed);
    let address = Address::from(session.path().clone());
    let tail = place.log.head(&address).await?.tail;
    let asked = Instant::now();
    actions.act(session, "ada", Deed::Say(Say::named(id, "Hello?"))).await?;
    let posted = Instant::now();
    let first = until(place, &address, tail, is_chunk).await?;
    let bytes_read = counted.bytes.load(Ordering::Relaxed);
    until(place, &address, tail, is_end).await?;
    fleet.shutdown().await;
    Ok(Woken { asked, posted, first, bytes_read })
}

/// The supervisor of the sessions of these actions.
pub(super) fn launch<F>(
    place: &Place,
    actions: &Actions,
    start: impl Fn(SessionId, Lease) -> F + Send + Sync + 'static,
) -> Result<Fleet>
where
    F: Future<Output = Result<agent::RunningAgent, agent::AgentError>> + Send + 'static,
{
    // As `headwater dev` does: no other process has this log open.
    let home = Some(Home::draw(&place.sys.chance));
    let settings = FleetSettings { home, ..FleetSettings::default() };
    Ok(Fleet::launch(&place.sys, actions.sessions(), AGENT, settings, start)?)
}

/// Waits until a message of the stream is such, and tells when that was.
async fn until(
    place: &Place,
    address: &Address,
    mut from: wire::Offset,
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

fn is_end(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message);
    text.starts_with(r#"{"type":"generation""#) && text.contains(r#""status":"completed""#)
}

/// A log that counts the bytes that are read from it.
#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Log>,
    bytes: AtomicU64,
}

impl Layer for Counted {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async move {
            let chunk = self.inner.read(address, from, bytes_max).await?;
            let bytes: usize = chunk.runs.iter().map(|run| run.data().len()).sum();
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            Ok(chunk)
        })
    }
}
