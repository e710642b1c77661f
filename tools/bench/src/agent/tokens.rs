//! From a model's mouth to somebody else's eye: each token is on the disk before a second client
//! sees it over HTTP.

use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use agent::{
    Agent, Flush,
    rows::{Chunk, ChunkType},
};
use anyhow::{Result, anyhow, ensure};
use client::{Client, Live, OffsetToken};
use log::Append;
use serde::Deserialize;
use sys::Sys;
use tokio::{runtime::Builder, sync::oneshot, time::MissedTickBehavior};
use wire::{Address, Messages};

use super::{
    figures::{Figures, Samples},
    models::{Notes, Talker, word},
    place::{Bytes, Place, path_of},
};

pub(super) const ADAPTIVE: &str = "token to a reader, adaptive";
const ECONOMY: &str = "token to a reader, economy";
const FLOOR: &str = "floor: bare append to the reader";
/// A hundred tokens a second.
const PACE: Duration = Duration::from_millis(10);
const AGENT: &str = "assistant";

pub(super) async fn measure(root: &Path, tokens: u32) -> Result<Figures> {
    let mut figures = Figures::default();
    let each = f64::from(tokens);
    for (name, flush) in [(ADAPTIVE, Flush::Adaptive), (ECONOMY, Flush::Economy)] {
        let (samples, bytes) = generate(root, tokens, flush).await?;
        figures.latencies.push(samples.latency(name, Some(FLOOR))?);
        let how = name.rsplit(' ').next().unwrap_or(name);
        let chunks = bytes.chunks as f64 / each;
        figures.amount(&format!("log for a token, chunk rows, {how}"), chunks, "B");
        let others = bytes.others as f64 / each;
        figures.amount(&format!("log for a token, other rows, {how}"), others, "B");
    }
    figures.latencies.push(append(root, tokens).await?.latency(FLOOR, None)?);
    Ok(figures)
}

/// An agent says so many tokens.
async fn generate(root: &Path, tokens: u32, flush: Flush) -> Result<(Samples, Bytes)> {
    let place = Place::open(root).await?;
    let address = place.session("tokens").await?;
    let served = place.serve().await?;
    let said = Notes::default();
    let model = Talker::new(tokens, Some(PACE), said.clone());
    let agent = Agent::builder(AGENT).model(Arc::new(model)).flush(flush);
    let agent = agent.session(Arc::clone(&place.log), address.clone()).start(&place.sys).await?;
    agent.idle().await?;
    let reader = Reader::start(&served.url, "tokens", tokens).await?;
    place.insert(&address, &[place.question("m1", AGENT)]).await?;
    let samples = reader.compare(&said)?;
    agent.idle().await?;
    agent.stop().await?;
    let (bytes, completed) = place.weigh(&address).await?;
    ensure!(completed == 1, "the generation has not completed");
    served.stop().await?;
    place.close().await;
    Ok((samples, bytes))
}

/// The same rows, appended by nobody in particular.
async fn append(root: &Path, tokens: u32) -> Result<Samples> {
    let place = Place::open(root).await?;
    let address = place.session("tokens").await?;
    let served = place.serve().await?;
    let reader = Reader::start(&served.url, "tokens", tokens).await?;
    let said = Notes::default();
    let (place, notes) = (Arc::new(place), said.clone());
    let writer = tokio::spawn(write(Arc::clone(&place), address, tokens, notes));
    let samples = reader.compare(&said)?;
    writer.await??;
    served.stop().await?;
    if let Some(place) = Arc::into_inner(place) {
        place.close().await;
    }
    Ok(samples)
}

async fn write(place: Arc<Place>, address: Address, tokens: u32, said: Notes<u32>) -> Result<()> {
    let mut clock = tokio::time::interval(PACE);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..tokens {
        let messages = place.transaction(&[chunk(number)])?;
        clock.tick().await;
        said.note(number);
        let _ = place.log.append(&address, Append::messages(messages)).await?;
    }
    Ok(())
}

fn chunk(number: u32) -> Chunk {
    Chunk {
        id: Chunk::id_of("assistant-0", number.into()),
        generation_id: "assistant-0".to_owned(),
        message_id: Some("assistant-0:1".to_owned()),
        index: number.into(),
        kind: ChunkType::Text,
        content: word(number),
        call_id: None,
        is_final: false,
    }
}

/// A second client, on a thread of its own.
struct Reader(thread::JoinHandle<Result<Vec<Instant>>>);

/// The part of an event that tells a piece of text.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    value: Option<serde_json::Value>,
}

impl Reader {
    /// Comes back when it reads.
    async fn start(url: &str, name: &str, tokens: u32) -> Result<Self> {
        let (url, name) = (url.to_owned(), name.to_owned());
        let (ready, is_ready) = oneshot::channel();
        let work = move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(read(&url, &name, tokens, ready))
        };
        let reader = Self(thread::spawn(work));
        match is_ready.await {
            Ok(()) => Ok(reader),
            Err(_) => Err(reader.seen().err().unwrap_or_else(|| anyhow!("nothing was read"))),
        }
    }

    fn seen(self) -> Result<Vec<Instant>> {
        self.0.join().map_err(|_| anyhow!("the reader has panicked"))?
    }

    /// Waits until all was read; how long after it was said.
    fn compare(self, said: &Notes<u32>) -> Result<Samples> {
        let seen = tokio::task::block_in_place(|| self.seen())?;
        let said = said.take();
        ensure!(said.len() == seen.len(), "{} were said, {} seen", said.len(), seen.len());
        let mut samples = Samples::default();
        said.iter().zip(seen).for_each(|((_, said), seen)| samples.push(*said, seen));
        Ok(samples)
    }
}

async fn read(
    url: &str,
    name: &str,
    tokens: u32,
    ready: oneshot::Sender<()>,
) -> Result<Vec<Instant>> {
    let client = Client::connect(&Sys::real(), client::Settings::new(url)?).await?;
    let mut reader = client.stream(&path_of(name)?).reader(OffsetToken::start(), Live::Sse);
    let (mut seen, mut ready) = (Vec::new(), Some(ready));
    while let Some(batch) = reader.next().await? {
        // The first may only say that there is nothing yet.
        let messages = if batch.data.is_empty() { Messages::none() } else { batch.values()? };
        for message in messages.iter() {
            for said in words(message)? {
                let number = u32::try_from(seen.len())?;
                ensure!(said == word(number).trim_end(), "{said:?} was seen in place {number}");
                seen.push(Instant::now());
            }
        }
        if let Some(ready) = ready.take() {
            let _ = ready.send(());
        }
        if seen.len() >= tokens as usize {
            break;
        }
    }
    Ok(seen)
}

/// The words of a chunk of text.
fn words(message: &[u8]) -> Result<Vec<String>> {
    let event: Event = serde_json::from_slice(message)?;
    let Some(value) = event.value.filter(|_| event.kind == "chunk") else { return Ok(Vec::new()) };
    let chunk: Chunk = serde_json::from_value(value)?;
    let is_text = chunk.kind == ChunkType::Text;
    let words = chunk.content.split_whitespace().filter(|_| is_text);
    Ok(words.map(str::to_owned).collect())
}
