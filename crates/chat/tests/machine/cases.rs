//! Runs fed by hand.

use chat::{
    Block, BlockKind, CallEnd, Id, Message, ModelEvent, Part, Role, StopReason, Structured, Tool,
    ToolCall, ToolResult, Toolbox,
    agui::{Content, EventKind, Outcome, ResumeEntry, ResumeStatus},
    machine::{
        DISCOVERY_TOOL, Decision, Done, Failure, Input, Machine, Misfed, NoMessages, Plan, Start,
        Step, Strategy,
    },
};
use serde_json::{Map, Value, json};

use crate::play::{Play, Played, Script, block, call_turn, plan, text_turn, usage, with_output};

/// The machine after a turn of these calls.
fn after_calls(calls: &[(&str, &str)]) -> Machine {
    let start = Start {
        thread_id: "t".into(),
        run_id: "run".into(),
        parent_run_id: None,
        messages: vec![Message::text("u1", Role::User, "Hello?")],
    };
    let (mut machine, mut events) = Machine::start(plan(), start).unwrap();
    for event in call_turn(calls).events {
        machine.feed(Input::Model(event), &mut events).unwrap();
    }
    machine.feed(Input::ModelEnded, &mut events).unwrap();
    machine
}

fn names(played: &Played) -> Vec<&str> {
    played.events.iter().map(|event| event.name()).collect()
}

fn result_texts(played: &Played) -> Vec<(String, CallEnd)> {
    let results = played.messages.iter().flat_map(|message| message.results());
    let text = |content: &Content| match content {
        Content::Text(text) => text.clone(),
        parts @ Content::Parts(_) => panic!("{parts:?}"),
    };
    results.map(|result| (text(&result.content), result.end)).collect()
}

#[test]
fn a_text_is_streamed_under_the_id_of_its_message() {
    let played = Play::new(vec![text_turn("Hi there")]).play();
    assert_eq!(
        names(&played),
        [
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED"
        ]
    );
    assert_eq!(played.messages[1], Message::text("run:1", Role::Assistant, "Hi there"));
    let stop = Some(StopReason::End);
    assert_eq!(played.done, Some(Done::Finished { stop, output: None }));
    let last = serde_json::to_value(played.events.last().unwrap()).unwrap();
    assert_eq!(
        last["metadata"]["tanstack"],
        json!({ "finishReason": "stop", "model": "scripted" })
    );
    assert_eq!(last["outcome"], json!({ "type": "success" }));
}

#[test]
fn calls_count_and_not_what_the_model_says_of_itself() {
    for reason in [Some(StopReason::End), Some(StopReason::Length), None] {
        let mut turn = call_turn(&[("add", "{\"n\":1}")]);
        turn.events.pop();
        turn.events.extend(reason.map(ModelEvent::Stop));
        let played = Play::new(vec![turn]).play();
        assert_eq!(played.requests, 2);
        assert_eq!(result_texts(&played), [("add of {\"n\":1}".to_owned(), CallEnd::Done)]);
    }
    let mut turn = text_turn("No tools here.");
    turn.events.pop();
    turn.events.push(ModelEvent::Stop(StopReason::ToolCalls));
    assert_eq!(Play::new(vec![turn]).play().requests, 1);
}

#[test]
fn what_cannot_be_called_is_told_to_the_model() {
    let calls = [("nobody", "{}"), ("add", "{\"n\":"), ("add", "{\"n\":2}")];
    let played = Play::new(vec![call_turn(&calls)]).play();
    let results = result_texts(&played);
    assert!(results[0].0.contains("no tool \"nobody\"") && results[0].0.contains("add"));
    assert!(results[1].0.contains("the arguments of \"add\""), "{}", results[1].0);
    assert_eq!(results[2], ("add of {\"n\":2}".to_owned(), CallEnd::Done));
    assert_eq!((results[0].1, results[1].1), (CallEnd::Failed, CallEnd::Failed));
}

#[test]
fn nothing_of_a_batch_runs_before_all_is_decided() {
    let calls = [("add", "{\"n\":1}"), ("ask", "{\"n\":2}"), ("screen", "{}")];
    let mut machine = after_calls(&calls);
    let Step::AwaitApproval(asked) = machine.next_step() else { panic!() };
    assert_eq!(asked.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["ask"]);
    let events = &mut Vec::new();
    let decision = Decision::Approve { edited: Some(json!({ "n": "two" })) };
    let call_id = asked[0].id.clone();
    let bad = machine.feed(Input::Decided { call_id: call_id.clone(), decision }, events);
    assert!(matches!(bad, Err(Misfed::BadEdit { .. })));
    let decision = Decision::Approve { edited: Some(json!({ "n": 3 })) };
    machine.feed(Input::Decided { call_id: call_id.clone(), decision }, events).unwrap();
    let Step::CallTools(ready) = machine.next_step() else { panic!() };
    assert_eq!(ready.len(), 2);
    assert_eq!(ready[1].arguments, json!({ "n": 3 }));
    // The model sees what was run.
    let call = machine.messages()[1].calls().find(|call| call.id == call_id).unwrap();
    assert_eq!(call.arguments, "{\"n\":3}");
    for call in ready {
        let result = crate::play::outcome(&call);
        machine.feed(Input::Tool(result.clone()), events).unwrap();
        let twice = machine.feed(Input::Tool(result), events);
        assert!(matches!(twice, Err(Misfed::AlreadyAnswered { .. })));
    }
    let Step::AwaitClientTools(waiting) = machine.next_step() else { panic!() };
    assert_eq!(waiting.len(), 1);
}

#[test]
fn an_interrupted_run_is_resumed_by_its_answers() {
    let mut machine = after_calls(&[("ask", "{\"n\":2}"), ("screen", "{}")]);
    let events = &mut Vec::new();
    machine.feed(Input::Suspend, events).unwrap();
    let EventKind::RunFinished(finished) = &events.last().unwrap().kind else { panic!() };
    let Some(Outcome::Interrupt { interrupts }) = &finished.outcome else { panic!() };
    let ids: Vec<_> = interrupts.iter().map(|interrupt| interrupt.id.as_str()).collect();
    assert_eq!(ids, ["approval_call_0", "client_tool_call_1"]);
    assert!(matches!(machine.feed(Input::Suspend, events), Err(Misfed::NotNow { .. })));
    let saved = serde_json::to_string(&machine.save()).unwrap();
    let mut machine = Machine::restore(plan(), serde_json::from_str(&saved).unwrap());
    let begun = machine.resume("run2").unwrap();
    let EventKind::RunStarted(started) = &begun[0].kind else { panic!() };
    assert_eq!(started.parent_run_id.as_deref(), Some("run"));
    let entry = |id: &str, payload: Value| ResumeEntry {
        interrupt_id: id.into(),
        status: ResumeStatus::Resolved,
        payload: Some(payload),
        metadata: None,
        others: Map::new(),
    };
    let unknown = machine.read_answer(&entry("approval_nobody", json!(true)));
    assert!(matches!(unknown, Err(Misfed::UnknownInterrupt { .. })));
    for entry in [
        entry("approval_call_0", json!({ "approved": false, "payload": "Not today." })),
        entry("client_tool_call_1", json!({ "width": 3 })),
    ] {
        let input = machine.read_answer(&entry).unwrap();
        machine.feed(input, events).unwrap();
    }
    assert!(matches!(machine.next_step(), Step::CallModel(_)));
    let results: Vec<&ToolResult> =
        machine.messages().iter().flat_map(|message| message.results()).collect();
    assert_eq!(results[0].content, Content::Text("Not today.".to_owned()));
    assert_eq!(results[0].end, CallEnd::Denied);
    assert_eq!(results[1].content, Content::Text("{\"width\":3}".to_owned()));
}

#[test]
fn whatever_is_not_a_clear_yes_is_a_no() {
    let machine = after_calls(&[("ask", "{\"n\":2}")]);
    let read = |payload: Option<Value>| {
        let entry = ResumeEntry {
            interrupt_id: "approval_call_0".into(),
            status: ResumeStatus::Resolved,
            payload,
            metadata: None,
            others: Map::new(),
        };
        match machine.read_answer(&entry).unwrap() {
            Input::Decided { decision, .. } => decision,
            other => panic!("{other:?}"),
        }
    };
    for no in [
        None,
        Some(json!("yes")),
        Some(json!({})),
        Some(json!({ "approved": "true" })),
        Some(json!({ "approved": true, "edited_args": { "n": 1 } })),
    ] {
        assert_eq!(read(no), Decision::Deny { answer: None });
    }
    assert_eq!(read(Some(json!(true))), Decision::Approve { edited: None });
    let edited = json!({ "approved": true, "editedArgs": { "n": 5 } });
    assert_eq!(read(Some(edited)), Decision::Approve { edited: Some(json!({ "n": 5 })) });
}

#[test]
fn a_lazy_tool_is_told_of_when_it_is_asked_for() {
    let lazy = Tool::builder("rare", "Does a rare thing.").input_schema(json!({
        "type": "object", "properties": { "deep": { "type": "boolean" } },
    }));
    let lazy = lazy.lazy().run(|_, _| async { Ok("done") }).unwrap();
    let plan = Plan { tools: Toolbox::new([lazy]).unwrap(), ..plan() };
    let start = Start {
        run_id: "run".into(),
        messages: vec![Message::text("u1", Role::User, "Hello?")],
        ..Start::default()
    };
    let (mut machine, mut events) = Machine::start(plan, start).unwrap();
    let offered = |machine: &Machine| match machine.next_step() {
        Step::CallModel(request) => {
            request.tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>()
        }
        step => panic!("{step:?}"),
    };
    assert_eq!(offered(&machine), [DISCOVERY_TOOL]);
    let mut take = |machine: &mut Machine, turn: Script| {
        for event in turn.events {
            machine.feed(Input::Model(event), &mut events).unwrap();
        }
        machine.feed(Input::ModelEnded, &mut events).unwrap();
    };
    // The machine answers this one itself.
    take(&mut machine, call_turn(&[(DISCOVERY_TOOL, "{\"names\":[\"rare\",\"none\"]}")]));
    let told = machine.messages().last().unwrap().results().next().unwrap().clone();
    let Content::Text(told) = told.content else { panic!() };
    assert!(told.contains("\"deep\"") && told.contains("there is no such tool"), "{told}");
    assert_eq!(offered(&machine), ["rare"]);
    take(&mut machine, call_turn(&[("rare", "{\"deep\":true}")]));
    assert!(matches!(machine.next_step(), Step::CallTools(calls) if calls.len() == 1));
}

#[test]
fn what_a_client_answers_must_be_what_its_tool_promises() {
    let screen = Tool::builder("screen", "Tells how wide it is.")
        .input_schema(json!({ "type": "object" }))
        .output_schema(json!({ "type": "integer" }));
    let tools = Toolbox::new([screen.client().unwrap()]).unwrap();
    let start = Start {
        run_id: "run".into(),
        messages: vec![Message::text("u1", Role::User, "How wide?")],
        ..Start::default()
    };
    let (mut machine, mut events) = Machine::start(Plan { tools, ..plan() }, start).unwrap();
    for event in call_turn(&[("screen", "{}")]).events {
        machine.feed(Input::Model(event), &mut events).unwrap();
    }
    machine.feed(Input::ModelEnded, &mut events).unwrap();
    let interrupt = machine.interrupts().remove(0);
    let bad = machine.read_answer(&interrupt.resolve("wide"));
    assert!(matches!(bad, Err(Misfed::BadOutput { .. })), "{bad:?}");
    assert!(machine.read_answer(&interrupt.resolve(1280)).is_ok());
    let gone = machine.read_answer(&interrupt.cancel()).unwrap();
    machine.feed(gone, &mut events).unwrap();
    assert!(matches!(machine.next_step(), Step::CallModel(_)));
}

#[test]
fn calls_at_the_end_of_a_conversation_are_made_first() {
    let call = |id: &str| {
        let (name, arguments) = (Id::from("add"), "{\"n\":1}".to_owned());
        Part::ToolCall(ToolCall { id: id.into(), name, arguments, ..ToolCall::default() })
    };
    let mut play = Play::new(Vec::new());
    play.start.push(Message::new("a", Role::Assistant, vec![call("forgotten")]));
    play.start.push(Message::text("u2", Role::User, "Well?"));
    play.start.push(Message::new("b", Role::Assistant, vec![call("open")]));
    let played = play.play();
    let results = result_texts(&played);
    assert_eq!(results[0], ("This call was never answered.".to_owned(), CallEnd::Cancelled));
    assert_eq!(results[1], ("add of {\"n\":1}".to_owned(), CallEnd::Done));
    assert_eq!(played.messages[2].role, Role::Tool);
}

#[test]
fn a_conversation_keeps_no_room_to_grow() {
    let machine = after_calls(&[("add", "{\"n\":12345}")]);
    let asked = &machine.messages()[1];
    assert_eq!(asked.parts.capacity(), 1);
    let call = asked.calls().next().unwrap();
    assert_eq!(call.arguments.capacity(), call.arguments.len());
}

#[test]
fn ids_of_calls_stay_unique() {
    let turn = || call_turn(&[("add", "{}"), ("add", "{}")]);
    let played = Play::new(vec![turn(), turn()]).play();
    let calls = played.messages.iter().flat_map(|message| message.calls());
    let ids: Vec<_> = calls.map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_0", "call_1", "run:2:0", "run:2:1"]);
}

#[test]
fn a_stopped_run_leaves_no_call_without_a_result() {
    let start = Start {
        run_id: "run".into(),
        messages: vec![Message::text("u1", Role::User, "Hello?")],
        ..Start::default()
    };
    let (mut machine, mut events) = Machine::start(plan(), start).unwrap();
    let kind = BlockKind::Call { id: Some("c".into()), name: "add".into() };
    let open = ModelEvent::Open { block: Block(0), kind };
    machine.feed(Input::Model(open), &mut events).unwrap();
    let delta = "{\"n".to_owned();
    let more = ModelEvent::More { block: Block(0), delta };
    machine.feed(Input::Model(more), &mut events).unwrap();
    machine.feed(Input::Cancel { reason: None }, &mut events).unwrap();
    assert_eq!(machine.next_step(), Step::Done(Done::Cancelled { reason: None }));
    let names: Vec<_> = events.iter().map(|event| event.name()).collect();
    let end = ["TOOL_CALL_END", "TOOL_CALL_RESULT", "RUN_FINISHED"];
    assert_eq!(names[names.len() - 3..], end);
    assert_eq!(machine.messages().len(), 3);
}

#[test]
fn output_is_read_mended_and_told() {
    for how in [Structured::Combined, Structured::Prompted] {
        let mut play =
            Play::new(vec![text_turn("{\"n\":\"x\"}"), text_turn("```json\n{\"n\":4}\n```")]);
        play.plan = with_output(how);
        let played = play.play();
        let Some(Done::Finished { output, .. }) = &played.done else { panic!("{played:?}") };
        assert_eq!(output, &Some(json!({ "n": 4 })));
        assert_eq!(played.messages[2].role, Role::Developer);
        assert!(played.messages[2].text_content().contains("/n: \"x\" is not of type"));
        assert!(names(&played).contains(&"CUSTOM"));
    }
}

#[test]
fn output_may_need_a_turn_of_its_own() {
    let turns = vec![call_turn(&[("add", "{}")]), text_turn("It is four."), text_turn("{\"n\":4}")];
    let mut play = Play::new(turns);
    play.plan = with_output(Structured::Final);
    let played = play.play();
    assert_eq!(played.requests, 3);
    assert!(matches!(played.done, Some(Done::Finished { output: Some(_), .. })));
}

#[test]
fn output_that_never_fits_is_a_failure() {
    let mut play = Play::new((0..9).map(|_| text_turn("no")).collect());
    play.plan = with_output(Structured::Combined);
    let played = play.play();
    assert_eq!(played.requests, 3);
    let Some(Done::Failed(failure @ Failure::NoOutput { .. })) = &played.done else { panic!() };
    assert_eq!((failure.code(), failure.is_retryable()), ("no-output", false));
    let mut turn = text_turn("I will not.");
    turn.events.pop();
    turn.events.push(ModelEvent::Stop(StopReason::Refusal));
    let mut play = Play::new(vec![turn]);
    play.plan = with_output(Structured::Combined);
    let played = play.play();
    assert_eq!(played.requests, 1);
    assert!(matches!(played.done, Some(Done::Failed(_))));
}

#[test]
fn usage_adds_up_by_model() {
    let turn = |input, output| {
        let mut turn = call_turn(&[("add", "{}")]);
        turn.events.push(usage(1, 1));
        turn.events.push(usage(input, output));
        turn
    };
    let played = Play::new(vec![turn(10, 1), turn(20, 2)]).play();
    let last = serde_json::to_value(played.events.last().unwrap()).unwrap();
    let spent = json!([{ "provider": "test", "model": "scripted",
                         "inputTokens": 30, "outputTokens": 3 }]);
    assert_eq!(last["usage"], spent);
}

#[test]
fn a_paused_model_is_asked_to_go_on() {
    let mut turn = text_turn("Searching");
    turn.events.pop();
    turn.events.push(ModelEvent::Stop(StopReason::Pause));
    assert_eq!(Play::new(vec![turn]).play().requests, 2);
}

#[test]
fn what_a_provider_ran_is_not_run_again() {
    let kind = BlockKind::ProviderCall { id: Some("s".into()), name: "web_search".into() };
    let mut events = block(0, kind, "{\"q\":\"rust\"}");
    events.push(ModelEvent::ProviderResult { block: Block(0), result: json!({ "hits": 3 }) });
    events.extend(block(1, BlockKind::Text, "Three hits."));
    let played = Play::new(vec![Script { events, failure: None }]).play();
    assert_eq!(played.requests, 1);
    let Part::ToolCall(call) = &played.messages[1].parts[0] else { panic!() };
    assert_eq!(call.provider_result, Some(json!({ "hits": 3 })));
}

#[test]
fn bad_blocks_change_nothing() {
    let start = Start {
        run_id: "run".into(),
        messages: vec![Message::text("u1", Role::User, "Hello?")],
        ..Start::default()
    };
    let (mut machine, mut events) = Machine::start(plan(), start).unwrap();
    let before = (machine.save(), events.clone());
    for event in [
        ModelEvent::More { block: Block(3), delta: "x".to_owned() },
        ModelEvent::Close { block: Block(3) },
        ModelEvent::ProviderResult { block: Block(3), result: Value::Null },
    ] {
        assert!(machine.feed(Input::Model(event), &mut events).is_err());
    }
    assert_eq!((machine.save(), events), before);
}

#[test]
fn nothing_to_say_is_an_error() {
    assert_eq!(Machine::start(plan(), Start::default()).unwrap_err(), NoMessages);
}

#[test]
fn strategies_combine() {
    let calls = || call_turn(&[("add", "{}")]);
    let mut play = Play::new(vec![calls(), calls(), calls()]);
    play.plan.strategy =
        Strategy::All(vec![Strategy::TurnsMax(10), Strategy::when(|run| run.calls < 2)]);
    let played = play.play();
    assert_eq!((played.requests, played.done), (2, Some(Done::TurnsExhausted)));
}

#[test]
fn a_run_goes_on_until_a_turn_stops_for_a_reason() {
    let calls = |stop: StopReason| {
        let mut turn = call_turn(&[("add", "{}")]);
        turn.events.pop();
        turn.events.push(ModelEvent::Stop(stop));
        turn
    };
    let turns = [StopReason::ToolCalls, StopReason::Pause, StopReason::End, StopReason::ToolCalls];
    let mut play = Play::new(turns.map(calls).to_vec());
    play.plan.strategy = Strategy::Until(vec![StopReason::End, StopReason::Length]);
    let played = play.play();
    assert_eq!((played.requests, played.done), (3, Some(Done::TurnsExhausted)));
    let many = Play::new((0..9).map(|_| calls(StopReason::ToolCalls)).collect());
    let plan = Plan { strategy: Strategy::Until(vec![StopReason::End]), ..plan() };
    assert_eq!(Play { plan, ..many }.play().requests, 10, "nothing else ends it");
}
