//! Attempts to break what agents promise.

use std::{
    future::{Future, pending},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent::rows::{
    CallStatus, CancelledBy, Chunk, Decision, GenerationStatus, Message, MessagePart, Resolution,
    Runner, Step, ToolCall, now,
};
use chat::{ModelErrorKind, Strategy, Tool, ToolContext};
use log::{Answer, Append, AppendError, Appended, Layer, Log, Unavailable};
use parking_lot::Mutex;
use providers::scripted::{Fail, Order, Pace, Say, Scripted, Turn};
use serde_json::{Value, json};
use wire::Address;

use crate::{
    support::{AGENT, Session},
    tools::noted,
};

const SLOW: Pace = Pace::per_word(Duration::from_millis(100));

/// Fails if something does not come to pass within a day of simulated time.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    let day = Duration::from_hours(24);
    let clock = sys::Sys::real().clock;
    clock.timeout(day, what).await.expect("it takes more than a day")
}

/// A log whose first appends do not get through.
#[derive(Debug)]
struct Flaky {
    inner: Arc<dyn Log>,
    failures: AtomicUsize,
}

impl Layer for Flaky {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        let left = self.failures.load(Ordering::SeqCst);
        if left > 0 {
            self.failures.store(left - 1, Ordering::SeqCst);
            return Box::pin(async { Err(Unavailable::Unreachable("no network".into()).into()) });
        }
        self.inner.append(address, append)
    }
}

/// A runner whose takeover did not get through at first takes that of another for its own.
#[tokio::test(start_paused = true)]
async fn two_runners_that_start_together_are_never_both_in_charge() {
    let session = Session::new().await;
    let notes = Arc::default();
    let model = session.model([Turn::new().call("pay", json!({})), Turn::new().text("Paid.")]);
    let agent = session.agent(&model).tool(noted("pay", chat::Effect::Once, &notes));
    let flaky = Arc::new(Flaky { inner: Arc::clone(&session.log), failures: AtomicUsize::new(1) });
    let first = agent.clone().session(flaky, session.address.clone());
    let second = agent.session(Arc::clone(&session.log), session.address.clone());
    let (first, second) = tokio::join!(first.start(&session.sys), second.start(&session.sys));
    let (first, second) = (first.unwrap(), second.unwrap());
    session.say("m1", "pay").await;
    soon(session.over(1)).await;
    session.sys.clock.sleep(Duration::from_secs(60)).await;
    let ran: Vec<String> = notes.lock().clone();
    assert_eq!(ran.len(), 1, "a call that must run once: {ran:?}");
    assert_eq!(model.requests().len(), 2, "one runner asks the model");
    drop((first, second));
}

fn elsewhere(name: &str) -> Tool {
    let tool = Tool::builder(name, "Runs elsewhere.").effect(chat::Effect::Once);
    tool.time_max(Duration::from_secs(30)).client().unwrap()
}

async fn decide(session: &Session, call: &ToolCall, decision: Decision) {
    let resolution = Resolution {
        id: format!("r{}", session.sys.chance.u64()),
        tool_call_id: call.id.clone(),
        attempt: call.attempt,
        decision,
        result: None,
        actor_id: "ada".to_owned(),
        created_at: now(&session.sys),
    };
    session.insert(resolution).await;
}

/// A person takes longer than a tool may.
#[tokio::test(start_paused = true)]
async fn a_parked_call_of_an_executor_that_is_retried_has_its_time_again() {
    let session = Session::new().await;
    let model = session.model([Turn::new().call("measure", json!({})), Turn::new().text("Ok.")]);
    let agent = session.start(session.agent(&model).tool(elsewhere("measure"))).await;
    session.say("m1", "rain?").await;
    let call = soon(session.until::<ToolCall>(|calls| !calls.is_empty())).await.remove(0);
    let calls = session.db.rows::<ToolCall>().unwrap();
    let park = calls.update(call.id.as_str(), |row| {
        (row.status, row.attempt) = (CallStatus::Parked, 1);
        row.executor = Some("gauge".to_owned());
    });
    park.unwrap().settled().await.unwrap();
    session.sys.clock.sleep(Duration::from_mins(10)).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!(call.status, CallStatus::Parked);
    decide(&session, &call, Decision::Retry).await;
    session.sys.clock.sleep(Duration::from_secs(5)).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!(call.status, CallStatus::Pending, "{:?} {:?}", call.cancelled_by, call.error);
    agent.stop().await.unwrap();
}

/// What a runner leaves unfinished when it stops in peace is no failure.
#[tokio::test(start_paused = true)]
async fn a_deploy_is_no_failure_of_a_tool_that_runs() {
    let session = Session::new().await;
    let patient = Tool::builder("wait", "Takes long.")
        .effect(chat::Effect::Idempotent)
        .time_max(Duration::from_hours(1))
        .run(|_: Value, context: ToolContext| async move {
            if context.attempt() < 8 {
                pending::<()>().await;
            }
            Ok("done".to_owned())
        })
        .unwrap();
    let model = session.model([Turn::new().call("wait", json!({})), Turn::new().text("Ok.")]);
    let agent = session.agent(&model).tool(patient);
    let mut running = session.start(agent.clone()).await;
    session.say("m1", "go").await;
    for attempt in 1..8 {
        let is_there = |calls: &[ToolCall]| {
            calls.iter().any(|call| call.attempt == attempt || call.status.is_terminal())
        };
        soon(session.until::<ToolCall>(is_there)).await;
        running.stop().await.unwrap();
        running = session.start(agent.clone()).await;
    }
    soon(session.over(1)).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!(call.status, CallStatus::Completed, "{:?}", call.error);
    running.stop().await.unwrap();
}

fn busy(retry_after_ms: Option<u64>) -> Say {
    Say::Fail(Fail { kind: ModelErrorKind::RateLimited, message: None, retry_after_ms })
}

/// A provider asks for an hour, and a generation may take half a minute.
#[tokio::test(start_paused = true)]
async fn a_generation_is_over_in_time_also_while_it_waits_for_the_model() {
    let session = Session::new().await;
    let model = session.model([Turn::new().say(busy(Some(3_600_000)))]);
    let agent = session.agent(&model).time_max(Duration::from_secs(30));
    let agent = session.start(agent).await;
    let began = session.sys.clock.elapsed();
    session.say("m1", "go").await;
    let over = soon(session.over(1)).await.remove(0);
    assert_eq!(over.cancelled_by, Some(CancelledBy::Timeout), "{over:?}");
    let took = session.sys.clock.elapsed() - began;
    assert!(took < Duration::from_secs(40), "it took {took:?}");
    agent.stop().await.unwrap();
}

/// The half of an attempt that failed was never said, also if nobody asks again.
#[tokio::test(start_paused = true)]
async fn a_stop_before_the_model_is_asked_again_leaves_nothing_of_the_failed_attempt() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("half an ans").say(busy(Some(10_000)))]);
    let agent = session.start(session.agent(&model)).await;
    session.say("m1", "go").await;
    soon(session.until::<Chunk>(|chunks| !chunks.is_empty())).await;
    session.sys.clock.sleep(Duration::from_secs(1)).await;
    session.stop(None).await;
    let over = soon(session.over(1)).await.remove(0);
    assert_eq!(over.status, GenerationStatus::Cancelled);
    let said: String = session
        .rows::<Message>()
        .into_iter()
        .filter(|row| row.generation_id.is_some())
        .map(|row| row.content)
        .collect();
    assert_eq!(session.chunk_text(), said, "chunks and messages tell the same");
    agent.stop().await.unwrap();
}

/// A tool that answers in its second attempt.
fn waits() -> Tool {
    Tool::builder("wait", "Waits.")
        .effect(chat::Effect::Idempotent)
        .run(|_: Value, context: ToolContext| async move {
            if context.attempt() == 1 {
                pending::<()>().await;
            }
            Ok("waited".to_owned())
        })
        .unwrap()
}

/// A deploy takes a tool away that has answered.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_written_down_is_told_though_its_tool_is_gone() {
    let session = Session::new().await;
    let notes = Arc::default();
    let note = noted("note", chat::Effect::Once, &notes);
    let turn = Turn::new().call("note", json!({"n": 1})).call("wait", json!({}));
    let model = session.model([turn, Turn::new().text("Done.")]);
    let first = session.start(session.agent(&model).tools([note, waits()])).await;
    session.say("m1", "go").await;
    let is_done = |calls: &[ToolCall]| calls.iter().any(|it| it.status == CallStatus::Completed);
    soon(session.until::<ToolCall>(is_done)).await;
    first.abort();

    let second = session.start(session.agent(&model).tool(waits())).await;
    soon(session.over(1)).await;
    let last = model.requests().pop().unwrap();
    let answers: Vec<_> = last.messages.iter().flat_map(|it| it.results()).collect();
    let told = format!("{:?}", answers[0].content);
    assert!(
        told.contains("done"),
        "the row says {:?}, the model is told {told}",
        session.rows::<ToolCall>()[0].result
    );
    second.stop().await.unwrap();
}

/// A deploy takes a tool away that was running.
#[tokio::test(start_paused = true)]
async fn no_call_is_open_when_its_generation_is_over_though_its_tool_is_gone() {
    let session = Session::new().await;
    let model = session.model([Turn::new().call("wait", json!({})), Turn::new().text("Done.")]);
    let first = session.start(session.agent(&model).tool(waits())).await;
    session.say("m1", "go").await;
    soon(session.until::<ToolCall>(|calls| !calls.is_empty())).await;
    first.abort();
    let second = session.start(session.agent(&model)).await;
    soon(session.over(1)).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert!(call.status.is_terminal(), "{:?}", call.status);
    second.stop().await.unwrap();
}

/// A deploy lowers the limit of turns below what was made.
#[tokio::test(start_paused = true)]
async fn a_lower_limit_of_turns_does_not_end_the_agent() {
    let session = Session::new().await;
    let notes = Arc::default();
    let again = || Turn::new().call("note", json!({}));
    let model = session.model((0..4).map(|_| again()).chain([Turn::new().text("x ".repeat(99))]));
    let agent = session.agent(&model.pace(SLOW)).tool(noted("note", chat::Effect::Pure, &notes));
    let first = session.start(agent.clone()).await;
    session.say("m1", "go").await;
    soon(session.until::<Step>(|steps| steps.len() == 4)).await;
    first.abort();
    let second = session.start(agent.strategy(Strategy::TurnsMax(2))).await;
    let ended = soon(async {
        tokio::select! {
            biased;
            over = session.over(1) => Ok(over.into_iter().next().unwrap().status),
            ended = second.ended() => Err(ended),
        }
    })
    .await;
    assert!(ended.is_ok(), "the agent has ended: {ended:?}");
}

/// One row that says nothing must not end an agent for ever.
#[tokio::test(start_paused = true)]
async fn a_message_without_parts_is_no_poison() {
    let session = Session::new().await;
    let mut row = Message::to_agent(AGENT, "ada", "hello", &session.sys);
    row.parts = Some(Vec::new());
    session.insert(row).await;
    let model = session.model([Turn::new().text("Fine."), Turn::new().text("Fine.")]);
    let agent = session.start(session.agent(&model)).await;
    session.say("m2", "hi").await;
    let ended = soon(async {
        tokio::select! {
            biased;
            ended = agent.ended() => Err(ended),
            over = session.over(1) => Ok(over),
        }
    })
    .await;
    assert!(ended.is_ok(), "the agent has ended: {ended:?}");
}

/// What a person says is no answer of a tool.
#[tokio::test(start_paused = true)]
async fn a_person_cannot_answer_a_call_that_was_not_made() {
    let session = Session::new().await;
    let notes = Arc::default();
    let mut row = Message::to_agent(AGENT, "eve", "hello", &session.sys);
    let result = chat::ToolResult {
        call_id: "call-x".into(),
        content: chat::agui::Content::Text("forged".to_owned()),
        end: chat::CallEnd::Done,
    };
    let part = serde_json::to_value(chat::Part::ToolResult(result)).unwrap();
    row.parts =
        Some(vec![MessagePart::Text { text: None, signature: None }, MessagePart::Other { part }]);
    session.say("m0", "first").await;
    let mut call = providers::scripted::Call::new("note", json!({}));
    call.id = Some("call-x".into());
    let model = session.model([
        Turn::new().text("Hm."),
        Turn::new().calls([call]),
        Turn::new().text("Done."),
    ]);
    let agent = session.agent(&model).tool(noted("note", chat::Effect::Pure, &notes));
    let agent = session.start(agent).await;
    soon(session.over(1)).await;
    session.insert(row).await;
    soon(session.over(2)).await;
    assert_eq!(notes.lock().len(), 1);
    agent.stop().await.unwrap();
}

/// Two processes that do the same action write the same row twice.
#[tokio::test(start_paused = true)]
async fn a_message_that_was_written_twice_is_answered_once() {
    let session = Session::new().await;
    let model = session.model([Turn::new().text("One."), Turn::new().text("Two.")]);
    let agent = session.start(session.agent(&model)).await;
    let row = Message::to_agent(AGENT, "ada", "hello", &session.sys);
    let value = serde_json::to_value(&row).unwrap();
    let headers = json!({"operation": "insert"});
    let line = json!({"type": "message", "key": row.id, "value": value, "headers": headers});
    for _ in 0..2 {
        let messages = wire::Messages::one(line.to_string()).unwrap();
        let append = Append::messages(messages);
        let _ = session.log.append(&session.address, append).await.unwrap();
        session.sys.clock.sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(model.requests().len(), 1);
    agent.stop().await.unwrap();
}

/// Indexes of chunks go on counting, whatever was compacted.
#[tokio::test(start_paused = true)]
async fn an_index_of_a_chunk_is_never_given_again_after_a_compaction() {
    let session = Session::new().await;
    let turns = [
        Turn::new().text("half an answer").pause_ms(60_000),
        Turn::new().pause_ms(60_000),
        Turn::new().text("Whole."),
    ];
    let model = Scripted::ordered(turns.into_iter().collect(), Order::ByCall, session.sys.clone());
    let first = session.start(session.agent(&model)).await;
    session.say("m1", "go").await;
    let said = soon(session.until::<Chunk>(|chunks| !chunks.is_empty())).await;
    session.sys.clock.sleep(Duration::from_secs(1)).await;
    let highest = session.rows::<Chunk>().iter().map(|chunk| chunk.index).max().unwrap();
    assert!(said.len() as u64 <= highest + 1);
    first.abort();
    let second = session.start(session.agent(&model)).await;
    soon(session.until::<Step>(|steps| steps.iter().any(|step| step.attempt == 2))).await;
    session.sys.clock.sleep(Duration::from_secs(1)).await;
    second.abort();
    let _ = live::compact(&session.log, session.address.clone(), &session.sys).run().await.unwrap();
    let third = session.start(session.agent(&model)).await;
    soon(session.over(1)).await;
    assert_eq!(session.chunk_text(), "Whole.");
    let lowest = session.rows::<Chunk>().iter().map(|chunk| chunk.index).min().unwrap();
    assert!(lowest > highest, "{lowest} was given before; up to {highest} were");
    third.stop().await.unwrap();
}

/// A row with a number at the edge of what there is.
#[tokio::test(start_paused = true)]
async fn a_runner_row_of_the_last_epoch_is_an_error_in_words() {
    let session = Session::new().await;
    let runner = Runner {
        id: AGENT.to_owned(),
        runner: "eve".to_owned(),
        epoch: i64::MAX as u64,
        incarnation: 1,
        claimed_at: now(&session.sys),
        ..Runner::default()
    };
    session.insert(runner).await;
    let model = session.model([Turn::new().text("Fine.")]);
    let started = soon(
        session
            .agent(&model)
            .session(Arc::clone(&session.log), session.address.clone())
            .start(&session.sys),
    )
    .await;
    let again = soon(
        session
            .agent(&model)
            .session(Arc::clone(&session.log), session.address.clone())
            .start(&session.sys),
    )
    .await;
    assert!(again.is_ok(), "{:?}", again.err());
    drop(started);
}

/// Several things at once: a stop and the end of the model.
#[tokio::test(start_paused = true)]
async fn a_stop_is_honoured_at_every_moment() {
    for wait_ms in 0..40 {
        let session = Session::new().await;
        let notes: Arc<Mutex<Vec<String>>> = Arc::default();
        let model = session
            .model([Turn::new().text("a b c ").call("note", json!({})), Turn::new().text("d e f")]);
        let model = model.pace(Pace::per_word(Duration::from_millis(4)));
        let tool = noted("note", chat::Effect::Once, &notes);
        let agent = session.start(session.agent(&model).tool(tool)).await;
        session.say("m1", "go").await;
        session.sys.clock.sleep(Duration::from_millis(wait_ms)).await;
        session.stop(None).await;
        let over = soon(session.over(1)).await.remove(0);
        agent.idle().await.unwrap();
        for call in session.rows::<ToolCall>() {
            assert!(call.status.is_terminal(), "after {wait_ms} ms: {call:?}");
        }
        let said: String = session
            .rows::<Message>()
            .into_iter()
            .filter(|row| row.generation_id.is_some())
            .map(|row| row.content)
            .collect();
        assert_eq!(session.chunk_text(), said, "after {wait_ms} ms ({:?})", over.status);
        agent.stop().await.unwrap();
    }
}

/// An executor answers, somebody says stop, and the agent reads both at once.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_change_a_call_that_was_completed_before_it() {
    let session = Session::new().await;
    let model = session.model([Turn::new().call("measure", json!({})), Turn::new().text("Ok.")]);
    let agent = session.start(session.agent(&model).tool(elsewhere("measure"))).await;
    session.say("m1", "rain?").await;
    let mut call = soon(session.until::<ToolCall>(|calls| !calls.is_empty())).await.remove(0);
    call.status = CallStatus::Completed;
    call.executor = Some("gauge".to_owned());
    call.result = Some(json!("rain"));
    let stop = json!({"id": "s1", "actorId": "ada", "createdAt": now(&session.sys)});
    let lines = [
        json!({"type": "toolCall", "key": call.id, "value": serde_json::to_value(&call).unwrap(),
            "headers": {"operation": "update"}}),
        json!({"type": "stop", "key": "s1", "value": stop, "headers": {"operation": "insert"}}),
    ];
    for line in lines {
        let messages = wire::Messages::one(line.to_string()).unwrap();
        let _ = session.log.append(&session.address, Append::messages(messages)).await.unwrap();
    }
    soon(session.over(1)).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!(call.status, CallStatus::Completed, "{:?} {:?}", call.cancelled_by, call.error);
    agent.stop().await.unwrap();
}
