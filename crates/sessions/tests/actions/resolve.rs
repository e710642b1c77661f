//! Decisions on parked calls.

use serde_json::{Value, json};

use crate::support::World;

fn call(status: &str, attempt: u32) -> Value {
    json!({
        "id": "g:1:0", "name": "pay", "args": {}, "status": status, "effect": "once",
        "attempt": attempt, "createdAt": "", "updatedAt": "",
    })
}

fn decide(attempt: u32, decision: &str) -> Value {
    json!({"toolCallId": "g:1:0", "attempt": attempt, "decision": decision})
}

#[tokio::test]
async fn a_parked_call_is_decided_on_once() {
    let world = World::new().await;
    world.write("toolCall", call("parked", 1)).await;
    let retry = json!({"id": "r", "toolCallId": "g:1:0", "attempt": 1, "decision": "retry"});
    world.act("resolve", &retry).await.expect(201);
    world.act("resolve", &retry).await.expect(200);
    world.act("resolve", &decide(1, "fail")).await.expect(409).says("decided on already");
    let rows = world.stream().await;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["type"], "resolution");
    assert_eq!(rows[1]["value"]["decision"], "retry");
    // It ran, and nobody knows again how it ended.
    world.write("toolCall", call("executing", 2)).await;
    world.act("resolve", &decide(2, "fail")).await.expect(409).says("is executing, not parked");
    world.write("toolCall", call("parked", 2)).await;
    world.act("resolve", &decide(1, "fail")).await.expect(409).says("in attempt 2, not 1");
    let paid = json!({
        "toolCallId": "g:1:0", "attempt": 2, "decision": "complete", "result": {"paid": true},
    });
    world.again().await.act("resolve", &paid).await.expect(201);
    assert_eq!(world.stream().await.last().unwrap()["value"]["result"]["paid"], true);
}

#[tokio::test]
async fn a_decision_must_make_sense() {
    let world = World::new().await;
    world.act("resolve", &decide(1, "retry")).await.expect(409).says("not one of this session");
    for status in ["pending", "executing", "completed", "failed", "cancelled"] {
        world.write("toolCall", call(status, 1)).await;
        let refused = world.act("resolve", &decide(1, "retry")).await.expect(409);
        refused.says(&format!("is {status}, not parked"));
    }
    world.write("toolCall", call("parked", 1)).await;
    world.act("resolve", &decide(1, "perhaps")).await.expect(422).says("unknown variant");
    world.act("resolve", &decide(1, "complete")).await.expect(422).says("result:");
    let mut both = decide(1, "retry");
    both["result"] = json!(1);
    world.act("resolve", &both).await.expect(422).says("result:");
    assert_eq!(world.stream().await.len(), 6);
}
