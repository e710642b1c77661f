//! What the model says in each scenario, before any wire.

use std::iter;

use serde_json::{Value, json};

use crate::{
    Scenario, Wire,
    caps::{HUGE_BYTES, HUGE_EVENT_BYTES},
};

/// Stands for the first half of 😀 where a text is cut within it. No text can hold that half.
pub(crate) const FIRST_HALF: char = '\u{e000}';
/// Stands for the second half.
pub(crate) const SECOND_HALF: char = '\u{e001}';

/// An answer.
pub(crate) struct Script {
    pub(crate) steps: Box<dyn Iterator<Item = Step> + Send>,
    pub(crate) end: End,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) stop: Option<Stop>,
    pub(crate) tokens: Tokens,
}

/// Why an answer ends; `None` where it must be said is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    End,
    Calls,
    Length,
    Filter,
    Refusal,
}

/// What an answer has cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    /// All that was written, thoughts included.
    pub(crate) output: u64,
    pub(crate) thought: u64,
}

/// Part of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Open {
        block: usize,
        kind: Kind,
    },
    More {
        block: usize,
        text: String,
    },
    Sign {
        block: usize,
        signature: &'static str,
    },
    /// What came of a tool that the provider ran; the block of the call is closed.
    Result {
        call: &'static str,
        told: Value,
    },
    Close {
        block: usize,
    },
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Thinking,
    Refusal,
    Call { id: &'static str, name: &'static str },
    ProviderCall { id: &'static str, name: &'static str },
}

/// What the model says on this wire.
pub(crate) fn script(scenario: Scenario, wire: Wire) -> Script {
    let steps = match scenario {
        Scenario::ParallelTools => parallel(wire),
        Scenario::SplitArguments => split_arguments(),
        Scenario::SplitBytes | Scenario::ToolsThenText | Scenario::LyingFinish => {
            let weather = call(1, "call_1", "weather", &[r#"{"city":"#, r#""Oslo"}"#]);
            [text(0, &["I will ", "look."]), weather].concat()
        }
        Scenario::Thinking => {
            let thoughts = thinking(0, &["First ", "this,\n", "then that."], "c2lnbmVk");
            [thoughts, text(1, &["So ", "be it."])].concat()
        }
        Scenario::InterleavedThinking => [
            thinking(0, &["What ", "city?"], "Zmlyc3Q="),
            text(1, &["Let me ", "see."]),
            thinking(2, &["Oslo, ", "I think."], "c2Vjb25k"),
            call(3, "call_1", "weather", &[r#"{"city":"#, r#""Oslo"}"#]),
        ]
        .concat(),
        Scenario::Structured => {
            text(0, &[r#"{"city":"#, r#""Oslo","#, r#""degrees":-3.5,"#, r#""tags":["a","b"]}"#])
        }
        Scenario::Refusal => block(0, Kind::Refusal, &["I cannot ", "help with that."]),
        Scenario::MaxTokens => text(0, &["This goes on ", "and on and"]),
        Scenario::NoArguments => call(0, "call_1", "now", &["{}"]),
        Scenario::ProviderTools => provider_tools(),
        Scenario::Unicode => unicode(),
        Scenario::Surrogates => {
            text(0, &["Smile ", &FIRST_HALF.to_string(), &SECOND_HALF.to_string(), "!"])
        }
        Scenario::Empty => Vec::new(),
        Scenario::Huge => return huge(),
        _ => text(0, &["Hello ", "from ", "the ", "model.", "\n\n", "  Bye", "."]),
    };
    Script { steps: Box::new(steps.into_iter()), end: end(scenario) }
}

fn end(scenario: Scenario) -> End {
    let stop = match scenario {
        Scenario::ParallelTools
        | Scenario::SplitArguments
        | Scenario::SplitBytes
        | Scenario::ToolsThenText
        | Scenario::InterleavedThinking
        | Scenario::NoArguments => Some(Stop::Calls),
        Scenario::Refusal => Some(Stop::Refusal),
        Scenario::ContentFilter => Some(Stop::Filter),
        Scenario::MaxTokens => Some(Stop::Length),
        Scenario::MissingFinish => None,
        _ => Some(Stop::End),
    };
    let thought = match scenario {
        Scenario::Thinking | Scenario::InterleavedThinking => 5,
        _ => 0,
    };
    End { stop, tokens: Tokens { input: 12, output: 7 + thought, thought } }
}

fn block(block: usize, kind: Kind, pieces: &[&str]) -> Vec<Step> {
    let open = iter::once(Step::Open { block, kind });
    let more = pieces.iter().map(|text| Step::More { block, text: (*text).to_owned() });
    open.chain(more).chain(iter::once(Step::Close { block })).collect()
}

fn text(at: usize, pieces: &[&str]) -> Vec<Step> {
    block(at, Kind::Text, pieces)
}

fn thinking(at: usize, pieces: &[&str], signature: &'static str) -> Vec<Step> {
    let mut steps = block(at, Kind::Thinking, pieces);
    let close = steps.len() - 1;
    steps.insert(close, Step::Sign { block: at, signature });
    steps
}

fn call(at: usize, id: &'static str, name: &'static str, pieces: &[&str]) -> Vec<Step> {
    block(at, Kind::Call { id, name }, pieces)
}

fn parallel(wire: Wire) -> Vec<Step> {
    let oslo = call(0, "call_1", "weather", &[r#"{"city""#, r#":"Oslo""#, "}"]);
    let rome = call(1, "call_2", "weather", &[r#"{"city""#, r#":"Rome""#, "}"]);
    match wire.interleaves() {
        true => oslo.into_iter().zip(rome).flat_map(|(one, other)| [one, other]).collect(),
        false => [oslo, rome].concat(),
    }
}

fn split_arguments() -> Vec<Step> {
    let arguments = concat!(
        r#"{"city": "Zürich \"north\" 😀 \ud83d\ude00 \n", "days": [1, 2.50, -3e2], "#,
        r#""deep": {"a": null, "b": {"c": [true, {}]}}}"#
    );
    let letters: Vec<String> = arguments.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    call(0, "call_1", "forecast", &letters)
}

fn provider_tools() -> Vec<Step> {
    let kind = Kind::ProviderCall { id: "srvtoolu_1", name: "web_search" };
    let found = json!([{"title": "Weather", "url": "https://example.com/oslo"}]);
    [
        block(0, kind, &[r#"{"query":"#, r#""weather Oslo"}"#]),
        vec![Step::Result { call: "srvtoolu_1", told: found }],
        text(1, &["It is ", "cold."]),
    ]
    .concat()
}

fn unicode() -> Vec<Step> {
    let pieces = [
        "Grüße, ",
        "世界 ",
        "😀",
        "e\u{301} ",
        "👩\u{200d}👩\u{200d}👧 ",
        "\u{2028}",
        "\u{85}\u{feff}",
        "\"q\" \\ \t\r\n",
        "data: [DONE]\n\n",
        "\u{0} end",
    ];
    text(0, &pieces)
}

fn huge() -> Script {
    let letters = "abcdefghijklmno ".repeat(HUGE_EVENT_BYTES / 16);
    let more = iter::repeat_n(letters, HUGE_BYTES / HUGE_EVENT_BYTES)
        .map(|text| Step::More { block: 0, text });
    let steps = iter::once(Step::Open { block: 0, kind: Kind::Text })
        .chain(more)
        .chain(iter::once(Step::Close { block: 0 }));
    Script { steps: Box::new(steps), end: end(Scenario::Huge) }
}
