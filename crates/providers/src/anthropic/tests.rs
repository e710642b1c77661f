//! Requests as Anthropic is sent them.

use std::sync::Arc;

use chat::{
    CallEnd, Message, ModelErrorKind, OutputSpec, Part, Request, Role, Settings, Text, Thinking,
    ThinkingEffort, ToolCall, ToolChoice, ToolResult, ToolSpec,
    agui::{Content, ContentPart, Media, Source, TextPart},
};
use http::HeaderValue;
use serde_json::{Map, Value, json};

use super::wire::Messages;
use crate::wire::Wire as _;

const OLD: &str = "claude-sonnet-4-5";
const NEW: &str = "claude-opus-4-8";

fn wire(model: &str) -> Messages {
    let key = HeaderValue::from_static("k");
    Messages { model: model.into(), key, betas: None }
}

fn encoded(model: &str, request: &Request) -> Value {
    let outgoing = wire(model).encode(request).unwrap();
    serde_json::from_slice(&outgoing.body).unwrap()
}

#[track_caller]
fn check_refused(model: &str, request: &Request, parts: &[&str]) {
    let error = wire(model).encode(request).expect_err("refused");
    assert_eq!(error.kind, ModelErrorKind::Unsupported);
    for part in parts {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
}

fn saying(messages: impl IntoIterator<Item = Message>) -> Request {
    let messages = messages.into_iter().collect();
    Request { messages, ..Request::default() }
}

fn user(text: &str) -> Message {
    Message::text("u", Role::User, text)
}

fn assistant(parts: Vec<Part>) -> Message {
    Message::new("a", Role::Assistant, parts)
}

fn call(id: &str, arguments: &str) -> Part {
    let name = "weather".into();
    let call = ToolCall { id: id.into(), name, arguments: arguments.into(), ..ToolCall::default() };
    Part::ToolCall(call)
}

fn result(call_id: &str, content: Content, end: CallEnd) -> Message {
    let result = ToolResult { call_id: call_id.into(), content, end };
    Message::new("r", Role::Tool, vec![Part::ToolResult(result)])
}

fn asking(settings: Settings) -> Request {
    Request { settings, ..saying([user("hi")]) }
}

#[test]
fn a_request_says_only_what_it_must() {
    let outgoing = wire(NEW).encode(&saying([user("hi")])).unwrap();
    assert_eq!(outgoing.path_and_query, "/v1/messages");
    let names: Vec<_> = outgoing.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-api-key", "anthropic-version"]);
    let body: Value = serde_json::from_slice(&outgoing.body).unwrap();
    let expected = json!({
        "model": NEW,
        "max_tokens": 16_384,
        "stream": true,
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi" }] }],
    });
    assert_eq!(body, expected);
}

#[test]
fn turns_alternate_and_results_stand_first() {
    let text = |text: &str| Content::Text(text.to_owned());
    let mut request = saying([
        Message::text("s", Role::Developer, "be brief"),
        user("a"),
        user(" \n"),
        user("b"),
        assistant(vec![Part::from("let me see".to_owned()), call("c:1", "{\"x\": 1}")]),
        assistant(vec![call("c2", "")]),
        user("and?"),
        result("c:1", text("sunny"), CallEnd::Done),
        result("c2", text(""), CallEnd::Failed),
    ]);
    request.system.push("you are kind".to_owned());
    let body = encoded(NEW, &request);
    let system = json!([
        { "type": "text", "text": "you are kind" },
        { "type": "text", "text": "be brief" },
    ]);
    assert_eq!(body["system"], system);
    let id = body["messages"][1]["content"][1]["id"].as_str().unwrap();
    assert!(id.starts_with("call_") && id.len() <= 64, "{id}");
    let expected = json!([
        { "role": "user", "content": [
            { "type": "text", "text": "a" },
            { "type": "text", "text": "b" },
        ] },
        { "role": "assistant", "content": [
            { "type": "text", "text": "let me see" },
            { "type": "tool_use", "id": id, "name": "weather", "input": { "x": 1 } },
            { "type": "tool_use", "id": "c2", "name": "weather", "input": {} },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": id,
              "content": [{ "type": "text", "text": "sunny" }] },
            { "type": "tool_result", "tool_use_id": "c2", "is_error": true },
            { "type": "text", "text": "and?" },
        ] },
    ]);
    assert_eq!(body["messages"], expected);
}

#[test]
fn thoughts_go_back_only_if_they_are_signed() {
    let thinking = |text: &str, signature: Option<&str>, redacted| {
        let signature = signature.map(str::to_owned);
        Part::Thinking(Thinking { text: text.to_owned(), signature, redacted })
    };
    let said = Part::Text(Text { text: "so: ".to_owned(), signature: None });
    let body = encoded(
        NEW,
        &saying([
            user("a"),
            assistant(vec![
                thinking("unsigned", None, false),
                thinking("signed", Some("s"), false),
                thinking("", Some("secret"), true),
                said,
            ]),
        ]),
    );
    let expected = json!([
        { "type": "thinking", "thinking": "signed", "signature": "s" },
        { "type": "redacted_thinking", "data": "secret" },
        { "type": "text", "text": "so:" },
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
}

#[test]
fn tools_that_anthropic_ran_go_back_as_they_came() {
    let ran = |id: &str, signature: Option<&str>, result: Value| {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: "web_search".into(),
            arguments: "{\"query\":\"x\"}".to_owned(),
            signature: signature.map(str::to_owned),
            provider_result: Some(result),
        })
    };
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] });
    let said = json!({ "type": "mcp_tool_result", "tool_use_id": "m1", "content": [] });
    let late = json!({ "type": "web_search_tool_result", "tool_use_id": "s2", "content": [] });
    let messages = [
        user("a"),
        assistant(vec![
            ran("renamed", None, found.clone()),
            ran("m1", Some("srv"), said.clone()),
            ran("lost", None, Value::Null),
            ran("s2", None, Value::Null),
        ]),
        assistant(vec![ran("s2:again", None, late.clone()), ran("paused", None, Value::Null)]),
    ];
    let used = |id: &str| {
        json!({ "type": "server_tool_use", "id": id, "name": "web_search",
                "input": { "query": "x" } })
    };
    let expected = json!([
        used("s1"),
        found,
        { "type": "mcp_tool_use", "id": "m1", "name": "web_search", "server_name": "srv",
          "input": { "query": "x" } },
        said,
        used("s2"),
        late,
        used("paused"),
    ]);
    assert_eq!(encoded(NEW, &saying(messages))["messages"][1]["content"], expected);
}

#[test]
fn images_and_documents_are_taken_also_from_tools() {
    let data = |value: &str, mime: &str| {
        let source = Source::Data { value: value.to_owned(), mime_type: mime.to_owned() };
        Media { source, id: None, metadata: None, others: Map::new() }
    };
    let url = Source::Url { value: "https://example.com/a.pdf".to_owned(), mime_type: None };
    let parts = vec![
        ContentPart::Text(TextPart { text: "see".to_owned(), ..TextPart::default() }),
        ContentPart::Image(data("AA==", "image/png")),
        ContentPart::Document(data("aGk=", "text/markdown")),
        ContentPart::Document(data("AA==", "application/pdf")),
        ContentPart::Document(Media { source: url, id: None, metadata: None, others: Map::new() }),
    ];
    let request = saying([
        user("a"),
        assistant(vec![call("c", "{}")]),
        result("c", Content::Parts(parts), CallEnd::Done),
    ]);
    let expected = json!([
        { "type": "text", "text": "see" },
        { "type": "image",
          "source": { "type": "base64", "media_type": "image/png", "data": "AA==" } },
        { "type": "document",
          "source": { "type": "text", "media_type": "text/plain", "data": "hi" } },
        { "type": "document",
          "source": { "type": "base64", "media_type": "application/pdf", "data": "AA==" } },
        { "type": "document", "source": { "type": "url", "url": "https://example.com/a.pdf" } },
    ]);
    assert_eq!(encoded(NEW, &request)["messages"][2]["content"][0]["content"], expected);

    let sound = Message::new("u", Role::User, vec![Part::Audio(data("AA==", "audio/wav"))]);
    check_refused(NEW, &saying([sound]), &["anthropic", "messages[0].parts[0] is a sound"]);
    let tiff = Message::new("u", Role::User, vec![Part::Image(data("AA==", "image/tiff"))]);
    check_refused(NEW, &saying([tiff]), &["image/tiff", "jpeg, png, gif and webp"]);
}

#[test]
fn tools_and_the_choice_among_them() {
    let schema = json!({ "type": "object", "properties": {} });
    let tool = Arc::new(ToolSpec::new("weather", "How it is.", schema.clone()));
    let search = json!({ "type": "web_search_20250305", "name": "web_search" });
    let settings = Settings { provider_tools: vec![search.clone()], ..Settings::default() };
    let base = Request { tools: vec![tool], ..asking(settings) };
    let expected = json!([
        { "name": "weather", "description": "How it is.", "input_schema": schema },
        search,
    ]);
    assert_eq!(encoded(NEW, &base)["tools"], expected);
    let rows = [
        (ToolChoice::Auto, None, json!(null)),
        (
            ToolChoice::Auto,
            Some(false),
            json!({ "type": "auto", "disable_parallel_tool_use": true }),
        ),
        (ToolChoice::None, Some(false), json!({ "type": "none" })),
        (ToolChoice::Required, Some(true), json!({ "type": "any" })),
        (
            ToolChoice::Tool("weather".into()),
            Some(false),
            json!({ "type": "tool", "name": "weather", "disable_parallel_tool_use": true }),
        ),
    ];
    for (choice, parallel_tools, expected) in rows {
        let settings = Settings { parallel_tools, ..base.settings.clone() };
        let request = Request { choice, settings, ..base.clone() };
        assert_eq!(encoded(NEW, &request)["tool_choice"], expected);
    }
    let request = Request { choice: ToolChoice::Required, ..saying([user("a")]) };
    check_refused(NEW, &request, &["choice", "tools is empty", "leave it to the model"]);
    let request = Request { choice: ToolChoice::Tool("other".into()), ..base };
    check_refused(NEW, &request, &["choice", "no tool \"other\"", "name one of the tools"]);
}

#[test]
fn thinking_is_told_as_the_model_takes_it() {
    let rows = [
        (NEW, ThinkingEffort::Off, None, json!({ "type": "disabled" }), json!(null), 16_384),
        (
            NEW,
            ThinkingEffort::Low,
            Some(100),
            json!({ "type": "adaptive", "display": "summarized" }),
            json!({ "effort": "low" }),
            100,
        ),
        (
            OLD,
            ThinkingEffort::Medium,
            None,
            json!({ "type": "enabled", "budget_tokens": 8_192 }),
            json!(null),
            24_576,
        ),
        (
            OLD,
            ThinkingEffort::High,
            Some(4_000),
            json!({ "type": "enabled", "budget_tokens": 2_000 }),
            json!(null),
            4_000,
        ),
        (
            OLD,
            ThinkingEffort::Tokens(5_000),
            None,
            json!({ "type": "enabled", "budget_tokens": 5_000 }),
            json!(null),
            21_384,
        ),
    ];
    for (model, thinking, tokens_max, expected, output_config, max_tokens) in rows {
        let settings = Settings { thinking: Some(thinking), tokens_max, ..Settings::default() };
        let body = encoded(model, &asking(settings));
        assert_eq!(body["thinking"], expected, "{model} {thinking:?}");
        assert_eq!(body["output_config"], output_config, "{model} {thinking:?}");
        assert_eq!(body["max_tokens"], max_tokens, "{model} {thinking:?}");
    }
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    let thinking = |thinking| Settings { thinking: Some(thinking), ..Settings::default() };
    let cold = |settings| Settings { temperature: Some(0.2), ..settings };
    let short = |settings| Settings { tokens_max: Some(1_000), ..settings };
    let rows = [
        (NEW, thinking(ThinkingEffort::Tokens(2_000)), "use low, medium or high"),
        (OLD, thinking(ThinkingEffort::Tokens(10)), "at least 1024"),
        (OLD, short(thinking(ThinkingEffort::High)), "settings.tokens_max is 1000"),
        (OLD, cold(thinking(ThinkingEffort::Low)), "settings.thinking excludes it"),
        (NEW, cold(Settings::default()), "claude-opus-4-8 does not take it"),
        (NEW, Settings { top_p: Some(0.5), ..Settings::default() }, "settings.topP"),
    ];
    for (model, settings, message) in rows {
        check_refused(model, &asking(settings), &["anthropic", message]);
    }
    let body = encoded(OLD, &asking(cold(Settings::default())));
    assert_eq!(body["temperature"], 0.2);
}

#[test]
fn an_answer_may_have_to_fit_a_schema() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let output = Some(OutputSpec { name: "answer".into(), schema: schema.clone() });
    let request = Request { output, ..saying([user("a")]) };
    let mut closed = schema;
    closed["additionalProperties"] = json!(false);
    let expected = json!({ "format": { "type": "json_schema", "schema": closed } });
    assert_eq!(encoded(NEW, &request)["output_config"], expected);
    check_refused("claude-3-5-haiku-latest", &request, &["output \"answer\"", "in words"]);

    let schema = json!({ "type": "object", "properties": { "any": true } });
    let output = Some(OutputSpec { name: "answer".into(), schema });
    let parts = ["anthropic", "output \"answer\"", "\"/properties/any\"", "say what type"];
    check_refused(NEW, &Request { output, ..saying([user("a")]) }, &parts);
}

#[test]
fn a_tool_that_cannot_be_told_is_named() {
    let with = |name: &str, schema: Value| {
        let tool = Arc::new(ToolSpec::new(name, "", schema));
        Request { tools: vec![tool], ..saying([user("a")]) }
    };
    let parts = ["anthropic", "tool \"pick\"", "\"/anyOf\"", "a field of an object"];
    check_refused(NEW, &with("pick", json!({ "anyOf": [] })), &parts);
    check_refused(NEW, &with("a.b", json!({})), &["tool \"a.b\"", "letters, digits"]);
}

#[test]
fn nothing_to_answer_is_refused() {
    let parts = ["anthropic", "messages", "add a user's message"];
    check_refused(NEW, &Request::default(), &parts);
    check_refused(NEW, &saying([user("  ")]), &parts);
}

#[test]
fn extra_fields_win() {
    let Value::Object(extra) = json!({ "max_tokens": 5, "service_tier": "auto" }) else {
        panic!("an object")
    };
    let body = encoded(NEW, &asking(Settings { extra, ..Settings::default() }));
    assert_eq!((&body["max_tokens"], &body["service_tier"]), (&json!(5), &json!("auto")));
}
