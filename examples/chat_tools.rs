//! A model that calls tools: two at once, a person who is asked, and an answer of a type.
//!
//! `cargo run --release --example chat_tools` needs no key: the model follows a script. Give it
//! the name of another one to use that: `cargo run --example chat_tools -- anthropic:claude-opus-4-5`.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::{env, error::Error};

use chat::{
    ToolContext,
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
) -> Result<String, std::io::Error> {
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
    let sys = Sys::real();
    let name = env::args().nth(1).unwrap_or_else(|| "scripted".to_owned());
    let model = providers::by_name(&name, &providers::environment, &sys)?;

    // Events, as they happen.
    let mut run = chat(model.clone())
        .user("What is the weather in Paris and Oslo?")
        .tools([weather(), book_table()])
        .decide(|call: Call| async move {
            println!("may {} be called? yes", call.name);
            Decision::Approve { edited: None }
        })
        .stream(&sys)?;
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::ToolCallStart(call) => println!("calls {}", call.tool_call_name),
            EventKind::ToolCallResult(result) => match result.content {
                Content::Text(text) => println!("hears {text}"),
                Content::Parts(parts) => println!("hears {} parts", parts.len()),
            },
            EventKind::TextMessageContent(text) => print!("{}", text.delta),
            EventKind::TextMessageEnd(_) => println!(),
            _ => {}
        }
    }
    let finished = run.finish().await;
    println!("{} messages, {:?}", finished.messages.len(), finished.usage);

    // A value, checked against the schema of its type.
    let question = "Shall I take an umbrella in Oslo?";
    let advice: Advice = chat(model).user(question).tool(weather()).typed(&sys).await?;
    println!("umbrella: {}, since {}", advice.umbrella, advice.reason);
    Ok(())
}
