//! By rules.

use std::sync::Arc;

use chat::{
    OutputSpec, Request, Schema, StopReason, ThinkingEffort, Tool, ToolChoice, ToolSpec, tool,
};
use providers::scripted::Scripted;
use serde_json::{Value, json};

use crate::{answer, answered, asks, calls, simulated, thoughts};

/// Tells the weather.
#[tool]
async fn weather(city: String, days: Option<u8>) -> String {
    format!("{city} {days:?}")
}

/// Rolls a die.
#[tool]
async fn roll_die(sides: u8) -> u8 {
    sides
}

fn offered(question: &str, tools: &[Tool]) -> Request {
    let tools: Vec<Arc<ToolSpec>> = tools.iter().map(|tool| tool.spec().clone()).collect();
    Request { tools, ..asks(question) }
}

async fn said(request: Request) -> String {
    let (message, stop) = answer(&Scripted::demo(simulated()), request).await;
    assert_eq!(stop, Some(StopReason::End));
    assert_eq!(message.calls().count(), 0);
    message.text_content()
}

const TWO_CITIES: &str = "How is the weather in Oslo and Lima?";

#[tokio::test(start_paused = true)]
async fn two_cities_are_two_calls_at_once_and_then_an_answer() {
    let model = Scripted::demo(simulated());
    let request = offered(TWO_CITIES, &[weather(), roll_die()]);
    let (message, stop) = answer(&model, request.clone()).await;
    assert_eq!(stop, Some(StopReason::ToolCalls));
    assert_eq!(thoughts(&message), "These are 2 questions. I can ask weather all at once.");
    let expected = [
        ("weather".into(), r#"{"city":"Oslo"}"#.to_owned()),
        ("weather".into(), r#"{"city":"Lima"}"#.to_owned()),
    ];
    assert_eq!(calls(&message), expected);
    for call in message.calls() {
        assert!(weather().check(&call.arguments).is_ok());
    }
    let request = answered(request, message, |call| {
        let is_oslo = call.arguments.contains("Oslo");
        if is_oslo { r#"{"degrees": 7, "sky": "clear"}"#.into() } else { "It rains.".into() }
    });
    assert_eq!(said(request).await, "Oslo: 7 °C, clear.\nLima: It rains.");
}

#[tokio::test(start_paused = true)]
async fn it_does_as_it_is_told() {
    let model = Scripted::demo(simulated());
    let mut request = offered(TWO_CITIES, &[weather(), roll_die()]);
    request.settings.parallel_tools = Some(false);
    request.settings.thinking = Some(ThinkingEffort::Off);
    let (message, _) = answer(&model, request.clone()).await;
    assert_eq!(calls(&message), [("weather".into(), r#"{"city":"Oslo"}"#.to_owned())]);
    assert_eq!(thoughts(&message), "");
    let after = answered(request.clone(), message, |_| "fine".to_owned());
    let (message, _) = answer(&model, after.clone()).await;
    assert_eq!(calls(&message), [("weather".into(), r#"{"city":"Lima"}"#.to_owned())]);
    let after = answered(after, message, |_| "fine".to_owned());
    assert_eq!(said(after).await, "Oslo: fine\nLima: fine");
    request.choice = ToolChoice::Tool("roll_die".into());
    let (message, _) = answer(&model, request.clone()).await;
    assert_eq!(calls(&message), [("roll_die".into(), r#"{"sides":1}"#.to_owned())]);
    request.choice = ToolChoice::None;
    said(request).await;
    let mut request = offered("hello", &[roll_die()]);
    request.choice = ToolChoice::Required;
    assert_eq!(answer(&model, request).await.0.calls().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_named_is_called() {
    let model = Scripted::demo(simulated());
    let request = offered("please call roll_die!", &[weather(), roll_die()]);
    let (message, _) = answer(&model, request.clone()).await;
    assert_eq!(calls(&message), [("roll_die".into(), r#"{"sides":1}"#.to_owned())]);
    let request = answered(request, message, |_| "4".to_owned());
    assert_eq!(said(request).await, "roll_die says: 4");
}

#[tokio::test(start_paused = true)]
async fn it_says_what_it_is() {
    for (question, expected) in [
        ("Hello!", "Hello! I am a scripted model"),
        ("Who are you?", "I am a scripted model"),
        ("Why is the sky blue?", "You said: “Why is the sky blue?” I am a scripted model"),
        ("", "You have said nothing yet."),
        (TWO_CITIES, "I cannot tell: nobody has given me a tool"),
        ("Please summarize: one two", "In short: Please summarize: one two"),
    ] {
        let answer = said(asks(question)).await;
        assert!(answer.starts_with(expected), "{answer}");
    }
    let answer = said(offered("How is the weather?", &[weather()])).await;
    assert!(answer.starts_with("For which city?"), "{answer}");
    assert!(said(Request::default()).await.starts_with("You have said nothing yet."));
}

#[tokio::test(start_paused = true)]
async fn an_answer_by_a_schema_fits_it_and_tells_what_tools_have_told() {
    let schema = json!({"type": "object", "required": ["cities", "mood"], "properties": {
        "mood": {"enum": ["fine", "bad"]},
        "cities": {"type": "array", "items": {"$ref": "#/$defs/city"}},
    }, "$defs": {"city": {"type": "object", "required": ["city", "degrees"], "properties": {
        "city": {"type": "string"},
        "degrees": {"type": "integer"},
    }}}});
    let output = Some(OutputSpec { name: "report".into(), schema: schema.clone() });
    let model = Scripted::demo(simulated());
    let request = Request { output, ..offered(TWO_CITIES, &[weather()]) };
    let (message, stop) = answer(&model, request.clone()).await;
    assert_eq!(stop, Some(StopReason::ToolCalls), "tools come first");
    let request = answered(request, message, |call| {
        let degrees = if call.arguments.contains("Oslo") { 7 } else { 20 };
        json!({"degrees": degrees}).to_string()
    });
    let value: Value = serde_json::from_str(&said(request.clone()).await).unwrap();
    assert_eq!(Schema::new(schema).unwrap().check(&value), Ok(()));
    let cities = json!([{"city": "Oslo", "degrees": 7}, {"city": "Lima", "degrees": 20}]);
    assert_eq!(value, json!({"mood": "fine", "cities": cities}));
    let request = Request { output: request.output, ..asks("hello") };
    let value: Value = serde_json::from_str(&said(request).await).unwrap();
    assert_eq!(value["mood"], "fine");
}
