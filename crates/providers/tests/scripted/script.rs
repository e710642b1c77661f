//! By a script.

use std::{sync::Arc, time::Duration};

use chat::{
    Block, BlockKind, Message, Model, ModelErrorKind, ModelEvent, OutputSpec, Role, StopReason,
    Structured, Tool, ToolContext, Usage, Verifier,
};
use futures_util::StreamExt;
use providers::scripted::{Call, Order, Pace, Script, Scripted, Turn};
use serde_json::{Value, json};
use sys::Cancellation;

use crate::{answer, asks, calls, simulated, stream, thoughts};

#[tokio::test(start_paused = true)]
async fn a_turn_is_streamed_word_by_word() {
    let model = Scripted::script([Turn::new().text("one two")], simulated());
    let events: Vec<_> = stream(&model, asks("three words here")).await;
    let block = Block(0);
    let more = |delta: &str| ModelEvent::More { block, delta: delta.to_owned() };
    let usage = Usage {
        provider: Some("scripted".to_owned()),
        model: Some("script".to_owned()),
        input_tokens: Some(3),
        output_tokens: Some(2),
        total_tokens: Some(5),
        ..Usage::default()
    };
    let expected = [
        ModelEvent::Answering { model: "script".into() },
        ModelEvent::Open { block, kind: BlockKind::Text },
        more("one "),
        more("two"),
        ModelEvent::Close { block },
        ModelEvent::Usage(usage),
        ModelEvent::Stop(StopReason::End),
    ];
    assert_eq!(events.into_iter().map(Result::unwrap).collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn thoughts_and_calls_are_as_the_script_says() {
    let oslo = json!({"city": "Oslo", "days": [1, 2, 3]});
    let turn = Turn::new().think("hm, well").calls([
        Call::new("weather", oslo.clone()),
        Call::new("weather", json!("{broken")),
        Call::new("nothing", json!(null)),
    ]);
    let model = Scripted::script([turn.clone(), turn], simulated());
    let (message, stop) = answer(&model, asks("?")).await;
    assert_eq!(stop, Some(StopReason::ToolCalls));
    assert_eq!(thoughts(&message), "hm, well");
    let expected = [
        ("weather".into(), oslo.to_string()),
        ("weather".into(), "{broken".to_owned()),
        ("nothing".into(), String::new()),
    ];
    assert_eq!(calls(&message), expected);
    let ids: Vec<_> = message.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call-1-0", "call-1-1", "call-1-2"]);
    assert_eq!(answer(&model, asks("?")).await.0, message, "the same again");
}

#[tokio::test(start_paused = true)]
async fn it_ends_as_the_script_says() {
    let filtered = Turn::new().text("x").stop(StopReason::ContentFilter).text("never");
    let silent = Turn::new().call("a", json!({})).stop_without_reason();
    let model = Scripted::script([filtered, silent], simulated());
    let (message, stop) = answer(&model, asks("?")).await;
    assert_eq!((message.text_content().as_str(), stop), ("x", Some(StopReason::ContentFilter)));
    assert_eq!(answer(&model, asks("?")).await.1, None);
}

#[tokio::test(start_paused = true)]
async fn it_fails_in_chosen_ways_and_then_goes_on() {
    let turns = [
        Turn::new().fail(ModelErrorKind::RateLimited),
        Turn::new().text("half of").disconnect().text("never"),
        Turn::new().text("whole"),
    ];
    let model = Scripted::script(turns, simulated());
    let kind = |events: Vec<Result<_, chat::ModelError>>| {
        let last = events.last().cloned().unwrap();
        (events.len(), last.unwrap_err().kind)
    };
    assert_eq!(kind(stream(&model, asks("?")).await), (2, ModelErrorKind::RateLimited));
    assert_eq!(kind(stream(&model, asks("?")).await), (6, ModelErrorKind::Truncated));
    assert_eq!(answer(&model, asks("?")).await.0.text_content(), "whole");
    let over = stream(&model, asks("?")).await.pop().unwrap().unwrap_err();
    assert!(!over.is_retryable());
    assert_eq!(
        over.to_string(),
        "scripted: the script has 3 turns, and this is turn 4; give it more"
    );
}

#[tokio::test(start_paused = true)]
async fn any_process_can_go_on_in_the_conversation() {
    let script: Script =
        [Turn::new().text("first"), Turn::new().text("second")].into_iter().collect();
    let model = Scripted::ordered(script, Order::ByConversation, simulated()).recording();
    let mut request = asks("?");
    assert_eq!(answer(&model, request.clone()).await.0.text_content(), "first");
    assert_eq!(answer(&model, request.clone()).await.0.text_content(), "first");
    request.messages.push(Arc::new(Message::text("m2", Role::Assistant, "first")));
    assert_eq!(answer(&model, request.clone()).await.0.text_content(), "second");
    let asked: Vec<_> = model.requests().iter().map(|request| request.messages.len()).collect();
    assert_eq!(asked, [1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_cut_where_it_becomes_too_long() {
    let turn = Turn::new().think("a b").text("c d e").text("never");
    let arguments = Turn::new().call("a", json!({"a long": "argument"}));
    let model = Scripted::script([turn, arguments], simulated());
    let mut request = asks("?");
    request.settings.tokens_max = Some(4);
    let (message, stop) = answer(&model, request.clone()).await;
    assert_eq!(stop, Some(StopReason::Length));
    assert_eq!((thoughts(&message).as_str(), message.text_content().as_str()), ("a b", "c d "));
    request.settings.tokens_max = Some(1);
    let (message, stop) = answer(&model, request).await;
    assert_eq!(stop, Some(StopReason::Length));
    assert_eq!(calls(&message), [("a".into(), "{\"a long".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn it_speaks_at_its_pace_and_pauses() {
    let sys = simulated();
    let pace = Pace::per_word(Duration::from_millis(20));
    let turn = Turn::new().text("one two three").pause_ms(1_000);
    let model = Scripted::script([turn], sys.clone()).pace(pace);
    answer(&model, asks("?")).await;
    assert_eq!(sys.clock.unix_ms().get(), 1_060);
}

#[tokio::test(start_paused = true)]
async fn it_stops_soon_after_nobody_waits() {
    let sys = simulated();
    let pace = Pace::per_word(Duration::from_secs(3_600));
    let model = Scripted::script([Turn::new().text("one two")], sys.clone()).pace(pace);
    let (canceller, cancellation) = Cancellation::new();
    let mut events = model.call(Arc::new(asks("?")), cancellation);
    assert!(matches!(events.next().await, Some(Ok(ModelEvent::Answering { .. }))));
    assert!(matches!(events.next().await, Some(Ok(ModelEvent::Open { .. }))));
    let (last, ()) = tokio::join!(events.next(), async { canceller.cancel() });
    assert_eq!(last.unwrap().unwrap_err().kind, ModelErrorKind::Cancelled);
    assert!(events.next().await.is_none());
    assert_eq!(sys.clock.unix_ms().get(), 0);
}

#[tokio::test(start_paused = true)]
async fn whatever_it_says_becomes_events_in_the_right_order() {
    let sys = simulated();
    let block = Block(0);
    let odd = Turn::new()
        .event(ModelEvent::Open { block, kind: BlockKind::RedactedThinking })
        .event(ModelEvent::Sign { block, signature: "s".to_owned() })
        .event(ModelEvent::Note { name: "odd".into(), value: json!(1) });
    let scripts = [
        vec![Turn::new().think("hm").text("one").think("hm").text("two")],
        vec![Turn::new().calls([Call::new("add", json!({})), Call::new("none", json!("{"))])],
        vec![Turn::new().text("well").fail(ModelErrorKind::Unavailable)],
        vec![Turn::new().call("add", json!({})).disconnect()],
        vec![odd],
        vec![Turn::new()],
        Vec::new(),
    ];
    let add = Tool::builder("add", "Adds.");
    let add = add.run(|_: Value, _: ToolContext| async { Ok("1") }).unwrap();
    let models = scripts.map(|script| Scripted::script(script, sys.clone()));
    let demo = [Scripted::demo(sys.clone())];
    for (number, model) in models.into_iter().chain(demo).enumerate() {
        for output in [Structured::Combined, Structured::Final, Structured::Prompted] {
            let schema = json!({ "type": "object" });
            let model = Arc::new(model.clone().structured(output));
            let run = chat::chat(model).user("Please add.").tool(add.clone());
            let run = run.output(OutputSpec { name: "o".into(), schema });
            let mut run = run.stream(&sys).unwrap();
            let mut verifier = Verifier::new();
            while let Some(event) = run.next().await {
                verifier.push(&event).unwrap_or_else(|error| panic!("{number}: {error}"));
            }
            verifier.finish().unwrap_or_else(|error| panic!("{number}: {error}"));
        }
    }
}
