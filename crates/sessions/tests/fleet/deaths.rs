//! Deaths of the process: whose they are, and whose not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent::{Agent, AgentBuilder, Home, rows::GenerationStatus};
use chat::{Effect, Tool, ToolContext};
use providers::scripted::{Order, Scripted, Turn};
use serde_json::{Value, json};
use sessions::{Fleet, FleetSettings, SessionId};
use tokio::sync::Notify;

use crate::support::{World, ids};

/// A fleet of a process that has the log for itself.
fn launch(
    world: &World,
    build: impl Fn(&SessionId) -> AgentBuilder + Send + Sync + 'static,
) -> Fleet {
    let home = Some(Home::draw(&world.sys.chance));
    world.launch_of(FleetSettings { home, ..FleetSettings::default() }, build)
}

async fn process_deaths_fail_no_answer(deaths: u32) {
    let world = World::new();
    let sessions = ids(100);
    for session in &sessions {
        world.say(session, "hello").await;
    }
    let build = |world: &World| {
        let sys = world.sys.clone();
        move |_: &SessionId| {
            let script = [Turn::new().pause_ms(5_000).text("Hi.")].into_iter().collect();
            let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
            Agent::builder("assistant").model(Arc::new(model))
        }
    };
    for _ in 0..deaths {
        let fleet = launch(&world, build(&world));
        world.rest(Duration::from_secs(3)).await;
        world.kill(fleet);
    }
    let fleet = launch(&world, build(&world));
    let began = world.sys.clock.elapsed();
    for session in &sessions {
        world.over(session, 1).await;
        let rows = world.generations(session).await;
        assert_eq!(rows[0].status, GenerationStatus::Completed, "{:?}", rows[0].error);
    }
    let took = world.sys.clock.elapsed() - began;
    assert!(took < Duration::from_mins(3), "{took:?}");
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn five_deaths_of_the_process_fail_no_answer() {
    process_deaths_fail_no_answer(5).await;
}

#[tokio::test(start_paused = true)]
async fn twenty_deaths_of_the_process_fail_no_answer() {
    process_deaths_fail_no_answer(20).await;
}

/// A tool that ends the process.
fn poison(ends: &Arc<Notify>) -> Tool {
    let ends = ends.clone();
    let tool = Tool::builder("poison", "Ends the process.").effect(Effect::Pure);
    let run = move |_: Value, _: ToolContext| {
        let ends = ends.clone();
        async move {
            ends.notify_one();
            std::future::pending::<()>().await;
            Ok(String::new())
        }
    };
    tool.run(run).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_the_process_is_found_and_the_others_are_answered() {
    let world = World::new();
    let sessions = ids(30);
    for session in &sessions {
        world.say(session, "hello").await;
    }
    let ends = Arc::new(Notify::new());
    let (deaths, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = async {
        while !is_over.load(Ordering::Relaxed) {
            let (sys, ends_it, tool) = (world.sys.clone(), sessions[7].clone(), poison(&ends));
            let fleet = launch(&world, move |session| {
                let turns = match *session == ends_it {
                    true => vec![Turn::new().call("poison", json!({})), Turn::new().text("Oh.")],
                    false => vec![Turn::new().pause_ms(2_000).text("Hi.")],
                };
                let script = turns.into_iter().collect();
                let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
                Agent::builder("assistant").model(Arc::new(model)).tool(tool.clone())
            });
            tokio::select! {
                () = ends.notified() => {}
                () = world.over_all(&sessions) => is_over.store(true, Ordering::Relaxed),
            }
            world.kill(fleet);
            deaths.fetch_add(1, Ordering::Relaxed);
        }
    };
    let day = Duration::from_hours(24);
    world.sys.clock.timeout(day, run).await.expect("all are answered");
    let deaths = deaths.load(Ordering::Relaxed) - 1;
    assert!((5..=12).contains(&deaths), "{deaths} deaths");
    for session in &sessions {
        let rows = world.generations(session).await;
        assert_eq!(rows[0].status, GenerationStatus::Completed, "{:?}", rows[0].error);
    }
    let calls = world.open(&sessions[7]).await;
    let calls = calls.rows::<agent::rows::ToolCall>().unwrap().rows();
    let why = calls[0].error.clone().unwrap_or_default();
    assert!(why.contains("the process ended 5 times while this ran alone"), "{why}");
}
