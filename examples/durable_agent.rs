//! An agent that survives. Run it, kill it in the middle with `kill -9`, run it again: it goes on.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::{error::Error, sync::Arc, time::Duration};

use agent::Agent;
use log::file::FileLog;
use providers::scripted::{Pace, Scripted};
use sessions::{Actions, Deed, Say, SessionId};
use sys::Sys;

/// Tells the weather of today.
#[chat::tool(effect = "pure")]
async fn weather(city: String) -> String {
    format!("It is sunny in {city}.")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sys = Sys::real();
    let log = Arc::new(FileLog::open(&sys, "data".as_ref(), Default::default()).await?);
    let actions = Actions::for_agent(&sys, log.clone(), "assistant");
    let session: SessionId = "demo".parse()?;
    actions.create(&session).await?;

    let model = Scripted::demo(sys.clone()).pace(Pace::per_word(Duration::from_millis(100)));
    let agent = Agent::builder("assistant").model(Arc::new(model)).tool(weather());
    let running = agent.session(log, session.path().clone()).start(&sys).await?;

    // It has a name, so it is asked once, however often this runs.
    let question = Say::named("question", "Weather in Paris and Oslo?");
    actions.act(&session, "ada", Deed::Say(question)).await?;
    let answer = running.answer_to("question").await?;
    println!("{}", running.text_of(&answer)?);
    Ok(running.stop().await?)
}
