//! What it costs to write a step down before the next one is taken.

use std::{path::Path, sync::Arc, time::Instant};

use agent::{Agent, RunningAgent};
use anyhow::{Result, ensure};
use chat::{Effect, Strategy, Tool, ToolContext};
use log::Append;
use serde_json::Value;
use wire::Address;

use super::{
    figures::{Figures, Samples},
    models::{Caller, Moment, Notes, TOOL},
    place::Place,
};

pub(super) const TO_TOOL: &str = "step: end of the model to the tool";
pub(super) const TO_MODEL: &str = "step: end of the tool to the model";
pub(super) const FIRST: &str = "both, the first 1,000";
pub(super) const LAST: &str = "both, the last 1,000";
pub(super) const FLOOR: &str = "floor: one append";
/// Turns of one generation.
const TURNS: u32 = 1_000;
/// Steps at either end that are compared.
const ENDS: usize = 1_000;
const AGENT: &str = "assistant";

/// So many generations, in one session.
pub(super) async fn measure(root: &Path, generations: u32) -> Result<Figures> {
    let place = Arc::new(Place::open(root).await?);
    let address = place.session("steps").await?;
    let floor_address = place.session("floor").await?;
    let notes = Notes::default();
    let agent = Agent::builder(AGENT)
        .model(Arc::new(Caller::new(TURNS, notes.clone())))
        .tool(noop(notes.clone())?)
        .strategy(Strategy::TurnsMax(TURNS))
        .session(Arc::clone(&place.log), address.clone())
        .start(&place.sys)
        .await?;
    agent.idle().await?;
    let (mut to_tool, mut to_model) = (Samples::default(), Samples::default());
    let (mut both, mut floor) = (Samples::default(), Samples::default());
    for number in 0..generations {
        answered(&place, &address, &agent, number).await?;
        for pair in notes.take().windows(2) {
            let [(before, from), (after, to)] = [pair[0], pair[1]];
            let samples = match (before, after) {
                (Moment::ModelEnded, Moment::ToolBegun) => &mut to_tool,
                (Moment::ToolEnded, Moment::ModelAsked) => &mut to_model,
                _ => continue,
            };
            samples.push(from, to);
            both.push(from, to);
        }
        // Between generations, so that a machine that is busy for a while is so for both.
        let append = append(Arc::clone(&place), floor_address.clone(), floor);
        floor = tokio::spawn(append).await??;
    }
    agent.stop().await?;
    let (_, completed) = place.weigh(&address).await?;
    ensure!(completed == generations as usize, "{completed} of {generations} have completed");
    let mut figures = Figures::default();
    figures.latencies.push(to_tool.latency(TO_TOOL, Some(FLOOR))?);
    figures.latencies.push(to_model.latency(TO_MODEL, Some(FLOOR))?);
    figures.latencies.push(both.first(ENDS).latency(FIRST, Some(FLOOR))?);
    figures.latencies.push(both.last(ENDS).latency(LAST, Some(FLOOR))?);
    figures.latencies.push(floor.latency(FLOOR, None)?);
    if let Some(place) = Arc::into_inner(place) {
        place.close().await;
    }
    Ok(figures)
}

/// Asks, and waits for the answer. The answer must take its time.
pub(super) async fn answered(
    place: &Place,
    address: &Address,
    agent: &RunningAgent,
    number: u32,
) -> Result<()> {
    let question = place.question(&format!("m{number}"), AGENT);
    place.insert(address, &[question]).await?;
    agent.busy().await;
    Ok(agent.idle().await?)
}

fn noop(notes: Notes<Moment>) -> Result<Tool> {
    let tool = Tool::builder(TOOL, "Does nothing.").effect(Effect::Pure);
    Ok(tool.run(move |_: Value, _: ToolContext| {
        notes.note(Moment::ToolBegun);
        let notes = notes.clone();
        async move {
            notes.note(Moment::ToolEnded);
            Ok("Done.")
        }
    })?)
}

/// One append after the other, as many as a generation has turns.
async fn append(place: Arc<Place>, address: Address, mut samples: Samples) -> Result<Samples> {
    for _ in 0..TURNS {
        let id = format!("a{:x}", place.sys.chance.u64());
        let messages = place.transaction(&[place.question(&id, AGENT)])?;
        let began = Instant::now();
        let _ = place.log.append(&address, Append::messages(messages)).await?;
        samples.push(began, Instant::now());
    }
    Ok(samples)
}
