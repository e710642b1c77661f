//! Executors: what they run, what they leave, and what becomes of bad tools.

use std::{sync::Arc, time::Duration};

use agent::{
    LatePolicy, ToolExecutor,
    contract::GenerationRow as _,
    rows::{CallStatus, CancelledBy, Generation, GenerationStatus, Stop, ToolCall},
};
use chat::{Effect, Tool, agui::Content};
use live::Collection;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Said, World, call, double, ended, generation, simulate, stop, tool, until};

async fn insert(calls: &Collection<ToolCall>, row: ToolCall) {
    calls.insert(row).unwrap().settled().await.unwrap();
}

#[test]
fn calls_are_run_by_name_and_those_of_others_are_left() {
    simulate(|world| async move {
        let calls = world.open().await.rows::<ToolCall>().unwrap();
        let said = Said::default();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (first, second) = (heard.clone(), heard.clone());
        let executor = ToolExecutor::builder(&calls)
            .tool(double(&said))
            .key_prefix("life7/")
            .on_executing(move |row: ToolCall| {
                first.lock().push(format!("executing {}", row.id));
                async {}
            })
            .on_complete(move |row: ToolCall, answer: Content| {
                second.lock().push(format!("completed {} {answer:?}", row.id));
                async {}
            })
            .start()
            .unwrap();
        insert(&calls, call("a", "double", json!({"n": 1}))).await;
        insert(&calls, call("b", "other", json!({}))).await;
        let row = ended(&calls, "a").await;
        assert_eq!(row.result, Some(json!({"n": 2})));
        assert!(row.executor.is_some() && row.started_at.is_some() && row.completed_at.is_some());
        executor.dispose().await;
        assert_eq!(calls.get("b").unwrap().status, CallStatus::Pending);
        assert_eq!(*said.lock(), ["double life7/a"]);
        let completed = r#"completed a Text("{\"n\":2}")"#;
        assert_eq!(*heard.lock(), ["executing a", completed]);
    });
}

#[test]
fn rows_that_are_only_shown_run_nothing() {
    simulate(|world| async move {
        let calls = world.open().await.rows::<ToolCall>().unwrap();
        let said = Said::default();
        let executor = ToolExecutor::builder(&calls).tool(double(&said)).start().unwrap();
        let mut open = calls.db().begin();
        open.insert(call("a", "double", json!({"n": 1}))).unwrap();
        assert!(calls.get("a").is_some(), "it is shown");
        world.rest(1_000).await;
        assert!(said.lock().is_empty(), "but not confirmed");
        open.commit().unwrap().settled().await.unwrap();
        ended(&calls, "a").await;
        // An edit that has nothing to do with it wakes nobody.
        let _ = calls.update("a", |row| row.message_id = Some("m".into())).unwrap();
        world.rest(1_000).await;
        assert_eq!(said.lock().len(), 1);
        executor.dispose().await;
    });
}

#[test]
fn an_unknown_tool_fails_with_the_reason_where_it_was_asked_for() {
    simulate(|world| async move {
        let calls = world.open().await.rows::<ToolCall>().unwrap();
        let builder = ToolExecutor::builder(&calls).tool(double(&Said::default()));
        let executor = builder.answers_unknown().start().unwrap();
        insert(&calls, call("a", "fly", json!({}))).await;
        let row = ended(&calls, "a").await;
        assert_eq!(row.status, CallStatus::Failed);
        assert_eq!(row.error.unwrap(), r#"there is no tool "fly"; here are: double"#);
        executor.dispose().await;
    });
}

/// Calls a tool that misbehaves; how its row ends.
async fn misbehave(world: &World, tool: Tool, args: Value) -> ToolCall {
    let calls = live::Db::new(&world.sys).local::<ToolCall>().unwrap();
    let name = tool.spec().name.to_string();
    let executor = ToolExecutor::builder(&calls).tool(tool).start().unwrap();
    insert(&calls, call("a", &name, args)).await;
    let row = ended(&calls, "a").await;
    executor.dispose().await;
    row
}

#[test]
fn a_tool_that_panics_hangs_lies_or_says_too_much_breaks_nothing() {
    simulate(|world| async move {
        let said = Said::default();
        let panics = tool("p", &said, Effect::Pure, |_, _| async { panic!("oh no") });
        let row = misbehave(&world, panics, json!({})).await;
        assert_eq!(row.status, CallStatus::Failed);
        assert_eq!(row.error.unwrap(), r#"the tool "p" panicked: oh no"#);

        let hangs = Tool::builder("h", "Hangs.")
            .time_max(Duration::from_secs(5))
            .run(|_: Value, _| async {
                std::future::pending::<Result<u8, chat::ToolError>>().await
            })
            .unwrap();
        let row = misbehave(&world, hangs, json!({})).await;
        assert_eq!(row.error.unwrap(), r#"the tool "h" has not answered in 5 seconds"#);

        let lies = Tool::builder("l", "Lies.")
            .output_schema(json!({"type": "object"}))
            .run(|_: Value, _| async { Ok("{not json") })
            .unwrap();
        let row = misbehave(&world, lies, json!({})).await;
        assert!(row.error.unwrap().starts_with(r#"the answer of "l" does not fit: "#));

        let talks = Tool::builder("t", "Talks.")
            .output_bytes_max(1_000)
            .run(|_: Value, _| async { Ok("x".repeat(100 * 1024 * 1024)) })
            .unwrap();
        let row = misbehave(&world, talks, json!({})).await;
        assert_eq!(row.status, CallStatus::Completed);
        let text = row.result.unwrap();
        let text = text.as_str().unwrap();
        assert!(text.len() < 2_000 && text.contains("[cut: "), "{}", text.len());

        let row = misbehave(&world, double(&said), json!([1])).await;
        assert_eq!(row.error.unwrap(), r#"the arguments of "double" are no JSON object"#);
    });
}

/// A tool that waits until it is told to go on.
fn slow(said: &Said, gate: &Arc<Notify>) -> Tool {
    let gate = gate.clone();
    tool("slow", said, Effect::Pure, move |_, _| {
        let gate = gate.clone();
        async move {
            gate.notified().await;
            Ok(json!("late"))
        }
    })
}

fn of_generation(row: ToolCall, id: &str) -> ToolCall {
    ToolCall { generation_id: Some(id.to_owned()), ..row }
}

async fn cancel_while_it_runs(world: World, late: LatePolicy) -> (ToolCall, Generation) {
    let db = world.open().await;
    let (calls, generations) = (db.rows::<ToolCall>().unwrap(), db.rows::<Generation>().unwrap());
    let (said, gate) = (Said::default(), Arc::new(Notify::new()));
    let running = generation("g", GenerationStatus::Generating);
    generations.insert(running).unwrap().settled().await.unwrap();
    let executor = ToolExecutor::builder(&calls)
        .tool(slow(&said, &gate))
        .generations(&generations)
        .late(late)
        .start()
        .unwrap();
    insert(&calls, of_generation(call("a", "slow", json!({})), "g")).await;
    until(&calls, "a", CallStatus::Executing).await;
    let cancelled = generations.update("g", |row| row.cancel(CancelledBy::Timeout, "slow", ""));
    cancelled.unwrap().settled().await.unwrap();
    if late == LatePolicy::Store {
        gate.notify_one();
    }
    let row = ended(&calls, "a").await;
    // One that is asked for now is not even begun.
    insert(&calls, of_generation(call("b", "slow", json!({})), "g")).await;
    assert_eq!(ended(&calls, "b").await.status, CallStatus::Cancelled);
    assert_eq!(said.lock().len(), 1);
    executor.dispose().await;
    (row, (*generations.get("g").unwrap()).clone())
}

#[test]
fn a_cancelled_generation_stops_its_tools() {
    simulate(|world| async move {
        let (row, generation) = cancel_while_it_runs(world, LatePolicy::Discard).await;
        assert_eq!(row.status, CallStatus::Cancelled);
        assert_eq!(row.cancelled_by, Some(CancelledBy::Timeout));
        assert_eq!((row.result, row.is_late), (None, false));
        assert_eq!(generation.status, GenerationStatus::Cancelled, "nothing resumes it");
    });
}

#[test]
fn a_late_answer_is_kept_if_it_is_wanted() {
    simulate(|world| async move {
        let (row, generation) = cancel_while_it_runs(world, LatePolicy::Store).await;
        assert_eq!(row.status, CallStatus::Cancelled);
        assert_eq!((row.result, row.is_late), (Some(json!("late")), true));
        assert_eq!(generation.status, GenerationStatus::Cancelled, "nothing resumes it");
    });
}

#[test]
fn a_row_that_somebody_ended_stays_as_it_is() {
    simulate(|world| async move {
        let calls = world.open().await.rows::<ToolCall>().unwrap();
        let (said, gate) = (Said::default(), Arc::new(Notify::new()));
        let executor = ToolExecutor::builder(&calls).tool(slow(&said, &gate)).start().unwrap();
        insert(&calls, call("a", "slow", json!({}))).await;
        until(&calls, "a", CallStatus::Executing).await;
        let failed = calls.update("a", |row| {
            row.status = CallStatus::Failed;
            row.error = Some("a person said so".into());
        });
        failed.unwrap().settled().await.unwrap();
        gate.notify_one();
        executor.dispose().await;
        assert_eq!(calls.get("a").unwrap().error.as_deref(), Some("a person said so"));
    });
}

#[test]
fn as_many_calls_run_at_a_time_as_may() {
    simulate(|world| async move {
        let calls = world.open().await.rows::<ToolCall>().unwrap();
        let (said, gate) = (Said::default(), Arc::new(Notify::new()));
        let builder = ToolExecutor::builder(&calls).tool(slow(&said, &gate)).concurrency(2);
        let executor = builder.start().unwrap();
        for id in ["a", "b", "c"] {
            insert(&calls, call(id, "slow", json!({}))).await;
        }
        until(&calls, "b", CallStatus::Executing).await;
        world.rest(1_000).await;
        assert_eq!(said.lock().len(), 2);
        gate.notify_one();
        until(&calls, "c", CallStatus::Executing).await;
        gate.notify_waiters();
        executor.dispose().await;
        assert!(calls.rows().iter().all(|row| row.status == CallStatus::Completed));
    });
}

#[test]
fn a_stop_that_is_a_row_cancels_calls_by_user() {
    simulate(|world| async move {
        let db = world.open().await;
        let (calls, stops) = (db.rows::<ToolCall>().unwrap(), db.rows::<Stop>().unwrap());
        let said = Said::default();
        let waits = tool("wait", &said, Effect::Pure, |_, context| async move {
            context.cancellation().cancelled().await;
            Ok(json!("told"))
        });
        let executor = ToolExecutor::builder(&calls).tool(waits).stops(&stops).start().unwrap();
        let of = |id: &str, generation: &str, is_background: bool| ToolCall {
            generation_id: Some(generation.to_owned()),
            is_background,
            ..call(id, "wait", json!({}))
        };
        for row in [of("a", "g", false), of("b", "h", false), of("c", "h", true)] {
            let id = row.id.clone();
            insert(&calls, row).await;
            until(&calls, &id, CallStatus::Executing).await;
        }
        stops.insert(stop("s1", Some("g"))).unwrap().settled().await.unwrap();
        assert_eq!(ended(&calls, "a").await.cancelled_by, Some(CancelledBy::User));
        assert_eq!(calls.get("b").unwrap().status, CallStatus::Executing);
        stops.insert(stop("s2", None)).unwrap().settled().await.unwrap();
        assert_eq!(ended(&calls, "b").await.status, CallStatus::Cancelled);
        // A background call goes on after its generation, unless that is meant.
        world.rest(10_000).await;
        assert_eq!(calls.get("c").unwrap().status, CallStatus::Executing);
        stops.insert(stop("s3", Some("h"))).unwrap().settled().await.unwrap();
        assert_eq!(ended(&calls, "c").await.status, CallStatus::Cancelled);
        insert(&calls, of("d", "h", false)).await;
        assert_eq!(ended(&calls, "d").await.status, CallStatus::Cancelled);
        assert_eq!(said.lock().len(), 3, "the last one was never begun");
        executor.dispose().await;
    });
}
