//! The rules of the demo: what it says to a conversation.

use std::sync::Arc;

use chat::{
    CallEnd, Message, OutputSpec, Request, Role, Schema, ThinkingEffort, ToolCall, ToolChoice,
    ToolResult, ToolSpec,
};
use serde_json::{Map, Value};

use super::{
    caps::SUMMARY_WORDS_MAX,
    fill::{Known, fill_knowing},
    places::places,
    plan::text_of,
    script::{Call, Turn},
};

const WHAT_IT_IS: &str = "I am a scripted model: I follow a few rules, and need neither a key nor \
    a network. Ask me how the weather is in two cities, or name a tool that I should call. To talk \
    to a real model, give its provider and name, such as `anthropic:NAME` or `ollama:NAME`.";

/// Text of a question about the weather.
const WEATHER: [&str; 10] = [
    "weather",
    "forecast",
    "temperature",
    "rain",
    "raining",
    "sunny",
    "snow",
    "warm",
    "cold",
    "umbrella",
];

/// What it says to this.
pub(super) fn turn(request: &Request) -> Turn {
    let view = View::of(request);
    // One who may call but one tool at a time goes on until all are called.
    let is_serial = request.settings.parallel_tools == Some(false);
    if let Some(turn) = view.calls().filter(|_| is_serial || !view.has_answers()) {
        return turn;
    }
    let turn = if view.has_answers() { view.answer() } else { view.say() };
    match &request.output {
        Some(output) => Turn::new().text(view.shaped(output)),
        None => turn,
    }
}

/// A conversation, from the last thing that a person said.
struct View<'a> {
    request: &'a Request,
    question: String,
    /// What was said since.
    since: Vec<&'a Message>,
}

impl<'a> View<'a> {
    fn of(request: &'a Request) -> Self {
        let messages = &request.messages;
        let last = messages.iter().rposition(|message| message.role == Role::User);
        let question = last.and_then(|last| messages.get(last));
        Self {
            request,
            question: question.map(|message| message.text_content()).unwrap_or_default(),
            since: messages.since(last.map_or(0, |last| last + 1)).map(AsRef::as_ref).collect(),
        }
    }

    fn words(&self) -> impl Iterator<Item = String> + '_ {
        let words = self.question.split(|letter: char| !is_of_word(letter));
        words.filter(|word| !word.is_empty()).map(str::to_lowercase)
    }

    fn has_answers(&self) -> bool {
        self.since.iter().any(|message| message.results().next().is_some())
    }

    /// The tools it calls, if it wants to call any.
    fn calls(&self) -> Option<Turn> {
        let tools = &self.request.tools;
        let (thoughts, mut calls) = match &self.request.choice {
            ToolChoice::None => return None,
            ToolChoice::Tool(name) => {
                let tool = tools.iter().find(|tool| tool.name == *name)?;
                (format!("I was told to call {name}."), self.calls_of(tool))
            }
            ToolChoice::Auto | ToolChoice::Required => {
                let chosen = self.weather_tool().or_else(|| self.named_tool());
                let is_free = self.request.choice == ToolChoice::Auto;
                let first = if is_free { None } else { tools.first() };
                let tool = chosen.or(first)?;
                let calls = self.calls_of(tool);
                (thoughts_about(tool, calls.len()), calls)
            }
        };
        calls.retain(|call| !self.has_called(call));
        if calls.is_empty() {
            return None;
        }
        if self.request.settings.parallel_tools == Some(false) {
            calls.truncate(1);
        }
        let turn = Turn::new();
        let is_thinking = self.request.settings.thinking != Some(ThinkingEffort::Off);
        Some(if is_thinking { turn.think(thoughts) } else { turn }.calls(calls))
    }

    fn has_called(&self, call: &Call) -> bool {
        let arguments = call.arguments.to_string();
        let mut made = self.since.iter().flat_map(|message| message.calls());
        made.any(|made| made.name == call.name && made.arguments == arguments)
    }

    fn weather_tool(&self) -> Option<&'a Arc<ToolSpec>> {
        let is_asked = self.words().any(|word| WEATHER.contains(&word.as_str()));
        let mut tools = self.request.tools.iter();
        tools.find(|tool| is_asked && tool.name.to_lowercase().contains("weather"))
    }

    /// A tool whose name is in the question.
    fn named_tool(&self) -> Option<&'a Arc<ToolSpec>> {
        let words: Vec<_> = self.words().collect();
        self.request.tools.iter().find(|tool| words.contains(&tool.name.to_lowercase()))
    }

    /// A call for each place if it wants a place, else one.
    fn calls_of(&self, tool: &ToolSpec) -> Vec<Call> {
        let made_up = fill_knowing(&tool.input, &Known::default());
        let required = tool.input.get("required").and_then(Value::as_array);
        let mut arguments = match made_up {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let place = place_argument(&tool.input);
        arguments.retain(|key, _| {
            let mut names = required.into_iter().flatten();
            Some(key) == place.as_ref() || names.any(|name| name.as_str() == Some(key))
        });
        let Some(place) = place else {
            return vec![Call::new(tool.name.clone(), Value::Object(arguments))];
        };
        let with = |city: String| {
            let mut arguments = arguments.clone();
            arguments.insert(place.clone(), Value::String(city));
            Call::new(tool.name.clone(), Value::Object(arguments))
        };
        places(&self.question).into_iter().map(with).collect()
    }

    /// What it makes of the answers of tools.
    fn answer(&self) -> Turn {
        let calls: Vec<_> = self.since.iter().flat_map(|message| message.calls()).collect();
        let results = self.since.iter().flat_map(|message| message.results());
        let sentences = results.map(|result| {
            let call = calls.iter().find(|call| call.id == result.call_id);
            sentence(call.copied(), result)
        });
        Turn::new().text(sentences.collect::<Vec<_>>().join("\n"))
    }

    /// What it says without tools.
    fn say(&self) -> Turn {
        let words: Vec<_> = self.words().collect();
        let has = |word: &str| words.iter().any(|said| said == word);
        let mut system = self.request.system.iter();
        let asks_summary = |text: &str| text.to_lowercase().contains("summar");
        let text = if system.any(|text| asks_summary(text)) || asks_summary(&self.question) {
            self.summary()
        } else if words.is_empty() {
            format!("You have said nothing yet. {WHAT_IT_IS}")
        } else if ["hello", "hi", "hey", "hallo"].iter().any(|word| has(word)) {
            format!("Hello! {WHAT_IT_IS}")
        } else if WEATHER.iter().any(|word| has(word)) && self.weather_tool().is_some() {
            "For which city? Ask me, for example: how is the weather in Oslo and Lima?".to_owned()
        } else if WEATHER.iter().any(|word| has(word)) {
            "I cannot tell: nobody has given me a tool for the weather.".to_owned()
        } else if (has("who") || has("what")) && has("you") || has("help") {
            WHAT_IT_IS.to_owned()
        } else {
            format!("You said: “{}” {WHAT_IT_IS}", self.question.trim())
        };
        Turn::new().text(text)
    }

    fn summary(&self) -> String {
        let texts = self.request.messages.iter().map(|message| message.text_content());
        let all = texts.collect::<Vec<_>>().join(" ");
        let mut words = all.split_whitespace();
        let first: Vec<_> = words.by_ref().take(SUMMARY_WORDS_MAX).collect();
        let rest = words.count();
        let rest = if rest == 0 { String::new() } else { format!(" … and {rest} words more.") };
        format!("In short: {}{rest}", first.join(" "))
    }

    /// An answer of the shape that is asked for, with what tools have told where it fits.
    fn shaped(&self, output: &OutputSpec) -> String {
        let mut known = Known::default();
        for message in &self.since {
            for call in message.calls() {
                known.learn(&call.arguments);
            }
            for result in message.results().filter(|result| result.end == CallEnd::Done) {
                text_of(&result.content).for_each(|text| known.learn(text));
            }
        }
        known.learn_places(places(&self.question));
        let told = fill_knowing(&output.schema, &known);
        // What tools have told may break a rule that what is made up keeps.
        let fits =
            Schema::new(output.schema.clone()).is_ok_and(|schema| schema.check(&told).is_ok());
        let value = if fits { told } else { fill_knowing(&output.schema, &Known::default()) };
        value.to_string()
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '-'
}

fn thoughts_about(tool: &ToolSpec, calls: usize) -> String {
    match calls {
        1 => format!("The tool {} can tell me that.", tool.name),
        calls => format!("These are {calls} questions. I can ask {} all at once.", tool.name),
    }
}

/// The argument that takes a place.
fn place_argument(input: &Value) -> Option<String> {
    let properties = input.get("properties")?.as_object()?;
    let known = ["city", "location", "place", "town"];
    known.iter().find(|name| properties.contains_key(**name)).map(|name| (*name).to_owned())
}

/// What it says of one answer.
fn sentence(call: Option<&ToolCall>, result: &ToolResult) -> String {
    let arguments: Value =
        call.and_then(|call| serde_json::from_str(&call.arguments).ok()).unwrap_or_default();
    let place = ["city", "location", "place", "town"].iter().find_map(|key| arguments.get(key));
    let tool = call.map_or("the tool", |call| call.name.as_str());
    let about = place.and_then(Value::as_str).unwrap_or(tool);
    let text = text_of(&result.content).collect::<Vec<_>>().join(" ");
    match result.end {
        CallEnd::Done => match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) => format!("{about}: {}.", listed(&fields)),
            _ if place.is_some() || text.is_empty() => format!("{about}: {text}"),
            _ => format!("{tool} says: {text}"),
        },
        CallEnd::Failed => format!("{about}: I could not find out, because {text}"),
        CallEnd::Denied => format!("{about}: you did not let me find out."),
        CallEnd::Cancelled => format!("{about}: you stopped me."),
    }
}

/// Fields as a person would read them out.
fn listed(fields: &Map<String, Value>) -> String {
    let told = fields.iter().filter(|(key, _)| !["city", "location"].contains(&key.as_str()));
    let told = told.map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match key.as_str() {
            "degrees" | "temperature" | "celsius" | "temperature_celsius" => format!("{value} °C"),
            "sky" | "condition" | "conditions" | "summary" | "weather" => value,
            key => format!("{} {value}", key.replace('_', " ")),
        }
    });
    told.collect::<Vec<_>>().join(", ")
}
