//! Executors that were taken for dead, and write all the same.

use std::{sync::Arc, time::Duration};

use agent::{
    ToolExecutor,
    rows::{self, CallStatus, Claim, ToolCall},
};
use chat::{Effect, Tool};
use live::StreamDb;
use log::Log;
use serde_json::json;

use crate::{
    cut::Cut,
    support::{Said, World, call, ended, simulate, simulate_with, tool, until},
};

const SEEDS: u64 = 16;

fn work(said: &Said, effect: Effect, world: &World) -> Tool {
    let sys = world.sys.clone();
    tool("work", said, effect, move |_, context| {
        let (sys, ms) = (sys.clone(), sys.chance.below(3_000));
        async move {
            sys.clock.sleep(Duration::from_millis(ms)).await;
            Ok(json!(context.attempt()))
        }
    })
}

fn start(db: &StreamDb, tool: Tool) -> ToolExecutor {
    let (calls, claims) = (db.rows::<ToolCall>().unwrap(), db.rows::<Claim>().unwrap());
    ToolExecutor::builder(calls).claims(claims).tool(tool).start().unwrap()
}

/// A process whose network is gone after so many appends.
async fn far(world: &World, appends: usize) -> (Arc<Cut>, StreamDb) {
    let cut = Cut::after(appends, &world.log);
    let log: Arc<dyn Log> = cut.clone();
    let builder = StreamDb::builder(log, world.stream.clone(), &world.sys);
    let db = rows::session(builder).open().unwrap();
    db.ready().await.unwrap();
    (cut, db)
}

async fn claimed(db: &StreamDb) {
    let claims = db.rows::<Claim>().unwrap();
    let mut changes = claims.changes().unwrap();
    while claims.is_empty() {
        changes.next().await;
    }
}

#[test]
fn a_completed_call_stays_completed_when_an_executor_of_before_says_that_it_begins() {
    simulate(|world| async move {
        let said = Said::default();
        // It gets its claim through, and nothing more.
        let (cut, there) = far(&world, 1).await;
        let zombie = start(&there, work(&said, Effect::Once, &world));
        let here = world.open().await;
        let calls = here.rows::<ToolCall>().unwrap();
        calls.insert(call("a", "work", json!({}))).unwrap().settled().await.unwrap();
        claimed(&here).await;
        let executor = start(&here, work(&said, Effect::Once, &world));
        let row = ended(&calls, "a").await;
        assert_eq!((row.status, row.attempt), (CallStatus::Completed, 2));

        cut.mend();
        world.rest(200_000).await;
        assert_eq!(*calls.get("a").unwrap(), row, "what has ended stays ended");
        assert_eq!((here.late_writes(), said.lock().len()), (1, 1));
        // So it is for everybody who reads the stream, also after it was compacted.
        for _ in 0..2 {
            let fresh = world.open().await;
            assert_eq!(*fresh.rows::<ToolCall>().unwrap().get("a").unwrap(), row);
            let compaction = live::compact(&world.log, world.stream.clone(), &world.sys);
            let _ = rows::compaction(compaction).run().await.unwrap();
        }
        zombie.dispose().await;
        executor.dispose().await;
    });
}

#[test]
fn a_claim_that_has_lapsed_before_it_came_through_begins_nothing() {
    simulate(|world| async move {
        let said = Said::default();
        let (cut, there) = far(&world, 0).await;
        let zombie = start(&there, work(&said, Effect::Once, &world));
        let calls = world.open().await.rows::<ToolCall>().unwrap();
        calls.insert(call("a", "work", json!({}))).unwrap().settled().await.unwrap();
        world.rest(100_000).await;
        cut.mend();
        // It is claimed anew once that is seen.
        assert_eq!(ended(&calls, "a").await.attempt, 2);
        let chunk = world.log.read(&world.stream, wire::ReadFrom::Start, 1 << 20).await.unwrap();
        let said_so = |message: &[u8]| {
            let message = String::from_utf8_lossy(message).into_owned();
            message.contains(r#""status":"executing""#) && message.contains(r#""attempt":1"#)
        };
        assert!(!chunk.messages().any(said_so), "nobody said that the first one begins");
        assert_eq!(said.lock().len(), 1);
        zombie.dispose().await;
    });
}

/// One executor loses its network somewhere, and has it again sometime.
async fn somebody_rises(world: World) {
    let chance = &world.sys.chance;
    let effect = if chance.below(2) == 0 { Effect::Once } else { Effect::Pure };
    let said = Said::default();
    let appends = usize::try_from(chance.below(5)).unwrap();
    let (cut, there) = far(&world, appends).await;
    let zombie = start(&there, work(&said, effect, &world));
    let here = world.open().await;
    let executor = start(&here, work(&said, effect, &world));
    let calls = here.rows::<ToolCall>().unwrap();
    let ids = ["a", "b", "c"];
    for id in ids {
        let row = ToolCall { effect: rows::Effect::from(effect), ..call(id, "work", json!({})) };
        calls.insert(row).unwrap().settled().await.unwrap();
    }
    let (mut changes, mut over) = (calls.changes().unwrap(), Vec::<ToolCall>::new());
    let mended = world.sys.clock.elapsed() + Duration::from_secs(chance.below(200));
    let until = mended + Duration::from_secs(600);
    while world.sys.clock.elapsed() < until {
        if world.sys.clock.elapsed() >= mended {
            cut.mend();
        }
        let _ = world.sys.clock.timeout(Duration::from_secs(1), changes.next()).await;
        for row in calls.rows().iter().filter(|row| row.is_synced()) {
            match over.iter().find(|ended| ended.id == row.id) {
                Some(ended) => assert_eq!(*ended, **row, "an end is for ever"),
                None if row.status.is_terminal() => over.push((**row).clone()),
                None => {}
            }
        }
    }
    for id in ids {
        let row = calls.get(id).unwrap();
        let ran = said.lock().iter().filter(|word| **word == format!("work {id}")).count();
        match effect {
            Effect::Once => {
                assert!(ran <= 1, "{id} ran {ran} times");
                let settled = [CallStatus::Completed, CallStatus::Parked];
                assert!(settled.contains(&row.status), "{row:?}");
            }
            _ => assert!(row.status == CallStatus::Completed && ran >= 1, "{row:?}"),
        }
    }
    let fresh = world.open().await;
    let (seen, known) = (fresh.rows::<ToolCall>().unwrap().rows(), calls.rows());
    assert_eq!(seen.len(), known.len());
    assert!(seen.iter().zip(&known).all(|(seen, known)| **seen == **known));
    drop((zombie, executor));
}

#[test]
fn whoever_rises_from_the_dead_undoes_nothing() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        simulate_with(seed, somebody_rises);
    }
}

#[test]
fn an_answer_to_a_parked_call_that_comes_after_all_is_its_answer() {
    simulate(|world| async move {
        let said = Said::default();
        let (cut, there) = far(&world, 2).await;
        let zombie = start(&there, work(&said, Effect::Once, &world));
        let here = world.open().await;
        let calls = here.rows::<ToolCall>().unwrap();
        calls.insert(call("a", "work", json!({}))).unwrap().settled().await.unwrap();
        until(&calls, "a", CallStatus::Executing).await;
        let executor = start(&here, work(&said, Effect::Once, &world));
        until(&calls, "a", CallStatus::Parked).await;
        cut.mend();
        let row = ended(&calls, "a").await;
        assert_eq!((row.status, row.attempt), (CallStatus::Completed, 1));
        assert_eq!(said.lock().len(), 1);
        drop((zombie, executor));
    });
}
