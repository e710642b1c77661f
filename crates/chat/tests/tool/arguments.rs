//! What a tool is made of, and what it may be called with.

use chat::{Admission, BadTool, Effect, Place, Tool, Toolbox, schemars};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, schemars::JsonSchema)]
struct Forecast {
    /// The name of a city.
    city: String,
    #[schemars(range(min = 1, max = 7))]
    days: Option<u8>,
    #[serde(default)]
    unit: Unit,
    #[serde(default)]
    stops: Vec<Stop>,
}

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Celsius,
    Fahrenheit,
}

/// Its schema does not tell that it must be even.
#[derive(Deserialize, schemars::JsonSchema)]
struct Stop {
    #[serde(deserialize_with = "even")]
    kilometre: u32,
}

fn even<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = u32::deserialize(deserializer)?;
    if number % 2 == 0 { Ok(number) } else { Err(serde::de::Error::custom("not even")) }
}

fn forecast() -> Tool {
    let builder = Tool::builder("weather", "Tells the weather.").input::<Forecast>();
    let builder = builder.approve_when(|forecast| forecast.city == "Pyongyang");
    builder
        .run(|forecast, _| async move {
            let Forecast { city, days, unit, stops } = forecast;
            let unit = if matches!(unit, Unit::Celsius) { "C" } else { "F" };
            let far = stops.iter().map(|stop| stop.kilometre).sum::<u32>();
            Ok(format!("{city} {days:?} {unit} {far}"))
        })
        .unwrap()
}

#[test]
fn arguments_that_do_not_fit_are_told_all_at_once() {
    let check = |arguments: &str, expected: Result<Value, &str>| {
        let checked = forecast().check(arguments).map_err(|bad| bad.to_string());
        let expected = expected.map_err(|why| format!("the arguments of \"weather\" {why}"));
        assert_eq!(checked, expected);
    };
    check(r#"{"city": "Oslo"}"#, Ok(json!({"city": "Oslo"})));
    check(r#"{"city": "Oslo", "days": null}"#, Ok(json!({"city": "Oslo", "days": null})));
    check(r#"{"city": "Oslo", "unit": null}"#, Ok(json!({"city": "Oslo"})));
    check(
        r#"{"days": 12}"#,
        Err("do not fit: \"city\" is required; /days: 12 is greater than the maximum of 7"),
    );
    check(
        r#"{"city": 3, "unit": "kelvin"}"#,
        Err("do not fit: /city: 3 is not of type \"string\"; \
             /unit: \"kelvin\" is not one of \"celsius\" or \"fahrenheit\""),
    );
    check(
        r#"{"city": "Oslo", "stops": [{"kilometre": 2}, {"kilometre": 3}]}"#,
        Err("do not fit: /stops/1/kilometre: not even"),
    );
    check("", Err("do not fit: \"city\" is required"));
    check("null", Err("do not fit: \"city\" is required"));
    check("[]", Err("are no JSON object"));
    check(r#"{"city"#, Err("are no JSON: EOF while parsing a string at line 1 column 6"));
}

#[test]
fn the_schema_is_that_of_the_type() {
    let tool = forecast();
    let input = &tool.spec().input;
    assert_eq!(input["type"], "object");
    assert_eq!(input["required"], json!(["city"]));
    assert_eq!(input["properties"]["city"]["description"], "The name of a city.");
    assert_eq!(input["properties"]["days"]["maximum"], 7);
    assert_eq!(tool.spec().effect, Effect::Once);
    assert_eq!(tool.spec().place, Place::Server);
}

#[test]
fn a_person_is_asked_for_some_arguments() {
    let tool = forecast();
    assert!(!tool.needs_approval(&json!({"city": "Oslo"})));
    assert!(tool.needs_approval(&json!({"city": "Pyongyang"})));
    assert!(tool.needs_approval(&json!({"city": 3})), "what the rule cannot read");
    let always = Tool::builder("a", "").needs_approval().client().unwrap();
    assert!(always.needs_approval(&json!({})));
}

#[test]
fn a_mistake_is_told_when_the_tool_is_made() {
    let check = |name: &str, input: Value, expected: &str| {
        let bad = Tool::builder(name, "").input_schema(input).client().unwrap_err();
        assert!(bad.to_string().contains(expected), "{bad}");
    };
    let object = json!({"type": "object"});
    let too_long = "a".repeat(65);
    for name in ["", "a b", "größe", "a.b", too_long.as_str()] {
        check(name, object.clone(), "cannot be the name of a tool: use 1 to 64");
    }
    check("a", json!({"type": "string"}), "is not that of an object");
    check("a", json!({}), "is not that of an object");
    check("a", json!(3), "is no JSON Schema");
    check("a", json!({"type": "object", "required": 3}), "is no JSON Schema");
    let bad = Tool::builder("a", "").input::<String>().client().unwrap_err();
    assert!(matches!(bad, BadTool::NoObject { .. }));
    let bad = Tool::builder("a", "").output_schema(json!({"type": 3})).client().unwrap_err();
    assert!(bad.to_string().starts_with("the schema of the answers of \"a\""), "{bad}");
    assert!(Tool::builder("a".repeat(64), "").input_schema(object).client().is_ok());
}

#[test]
fn answers_of_others_can_be_checked() {
    let tool = Tool::builder("ask", "").output::<Vec<u8>>().client().unwrap();
    assert_eq!(tool.check_output(&json!([1, 2])), Ok(()));
    let bad = tool.check_output(&json!([1, 256])).unwrap_err();
    assert_eq!(
        bad.to_string(),
        "the answer of \"ask\" does not fit: /1: 256 is greater than the maximum of 255"
    );
}

#[test]
fn a_box_admits_what_fits() {
    let tools = Toolbox::new([forecast()]).unwrap();
    let admitted = tools.admit("weather", r#"{"city": "Oslo"}"#);
    let arguments = json!({"city": "Oslo"});
    assert_eq!(admitted, Admission::Admitted { arguments, needs_approval: false });
    let refused = |admission| match admission {
        Admission::Refused { why } => why,
        Admission::Admitted { .. } => panic!("admitted"),
    };
    assert!(refused(tools.admit("weather", "{}")).contains("\"city\" is required"));
    assert_eq!(
        refused(tools.admit("wether", "{}")),
        "there is no tool \"wether\"; there are: weather"
    );
    let none = refused(Toolbox::default().admit("a", "{}"));
    assert_eq!(none, "there is no tool \"a\"; there are: none");
    assert!(Toolbox::new([forecast(), forecast()]).is_err());
}
