//! The fixture as a process, and our source as one: so that other clients can be put beside it.
//!
//! `electric-driver serve` prints its URL and serves until its input ends. `electric-driver follow
//! URL [full] [events]` prints all rows as one line of JSON, once they are there and whenever they
//! change.
#![allow(clippy::print_stdout, reason = "lines of output are what this program is for")]

use anyhow::{Context as _, Result, bail};
use electric_fixture::{Fixture, Todo};
use live::{Collection, Db};
use source_electric::{Following, Replica, Shape};
use sys::Sys;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match words.first().map(String::as_str) {
        Some("serve") => {
            let fixture = runtime.block_on(Fixture::start(&Sys::real()))?;
            println!("{}", fixture.url());
            // Whoever started this ends it by closing its input.
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
            Ok(())
        }
        Some("follow") => runtime.block_on(follow(&words[1..])),
        _ => bail!("say `serve`, or `follow URL [full] [events]`"),
    }
}

async fn follow(words: &[String]) -> Result<()> {
    let url = words.first().context("follow what? give a URL")?;
    let has = |word: &str| words.iter().any(|own| own == word);
    let sys = Sys::real();
    let shape = Shape::<Todo>::builder(&sys, url)
        .table("todos")
        .replica(if has("full") { Replica::Full } else { Replica::Default })
        .following(if has("events") { Following::Events } else { Following::LongPoll });
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(shape.build()?)?;
    todos.ready().await?;
    let mut changes = todos.changes()?;
    loop {
        print(&todos)?;
        changes.next().await;
    }
}

fn print(todos: &Collection<Todo>) -> Result<()> {
    let rows = todos.rows();
    let rows = rows.iter().map(|row| serde_json::to_value(&**row));
    println!("{}", serde_json::Value::Array(rows.collect::<Result<_, _>>()?));
    Ok(())
}
