//! `#[tool]`

use std::{fmt, time::Duration};

use chat::{Effect, Tool, ToolContext, ToolOutcome, schemars, tool};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{context, done, failed, simulated};

#[derive(Serialize, schemars::JsonSchema)]
struct Weather {
    degrees: i32,
}

#[derive(Debug)]
struct Unknown(String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no city {:?}", self.0)
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Celsius,
    Fahrenheit,
}

/// Tells the weather.
///
/// Of one city.
#[tool(
    name = "get-weather",
    effect = "pure",
    lazy,
    output,
    time_max_secs = 5,
    output_bytes_max = 1000
)]
async fn weather(
    /// The name of a city,
    /// such as Oslo.
    city: String,
    #[arg("In which unit.", default = Unit::Celsius)] unit: Unit,
    #[schemars(range(max = 7))] days: Option<u8>,
    #[arg(default = "calm")] mut mood: String,
    context: ToolContext,
) -> Result<Weather, Unknown> {
    mood.push('!');
    context.custom("mood", mood).await;
    if city == "Atlantis" {
        return Err(Unknown(city));
    }
    let degrees = i32::from(days.unwrap_or_default());
    Ok(Weather { degrees: if matches!(unit, Unit::Fahrenheit) { degrees + 32 } else { degrees } })
}

/// Answers nothing.
#[chat::tool]
pub(crate) async fn nothing() {}

/// Adds.
#[tool(needs_approval = |a: &u32, _: &u32| *a > 100)]
async fn add(a: u32, #[arg(default)] r#type: u32) -> u32 {
    a + r#type
}

/// Deletes all.
#[tool(needs_approval)]
async fn delete(context: ToolContext) -> Result<String, String> {
    Err(format!("{} is not to be called", context.tool()))
}

async fn call(tool: &Tool, arguments: Value) -> ToolOutcome {
    let (_canceller, context) = context();
    tool.call(arguments, context, &simulated()).await
}

#[test]
fn a_function_becomes_a_tool() {
    let tool = weather();
    let spec = tool.spec();
    assert_eq!(spec.name, "get-weather");
    assert_eq!(spec.description, "Tells the weather.\n\nOf one city.");
    assert_eq!((spec.effect, spec.lazy), (Effect::Pure, true));
    assert_eq!((spec.time_max, spec.output_bytes_max), (Duration::from_secs(5), 1000));
    assert_eq!(spec.output.as_ref().unwrap()["properties"]["degrees"]["type"], "integer");
    let input = &spec.input;
    assert_eq!(input["required"], json!(["city"]));
    assert_eq!(input["additionalProperties"], false);
    assert_eq!(input.get("title"), None);
    let properties = &input["properties"];
    assert_eq!(properties["city"]["description"], "The name of a city,\nsuch as Oslo.");
    assert_eq!(properties["unit"]["description"], "In which unit.");
    assert_eq!(properties["days"]["maximum"], 7);
    assert_eq!(properties["mood"]["default"], "calm");
    assert_eq!(properties.get("context"), None);
}

#[test]
fn its_arguments_are_checked() {
    let bad = weather().check(r#"{"city": "Oslo", "day": 3}"#).unwrap_err().to_string();
    assert!(bad.contains("'day' was unexpected"), "{bad}");
    assert!(weather().check(r#"{"city": "Oslo", "unit": null, "days": null}"#).is_ok());
}

#[test]
fn a_person_is_asked_as_it_says() {
    assert!(!add().needs_approval(&json!({"a": 100})));
    assert!(add().needs_approval(&json!({"a": 101})));
    assert!(delete().needs_approval(&json!({})));
    assert!(!nothing().needs_approval(&json!({})));
}

#[tokio::test(start_paused = true)]
async fn it_does_what_the_function_does() {
    let oslo = json!({"city": "Oslo", "unit": "fahrenheit", "days": 3});
    assert_eq!(call(&weather(), oslo).await, done(r#"{"degrees":35}"#));
    let unknown = failed("there is no city \"Atlantis\"");
    assert_eq!(call(&weather(), json!({"city": "Atlantis"})).await, unknown);
    assert_eq!(call(&nothing(), json!({})).await, done("null"));
    assert_eq!(call(&add(), json!({"a": 1})).await, done("1"));
    assert_eq!(call(&add(), json!({"a": 1, "type": 2})).await, done("3"));
    assert_eq!(call(&delete(), json!({})).await, failed("delete is not to be called"));
}
