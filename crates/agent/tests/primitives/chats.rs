//! The three together: what a model says becomes chunks, what it wants done becomes rows.

use std::{sync::Arc, time::Duration};

use agent::{
    LatePolicy, Partial, StreamEnd, ToolExecutor, durable_chat,
    rows::{CallStatus, CancelledBy, Chunk, ChunkType, ToolCall},
};
use chat::Effect;
use live::StreamDb;
use providers::scripted::{Scripted, Turn};
use serde_json::json;
use sys::{Cancellation, Sys};

use crate::support::{Said, double, simulate, tool, until};

fn model(sys: &Sys) -> Arc<Scripted> {
    let turns = [
        Turn::new().text("I count.").call("double", json!({"n": 21})),
        Turn::new().text("It is 42."),
    ];
    Arc::new(Scripted::script(turns, sys.clone()))
}

fn rows(db: &StreamDb) -> (live::Collection<ToolCall>, live::Collection<Chunk>) {
    (db.rows().unwrap(), db.rows().unwrap())
}

#[test]
fn a_durable_chat_pauses_for_a_tool_elsewhere_and_goes_on() {
    simulate(|world| async move {
        let (here, there) = (world.open().await, world.open().await);
        let (calls, chunks) = rows(&here);
        let said = Said::default();
        let executor = ToolExecutor::builder(there.rows::<ToolCall>().unwrap()).tool(double(&said));
        let executor = executor.start().unwrap();
        let run = durable_chat(model(&world.sys), "g", &calls, &chunks)
            .chat(|chat| chat.user("How much is twice 21?"))
            .durable([double(&said)]);
        let streamed = run.run(&world.sys).await.unwrap();
        assert_eq!((streamed.text.as_str(), streamed.end), ("It is 42.", StreamEnd::Completed));
        let call = calls.rows().pop().unwrap();
        assert_eq!(
            (call.status, call.generation_id.as_deref()),
            (CallStatus::Completed, Some("g"))
        );
        assert_eq!(call.result, Some(json!({"n": 42})));
        let mut rows = chunks.rows();
        rows.sort_by_key(|row| row.index);
        let kinds: Vec<_> = rows.iter().map(|row| row.kind).collect();
        assert_eq!(kinds.first(), Some(&ChunkType::Text));
        assert!(
            kinds.contains(&ChunkType::ToolCallStart) && kinds.contains(&ChunkType::ToolCallEnd)
        );
        assert_eq!(kinds.last(), Some(&ChunkType::End));
        // The other process has seen all of it.
        assert_eq!(there.rows::<Chunk>().unwrap().len(), rows.len());
        executor.dispose().await;
    });
}

#[test]
fn a_durable_chat_that_is_stopped_leaves_no_call_open() {
    simulate(|world| async move {
        let db = world.open().await;
        let (calls, chunks) = rows(&db);
        let (canceller, cancellation) = Cancellation::new();
        let run = durable_chat(model(&world.sys), "g", &calls, &chunks)
            .chat(|chat| chat.user("How much is twice 21?"))
            .durable([double(&Said::default())])
            .streaming(|how| how.partial(Partial::Delete))
            .cancellation(cancellation);
        let watched = calls.clone();
        let stop = async {
            let mut changes = watched.changes().unwrap();
            changes.next().await;
            canceller.cancel();
        };
        let (streamed, ()) = tokio::join!(run.run(&world.sys), stop);
        assert_eq!(streamed.unwrap().end, StreamEnd::Cancelled);
        let id = calls.rows().pop().unwrap().id.clone();
        let call = until(&calls, &id, CallStatus::Cancelled).await;
        assert_eq!(call.cancelled_by, Some(CancelledBy::User));
        assert!(chunks.is_empty(), "{:?}", chunks.rows());
    });
}

#[test]
fn an_answer_that_comes_after_a_chat_was_stopped_is_kept_where_that_is_wanted() {
    simulate(|world| async move {
        for (policy, is_kept) in [(LatePolicy::Store, true), (LatePolicy::Discard, false)] {
            let (here, there) = (world.open().await, world.open().await);
            let (calls, chunks) = rows(&here);
            let (sys, id) = (world.sys.clone(), format!("g-{is_kept}"));
            let slow = tool("double", &Said::default(), Effect::Pure, move |_, _| {
                let sys = sys.clone();
                async move {
                    sys.clock.sleep(Duration::from_secs(20)).await;
                    Ok(json!({"n": 42}))
                }
            });
            let executor = ToolExecutor::builder(there.rows::<ToolCall>().unwrap());
            let executor = executor.tool(slow.clone()).late(policy).start().unwrap();
            let (canceller, cancellation) = Cancellation::new();
            let run = durable_chat(model(&world.sys), id.as_str(), &calls, &chunks)
                .chat(|chat| chat.user("How much is twice 21?"))
                .durable([slow])
                .cancellation(cancellation);
            let stop = async {
                world.rest(10_000).await;
                canceller.cancel();
            };
            let (streamed, ()) = tokio::join!(run.run(&world.sys), stop);
            assert_eq!(streamed.unwrap().end, StreamEnd::Cancelled);
            world.rest(60_000).await;
            let is_ours = |row: &ToolCall| row.generation_id.as_deref() == Some(id.as_str());
            let call = calls.rows().into_iter().find(|row| is_ours(row)).unwrap();
            assert_eq!(
                (call.status, call.cancelled_by, call.is_late),
                (CallStatus::Cancelled, Some(CancelledBy::User), is_kept)
            );
            assert_eq!(call.result, is_kept.then(|| json!({"n": 42})));
            executor.dispose().await;
        }
    });
}

#[test]
fn a_background_tool_does_not_hold_the_answer_back() {
    simulate(|world| async move {
        let db = world.open().await;
        let (calls, chunks) = rows(&db);
        let run = durable_chat(model(&world.sys), "g", &calls, &chunks)
            .chat(|chat| chat.user("How much is twice 21?"))
            .background([double(&Said::default())])
            .patience(Duration::from_secs(1));
        assert_eq!(run.run(&world.sys).await.unwrap().end, StreamEnd::Completed);
        let call = calls.rows().pop().unwrap();
        assert_eq!((call.status, call.is_background), (CallStatus::Pending, true));
    });
}
