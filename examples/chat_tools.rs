//! A model that calls tools: two at once, a person who is asked, and an answer of a type.
//!
//! `cargo run --release --example chat_tools` needs no key: the model follows a script. Give it
//! the name of another one to use that: `cargo run --example chat_tools -- anthropic:claude-opus-4-5`.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::{
    env,
    error::Error,
    io::{self, Write},
};

use chat::{
    Run, ToolContext,
    agui::{Content, EventKind},
    chat,
    machine::{Call, Decision},
    tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use sys::Sys;

/// Tells the weather in a city.
#[tool(effect = "pure")]
async fn weather(
    /// The name of the city.
    city: String,
    context: ToolContext,
) -> String {
    context.progress(format!("looking at the sky over {city}")).await;
    let degrees = 10 + city.len();
    format!("{degrees} °C, light rain")
}

/// Books a table. A person is asked before.
#[tool(needs_approval)]
async fn book_table(
    /// The name of the restaurant.
    restaurant: String,
    #[arg("How many people.", default = 2)] people: u8,
) -> Result<String, io::Error> {
    Ok(format!("a table for {people} at {restaurant}"))
}

/// What we want to know in the end.
#[derive(Debug, Deserialize, JsonSchema)]
struct Advice {
    /// Whether to take an umbrella.
    umbrella: bool,
    /// Why.
    reason: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).unwrap_or_else(|| "scripted".to_owned());
    show(&name, &mut io::stdout()).await
}

/// Asks the model of this name, and writes down what happens.
pub async fn show(name: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let sys = Sys::real();
    let model = providers::by_name(name, &providers::environment, &sys)?;
    let chat = || chat(model.clone()).tools([weather(), book_table()]).decide(decide);

    // Events, as they happen: two calls at once.
    let run = chat().user("What is the weather in Paris and Oslo?").stream(&sys)?;
    follow(run, out).await?;

    // A person is asked before this one.
    let run = chat().user("Please call book_table, for tonight.").stream(&sys)?;
    follow(run, out).await?;

    // A value, checked against the schema of its type.
    let question = "Shall I take an umbrella in Oslo?";
    let advice: Advice = chat().user(question).typed(&sys).await?;
    writeln!(out, "umbrella: {}, since {}", advice.umbrella, advice.reason)?;
    Ok(())
}

/// What a person says to a call. Here it is a rule, so that nobody has to sit and wait.
async fn decide(call: Call) -> Decision {
    println!("may {} be called with {}? yes", call.name, call.arguments);
    Decision::Approve { edited: None }
}

async fn follow(mut run: Run, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::ToolCallStart(call) => writeln!(out, "calls {}", call.tool_call_name)?,
            EventKind::ToolCallResult(result) => match result.content {
                Content::Text(text) => writeln!(out, "hears {text}")?,
                Content::Parts(parts) => writeln!(out, "hears {} parts", parts.len())?,
            },
            EventKind::TextMessageContent(text) => write!(out, "{}", text.delta)?,
            EventKind::TextMessageEnd(_) => writeln!(out)?,
            _ => {}
        }
    }
    let finished = run.finish().await;
    writeln!(out, "{} messages, {:?}\n", finished.messages.len(), finished.usage)?;
    Ok(())
}
