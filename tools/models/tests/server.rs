//! The fixture itself: every wire is served, what is broken is broken as told, and no key is kept.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use models::{Fixture, Scenario, Wire, caps::REQUESTS_KEPT_MAX};
use serde_json::json;
use sys::Sys;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const END_OF_CHUNKS: &str = "\r\n0\r\n\r\n";

/// Everything that comes over the connection.
async fn ask(fixture: &Fixture, wire: Wire, model: &str) -> String {
    let path = match wire {
        Wire::Chat => "/openai/v1/chat/completions".to_owned(),
        Wire::Responses => "/openai/v1/responses".to_owned(),
        Wire::Anthropic => "/anthropic/v1/messages".to_owned(),
        Wire::Gemini => format!("/gemini/v1beta/models/{model}:streamGenerateContent?alt=sse"),
        Wire::Ollama => "/ollama/api/chat".to_owned(),
    };
    let asked = json!([{"role": "user", "content": "?"}]);
    let body = json!({
        "model": model, "stream": true, "max_tokens": 9, "messages": asked, "input": asked,
        "contents": asked,
    });
    let body = body.to_string();
    let request = [
        &format!("POST {path} HTTP/1.1"),
        "host: fixture",
        "connection: close",
        "authorization: Bearer secret",
        "x-goog-api-key: secret",
        "anthropic-version: 2023-06-01",
        &format!("content-length: {}", body.len()),
        "",
        &body,
    ];
    let address = fixture.url().replace("http://", "");
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.join("\r\n").as_bytes()).await.unwrap();
    let mut told = Vec::new();
    // A connection that breaks is what some scenarios are about.
    let _ = connection.read_to_end(&mut told).await;
    String::from_utf8_lossy(&told).into_owned()
}

#[tokio::test]
async fn every_scenario_is_served_on_every_wire_that_has_it() {
    let fixture = Fixture::start(&Sys::real()).await.unwrap();
    for &wire in Wire::ALL {
        for &scenario in Scenario::ALL.iter().filter(|one| !one.is_huge()) {
            let told = ask(&fixture, wire, scenario.name()).await;
            let status = match scenario {
                Scenario::RateLimited => "429",
                Scenario::BadKey if wire == Wire::Gemini => "400",
                Scenario::BadKey => "401",
                Scenario::Overloaded if wire == Wire::Anthropic => "529",
                Scenario::Overloaded => "503",
                Scenario::UnknownModel => "404",
                scenario if !scenario.is_on(wire) => "404",
                _ => "200",
            };
            assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{wire}, {scenario}: {told}");
            let is_whole = told.ends_with(END_OF_CHUNKS);
            assert_eq!(is_whole, scenario != Scenario::Disconnect, "{wire}, {scenario}: {told}");
        }
    }
}

#[tokio::test]
async fn every_other_request_is_refused_by_name() {
    let fixture = Fixture::start(&Sys::real()).await.unwrap();
    for model in ["rate-limited", "rate-limited-1", "rate-limited-2"] {
        for status in ["429", "200", "429", "200"] {
            let told = ask(&fixture, Wire::Ollama, model).await;
            assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{model}: {told}");
            assert_eq!(told.contains("retry-after: 0"), status == "429", "{model}: {told}");
        }
    }
}

#[tokio::test]
async fn the_last_requests_are_kept_without_keys() {
    let fixture = Fixture::start(&Sys::real()).await.unwrap();
    for _ in 0..=REQUESTS_KEPT_MAX {
        ask(&fixture, Wire::Anthropic, "text").await;
    }
    let kept = fixture.requests();
    assert_eq!(kept.len(), REQUESTS_KEPT_MAX);
    assert_eq!(kept[0]["body"]["model"], "text");
    assert!(kept[0]["headers"].as_array().unwrap().contains(&json!("authorization")));
    assert!(!json!(kept).to_string().contains("secret"));
}
