//! More open work than is kept: then there may be more, and none is taken to have ended.

use agent::{
    caps::{SESSION_CALLS_MAX, SESSION_GENERATIONS_OPEN_MAX},
    rows::{CallStatus, GenerationStatus, ToolCall},
};
use serde_json::json;
use wire::Position;

use crate::support::{AGENT, World, generation};

#[tokio::test]
async fn generations_that_are_too_many_to_be_kept_may_all_be_open() {
    let world = World::new().await;
    let count = SESSION_GENERATIONS_OPEN_MAX as u64 + 2;
    world.say("m", 10).await;
    for up_to in 1..=count {
        world.put(None, &generation(up_to, None, GenerationStatus::Generating)).await;
    }
    let mut session = world.session();
    session.catch_up().await.unwrap();
    assert_eq!(session.state().oldest_open(), Some(Position::new(1)));
    for up_to in 1..=count - 2 {
        world.put(None, &generation(up_to, None, GenerationStatus::Completed)).await;
    }
    let state = session.catch_up().await.unwrap();
    assert_eq!(state.oldest_open(), Some(Position::new(count - 1)), "the first that is not kept");
    assert!(state.has_work_for(AGENT));
}

#[tokio::test]
async fn calls_that_are_too_many_to_be_kept_may_all_be_open() {
    let world = World::new().await;
    let call = |number: usize| -> ToolCall {
        let row = json!({
            "id": format!("c{number:06}"), "name": "t", "args": {}, "status": "parked",
            "effect": "once", "attempt": 1, "createdAt": "", "updatedAt": "",
        });
        serde_json::from_value(row).unwrap()
    };
    for number in 0..SESSION_CALLS_MAX {
        world.put(None, &call(number)).await;
    }
    let mut session = world.session();
    assert!(!session.catch_up().await.unwrap().has_more_calls());
    world.put(None, &call(SESSION_CALLS_MAX)).await;
    let state = session.catch_up().await.unwrap();
    assert!(state.has_more_calls());
    assert_eq!(state.call("c000000").unwrap().status, CallStatus::Parked, "none is lost");
}
