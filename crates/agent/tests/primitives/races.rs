//! Several executors and several generators over one stream: everything is done once.

use std::collections::BTreeMap;

use agent::{
    Generator, ToolExecutor,
    rows::{CallStatus, Claim, Generation, GenerationStatus, ToolCall},
};
use chat::Effect;
use live::from;
use serde_json::json;

use crate::support::{Said, World, call, ended, generation, simulate_with, tool};

const SEEDS: u64 = 12;
const EXECUTORS: usize = 3;
const CALLS: usize = 12;

fn counted(said: &Said) -> BTreeMap<String, usize> {
    said.lock().iter().fold(BTreeMap::new(), |mut counts, word| {
        *counts.entry(word.clone()).or_default() += 1;
        counts
    })
}

async fn executors_race(world: World) {
    let said = Said::default();
    let mut executors = Vec::new();
    for _ in 0..EXECUTORS {
        let db = world.open().await;
        let sys = world.sys.clone();
        let work = tool("work", &said, Effect::Once, move |_, _| {
            let (sys, ms) = (sys.clone(), sys.chance.below(3_000));
            async move {
                sys.clock.sleep(std::time::Duration::from_millis(ms)).await;
                Ok(json!("done"))
            }
        });
        let builder = ToolExecutor::builder(db.rows::<ToolCall>().unwrap())
            .claims(db.rows::<Claim>().unwrap())
            .concurrency(1 + usize::try_from(world.sys.chance.below(4)).unwrap())
            .tool(work);
        executors.push((db, builder.start().unwrap()));
    }
    let db = world.open().await;
    let calls = db.rows::<ToolCall>().unwrap();
    for n in 0..CALLS {
        let _ = calls.insert(call(&format!("c{n}"), "work", json!({}))).unwrap();
        world.rest(world.sys.chance.below(500)).await;
        // Now and then one of them goes, and what it is at comes to its end.
        if world.sys.chance.below(6) == 0 && executors.len() > 1 {
            drop(executors.pop());
        }
    }
    for n in 0..CALLS {
        let row = ended(&calls, &format!("c{n}")).await;
        assert_eq!((row.status, row.attempt), (CallStatus::Completed, 1), "{row:?}");
    }
    let once: BTreeMap<_, _> = (0..CALLS).map(|n| (format!("work c{n}"), 1)).collect();
    assert_eq!(counted(&said), once);
}

#[test]
fn each_call_runs_once_however_many_executors_race_for_it() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        simulate_with(seed, executors_race);
    }
}

async fn generators_race(world: World) {
    let said = Said::default();
    let mut generators = Vec::new();
    for _ in 0..EXECUTORS {
        let db = world.open().await;
        let (said, sys) = (said.clone(), world.sys.clone());
        let generator = Generator::builder(
            db.rows::<Generation>().unwrap(),
            from::<Generation>(),
            move |row: Generation, _| {
                said.lock().push(row.id);
                let (sys, ms) = (sys.clone(), sys.chance.below(2_000));
                async move {
                    sys.clock.sleep(std::time::Duration::from_millis(ms)).await;
                    Ok(())
                }
            },
        );
        let generator = generator.claims(db.rows::<Claim>().unwrap()).start().unwrap();
        generators.push((db, generator));
    }
    let db = world.open().await;
    let rows = db.rows::<Generation>().unwrap();
    for n in 0..CALLS {
        let _ = rows.insert(generation(&format!("g{n}"), GenerationStatus::Pending)).unwrap();
        world.rest(world.sys.chance.below(300)).await;
    }
    let mut changes = rows.changes().unwrap();
    while rows.rows().iter().any(|row| row.status != GenerationStatus::Completed) {
        changes.next().await;
    }
    let once: BTreeMap<_, _> = (0..CALLS).map(|n| (format!("g{n}"), 1)).collect();
    assert_eq!(counted(&said), once);
}

#[test]
fn each_generation_runs_once_however_many_generators_race_for_it() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        simulate_with(seed, generators_race);
    }
}
