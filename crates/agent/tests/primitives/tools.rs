//! Durable tools: a call is a row, and its answer is what an executor writes.

use std::time::Duration;

use agent::{
    Asking, Table, ToolExecutor, ToolExt as _, WaitError, Write, check_job, durable_tools,
    read_answer,
    rows::{CallStatus, CancelledBy, ToolCall},
    wait_for_result,
};
use chat::{Tool, ToolContext, ToolOutcome, agui::Content};
use live::{Collection, Db, Polled};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use sys::Cancellation;

use crate::support::{Said, World, call, double, simulate, tool, until};

async fn make(tool: &Tool, id: &str, args: Value, world: &World) -> ToolOutcome {
    let (_canceller, cancellation) = Cancellation::new();
    tool.call(args, ToolContext::new(id, cancellation), &world.sys).await
}

fn done(value: &Value) -> ToolOutcome {
    ToolOutcome::Done { content: Content::Text(value.to_string()) }
}

/// A collection of any kind: the call goes out, and its answer comes back.
async fn there_and_back(world: &World, asks: Table<ToolCall>, runs: Table<ToolCall>) {
    let said = Said::default();
    let executor = ToolExecutor::builder(&runs).tool(double(&said)).start().unwrap();
    let asking = Asking::of_generation("g1");
    let tools = durable_tools(&[double(&said)], &asks, &asking).unwrap();
    assert_eq!(make(&tools[0], "c1", json!({"n": 21}), world).await, done(&json!({"n": 42})));
    let row = asks.rows().get("g1:c1").unwrap();
    assert_eq!(row.generation_id.as_deref(), Some("g1"));
    assert_eq!((row.call_id.as_deref(), row.attempt), (Some("c1"), 1));
    assert_eq!(row.status, CallStatus::Completed);
    // The same call again, as after a restart: its row is there, and nothing runs.
    assert_eq!(make(&tools[0], "c1", json!({"n": 21}), world).await, done(&json!({"n": 42})));
    assert_eq!(*said.lock(), ["double g1:c1"]);
    // Another call under the same id is none of ours.
    let other = make(&tools[0], "c1", json!({"n": 1}), world).await;
    assert!(matches!(other, ToolOutcome::Failed { why } if why.contains("another call")));
    executor.dispose().await;
}

#[test]
fn a_call_goes_through_a_collection_that_lives_here() {
    simulate(|world| async move {
        let calls: Collection<ToolCall> = Db::new(&world.sys).local().unwrap();
        there_and_back(&world, (&calls).into(), calls.into()).await;
    });
}

#[test]
fn a_call_goes_through_a_stream_from_one_process_to_another() {
    simulate(|world| async move {
        let (here, there) = (world.open().await, world.open().await);
        there_and_back(&world, here.rows().unwrap().into(), there.rows().unwrap().into()).await;
    });
}

/// Rows that somebody else keeps, and that are asked for every second.
fn polled(world: &World) -> Table<ToolCall> {
    let kept: Arc<Mutex<Vec<ToolCall>>> = Arc::default();
    let shown = kept.clone();
    let source = Polled::new(&world.sys, move || {
        let rows = shown.lock().clone();
        async move { Ok::<_, String>(rows) }
    });
    let rows = Db::new(&world.sys).collection(source.every(Duration::from_secs(1))).unwrap();
    Table::written_by(&rows, move |write| {
        let mut kept = kept.lock();
        match write {
            Write::Insert(rows) => kept.extend(rows),
            Write::Replace(row) => {
                let place = kept.iter().position(|other| other.id == row.id).unwrap();
                kept[place] = *row;
            }
            _ => {}
        }
        async { Ok(()) }
    })
}

#[test]
fn a_call_goes_through_rows_that_are_polled() {
    simulate(|world| async move {
        let calls = polled(&world);
        there_and_back(&world, calls.clone(), calls).await;
    });
}

#[test]
fn a_call_that_takes_too_long_is_cancelled_and_the_model_is_told() {
    simulate(|world| async move {
        let calls: Collection<ToolCall> = Db::new(&world.sys).local().unwrap();
        let asking = Asking::default().patience(Duration::from_secs(3));
        let tool = double(&Said::default()).durable(&calls, &asking).unwrap();
        let outcome = make(&tool, "c1", json!({"n": 1}), &world).await;
        let why = "the call \"c1\" has no result after 3 seconds, and was cancelled";
        assert_eq!(outcome, ToolOutcome::Failed { why: why.to_owned() });
        let row = calls.get("c1").unwrap();
        assert_eq!(
            (row.status, row.cancelled_by),
            (CallStatus::Cancelled, Some(CancelledBy::Timeout))
        );
    });
}

#[test]
fn who_stops_waiting_cancels_the_call() {
    simulate(|world| async move {
        let calls = world.open().await.rows::<ToolCall>().unwrap();
        let said = Said::default();
        let tool = double(&said).durable(&calls, &Asking::default()).unwrap();
        let (canceller, cancellation) = Cancellation::new();
        let context = ToolContext::new("c1", cancellation);
        let (sys, watched) = (world.sys.clone(), calls.clone());
        let stop = async {
            until(&watched, "c1", CallStatus::Pending).await;
            canceller.cancel();
        };
        let (outcome, ()) = tokio::join!(tool.call(json!({"n": 1}), context, &sys), stop);
        assert_eq!(outcome, ToolOutcome::Cancelled);
        let row = until(&calls, "c1", CallStatus::Cancelled).await;
        assert_eq!(row.cancelled_by, Some(CancelledBy::User));
        // An executor that comes later leaves it alone.
        let executor = ToolExecutor::builder(&calls).tool(double(&said)).start().unwrap();
        world.rest(60_000).await;
        executor.dispose().await;
        assert!(said.lock().is_empty());
    });
}

#[test]
fn a_background_call_gives_a_reference_at_once_and_check_job_tells_the_rest() {
    simulate(|world| async move {
        let calls = world.open().await.rows::<ToolCall>().unwrap();
        let said = Said::default();
        let asking = Asking::of_generation("g");
        let tool = double(&said).background(&calls, &asking).unwrap();
        let queued = json!({"jobId": "g:c1", "status": "queued"});
        assert_eq!(make(&tool, "c1", json!({"n": 2}), &world).await, done(&queued));
        let check = check_job(&calls).unwrap();
        let job = json!({"jobId": "g:c1"});
        let pending = json!({"jobId": "g:c1", "tool": "double", "status": "pending"});
        assert_eq!(make(&check, "c2", job.clone(), &world).await, done(&pending));
        let executor = ToolExecutor::builder(&calls).tool(double(&said)).start().unwrap();
        until(&calls, "g:c1", CallStatus::Completed).await;
        let completed = json!({
            "jobId": "g:c1", "tool": "double", "status": "completed", "result": {"n": 4},
        });
        assert_eq!(make(&check, "c3", job, &world).await, done(&completed));
        let none = make(&check, "c4", json!({"jobId": "x"}), &world).await;
        assert!(matches!(none, ToolOutcome::Failed { why } if why.contains("no background job")));
        executor.dispose().await;
    });
}

#[test]
fn an_answer_is_waited_for_by_anybody_and_read_as_a_type() {
    simulate(|world| async move {
        let calls = world.open().await.rows::<ToolCall>().unwrap();
        calls.insert(call("c", "double", json!({"n": 3}))).unwrap().settled().await.unwrap();
        let (_canceller, cancellation) = Cancellation::new();
        let second = Duration::from_secs(1);
        let late = wait_for_result(&calls, "c", second, &cancellation).await.unwrap_err();
        assert!(matches!(late, WaitError::Elapsed { .. }) && late.is_retryable());
        assert_eq!(calls.get("c").unwrap().status, CallStatus::Pending, "it is left as it is");
        let executor =
            ToolExecutor::builder(&calls).tool(double(&Said::default())).start().unwrap();
        let outcome = wait_for_result(&calls, "c", second, &cancellation).await.unwrap();
        let ToolOutcome::Done { content } = outcome else { panic!("{outcome:?}") };
        let read: std::collections::BTreeMap<String, i64> = read_answer(&content).unwrap();
        assert_eq!(read["n"], 6);
        assert_eq!(read_answer::<String>(&"plain".into()).unwrap(), "plain");
        assert_eq!(read_answer::<u8>(&"7".into()).unwrap(), 7);
        executor.dispose().await;
    });
}

#[test]
fn a_durable_tool_asks_a_person_where_the_tool_does() {
    simulate(|world| async move {
        let calls: Collection<ToolCall> = Db::new(&world.sys).local().unwrap();
        let pay = Tool::builder("pay", "Pays.")
            .input_schema(json!({"type": "object"}))
            .approve_when(|args: &Value| args["amount"].as_i64().unwrap_or(0) > 100)
            .client()
            .unwrap();
        let tool = pay.durable(&calls, &Asking::default()).unwrap();
        assert!(tool.needs_approval(&json!({"amount": 900})));
        assert!(!tool.needs_approval(&json!({"amount": 9})));
        assert_eq!(tool.spec().place, chat::Place::Server, "it runs wherever its executor is");
        let said = Said::default();
        let failing = self::tool("pay", &said, chat::Effect::Once, |_, _| async {
            Err(chat::ToolError::new("no money"))
        });
        let executor = ToolExecutor::builder(&calls).tool(failing).start().unwrap();
        let outcome = make(&tool, "c", json!({"amount": 9}), &world).await;
        assert_eq!(outcome, ToolOutcome::Failed { why: "no money".to_owned() });
        executor.dispose().await;
    });
}
