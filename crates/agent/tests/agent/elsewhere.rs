//! Calls that executors run: who dies, who is late, and what the model is told.

use std::{sync::Arc, time::Duration};

use agent::{
    Asking, LatePolicy, ToolExecutor, ToolExecutorBuilder, ToolExt as _,
    rows::{
        self, CallStatus, CancelledBy, Claim, Decision, GenerationStatus, Message, Resolution,
        Step, ToolCall, now,
    },
};
use chat::{Effect, Tool, ToolContext};
use live::StreamDb;
use log::{Answer, Append, AppendError, Appended, Layer, Log};
use parking_lot::Mutex;
use providers::scripted::{Pace, Scripted, Turn};
use serde_json::{Value, json};
use tokio::sync::Notify;
use wire::{Address, Messages};

use crate::support::Session;

const CALL: &str = "assistant-1:1:0";

fn elsewhere(effect: Effect) -> Tool {
    Tool::builder("measure", "Runs elsewhere.").effect(effect).client().unwrap()
}

fn asks(session: &Session) -> Scripted {
    session.model([Turn::new().call("measure", json!({})), Turn::new().text("So it is.")])
}

/// An executor in a process of its own, with everything as it is by default.
async fn executor(session: &Session, tool: Tool) -> (StreamDb, ToolExecutorBuilder<ToolCall>) {
    let db = StreamDb::builder(Arc::clone(&session.log), session.address.clone(), &session.sys);
    let db = rows::session(db).open().unwrap();
    db.ready().await.unwrap();
    let calls = db.rows::<ToolCall>().unwrap();
    let builder = ToolExecutor::builder(calls).claims(db.rows::<Claim>().unwrap()).tool(tool);
    (db, builder)
}

fn answers(effect: Effect) -> Tool {
    Tool::builder("measure", "Runs here.")
        .effect(effect)
        .run(|_: Value, context: ToolContext| async move { Ok(context.attempt()) })
        .unwrap()
}

async fn pending(session: &Session) {
    session.until::<ToolCall>(|calls| !calls.is_empty()).await;
}

/// Somebody takes the call, and is never heard of again.
async fn die(session: &Session, attempt: u32) {
    let lease = Duration::from_secs(70);
    let until = session.sys.clock.unix_ms().plus(lease);
    let until = wire::Timestamp::from_unix_ms(until.get()).to_string();
    let by = format!("dead-{attempt}");
    let claim = Claim {
        id: format!("{CALL}#{attempt}@{by}"),
        of: CALL.to_owned(),
        attempt,
        by: by.clone(),
        until: until.clone(),
        created_at: now(&session.sys),
    };
    session.insert(claim).await;
    let started = now(&session.sys);
    let began = session.db.rows::<ToolCall>().unwrap().update(CALL, |row| {
        (row.status, row.attempt) = (CallStatus::Executing, attempt);
        (row.executor, row.lease_until) = (Some(by), Some(until));
        row.started_at = Some(started);
    });
    began.unwrap().settled().await.unwrap();
}

fn told(model: &Scripted) -> String {
    let last = model.requests().pop().unwrap();
    let results = last.messages.iter().flat_map(|message| message.results());
    format!("{:?}", results.map(|result| (result.end, result.content.clone())).collect::<Vec<_>>())
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_executors_die_is_made_again_with_the_defaults_of_both_sides() {
    let session = Session::new().await;
    let model = asks(&session);
    let agent = session.start(session.agent(&model).tool(elsewhere(Effect::Pure))).await;
    session.say("m1", "rain?").await;
    pending(&session).await;
    // Somebody is at it late, and dies of it; and so does the next one.
    session.sys.clock.sleep(Duration::from_secs(50)).await;
    die(&session, 1).await;
    session.sys.clock.sleep(Duration::from_secs(74)).await;
    die(&session, 2).await;
    let (_db, builder) = executor(&session, answers(Effect::Pure)).await;
    let running = builder.start().unwrap();
    session.over(1).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!((call.status, call.attempt), (CallStatus::Completed, 3), "{:?}", call.error);
    assert!(told(&model).contains("Text(\"3\")"), "{}", told(&model));
    running.dispose().await;
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_is_given_up_when_its_executors_die_too_often() {
    let session = Session::new().await;
    let model = asks(&session);
    let agent = session.start(session.agent(&model).tool(elsewhere(Effect::Pure))).await;
    session.say("m1", "rain?").await;
    pending(&session).await;
    for attempt in 1..=agent::caps::ELSEWHERE_ATTEMPTS_MAX {
        die(&session, attempt).await;
        session.sys.clock.sleep(Duration::from_secs(73)).await;
    }
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!(call.cancelled_by, Some(CancelledBy::Timeout), "{call:?}");
    session.over(1).await;
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_that_is_to_be_made_again_has_its_time_again() {
    let session = Session::new().await;
    let model = asks(&session);
    let agent = session.start(session.agent(&model).tool(elsewhere(Effect::Once))).await;
    session.say("m1", "rain?").await;
    pending(&session).await;
    die(&session, 1).await;
    let (_db, builder) = executor(&session, answers(Effect::Once)).await;
    let running = builder.start().unwrap();
    session.until::<ToolCall>(|calls| calls[0].status == CallStatus::Parked).await;
    // People take their time, and the agent may be another by then.
    session.sys.clock.sleep(Duration::from_hours(5)).await;
    agent.stop().await.unwrap();
    let agent = session.start(session.agent(&model).tool(elsewhere(Effect::Once))).await;
    let resolution = Resolution {
        id: "r".to_owned(),
        tool_call_id: CALL.to_owned(),
        attempt: 1,
        decision: Decision::Retry,
        result: None,
        actor_id: "ada".to_owned(),
        created_at: now(&session.sys),
    };
    session.insert(resolution).await;
    session.over(1).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!(call.status, CallStatus::Completed, "{:?}", call.error);
    running.dispose().await;
    agent.stop().await.unwrap();
}

/// A log where somebody else's words stand before the first append that says `cancelled`.
#[derive(Debug)]
struct Crossing {
    inner: Arc<dyn Log>,
    before: Mutex<Option<Append>>,
}

impl Layer for Crossing {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            let says = |message: &[u8]| {
                String::from_utf8_lossy(message).contains(r#""status":"cancelled""#)
            };
            let is_it = append.messages.iter().any(says);
            let before = if is_it { self.before.lock().take() } else { None };
            if let Some(before) = before {
                let _ = self.inner.append(address, before).await.unwrap();
            }
            self.inner.append(address, append).await
        })
    }
}

/// An agent that cancels a call right after somebody has answered it.
async fn crossed(session: &Session, is_stopped: bool) -> Scripted {
    let model = session.model([
        Turn::new().call("measure", json!({})),
        Turn::new().text("So it is."),
        Turn::new().text("As I said."),
    ]);
    let (log, before) = (Arc::clone(&session.log), Mutex::new(None));
    let crossing = Arc::new(Crossing { inner: log, before });
    let agent = session.agent(&model).tool(elsewhere(Effect::Pure));
    let log: Arc<dyn Log> = crossing.clone();
    let agent = agent.session(log, session.address.clone()).start(&session.sys).await.unwrap();
    session.say("m1", "rain?").await;
    pending(session).await;
    let mut row = session.rows::<ToolCall>().remove(0);
    (row.status, row.attempt) = (CallStatus::Completed, 1);
    (row.executor, row.result) = (Some("gauge".to_owned()), Some(json!({"mm": 3})));
    let change = json!({
        "type": "toolCall", "key": row.id, "value": row,
        "headers": {"operation": "update", "txid": "gauge.1"},
    });
    let messages = Messages::one(change.to_string()).unwrap();
    *crossing.before.lock() = Some(Append::messages(messages));
    if is_stopped {
        session.stop(None).await;
    }
    session.over(1).await;
    session.say("m2", "and now?").await;
    session.over(2).await;
    agent.stop().await.unwrap();
    model
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stands_before_the_end_of_patience_is_what_the_model_is_told() {
    let session = Session::new().await;
    let model = crossed(&session, false).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!((call.status, call.cancelled_by), (CallStatus::Completed, None));
    assert_eq!(told(&model), r#"[(Done, Text("{\"mm\":3}"))]"#);
    assert_eq!(session.over(2).await[0].status, GenerationStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stands_before_what_a_stop_has_cancelled_stays_answered() {
    let session = Session::new().await;
    let model = crossed(&session, true).await;
    let call = session.rows::<ToolCall>().remove(0);
    assert_eq!((call.status, call.cancelled_by), (CallStatus::Completed, None));
    assert_eq!(told(&model), r#"[(Done, Text("{\"mm\":3}"))]"#);
    assert_eq!(session.over(2).await[0].status, GenerationStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_a_stop_is_kept_where_that_is_wanted_and_changes_nothing() {
    let session = Session::new().await;
    let model =
        session.model([Turn::new().call("measure", json!({})), Turn::new().text("As I said.")]);
    let gate = Arc::new(Notify::new());
    let waits = Arc::clone(&gate);
    let slow = Tool::builder("measure", "Runs here.")
        .run(move |_: Value, _: ToolContext| {
            let waits = Arc::clone(&waits);
            async move {
                waits.notified().await;
                Ok(json!({"mm": 3}))
            }
        })
        .unwrap();
    let (_db, builder) = executor(&session, slow).await;
    let running = builder.late(LatePolicy::Store).start().unwrap();
    let agent = session.start(session.agent(&model).tool(elsewhere(Effect::Once))).await;
    session.say("m1", "rain?").await;
    session
        .until::<ToolCall>(|calls| calls.iter().any(|call| call.status == CallStatus::Executing))
        .await;
    session.stop(None).await;
    session.over(1).await;
    let cancelled = session.rows::<ToolCall>().remove(0);
    assert_eq!(cancelled.status, CallStatus::Cancelled);
    assert!(cancelled.error.as_deref().unwrap().contains("is not known"), "{cancelled:?}");
    gate.notify_one();
    let kept = session.until::<ToolCall>(|calls| calls[0].is_late).await.remove(0);
    assert_eq!(kept.result, Some(json!({"mm": 3})));
    let updated_at = cancelled.updated_at.clone();
    let without = ToolCall { result: None, is_late: false, updated_at, ..kept };
    assert_eq!(without, cancelled, "nothing else has changed");
    session.say("m2", "and now?").await;
    session.over(2).await;
    assert!(told(&model).contains("Cancelled"), "{}", told(&model));
    running.dispose().await;
    agent.stop().await.unwrap();
}

/// Writes a row as somebody who knows no rules.
async fn write_late(session: &Session, row: &ToolCall) {
    let change = json!({
        "type": "toolCall", "key": row.id, "value": row,
        "headers": {"operation": "update", "txid": "zombie.1"},
    });
    let messages = Messages::one(change.to_string()).unwrap();
    let _ = session.log.append(&session.address, Append::messages(messages)).await.unwrap();
}

/// A stream in which a completed call was said to be executing after the next step had begun.
#[tokio::test(start_paused = true)]
async fn an_agent_starts_over_a_stream_in_which_a_completed_call_was_undone() {
    let session = Session::new().await;
    let slow = Pace::per_word(Duration::from_secs(1));
    let model = session.model([
        Turn::new().call("measure", json!({})),
        Turn::new().text("so it is, and so it was, and so it will be"),
    ]);
    let model = model.pace(slow);
    let agent = session.start(session.agent(&model).tool(elsewhere(Effect::Pure))).await;
    session.say("m1", "rain?").await;
    pending(&session).await;
    die(&session, 1).await;
    let executing = session.rows::<ToolCall>().remove(0);
    let answered = session.db.rows::<ToolCall>().unwrap().update(CALL, |row| {
        (row.status, row.result) = (CallStatus::Completed, Some(json!("3")));
    });
    answered.unwrap().settled().await.unwrap();
    session.until::<Step>(|steps| steps.len() == 2).await;
    agent.abort();
    write_late(&session, &executing).await;
    let agent = session.start(session.agent(&model).tool(elsewhere(Effect::Pure))).await;
    assert_eq!(session.outcome().await, (GenerationStatus::Completed, None));
    assert_eq!(session.rows::<ToolCall>().remove(0).status, CallStatus::Completed);
    assert_eq!(session.db.late_writes(), 1);
    agent.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_has_become_of_a_background_job_is_told_in_the_conversation_and_answered() {
    let session = Session::new().await;
    let model = session.model([
        Turn::new().call("report", json!({})),
        Turn::new().text("I have asked for it."),
        Turn::new().text("The report is there."),
    ]);
    let report = Tool::builder("report", "Makes a report.")
        .effect(Effect::Pure)
        .run({
            let sys = session.sys.clone();
            move |_: Value, _: ToolContext| {
                let sys = sys.clone();
                async move {
                    sys.clock.sleep(Duration::from_mins(1)).await;
                    Ok("12 pages")
                }
            }
        })
        .unwrap();
    let (db, builder) = executor(&session, report.clone()).await;
    let (messages, sys) = (db.rows::<Message>().unwrap(), session.sys.clone());
    let running = builder
        .on_complete(move |row: ToolCall, answer| {
            let text = format!("The job {} says: {answer:?}", row.id);
            let message = Message::to_agent("assistant", "jobs", &text, &sys);
            let written = messages.insert(message);
            async move { written.unwrap().settled().await.unwrap() }
        })
        .start()
        .unwrap();
    let calls = db.rows::<ToolCall>().unwrap();
    let job = report.background(&calls, &Asking::of_generation("jobs")).unwrap();
    let agent = session.start(session.agent(&model).tool(job)).await;
    session.say("m1", "a report, please").await;
    let over = session.over(2).await;
    assert!(over.iter().all(|it| it.status == GenerationStatus::Completed));
    let transcript = session.transcript();
    assert!(transcript[2].ends_with("I have asked for it."), "{transcript:?}");
    assert!(transcript[3].contains("12 pages"), "{transcript:?}");
    assert_eq!(transcript[4], "assistant: The report is there.");
    running.dispose().await;
    agent.stop().await.unwrap();
}
