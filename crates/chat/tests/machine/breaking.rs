//! Conversations and answers that are made to confuse a machine.

use chat::{
    BadToolbox, CallEnd, Message, ModelEvent, OutputSpec, Part, Role, StopReason, Structured, Tool,
    ToolCall, ToolContext, ToolResult, Toolbox,
    agui::Content,
    caps::{TOOLS_MAX, TOOLS_TOLD_MAX},
    machine::{DISCOVERY_TOOL, Done, Failure, Input, Machine, Output, Start, Step},
};
use serde_json::{Value, json};

use crate::play::{Play, call_turn, check_history, plan, text_turn};

fn call(id: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: "add".into(),
        arguments: r#"{"a": 1}"#.to_owned(),
        ..ToolCall::default()
    })
}

fn asked(id: &str, calls: &[&str]) -> Message {
    Message::new(id, Role::Assistant, calls.iter().map(|id| call(id)).collect())
}

fn answered(id: &str, call_id: &str, text: &str) -> Message {
    let content = Content::Text(text.to_owned());
    let result = ToolResult { call_id: call_id.into(), content, end: CallEnd::Done };
    Message::new(id, Role::Tool, vec![Part::ToolResult(result)])
}

fn user(id: &str) -> Message {
    Message::text(id, Role::User, "Go on.")
}

fn start(messages: Vec<Message>) -> Machine {
    let (thread_id, run_id) = ("t".into(), "run".into());
    let start = Start { thread_id, run_id, parent_run_id: None, messages };
    Machine::start(plan(), start).unwrap().0
}

fn tool(name: &str) -> Tool {
    let tool = Tool::builder(name, "Says nothing.");
    tool.run(|_: Value, _: ToolContext| async { Ok(String::new()) }).unwrap()
}

#[test]
fn open_calls_that_share_an_id_are_each_made_once() {
    let mut machine = start(vec![user("u"), asked("m", &["x", "x", "", "x"])]);
    let mut events = Vec::new();
    let Step::CallTools(calls) = machine.next_step() else { panic!() };
    assert_eq!(calls.len(), 4);
    for call in calls {
        let content = Content::Text(call.id.to_string());
        let result = ToolResult { call_id: call.id, content, end: CallEnd::Done };
        machine.feed(Input::Tool(result), &mut events).unwrap();
    }
    let Step::CallModel(request) = machine.next_step() else { panic!() };
    check_history(&request);
    assert_eq!(request.messages.len(), 6);
}

#[test]
fn a_result_belongs_to_the_call_that_it_follows() {
    let messages = vec![
        user("u"),
        asked("m1", &["x"]),
        user("v"),
        asked("m2", &["x"]),
        answered("r", "x", "2"),
    ];
    let machine = start(messages);
    let Step::CallModel(request) = machine.next_step() else { panic!("the call is made again") };
    check_history(&request);
    assert_eq!(*request.messages[5], answered("r", "x", "2"));
}

#[test]
fn a_second_result_answers_no_later_call() {
    let first = [user("u"), asked("m1", &["x"]), answered("r1", "x", "1")];
    let mut messages = first.to_vec();
    messages.extend([answered("r2", "x", "1"), user("v"), asked("m2", &["x"])]);
    let machine = start(messages);
    let Step::CallTools(calls) = machine.next_step() else { panic!("an old result was taken") };
    assert_eq!(calls.len(), 1);
}

#[test]
fn a_call_that_was_cut_off_before_its_arguments_is_not_made() {
    let mut turn = call_turn(&[("free", "")]);
    turn.events.retain(|event| !matches!(event, ModelEvent::Stop(_)));
    turn.events.push(ModelEvent::Stop(StopReason::Length));
    let mut play = Play::new(vec![turn]);
    play.plan.tools = Toolbox::new([tool("free")]).unwrap();
    let played = play.play();
    let result = played.messages[2].results().next().unwrap();
    assert_eq!(result.end, CallEnd::Failed);
    assert!(matches!(&result.content, Content::Text(why) if why.contains("cut off")));
}

#[test]
fn half_a_number_and_a_refusal_are_no_output() {
    for (stop, said) in [(StopReason::Length, "12"), (StopReason::Refusal, "120")] {
        let mut turn = text_turn(said);
        turn.events.retain(|event| !matches!(event, ModelEvent::Stop(_)));
        turn.events.push(ModelEvent::Stop(stop.clone()));
        let mut play = Play::new(vec![turn]);
        let spec = OutputSpec { name: "n".into(), schema: json!({ "type": "integer" }) };
        play.plan.output = Some(Output::new(spec, Structured::Combined).unwrap());
        let done = play.play().done;
        assert!(matches!(done, Some(Done::Failed(Failure::NoOutput { .. }))), "{stop:?}: {done:?}");
    }
}

#[test]
fn a_box_holds_so_many_tools_and_a_model_hears_of_few() {
    let tools = |count: usize| (0..count).map(|index| tool(&format!("tool_{index}")));
    assert_eq!(Toolbox::new(tools(TOOLS_MAX + 1)).unwrap_err(), BadToolbox::TooMany);
    let full = Toolbox::new(tools(TOOLS_MAX)).unwrap();
    let chat::Admission::Refused { why } = full.admit(&"x".repeat(1 << 20), "{}") else { panic!() };
    assert!(why.len() < 300 + TOOLS_TOLD_MAX * 12, "{}", why.len());
}

#[test]
fn no_tool_is_named_like_the_one_that_tells_of_lazy_tools() {
    let lazy = || {
        let lazy = Tool::builder("rare", "Does a rare thing.").lazy();
        lazy.run(|_: Value, _: ToolContext| async { Ok("") }).unwrap()
    };
    let error = Toolbox::new([tool(DISCOVERY_TOOL), lazy()]).unwrap_err();
    assert_eq!(error, BadToolbox::NamedLikeDiscovery { lazy: "rare".into() });
    let told = error.to_string();
    assert!(told.contains("another name") && told.contains("\"rare\""), "{told}");
    assert!(Toolbox::new([tool(DISCOVERY_TOOL), tool("common")]).is_ok());
    assert!(Toolbox::new([lazy()]).is_ok());
}
