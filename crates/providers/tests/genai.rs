//! Models that `genai` reaches, over real sockets.
#![cfg(feature = "genai")]
#![allow(clippy::unwrap_used, reason = "tests fail where they stand")]

mod common;

use std::{sync::Arc, time::Duration};

use chat::{
    BlockKind, Conversation, Message, Model, ModelErrorKind, ModelEvent, OutputSpec, Part, Request,
    Role, StopReason, Structured, Text, Thinking, ToolCall, ToolChoice, ToolResult, ToolSpec,
};
use common::{Reply, SSE_HEAD, Server, ask, hello, refusal, sse, text};
use futures_util::StreamExt as _;
use providers::{GenAi, Key, SIGNATURE_MARK, TransportSettings, by_name};
use serde_json::json;
use sys::{Cancellation, Sys};

const TEXT: &[&str] = &[
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Hm"},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"Hi "},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"there"},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#,
    "[DONE]",
];

/// Two calls in pieces, and a reason that lies.
const CALLS: &[&str] = &[
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function",
        "function":{"name":"weather","arguments":""}}]},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":
        {"arguments":"{\"city\":"}}]},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function",
        "function":{"name":"weather","arguments":"{}"}}]},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":
        {"arguments":"\"Oslo\"}"}}]},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    "[DONE]",
];

fn once() -> TransportSettings {
    TransportSettings { attempts_max: 1, ..TransportSettings::default() }
}

fn model(server: &Server, settings: TransportSettings) -> Arc<dyn Model> {
    let model = GenAi::new("together::m").base_url(format!("{}/v1", server.url));
    model.key(Key::new("sk-very-secret")).settings(settings).build(&Sys::real()).unwrap()
}

/// An answer of these events, on one line each.
fn answer(events: &[&str]) -> Reply {
    let lines: Vec<_> = events.iter().map(|event| event.replace('\n', "")).collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    Reply::Bytes(sse(&lines))
}

#[tokio::test]
async fn thoughts_and_text_arrive_as_blocks_with_their_cost() {
    let server = Server::start(vec![answer(TEXT)]).await;
    let (events, error) = ask(&*model(&server, once()), hello()).await;
    assert_eq!(error, None);
    assert_eq!(text(&events), "HmHi there");
    let kinds: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Open { kind, .. } => Some(kind.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [BlockKind::Thinking, BlockKind::Text]);
    let closed = events.iter().filter(|event| matches!(event, ModelEvent::Close { .. }));
    assert_eq!(closed.count(), 2);
    assert!(events.iter().any(|event| matches!(event, ModelEvent::Usage(usage)
        if usage.input_tokens == Some(7) && usage.output_tokens == Some(3))));
    assert_eq!(events.last(), Some(&ModelEvent::Stop(StopReason::End)));
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", seen.head);
    assert!(seen.head.contains("authorization: Bearer sk-very-secret\r\n"), "{}", seen.head);
    assert_eq!((&seen.body["model"], &seen.body["stream"]), (&json!("m"), &json!(true)));
}

#[tokio::test]
async fn calls_arrive_whole_whatever_the_reason_says() {
    let server = Server::start(vec![answer(CALLS)]).await;
    let (events, error) = ask(&*model(&server, once()), hello()).await;
    assert_eq!(error, None);
    let calls: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Open { kind: BlockKind::Call { id, name }, .. } => {
                Some((id.as_deref().unwrap(), name.as_str()))
            }
            ModelEvent::More { delta, .. } => Some(("", delta.as_str())),
            _ => None,
        })
        .collect();
    let oslo = ("", r#"{"city":"Oslo"}"#);
    assert_eq!(calls, [("a", "weather"), oslo, ("b", "weather"), ("", "{}")]);
    assert_eq!(events.last(), Some(&ModelEvent::Stop(StopReason::ToolCalls)));
}

#[tokio::test]
async fn a_conversation_with_calls_goes_out_in_the_words_of_the_provider() {
    let server = Server::start(vec![answer(TEXT)]).await;
    let call = ToolCall {
        id: "a".into(),
        name: "weather".into(),
        arguments: r#"{"city":"Oslo"}"#.into(),
        ..ToolCall::default()
    };
    let result =
        ToolResult { call_id: "a".into(), content: "Snow".into(), end: chat::CallEnd::Done };
    let thought = Thinking { text: "unsigned".into(), ..Thinking::default() };
    let said = Text { text: "Let me see.".into(), signature: None };
    let parts = vec![Part::Thinking(thought), Part::Text(said), Part::ToolCall(call)];
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let mut request = Request {
        system: vec!["Be brief.".into()],
        messages: Conversation::from([
            Message::text("1", Role::User, "Oslo?"),
            Message::new("2", Role::Assistant, parts),
            Message::new("3", Role::Tool, vec![Part::ToolResult(result)]),
        ]),
        tools: vec![Arc::new(ToolSpec::new("weather", "The weather.", schema.clone()))],
        choice: ToolChoice::Required,
        ..Request::default()
    };
    request.settings.temperature = Some(0.5);
    request.settings.tokens_max = Some(99);
    request.settings.extra.insert("user".into(), "u1".into());
    let (_, error) = ask(&*model(&server, once()), Arc::new(request)).await;
    assert_eq!(error, None);
    let body = server.seen()[0].body.clone();
    let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    assert_eq!(body["messages"][2]["content"], "Let me see.");
    let called = &body["messages"][2]["tool_calls"][0];
    assert_eq!((&called["id"], &called["function"]["name"]), (&json!("a"), &json!("weather")));
    assert_eq!(called["function"]["arguments"], r#"{"city":"Oslo"}"#);
    assert_eq!(body["messages"][3]["tool_call_id"], "a");
    assert_eq!(body["messages"][3]["content"], "Snow");
    assert!(!body.to_string().contains("unsigned"), "{body}");
    assert_eq!(body["tools"][0]["function"]["parameters"]["properties"], schema["properties"]);
    assert_eq!((&body["tool_choice"], &body["user"]), (&json!("required"), &json!("u1")));
    assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.5), &json!(99)));
}

#[tokio::test]
async fn a_signature_of_another_provider_is_not_sent() {
    let thought = |text: &str, signature: &str| {
        let signature = Some(signature.to_owned());
        Part::Thinking(Thinking { text: text.to_owned(), signature, redacted: false })
    };
    let parts = vec![
        thought("theirs", &format!("{SIGNATURE_MARK}anthropic:foreign")),
        thought("ours", &format!("{SIGNATURE_MARK}genai-anthropic:own")),
        Part::from("Well.".to_owned()),
    ];
    let messages = [
        Message::text("u", Role::User, "Hello"),
        Message::new("a", Role::Assistant, parts),
        Message::text("v", Role::User, "Go on."),
    ];
    let messages = messages.into();
    let server = Server::start(vec![Reply::Bytes(refusal("400 Bad Request", "", "{}"))]).await;
    let model = GenAi::new("anthropic::claude").base_url(format!("{}/v1", server.url));
    let model = model.key(Key::new("sk-very-secret")).settings(once()).build(&Sys::real()).unwrap();
    let (_, error) = ask(&*model, Arc::new(Request { messages, ..Request::default() })).await;
    assert!(error.is_some());
    let body = server.seen()[0].body.to_string();
    for odd in [SIGNATURE_MARK, "foreign", "theirs"] {
        assert!(!body.contains(odd), "{odd}: {body}");
    }
    assert!(body.contains("Well."), "{body}");
}

#[tokio::test]
async fn a_refusal_is_told_by_its_kind_and_without_the_key() {
    let said = r#"{"error":{"message":"bad key sk-very-secret","code":"invalid_api_key"}}"#;
    let server = Server::start(vec![Reply::Bytes(refusal("401 Unauthorized", "", said))]).await;
    let (events, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
    let error = error.unwrap();
    assert_eq!((events.len(), error.kind), (0, ModelErrorKind::Unauthorized));
    assert!(error.message.starts_with("401: bad key …"), "{error}");
}

#[tokio::test]
async fn a_busy_provider_is_asked_again() {
    let busy = refusal("429 Too Many Requests", "retry-after-ms: 10\r\n", "{}");
    let server = Server::start(vec![Reply::Bytes(busy), answer(TEXT)]).await;
    let (events, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
    assert_eq!((text(&events).as_str(), error), ("HmHi there", None));
    assert_eq!(server.seen().len(), 2);
    let busy = refusal("429 Too Many Requests", "retry-after: 3600\r\n", "{}");
    let server = Server::start(vec![Reply::Bytes(busy)]).await;
    let (_, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::RateLimited);
    assert_eq!(error.retry_after, Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_never_whole() {
    for cut in 1..TEXT.len() {
        let server = Server::start(vec![answer(&TEXT[..cut])]).await;
        let (events, error) = ask(&*model(&server, once()), hello()).await;
        assert_eq!(error.unwrap().kind, ModelErrorKind::Truncated, "{cut}");
        assert!(!events.iter().any(|event| matches!(event, ModelEvent::Stop(_))));
    }
    let server = Server::start(vec![answer(&CALLS[..4])]).await;
    let (events, error) = ask(&*model(&server, once()), hello()).await;
    assert_eq!((events, error.unwrap().kind), (vec![], ModelErrorKind::Truncated));
    // A length that is not kept.
    let head = SSE_HEAD.replace("\r\n\r\n", "\r\ncontent-length: 9999\r\n\r\n");
    let cut = format!("{head}data: {}\n\n", TEXT[1]);
    let server = Server::start(vec![Reply::Bytes(cut.into_bytes())]).await;
    let (events, error) = ask(&*model(&server, once()), hello()).await;
    assert_eq!(text(&events), "Hi ");
    assert_eq!(error.unwrap().kind, ModelErrorKind::Truncated);
}

#[tokio::test]
async fn failures_amid_an_answer_and_garbage_are_errors() {
    let failing = [TEXT[1], r#"{"error":{"message":"down","code":"server_error"}}"#];
    for (events, kind) in [
        (&failing[..], ModelErrorKind::Unavailable),
        (&["{nonsense"][..], ModelErrorKind::Malformed),
    ] {
        let server = Server::start(vec![answer(events)]).await;
        let (_, error) = ask(&*model(&server, once()), hello()).await;
        assert_eq!(error.unwrap().kind, kind);
    }
}

#[tokio::test]
async fn cancellation_closes_the_connection() {
    let begun = format!("{SSE_HEAD}data: {}\n\n", TEXT[1]);
    let mut server = Server::start(vec![Reply::Hang(begun.into_bytes())]).await;
    let (canceller, cancellation) = Cancellation::new();
    let mut stream = model(&server, once()).call(hello(), cancellation);
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Open { .. }))));
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::More { .. }))));
    canceller.cancel();
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Cancelled);
    assert!(stream.next().await.is_none());
    let closed = Sys::real().clock.timeout(Duration::from_secs(30), server.closed.recv()).await;
    assert!(closed.is_ok_and(|closed| closed.is_some()));
}

#[tokio::test]
async fn silence_ends() {
    let server = Server::start(vec![Reply::Hang(SSE_HEAD.into())]).await;
    let first_byte_time = Duration::from_millis(50);
    let model = model(&server, TransportSettings { first_byte_time, ..once() });
    let (_, error) = ask(&*model, hello()).await;
    assert_eq!(error.unwrap().kind, ModelErrorKind::TimedOut);
}

#[tokio::test]
async fn what_genai_would_drop_is_refused_before_it_is_sent() {
    let server = Server::start(vec![]).await;
    let model = model(&server, once());
    let check = async |request: Request, field: &str| {
        let (_, error) = ask(&*model, Arc::new(request)).await;
        let error = error.unwrap();
        assert_eq!(error.kind, ModelErrorKind::Unsupported);
        assert!(error.message.starts_with(field), "{error}");
    };
    assert_eq!(model.abilities().structured, Structured::Prompted);
    check(Request::default(), "messages:").await;
    let output = Some(OutputSpec { name: "o".into(), schema: json!({}) });
    check(Request { output, ..(*hello()).clone() }, "output:").await;
    let mut request = (*hello()).clone();
    request.settings.parallel_tools = Some(false);
    check(request, "settings.parallelTools:").await;
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn a_name_leads_to_a_model_or_says_why_not() {
    let key = |name: &str| (name == "GROQ_API_KEY").then(|| "sk-secret".to_owned());
    let model = by_name("genai:groq::llama-3.3-70b", &key, &Sys::real()).unwrap();
    assert_eq!(model.name().to_string(), "genai:groq::llama-3.3-70b");
    assert!(!format!("{model:?}").contains("secret"));
    let error = by_name("genai:groq::x", &|_| None, &Sys::real()).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::MissingKey);
    assert!(error.message.contains("GROQ_API_KEY"), "{error}");
    let error = by_name("genai:", &key, &Sys::real()).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::UnknownModel);
    let far = GenAi::new("groq::x").base_url("http://example.com").key(Key::new("k"));
    assert_eq!(far.build(&Sys::real()).unwrap_err().kind, ModelErrorKind::Unsupported);
}
