//! Conversations that came from elsewhere, or ended badly: every provider is still sent a request
//! that it takes.
#![allow(clippy::unwrap_used, reason = "tests fail where they stand")]

mod common;

use std::sync::Arc;

use chat::{
    CallEnd, Message, Model, Part, Request, Role, Thinking, ToolCall, ToolResult, agui::Content,
};
use common::{Reply, Server, ask, refusal, sse};
use providers::{Anthropic, Gemini, Key, Ollama, OpenAi};
use serde_json::{Value, json};
use sys::Sys;

async fn server() -> Server {
    Server::start(vec![Reply::Bytes(refusal("400 Bad Request", "", "{}"))]).await
}

async fn sent(server: &Server, model: Arc<dyn Model>, messages: &[Message]) -> Value {
    let messages = messages.iter().cloned().map(Arc::new).collect();
    let request = Arc::new(Request { messages, ..Request::default() });
    let (_, error) = ask(&*model, request).await;
    assert!(error.is_some());
    server.seen()[0].body.clone()
}

async fn to_anthropic(messages: &[Message]) -> Value {
    let server = server().await;
    let model = Anthropic::new("claude-sonnet-4-5").base_url(&server.url).key(Key::new("key-1"));
    sent(&server, model.build(&Sys::real()).unwrap(), messages).await
}

async fn to_gemini(messages: &[Message]) -> Value {
    let server = server().await;
    let model = Gemini::new("gemini-3-pro").base_url(&server.url).key(Key::new("key-1"));
    sent(&server, model.build(&Sys::real()).unwrap(), messages).await
}

async fn to_chat(messages: &[Message]) -> Value {
    let server = server().await;
    let model = OpenAi::chat("m").base_url(&server.url).key(Key::new("key-1"));
    sent(&server, model.build(&Sys::real()).unwrap(), messages).await
}

async fn to_responses(messages: &[Message]) -> Value {
    let server = server().await;
    let model = OpenAi::responses("m").base_url(&server.url).key(Key::new("key-1"));
    sent(&server, model.build(&Sys::real()).unwrap(), messages).await
}

async fn to_ollama(messages: &[Message]) -> Value {
    let server = server().await;
    let model = Ollama::new("m").base_url(&server.url);
    sent(&server, model.build(&Sys::real()).unwrap(), messages).await
}

fn user() -> Message {
    Message::text("u", Role::User, "Hello")
}

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: "c".into(),
        name: name.into(),
        arguments: arguments.to_owned(),
        ..ToolCall::default()
    }
}

#[tokio::test]
async fn a_call_that_was_cut_off_or_misnamed_is_told_in_plain_words() {
    let part = Part::ToolCall(call("functions.wetter ü", r#"{"city": "Os"#));
    let content = Content::Text("This call was cancelled.".to_owned());
    let result = ToolResult { call_id: "c".into(), content, end: CallEnd::Cancelled };
    let messages = [
        user(),
        Message::new("a", Role::Assistant, vec![part]),
        Message::new("r", Role::Tool, vec![Part::ToolResult(result)]),
    ];
    let name = "functions_wetter__";
    let body = to_chat(&messages).await;
    let function = &body["messages"][1]["tool_calls"][0]["function"];
    assert_eq!(function["name"], name);
    let read: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(read, json!({ "unreadable": r#"{"city": "Os"# }));

    let body = to_responses(&messages).await;
    assert_eq!(body["input"][1]["name"], name);
    let written = body["input"][1]["arguments"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(written).unwrap(), read);

    let body = to_anthropic(&messages).await;
    assert_eq!(body["messages"][1]["content"][0]["name"], name);
    assert_eq!(body["messages"][1]["content"][0]["input"], read);

    let body = to_gemini(&messages).await;
    let called = &body["contents"][1]["parts"][0]["functionCall"];
    assert_eq!((&called["name"], &called["args"]), (&json!(name), &read));
    assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["name"], name);

    // Ollama takes any name, as long as the answer has the same.
    let body = to_ollama(&messages).await;
    assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["name"], "functions.wetter ü");
    assert_eq!(body["messages"][2]["tool_name"], "functions.wetter ü");
}

#[tokio::test]
async fn gemini_is_told_of_no_name_that_it_would_refuse() {
    for (name, told) in [
        ("weather", "weather"),
        ("maps.find:near", "maps.find:near"),
        ("2nd", "_2nd"),
        ("-x", "_-x"),
        ("", "unnamed"),
        (&"9".repeat(80), &format!("_{}", "9".repeat(63))),
    ] {
        let parts = vec![Part::ToolCall(call(name, "{}"))];
        let body = to_gemini(&[user(), Message::new("a", Role::Assistant, parts)]).await;
        assert_eq!(body["contents"][1]["parts"][0]["functionCall"]["name"], told);
    }
}

#[tokio::test]
async fn what_a_developer_says_last_is_answered() {
    let messages = [
        user(),
        Message::text("a", Role::Assistant, "{"),
        Message::text("d", Role::Developer, "Answer again."),
    ];
    let body = to_anthropic(&messages).await;
    let text = json!([{ "type": "text", "text": "Answer again." }]);
    assert_eq!(body["messages"][2], json!({ "role": "user", "content": text }));
    let body = to_gemini(&messages).await;
    let parts = json!([{ "text": "Answer again." }]);
    assert_eq!(body["contents"][2], json!({ "role": "user", "parts": parts }));
}

#[tokio::test]
async fn what_one_provider_ran_is_not_told_to_another() {
    let ran = |result: Value| {
        let provider_result = Some(result);
        let call = ToolCall { provider_result, ..call("search", "{}") };
        let parts = vec![Part::ToolCall(call), Part::from("Found.".to_owned())];
        [user(), Message::new("a", Role::Assistant, parts), user()]
    };
    let of_openai = json!({ "type": "web_search_call", "id": "ws_1", "status": "completed" });
    let of_anthropic =
        json!({ "type": "web_search_tool_result", "tool_use_id": "c", "content": [] });
    let of_gemini = json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1" } });
    for foreign in [&of_openai, &of_gemini] {
        let body = to_anthropic(&ran(foreign.clone())).await;
        let said = json!([{ "type": "text", "text": "Found." }]);
        assert_eq!(body["messages"][1]["content"], said);
    }
    for foreign in [&of_openai, &of_anthropic] {
        let body = to_gemini(&ran(foreign.clone())).await;
        assert_eq!(body["contents"][1]["parts"], json!([{ "text": "Found." }]));
    }
    for foreign in [&of_gemini, &of_anthropic] {
        let body = to_responses(&ran(foreign.clone())).await;
        assert_eq!(body["input"][1]["content"][0]["text"], "Found.");
    }
}

/// What Anthropic signs in an answer, as it is kept.
async fn signed_by_anthropic() -> String {
    let answer = sse(&[
        concat!(
            r#"{"type":"message_start","message":{"id":"m","model":"c","#,
            r#""usage":{"input_tokens":1,"output_tokens":1}}}"#
        ),
        concat!(
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","#,
            r#""thinking":"","signature":""}}"#
        ),
        concat!(
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","#,
            r#""thinking":"Hm."}}"#
        ),
        concat!(
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","#,
            r#""signature":"c2ln"}}"#
        ),
        r#"{"type":"content_block_stop","index":0}"#,
        concat!(
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"#,
            r#""usage":{"output_tokens":2}}"#
        ),
        r#"{"type":"message_stop"}"#,
    ]);
    let server = Server::start(vec![Reply::Bytes(answer)]).await;
    let model = Anthropic::new("claude-sonnet-4-5").base_url(&server.url).key(Key::new("key-1"));
    let (events, error) = ask(&*model.build(&Sys::real()).unwrap(), common::hello()).await;
    assert_eq!(error, None);
    let signature = events.into_iter().find_map(|event| match event {
        chat::ModelEvent::Sign { signature, .. } => Some(signature),
        _ => None,
    });
    signature.unwrap()
}

#[tokio::test]
async fn a_signature_goes_back_to_its_provider_alone() {
    let signature = Some(signed_by_anthropic().await);
    let thinking = Thinking { text: "Hm.".to_owned(), signature, redacted: false };
    let parts = vec![Part::Thinking(thinking), Part::from("Well.".to_owned())];
    let messages = [user(), Message::new("a", Role::Assistant, parts), user()];
    let body = to_anthropic(&messages).await;
    let thought = json!({ "type": "thinking", "thinking": "Hm.", "signature": "c2ln" });
    assert_eq!(body["messages"][1]["content"][0], thought);
    let body = to_gemini(&messages).await;
    assert_eq!(body["contents"][1]["parts"], json!([{ "text": "Well." }]));
    let body = to_responses(&messages).await;
    assert_eq!(body["input"].as_array().unwrap().len(), 3);
}
