//! Executors that die, and what others make of it.

use std::{sync::Arc, time::Duration};

use agent::{
    ToolExecutor, ToolExecutorBuilder,
    rows::{CallStatus, Claim, ToolCall},
};
use chat::{Effect, Tool};
use live::StreamDb;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Said, World, call, ended, simulate, tool, until};

fn builder(db: &StreamDb, tool: Tool) -> ToolExecutorBuilder<ToolCall> {
    let (calls, claims) = (db.rows::<ToolCall>().unwrap(), db.rows::<Claim>().unwrap());
    ToolExecutor::builder(calls).claims(claims).tool(tool)
}

/// What a dead executor leaves: its claim, and a row that says that it runs.
async fn die(world: &World, effect: agent::rows::Effect) -> StreamDb {
    let db = world.open().await;
    let row = ToolCall {
        status: CallStatus::Executing,
        attempt: 1,
        executor: Some("dead".into()),
        effect,
        ..call("a", "work", json!({}))
    };
    db.rows().unwrap().insert(row).unwrap().settled().await.unwrap();
    let claim = Claim {
        id: "a#1@dead".into(),
        of: "a".into(),
        attempt: 1,
        by: "dead".into(),
        until: "2001-09-09T01:47:00.000Z".into(),
        created_at: String::new(),
    };
    db.rows().unwrap().insert(claim).unwrap().settled().await.unwrap();
    db
}

fn work(said: &Said, effect: Effect) -> Tool {
    tool("work", said, effect, |_, context| async move { Ok(json!(context.attempt())) })
}

#[test]
fn what_a_dead_executor_was_at_is_done_again_under_the_same_key_once_its_lease_is_over() {
    simulate(|world| async move {
        let db = die(&world, agent::rows::Effect::Idempotent).await;
        let (said, calls) = (Said::default(), db.rows::<ToolCall>().unwrap());
        let began = world.sys.clock.elapsed();
        let executor = builder(&db, work(&said, Effect::Idempotent)).start().unwrap();
        let row = ended(&calls, "a").await;
        let waited = world.sys.clock.elapsed() - began;
        assert!(waited >= Duration::from_secs(20), "its lease was over after 20 s: {waited:?}");
        assert_eq!((row.attempt, row.result), (2, Some(json!("2"))));
        assert_eq!(*said.lock(), ["work a"]);
        executor.dispose().await;
    });
}

#[test]
fn what_must_not_happen_twice_is_parked() {
    simulate(|world| async move {
        let db = die(&world, agent::rows::Effect::Once).await;
        let (said, calls) = (Said::default(), db.rows::<ToolCall>().unwrap());
        let executor = builder(&db, work(&said, Effect::Once)).start().unwrap();
        let row = until(&calls, "a", CallStatus::Parked).await;
        assert_eq!(row.attempt, 1, "a decision is about the attempt that may have happened");
        assert!(row.error.unwrap().contains("it must not happen twice"));
        world.rest(600_000).await;
        assert_eq!(calls.get("a").unwrap().status, CallStatus::Parked);
        assert!(said.lock().is_empty());
        // A person says that it did not happen.
        let again = calls.update("a", |row| row.status = CallStatus::Pending).unwrap();
        again.settled().await.unwrap();
        let row = ended(&calls, "a").await;
        assert_eq!((row.status, said.lock().len()), (CallStatus::Completed, 1));
        assert!(row.attempt > 1);
        executor.dispose().await;
    });
}

#[test]
fn a_tool_that_takes_its_time_is_left_to_its_executor() {
    simulate(|world| async move {
        let (here, there) = (world.open().await, world.open().await);
        let said = Said::default();
        let gate = Arc::new(Notify::new());
        let waits = gate.clone();
        let slow = move || {
            let waits = waits.clone();
            tool("work", &said.clone(), Effect::Pure, move |_: Value, _| {
                let waits = waits.clone();
                async move {
                    waits.notified().await;
                    Ok(json!(1))
                }
            })
        };
        let one = builder(&here, slow()).start().unwrap();
        let two = builder(&there, slow()).start().unwrap();
        let calls = here.rows::<ToolCall>().unwrap();
        calls.insert(call("a", "work", json!({}))).unwrap().settled().await.unwrap();
        until(&calls, "a", CallStatus::Executing).await;
        world.rest(50_000).await;
        gate.notify_one();
        let row = ended(&calls, "a").await;
        assert_eq!((row.status, row.attempt), (CallStatus::Completed, 1));
        let claims = here.rows::<Claim>().unwrap();
        assert!(claims.rows().iter().all(|claim| claim.attempt == 1), "{:?}", claims.rows());
        one.dispose().await;
        two.dispose().await;
    });
}

#[test]
fn an_executor_without_claims_knows_its_own_calls_again() {
    simulate(|world| async move {
        let db = die(&world, agent::rows::Effect::Pure).await;
        let calls = db.rows::<ToolCall>().unwrap();
        let said = Said::default();
        let start = |name: &str| {
            ToolExecutor::builder(&calls).name(name).tool(work(&said, Effect::Pure)).start()
        };
        let other = start("alive").unwrap();
        world.rest(600_000).await;
        assert_eq!(calls.get("a").unwrap().status, CallStatus::Executing, "it is not its own");
        other.dispose().await;
        let again = start("dead").unwrap();
        let row = ended(&calls, "a").await;
        assert_eq!((row.attempt, row.result), (2, Some(json!("2"))));
        again.dispose().await;
    });
}

#[test]
fn claims_without_an_order_run_nothing() {
    simulate(|world| async move {
        let db = live::Db::new(&world.sys);
        let (calls, claims) = (db.local::<ToolCall>().unwrap(), db.local::<Claim>().unwrap());
        let said = Said::default();
        let executor = ToolExecutor::builder(&calls)
            .claims(&claims)
            .tool(work(&said, Effect::Pure))
            .start()
            .unwrap();
        let _ = calls.insert(call("a", "work", json!({}))).unwrap();
        world.rest(60_000).await;
        assert!(said.lock().is_empty(), "nobody can tell who was first");
        executor.dispose().await;
    });
}
