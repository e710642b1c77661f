//! An agent that survives. Run it, kill it in the middle with `kill -9`, run it again: it goes on.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::{error::Error, sync::Arc, time::Duration};

use agent::{Agent, rows::Message};
use log::{Create, Log, file::FileLog};
use providers::scripted::{Pace, Scripted};
use sys::Sys;

/// Tells the weather of today.
#[chat::tool(effect = "pure")]
async fn weather(city: String) -> String {
    format!("It is sunny in {city}.")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sys = Sys::real();
    let log: Arc<dyn Log> =
        Arc::new(FileLog::open(&sys, "data".as_ref(), Default::default()).await?);
    let session: wire::StreamPath = "main/sessions/demo".parse()?;
    let json = Create { content_type: Some("application/json".parse()?), ..Create::default() };
    let _ = log.create(&session.clone().into(), json).await?;

    let model = Scripted::demo(sys.clone()).pace(Pace::per_word(Duration::from_millis(100)));
    let agent = Agent::builder("assistant").model(Arc::new(model)).tool(weather());
    let running = agent.session(Arc::clone(&log), session.clone()).start(&sys).await?;

    let db = live::StreamDb::builder(log, session, &sys).with::<Message>().open()?;
    db.ready().await?;
    let messages = db.rows::<Message>()?;
    let mut question = Message::to_agent("assistant", "ada", "Weather in Paris and Oslo?", &sys);
    question.id = "question".into();
    if messages.get("question").is_none() {
        messages.insert(question)?.settled().await?;
    }
    running.answer_to("question").await?;
    let mut said = messages.rows();
    said.sort_by_key(|row| row.meta().position);
    for row in said.iter().filter(|row| !row.content.is_empty()) {
        println!("{}: {}", row.actor_id, row.content);
    }
    Ok(running.stop().await?)
}
