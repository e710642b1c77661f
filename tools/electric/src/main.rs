//! The fixture as a process, and our source as one: so that other clients can be put beside it.
//!
//! `electric-driver serve` prints its URL and serves until its input ends. `electric-driver follow
//! URL [full] [events]` prints all rows as one line of JSON, once they are there and whenever they
//! change; `electric-driver demand URL OWNER` does so for the rows of one owner, loaded on demand.
#![allow(clippy::print_stdout, reason = "lines of output are what this program is for")]

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use electric_fixture::{Fixture, Todo};
use live::{Db, Loading, Retry, RowRef};
use source_electric::{Following, Replica, Shape, ShapeBuilder};
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
        Some("demand") => runtime.block_on(demand(&words[1..])),
        _ => bail!("say `serve`, `follow URL [full] [events]` or `demand URL OWNER`"),
    }
}

async fn follow(words: &[String]) -> Result<()> {
    let url = words.first().context("follow what? give a URL")?;
    let has = |word: &str| words.iter().any(|own| own == word);
    let sys = Sys::real();
    let shape = builder(&sys, url)
        .replica(if has("full") { Replica::Full } else { Replica::Default })
        .following(if has("events") { Following::Events } else { Following::LongPoll });
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(shape.build()?)?;
    todos.ready().await?;
    let mut changes = todos.changes()?;
    loop {
        print(&todos.rows())?;
        changes.next().await;
    }
}

/// Tests do not want to wait for long.
fn builder(sys: &Sys, url: &str) -> ShapeBuilder<Todo> {
    let (pause_min, pause_max) = (Duration::from_millis(10), Duration::from_millis(50));
    let retry = Retry { attempts_max: u32::MAX, pause_min, pause_max };
    Shape::builder(sys, url).table("todos").retry(retry)
}

async fn demand(words: &[String]) -> Result<()> {
    let [url, owner] = words else { bail!("demand what? give a URL and an owner") };
    let sys = Sys::real();
    let shape = builder(&sys, url).loading(Loading::OnDemand);
    let db = Db::new(&sys);
    let _todos = db.collection::<Todo>(shape.build()?)?;
    let owned = db.live(live::from::<Todo>().filter(Todo::owner.eq(owner.as_str())))?;
    owned.ready().await?;
    let mut changes = owned.changes()?;
    loop {
        print(&owned.rows())?;
        changes.next().await;
    }
}

fn print(rows: &[RowRef<Todo>]) -> Result<()> {
    let rows = rows.iter().map(|row| serde_json::to_value(&**row));
    println!("{}", serde_json::Value::Array(rows.collect::<Result<_, _>>()?));
    Ok(())
}
