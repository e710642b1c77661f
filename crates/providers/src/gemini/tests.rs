//! Requests as Gemini is sent them.

use std::sync::Arc;

use chat::{
    CallEnd, Message, ModelErrorKind, OutputSpec, Part, Request, Role, Settings, Text, Thinking,
    ThinkingEffort, ToolCall, ToolChoice, ToolResult, ToolSpec,
    agui::{Content, ContentPart, Media, Source, TextPart},
};
use http::HeaderValue;
use serde_json::{Map, Value, json};

use super::wire;
use crate::wire::Wire as _;

const OLD: &str = "gemini-2.5-flash";
const NEW: &str = "gemini-3-pro-preview";

fn wire(model: &str) -> wire::Content {
    wire::Content { model: model.into(), key: HeaderValue::from_static("k") }
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

fn call(id: &str, arguments: &str, signature: Option<&str>) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: "weather".into(),
        arguments: arguments.to_owned(),
        signature: signature.map(str::to_owned),
        provider_result: None,
    })
}

fn result(call_id: &str, content: Content, end: CallEnd) -> Message {
    let result = ToolResult { call_id: call_id.into(), content, end };
    Message::new("r", Role::Tool, vec![Part::ToolResult(result)])
}

fn said(text: &str) -> Content {
    Content::Text(text.to_owned())
}

fn asking(settings: Settings) -> Request {
    Request { settings, ..saying([user("hi")]) }
}

#[test]
fn a_request_says_only_what_it_must_and_no_key_in_its_path() {
    let outgoing = wire(NEW).encode(&saying([user("hi")])).unwrap();
    let path = "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse";
    assert_eq!(outgoing.path_and_query, path);
    let names: Vec<_> = outgoing.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-goog-api-key"]);
    let body: Value = serde_json::from_slice(&outgoing.body).unwrap();
    let expected = json!({ "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }] });
    assert_eq!(body, expected);
    let tuned = wire("tunedModels/mine").encode(&saying([user("hi")])).unwrap();
    assert!(tuned.path_and_query.starts_with("/v1beta/tunedModels/mine:stream"));
}

#[test]
fn answers_to_calls_are_a_turn_of_their_own() {
    let mut request = saying([
        Message::text("s", Role::System, "be brief"),
        user("a"),
        user(" \n"),
        assistant(vec![call("c1", "{\"x\": 1}", Some("s")), call("c2", "oops", None)]),
        result("c1", said("{\"sun\": true}"), CallEnd::Done),
        result("c2", said("not JSON"), CallEnd::Failed),
        user("and?"),
    ]);
    request.system.push("you are kind".to_owned());
    let body = encoded(NEW, &request);
    let system = json!({ "parts": [{ "text": "you are kind" }, { "text": "be brief" }] });
    assert_eq!(body["systemInstruction"], system);
    let expected = json!([
        { "role": "user", "parts": [{ "text": "a" }, { "text": " \n" }] },
        { "role": "model", "parts": [
            { "functionCall": { "id": "c1", "name": "weather", "args": { "x": 1 } },
              "thoughtSignature": "s" },
            { "functionCall": { "id": "c2", "name": "weather",
                                "args": { "unreadable": "oops" } } },
        ] },
        { "role": "user", "parts": [
            { "functionResponse": { "id": "c1", "name": "weather",
                                    "response": { "output": { "sun": true } } } },
            { "functionResponse": { "id": "c2", "name": "weather",
                                    "response": { "error": "not JSON" } } },
        ] },
        { "role": "user", "parts": [{ "text": "and?" }] },
    ]);
    assert_eq!(body["contents"], expected);
    let alone = saying([result("c1", said(""), CallEnd::Done)]);
    check_refused(NEW, &alone, &["gemini", "messages[0].parts[0]", "\"c1\", which is not there"]);
}

#[test]
fn calls_from_elsewhere_are_let_through_by_new_models() {
    let request = saying([
        user("a"),
        assistant(vec![call("c1", "", None), call("c2", "", None)]),
        result("c1", said("1"), CallEnd::Done),
        result("c2", said("2"), CallEnd::Done),
    ]);
    let signatures = |model| {
        let body = encoded(model, &request);
        let parts = body["contents"][1]["parts"].as_array().unwrap().clone();
        parts.into_iter().map(|part| part["thoughtSignature"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(signatures(NEW), [json!("skip_thought_signature_validator"), Value::Null]);
    assert_eq!(signatures(OLD), [Value::Null, Value::Null]);
}

#[test]
fn signatures_go_back_with_their_parts() {
    let text = |text: &str, signature: Option<&str>| {
        Part::Text(Text { text: text.to_owned(), signature: signature.map(str::to_owned) })
    };
    let thinking = |signature: Option<&str>, redacted| {
        let signature = signature.map(str::to_owned);
        Part::Thinking(Thinking { text: "hm".to_owned(), signature, redacted })
    };
    let parts = vec![
        thinking(None, false),
        thinking(Some("s0"), false),
        thinking(Some("other"), true),
        text("a", Some("s1")),
        text("", None),
        text("", Some("s2")),
    ];
    let body = encoded(NEW, &saying([user("a"), assistant(parts)]));
    let expected = json!([
        { "text": "hm", "thought": true, "thoughtSignature": "s0" },
        { "text": "a", "thoughtSignature": "s1" },
        { "text": "", "thoughtSignature": "s2" },
    ]);
    assert_eq!(body["contents"][1]["parts"], expected);
}

#[test]
fn tools_that_gemini_ran_go_back_as_they_came() {
    let ran = |name: &str, arguments: &str, result: Value| {
        Part::ToolCall(ToolCall {
            id: "own".into(),
            name: name.into(),
            arguments: arguments.to_owned(),
            signature: Some("s".to_owned()),
            provider_result: Some(result),
        })
    };
    let ok = json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK" }, "thoughtSignature": "t" });
    let found = json!({ "toolResponse": { "id": "g1", "toolType": "GOOGLE_SEARCH_WEB" } });
    let parts = vec![
        ran("code_execution", "{\"code\":\"1\"}", ok.clone()),
        ran("code_execution", "", ok.clone()),
        ran("code_execution", "{\"code\":\"2\"}", Value::Null),
        ran("GOOGLE_SEARCH_WEB", "{\"q\":\"x\"}", found.clone()),
    ];
    let body = encoded(NEW, &saying([user("a"), assistant(parts)]));
    let expected = json!([
        { "executableCode": { "code": "1" }, "thoughtSignature": "s" },
        ok,
        ok,
        { "toolCall": { "id": "g1", "toolType": "GOOGLE_SEARCH_WEB", "args": { "q": "x" } },
          "thoughtSignature": "s" },
        found,
    ]);
    assert_eq!(body["contents"][1]["parts"], expected);
}

#[test]
fn media_goes_into_answers_of_tools_or_beside_them() {
    let media = |source| Media { source, id: None, metadata: None, others: Map::new() };
    let png = Source::Data { value: "AA==".to_owned(), mime_type: "image/png".to_owned() };
    let url = Source::Url { value: "https://example.com/a.pdf".to_owned(), mime_type: None };
    let parts = vec![
        ContentPart::Text(TextPart { text: "see ".to_owned(), ..TextPart::default() }),
        ContentPart::Image(media(png)),
        ContentPart::Document(media(url)),
        ContentPart::Text(TextPart { text: "this".to_owned(), ..TextPart::default() }),
    ];
    let request = saying([
        user("a"),
        assistant(vec![call("c", "{}", Some("s"))]),
        result("c", Content::Parts(parts), CallEnd::Done),
        user("so?"),
    ]);
    let png = json!({ "inlineData": { "mimeType": "image/png", "data": "AA==" } });
    let pdf = json!({ "fileData": { "fileUri": "https://example.com/a.pdf" } });
    let turns = |response: Value, beside: Value| {
        json!([
            { "role": "user", "parts": [{ "functionResponse": response }] },
            { "role": "user", "parts": beside },
        ])
    };
    let output = json!({ "output": "see this" });
    let response = json!({ "id": "c", "name": "weather", "response": output, "parts": [png] });
    let contents = &encoded(NEW, &request)["contents"];
    let expected = turns(response, json!([pdf, { "text": "so?" }]));
    assert_eq!(json!(contents.as_array().unwrap()[2..]), expected);
    let response = json!({ "id": "c", "name": "weather", "response": output });
    let contents = &encoded(OLD, &request)["contents"];
    let expected = turns(response, json!([png, pdf, { "text": "so?" }]));
    assert_eq!(json!(contents.as_array().unwrap()[2..]), expected);

    let file = Source::File {
        value: "file-1".to_owned(),
        provider: Some("openai".to_owned()),
        mime_type: None,
    };
    let foreign = Message::new("u", Role::User, vec![Part::Document(media(file))]);
    check_refused(NEW, &saying([foreign]), &["messages[0].parts[0]", "another provider"]);
}

#[test]
fn tools_and_the_choice_among_them() {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let weather = Arc::new(ToolSpec::new("weather", "How it is.", schema.clone()));
    let time = Arc::new(ToolSpec::new("time", "", json!({ "type": "object" })));
    let search = json!({ "googleSearch": {} });
    let settings = Settings { provider_tools: vec![search.clone()], ..Settings::default() };
    let base = Request { tools: vec![weather, time], ..asking(settings) };
    let expected = json!([
        { "functionDeclarations": [
            { "name": "weather", "description": "How it is.", "parametersJsonSchema": schema },
            { "name": "time" },
        ] },
        search,
    ]);
    assert_eq!(encoded(NEW, &base)["tools"], expected);
    let rows = [
        (ToolChoice::Auto, json!(null)),
        (ToolChoice::None, json!({ "mode": "NONE" })),
        (ToolChoice::Required, json!({ "mode": "ANY" })),
        (
            ToolChoice::Tool("time".into()),
            json!({ "mode": "ANY", "allowedFunctionNames": ["time"] }),
        ),
    ];
    for (choice, expected) in rows {
        let request = Request { choice, ..base.clone() };
        assert_eq!(encoded(NEW, &request)["toolConfig"]["functionCallingConfig"], expected);
    }
    let request = Request { choice: ToolChoice::Required, ..saying([user("a")]) };
    check_refused(NEW, &request, &["choice", "tools is empty", "leave it to the model"]);
    let request = Request { choice: ToolChoice::Tool("other".into()), ..base };
    check_refused(NEW, &request, &["choice", "no tool \"other\"", "name one of the tools"]);
    let settings = Settings { parallel_tools: Some(false), ..Settings::default() };
    check_refused(NEW, &asking(settings), &["gemini", "settings.parallelTools", "leave it out"]);
}

#[test]
fn settings_are_told_as_the_model_takes_them() {
    let settings = Settings {
        tokens_max: Some(5),
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop: vec!["END".to_owned()],
        ..Settings::default()
    };
    let expected = json!({
        "maxOutputTokens": 5, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"],
    });
    assert_eq!(encoded(NEW, &asking(settings))["generationConfig"], expected);
    let rows = [
        (NEW, ThinkingEffort::Off, json!({ "thinkingLevel": "MINIMAL" })),
        (NEW, ThinkingEffort::Low, json!({ "includeThoughts": true, "thinkingLevel": "LOW" })),
        (NEW, ThinkingEffort::Tokens(7), json!({ "includeThoughts": true, "thinkingBudget": 7 })),
        (OLD, ThinkingEffort::Off, json!({ "thinkingBudget": 0 })),
        (OLD, ThinkingEffort::High, json!({ "includeThoughts": true, "thinkingBudget": 24_576 })),
    ];
    for (model, thinking, expected) in rows {
        let settings = Settings { thinking: Some(thinking), ..Settings::default() };
        let body = encoded(model, &asking(settings));
        assert_eq!(body["generationConfig"]["thinkingConfig"], expected, "{model} {thinking:?}");
    }
}

#[test]
fn an_answer_may_have_to_fit_a_schema() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let output = Some(OutputSpec { name: "answer".into(), schema: schema.clone() });
    let mut request = Request { output, ..saying([user("a")]) };
    let expected = json!({ "responseMimeType": "application/json", "responseJsonSchema": schema });
    assert_eq!(encoded(OLD, &request)["generationConfig"], expected);
    request.tools.push(Arc::new(ToolSpec::new("time", "", json!({}))));
    assert_eq!(encoded(NEW, &request)["generationConfig"], expected);
    check_refused(OLD, &request, &["gemini", "output \"answer\"", "without tools"]);

    let schema = json!({ "type": "object", "properties": { "a": { "not": {} } } });
    let output = Some(OutputSpec { name: "answer".into(), schema });
    let parts = ["gemini", "output \"answer\"", "\"/properties/a/not\"", "what is allowed"];
    check_refused(NEW, &Request { output, ..saying([user("a")]) }, &parts);
}

#[test]
fn a_tool_that_cannot_be_told_is_named() {
    let with = |name: &str, schema: Value| {
        let tool = Arc::new(ToolSpec::new(name, "", schema));
        Request { tools: vec![tool], ..saying([user("a")]) }
    };
    let schema = json!({ "properties": { "a": false } });
    let parts = ["gemini", "tool \"pick\"", "\"/properties/a\"", "leave the field out"];
    check_refused(NEW, &with("pick", schema), &parts);
    check_refused(NEW, &with("1a", json!({})), &["tool \"1a\"", "start with a letter"]);
}

#[test]
fn nothing_to_answer_is_refused() {
    check_refused(NEW, &Request::default(), &["gemini", "messages", "add a user's message"]);
}

#[test]
fn extra_fields_win() {
    let Value::Object(extra) = json!({
        "generationConfig": { "topK": 3 }, "safetySettings": [],
    }) else {
        panic!("an object")
    };
    let settings = Settings { tokens_max: Some(5), extra, ..Settings::default() };
    let body = encoded(NEW, &asking(settings));
    assert_eq!(body["generationConfig"], json!({ "maxOutputTokens": 5, "topK": 3 }));
    assert_eq!(body["safetySettings"], json!([]));
}
