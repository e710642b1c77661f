//! One scenario: a run of the turn machine with the real provider at the other end.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chat::{
    CallEnd, Message, Model, ModelErrorKind, OutputSpec, Role, Settings, Tool, ToolChoice,
    ToolResult, Toolbox, Transcript, Verifier,
    agui::{Content, Event},
    machine::{Done, Failure, Input, Machine, Output, Plan, Start, Step, Strategy},
};
use futures_util::StreamExt as _;
use models::{Scenario, Wire};
use serde_json::{Value, json};
use sys::Cancellation;

use crate::line::Said;

/// How a scenario is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Plain,
    /// With tools, also where an answer by a schema is wanted.
    WithTools,
    /// As one asks whoever only speaks like OpenAI.
    Compatible,
    CompatibleWithTools,
}

impl Manner {
    pub(crate) const fn is_compatible(self) -> bool {
        matches!(self, Self::Compatible | Self::CompatibleWithTools)
    }

    const fn has_tools(self) -> bool {
        matches!(self, Self::WithTools | Self::CompatibleWithTools)
    }
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) line: Value,
    pub(crate) events: Vec<Event>,
}

/// Runs a turn of the model, and another after answers to its calls.
pub(crate) async fn run(
    model: &dyn Model,
    wire: Wire,
    scenario: Scenario,
    manner: Manner,
) -> Result<Ran> {
    let message = Message::text("m1", Role::User, "What is the weather in Oslo?");
    let start = Start {
        thread_id: "thread".into(),
        run_id: format!("{wire}-{scenario}").into(),
        messages: vec![message],
        ..Start::default()
    };
    let mut turns = Vec::new();
    let (mut machine, mut events) = Machine::start(plan(model, scenario, manner)?, start)?;
    let done = loop {
        match machine.next_step() {
            Step::CallModel(request) => {
                let (_keep, cancellation) = Cancellation::new();
                let mut stream = model.call(request, cancellation);
                let mut said = Said::default();
                loop {
                    let input = match stream.next().await {
                        Some(Ok(event)) => {
                            said.take(&event);
                            Input::Model(event)
                        }
                        Some(Err(error)) => Input::ModelFailed(error),
                        None => Input::ModelEnded,
                    };
                    let goes_on = matches!(input, Input::Model(_));
                    machine.feed(input, &mut events)?;
                    if !goes_on {
                        break;
                    }
                }
                turns.push(said);
            }
            Step::CallTools(calls) => {
                for call in calls {
                    let content = Content::Text("cold".to_owned());
                    let result = ToolResult { call_id: call.id, content, end: CallEnd::Done };
                    machine.feed(Input::Tool(result), &mut events)?;
                }
            }
            Step::Done(done) => break done,
            step => anyhow::bail!("nothing here leads to {step:?}"),
        }
    };
    let error = match &done {
        Done::Failed(Failure::Model(error)) => Some(error.kind.code()),
        Done::Failed(_) => Some("no-output"),
        _ => None,
    };
    let said = turns.first().context("the model was never asked")?;
    let broken = broken(&events, &machine, said, error.is_some());
    let mut line = said.line(wire, scenario, error, broken.as_deref());
    line["after"] = json!(turns.get(1).map(|said| &said.text));
    if let Done::Finished { output: Some(output), .. } = &done {
        line["output"] = output.clone();
    }
    if manner != Manner::Plain {
        line["sdk"] = json!({"provider": wire.name(), "scenario": scenario.name()});
    }
    if manner.is_compatible() {
        line["provider"] = json!("openai-compatible");
    }
    if manner.has_tools() {
        line["scenario"] = json!(format!("{scenario}-with-tools"));
    }
    Ok(Ran { line, events })
}

/// Reads an answer that is far too long, and keeps nothing of it.
pub(crate) async fn read_huge(model: &dyn Model, wire: Wire, scenario: Scenario) -> Result<Ran> {
    let (_keep, cancellation) = Cancellation::new();
    let request = chat::Request {
        messages: [Message::text("m1", Role::User, "Go on for ever.")].into(),
        ..chat::Request::default()
    };
    let mut stream = model.call(Arc::new(request), cancellation);
    let mut shown_bytes = 0;
    let error = loop {
        match stream.next().await {
            Some(Ok(chat::ModelEvent::More { delta, .. })) => shown_bytes += delta.len(),
            Some(Ok(_)) => {}
            Some(Err(error)) => break Some(error.kind),
            None => break None,
        }
    };
    let mut line = Said::default().line(wire, scenario, error.map(ModelErrorKind::code), None);
    line["shownBytes"] = json!(shown_bytes);
    line["peakBytes"] = json!(peak_bytes()?);
    Ok(Ran { line, events: Vec::new() })
}

fn plan(model: &dyn Model, scenario: Scenario, manner: Manner) -> Result<Plan> {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "degrees": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city", "degrees", "tags"],
        "additionalProperties": false,
    });
    let (tools, output) = match scenario {
        Scenario::Structured => {
            let spec = OutputSpec { name: "weather".into(), schema };
            let tools =
                if manner.has_tools() { Toolbox::new(tools()?)? } else { Toolbox::default() };
            (tools, Some(Output::new(spec, model.abilities().structured)?))
        }
        _ => (Toolbox::new(tools()?)?, None),
    };
    Ok(Plan {
        model: model.name().clone(),
        system: vec!["You tell the weather.".to_owned()],
        tools,
        choice: ToolChoice::Auto,
        settings: Settings::default(),
        strategy: Strategy::TurnsMax(2),
        output,
    })
}

fn tools() -> Result<Vec<Tool>> {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let tool = |name: &'static str| {
        let builder = Tool::builder(name, format!("Tells the {name}."));
        let tool = builder.input_schema(schema.clone());
        tool.run(|_, _| async { Ok("cold") }).context(name)
    };
    ["weather", "forecast", "now"].into_iter().map(tool).collect()
}

/// Which of our own rules does not hold for this run.
fn broken(events: &[Event], machine: &Machine, said: &Said, failed: bool) -> Option<String> {
    let mut verifier = Verifier::new();
    for event in events {
        if let Err(error) = verifier.push(event) {
            return Some(format!("order: {error}"));
        }
    }
    if let Err(error) = verifier.finish() {
        return Some(format!("order: {error}"));
    }
    let mut transcript = Transcript::new();
    for event in events {
        if let Err(error) = transcript.push(event) {
            return Some(format!("transcript: {error}"));
        }
    }
    // The question is in no event.
    let (told, kept): (Vec<_>, Vec<_>) =
        (transcript.messages().collect(), machine.messages().iter().skip(1).collect());
    if told.len() != kept.len() || told.iter().zip(&kept).any(|(told, kept)| **told != ***kept) {
        return Some(format!("transcript: {told:?} is not {kept:?}"));
    }
    if failed {
        return None;
    }
    let answer = machine.messages().iter().find(|message| message.role == Role::Assistant);
    let text = answer.map(|message| message.text_content()).unwrap_or_default();
    let calls: Vec<_> = answer.iter().flat_map(|message| message.calls()).collect();
    let own: Vec<_> = calls
        .iter()
        .filter(|call| call.provider_result.is_none())
        .map(|call| (call.name.as_str(), call.arguments.as_str()))
        .collect();
    if text != said.text || own != said.calls() {
        return Some(format!("the message is {text:?} with {own:?}, the model said {said:?}"));
    }
    None
}

#[expect(clippy::disallowed_methods, reason = "what the process took is only told here")]
fn peak_bytes() -> Result<Option<u64>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kibibytes.and_then(|number| number.parse::<u64>().ok()).map(|number| number * 1024))
}
