//! What a finished session keeps once it rests, and what erasing a small one costs in a large log.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use agent::{Agent, Lease};
use anyhow::Result;
use log::{Append, Delete};
use sessions::{Actions, Deed, Say, SessionId, caps::AGENT_IDLE_DEFAULT};
use wire::{Address, Messages, ReadFrom};

use super::{history::AGENT, wakes::launch};
use crate::{
    agent::{
        figures::Figures,
        models::{Notes, Talker},
        place::Place,
    },
    process::Process,
};

/// Questions of the session, and words of each answer.
const QUESTIONS: usize = 10;
const WORDS: u32 = 200;
/// How long the session may take to rest.
const REST_MAX: Duration = Duration::from_secs(90);
/// Streams of the large log, and the bytes of each.
const LARGE_STREAMS: usize = 512;
const LARGE_BYTES: usize = 2 * 1024 * 1024;
/// How long nothing must have been written for what an erase sets off to be over.
const QUIET: Duration = Duration::from_secs(5);

/// The share of its bytes that a finished session keeps.
pub(super) const SHARE_KEPT: &str = "a finished session: share kept";
/// What erasing a small stream writes.
pub(super) const ERASE_WRITTEN: &str = "erasing one message after a restart: written for it";

pub(super) async fn measure(root: &Path) -> Result<Figures> {
    let mut figures = Figures::default();
    compaction(root, &mut figures).await?;
    erase(root, &mut figures).await?;
    Ok(figures)
}

async fn compaction(root: &Path, figures: &mut Figures) -> Result<()> {
    let place = Place::open(root).await?;
    let actions = Actions::for_agent(&place.sys, place.log.clone(), AGENT);
    let session: SessionId = "finished".parse()?;
    let _ = actions.create(&session).await?;
    let (sys, log, shared) = (place.sys.clone(), place.log.clone(), actions.sessions().clone());
    let start = move |session: SessionId, lease: Lease| {
        let model = Talker::new(WORDS, Some(Duration::from_millis(2)), Notes::default());
        let agent = Agent::builder(AGENT).model(Arc::new(model)).lease(lease);
        let agent = agent.session(log.clone(), session.path().clone()).sessions(&shared);
        let sys = sys.clone();
        async move { agent.start(&sys).await }
    };
    let fleet = launch(&place, &actions, AGENT_IDLE_DEFAULT, start)?;
    let address = Address::from(session.path().clone());
    for number in 0..QUESTIONS {
        let say = Say::named(format!("q{number}"), "Well?");
        actions.act(&session, "ada", Deed::Say(say)).await?;
        while place.weigh(&address).await?.1 <= number {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let written = place.log.head(&address).await?.tail.byte.get();
    let began = Instant::now();
    let kept = loop {
        let head = place.log.head(&address).await?;
        if head.earliest.position.get() > 0 || began.elapsed() > REST_MAX {
            break head.tail.byte.get() - head.earliest.byte.get();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    fleet.shutdown().await;
    place.close().await;
    let name = format!("a finished session of {QUESTIONS} answers");
    figures.amount(&format!("{name}: written"), written as f64 / 1024.0, "KiB");
    figures.amount(&format!("{name}: kept"), kept as f64 / 1024.0, "KiB");
    figures.amount(SHARE_KEPT, kept as f64 / written as f64, "");
    Ok(())
}

/// Erases one small stream of a large log that was just opened again.
async fn erase(root: &Path, figures: &mut Figures) -> Result<()> {
    let place = Place::open(root).await?;
    let block = Messages::one(vec![b'x'; LARGE_BYTES])?;
    for number in 0..LARGE_STREAMS {
        let path: wire::StreamPath = format!("large/{number}").parse()?;
        let address = Address::from(path);
        let _ = place.log.create(&address, log::Create::default()).await?;
        let _ = place.log.append(&address, Append::messages(block.clone())).await?;
    }
    let small = place.session("small").await?;
    place.insert(&small, &[place.question("m", AGENT)]).await?;
    let place = place.reopen().await?;
    let before = Process::current().written_bytes()?;
    let began = Instant::now();
    place.log.delete(&small, Delete::Erase).await?;
    let seconds = began.elapsed().as_secs_f64();
    let written = written_once_quiet().await? - before;
    let large: Address = "large/0".parse::<wire::StreamPath>()?.into();
    place.log.read(&large, ReadFrom::Start, 1).await?;
    place.close().await;
    let gib = (LARGE_STREAMS * LARGE_BYTES) as f64 / (1 << 30) as f64;
    figures.amount(&format!("erasing one message in a log of {gib:.1} GiB"), seconds * 1e3, "ms");
    figures.amount(ERASE_WRITTEN, written as f64 / 1024.0, "KiB");
    Ok(())
}

/// What this process has written, once what goes on behind an erase is over.
async fn written_once_quiet() -> Result<u64> {
    let mut before = Process::current().written_bytes()?;
    loop {
        tokio::time::sleep(QUIET).await;
        let now = Process::current().written_bytes()?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}
