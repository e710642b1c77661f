//! A to-do list without a server: collections, a live query, an effect.
//!
//! `cargo run --example live_todo`
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use live::{Db, Row, from};
use serde::{Deserialize, Serialize};
use sys::Sys;

#[derive(Clone, Debug, Serialize, Deserialize, Row)]
struct Todo {
    id: u32,
    text: String,
    done: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::new(&Sys::real());
    let todos = db.local::<Todo>()?;

    // A query that stays right, however the rows change.
    let open = db.live(from::<Todo>().filter(Todo::done.eq(false)).order_by(Todo::text))?;
    let show = || {
        let texts: Vec<_> = open.rows().iter().map(|todo| todo.text.clone()).collect();
        println!("open: {}", texts.join(", "));
    };

    // Code that runs when a row leaves the open ones.
    let effect = db
        .effect(from::<Todo>().filter(Todo::done.eq(false)))
        .on_exit(|event, _| async move {
            println!("done: {}", event.row().text);
            Ok(())
        })
        .start()?;

    for (id, text) in [(1, "write the guide"), (2, "answer Ada"), (3, "sleep")] {
        let _ = todos.insert(Todo { id, text: text.into(), done: false })?;
    }
    show();
    // The effect sees what it is given time to see: rows that come and go at once are none.
    tokio::task::yield_now().await;
    let _ = todos.update(2, |todo| todo.done = true)?;
    let _ = todos.delete(3)?;
    show();
    tokio::task::yield_now().await;
    effect.dispose().await;
    Ok(())
}
