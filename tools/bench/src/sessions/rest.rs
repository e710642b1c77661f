//! What a finished session keeps once it rests, and what erasing a small one costs in a large log.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use agent::{Agent, Lease};
use anyhow::{Context as _, Result};
use log::{Append, Delete};
use sessions::{Actions, Deed, Say, SessionId};
use wire::{Address, Messages, ReadFrom};

use super::{history::AGENT, wakes::launch};
use crate::agent::{
    figures::Figures,
    models::{Notes, Talker},
    place::Place,
};

/// Questions of the session, and words of each answer.
const QUESTIONS: usize = 10;
const WORDS: u32 = 200;
/// How long the session may take to rest.
const REST_MAX: Duration = Duration::from_secs(90);
/// Streams of the large log, and the bytes of each.
const LARGE_STREAMS: usize = 256;
const LARGE_BYTES: usize = 2 * 1024 * 1024;

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
    let fleet = launch(&place, &actions, start)?;
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
    figures.amount(&format!("{name}: share kept"), kept as f64 / written as f64, "");
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
    let before = written_bytes()?;
    let began = Instant::now();
    place.log.delete(&small, Delete::Erase).await?;
    let seconds = began.elapsed().as_secs_f64();
    // What erasing sets off goes on behind it.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let large: Address = "large/0".parse::<wire::StreamPath>()?.into();
    place.log.read(&large, ReadFrom::Start, 1).await?;
    let written = written_bytes()? - before;
    place.close().await;
    let gib = (LARGE_STREAMS * LARGE_BYTES) as f64 / (1 << 30) as f64;
    let name = format!("erasing one message in a log of {gib:.1} GiB");
    figures.amount(&name, seconds * 1e3, "ms");
    figures.amount(&format!("{name}: written for it"), written as f64 / 1024.0, "KiB");
    Ok(())
}

fn written_bytes() -> Result<u64> {
    let io = fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    Ok(line.context("no wchar in /proc/self/io")?.trim().parse()?)
}
