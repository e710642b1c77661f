//! Sessions are made, and refused.

use server::Access;

use crate::support::{Tokens, World};

#[tokio::test]
async fn a_session_is_made_once() {
    let world = World::empty(Tokens::Given).await;
    let made = world.ask("PUT", "/v1/sessions/calm-otter", "", "").await.expect(201);
    assert_eq!(made.body["id"], "calm-otter");
    assert_eq!(made.body["stream"], "/v1/stream/main/sessions/calm-otter");
    world.ask("PUT", "/v1/sessions/calm-otter", "", "").await.expect(200);
    let stream = made.body["stream"].as_str().unwrap();
    assert_eq!(world.ask_with("GET", stream, "host: localhost\r\n", "").await.status, 200);
}

#[tokio::test]
async fn a_token_must_be_for_it() {
    let world = World::empty(Tokens::Given).await;
    for (allow, session, status) in [
        (Access::Act, "a", 201),
        (Access::Write, "b", 201),
        (Access::Read, "c", 403),
        (Access::Admin, "d", 403),
    ] {
        let token = world.token(session, "ada", &[allow]);
        let target = format!("/v1/sessions/{session}");
        world.ask("PUT", &target, &token, "").await.expect(status);
    }
    let other = world.token("a", "ada", &[Access::Act]);
    world.ask("PUT", "/v1/sessions/x", &other, "").await.expect(403);
    world.ask("PUT", "/v1/sessions/x", "nonsense", "").await.expect(401);
}

#[tokio::test]
async fn what_is_nowhere_says_where_to_go() {
    let world = World::new().await;
    for (method, target, status) in [
        ("GET", "/v1/sessions/s", 405),
        ("DELETE", "/v1/sessions/s/messages", 405),
        ("OPTIONS", "/v1/sessions/s/messages", 405),
        ("PUT", "/v1/sessions/", 404),
        ("PUT", "/v1/sessions/a.b", 404),
        ("PUT", "/v1/sessions/%2e%2e", 404),
        ("POST", "/v1/sessions/s/nothing", 404),
        ("POST", "/v1/sessions/s/messages/x", 404),
    ] {
        world.ask(method, target, "", "").await.expect(status);
    }
    let wrong = world.ask("GET", "/v1/sessions/s/stop", "", "").await;
    assert!(wrong.head.contains("allow: post"), "{}", wrong.head);
}
