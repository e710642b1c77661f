//! Tokens for pages.

use serde_json::json;

use crate::support::{Tokens, World};

const TOKEN: &str = "/v1/sessions/s/token";

#[tokio::test]
async fn a_page_gets_a_token_for_its_session_and_no_other() {
    let world = World::new().await;
    let given = world.ask("POST", TOKEN, "", "").await.expect(201);
    assert!(given.head.contains("cache-control: no-store"), "{}", given.head);
    let token = given.body["token"].as_str().unwrap();
    assert!(given.body["expiresAt"].as_str().unwrap() > "2026");
    let hi = json!({"text": "hi"}).to_string();
    world.ask("POST", "/v1/sessions/s/messages", token, &hi).await.expect(201);
    assert_eq!(world.stream().await[0]["value"]["actorId"], given.body["actorId"]);
    world.ask("PUT", "/v1/sessions/other", "", "").await.expect(201);
    world.ask("POST", "/v1/sessions/other/messages", token, &hi).await.expect(403);
    let read = world.ask("GET", "/v1/stream/main/sessions/s", token, "").await;
    assert_eq!(read.status, 200);
    for method in ["POST", "PUT", "DELETE"] {
        let write = world.ask(method, "/v1/stream/main/sessions/s", token, "{}").await;
        assert_eq!(write.status, 403, "{method}");
    }
    let named = world.ask("POST", TOKEN, "", r#"{"actorId":"ada"}"#).await.expect(201);
    assert_eq!(named.body["actorId"], "ada");
    world.ask("POST", TOKEN, "", r#"{"actorId":""}"#).await.expect(422);
    world.ask("POST", "/v1/sessions/none/token", "", "").await.expect(404);
}

#[tokio::test]
async fn pages_of_other_sites_get_none() {
    let world = World::new().await;
    let port = world.address.port();
    let own = format!("host: 127.0.0.1:{port}\r\n");
    let rows = [
        (format!("{own}origin: http://127.0.0.1:{port}\r\nsec-fetch-site: same-origin\r\n"), 201),
        (format!("host: localhost:{port}\r\norigin: http://localhost:{port}\r\n"), 201),
        (format!("{own}sec-fetch-site: none\r\n"), 201),
        (format!("{own}origin: https://evil.example\r\n"), 403),
        (format!("{own}origin: null\r\n"), 403),
        (format!("{own}origin: http://127.0.0.1:{}\r\n", port ^ 1), 403),
        (format!("{own}sec-fetch-site: cross-site\r\n"), 403),
        (format!("{own}sec-fetch-site: same-site\r\n"), 403),
        // Somebody else's name that was made to point here.
        (format!("host: evil.example:{port}\r\n"), 403),
        (format!("host: evil.example:{port}\r\norigin: http://evil.example:{port}\r\n"), 403),
        (format!("host: evil.example:{port}\r\norigin: http://127.0.0.1:{port}\r\n"), 403),
        // A port that is forwarded has another number there; no page can have it name an address.
        ("host: 127.0.0.1\r\n".to_owned(), 201),
    ];
    for (headers, status) in rows {
        let answer = world.ask_with("POST", TOKEN, &headers, "").await;
        assert_eq!(answer.status, status, "{headers}");
        answer.expect(status);
    }
}

#[tokio::test]
async fn a_server_that_gives_none_says_so() {
    let world = World::empty(Tokens::Kept).await;
    world.ask("PUT", "/v1/sessions/s", "", "").await.expect(201);
    world.ask("POST", TOKEN, "", "").await.expect(404).says("ask whoever runs it");
}
