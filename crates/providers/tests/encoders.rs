//! Requests, in the words of each wire.
#![allow(clippy::unwrap_used, reason = "tests fail where they stand")]

mod common;

use std::sync::Arc;

use chat::{
    CallEnd, Message, Model, ModelError, ModelErrorKind, OutputSpec, Part, Request, Role, Settings,
    Thinking, ThinkingEffort, ToolCall, ToolChoice, ToolResult, ToolSpec,
    agui::{Content, ContentPart, Media, Source, TextPart},
};
use common::{Reply, Server, ask, refusal};
use providers::{Key, Ollama, OpenAi, TransportSettings};
use serde_json::{Map, Value, json};
use sys::Sys;

#[derive(Clone, Copy)]
enum Wire {
    Chat,
    Responses,
    Compatible,
    Ollama,
}

/// What is sent, or why nothing is.
async fn sent(wire: Wire, request: Request) -> Result<Value, ModelError> {
    let server = Server::start(vec![Reply::Bytes(refusal("400 No", "", "{}"))]).await;
    let settings = TransportSettings { attempts_max: 1, ..TransportSettings::default() };
    let key = Key::new("sk-secret");
    let sys = Sys::real();
    let model: Arc<dyn Model> = match wire {
        Wire::Chat => {
            OpenAi::chat("m").base_url(&server.url).key(key).settings(settings).build(&sys)
        }
        Wire::Responses => {
            OpenAi::responses("m").base_url(&server.url).key(key).settings(settings).build(&sys)
        }
        Wire::Compatible => OpenAi::compatible("m", &server.url).settings(settings).build(&sys),
        Wire::Ollama => Ollama::new("m").base_url(&server.url).settings(settings).build(&sys),
    }
    .unwrap();
    let (_, error) = ask(&*model, Arc::new(request)).await;
    match server.seen().first() {
        Some(seen) => Ok(seen.body.clone()),
        None => Err(error.unwrap()),
    }
}

#[track_caller]
fn refused(result: Result<Value, ModelError>, field: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unsupported, "{error}");
    assert!(error.message.starts_with(&format!("{field}: ")), "{error}");
    assert!(!error.is_retryable());
}

fn media(source: Source, metadata: Option<Value>) -> Media {
    Media { source, id: None, metadata, others: Map::new() }
}

fn picture() -> Media {
    let source = Source::Data { value: "AAAA".into(), mime_type: "image/png".into() };
    media(source, None)
}

fn pdf(source: Source) -> Part {
    Part::Document(media(source, Some(json!({ "filename": "a.pdf" }))))
}

fn weather() -> Arc<ToolSpec> {
    let input = json!({
        "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"],
    });
    Arc::new(ToolSpec::new("weather", "How it is there", input))
}

/// A person asks, the model thinks and calls, the tool answers with a text and a picture.
fn conversation() -> Request {
    let call = ToolCall {
        id: "run:1:0".into(),
        name: "weather".into(),
        arguments: r#"{"city":"Rome"}"#.into(),
        ..ToolCall::default()
    };
    let searched = ToolCall {
        id: "ws_1".into(),
        name: "web_search".into(),
        provider_result: Some(json!({ "type": "web_search_call", "id": "ws_1" })),
        ..ToolCall::default()
    };
    let thoughts = Thinking { text: "Hm".into(), signature: Some("gAAA".into()), redacted: false };
    let unsigned = Thinking { text: "Lost".into(), signature: None, redacted: false };
    let parts = vec![
        ContentPart::Text(TextPart { text: "sunny".into(), ..TextPart::default() }),
        ContentPart::Image(picture()),
    ];
    let result = ToolResult {
        call_id: "run:1:0".into(),
        content: Content::Parts(parts),
        end: CallEnd::Done,
    };
    let messages = vec![
        Message::new("1", Role::User, vec!["Look".to_owned().into(), Part::Image(picture())]),
        Message::new(
            "2",
            Role::Assistant,
            vec![
                Part::Thinking(thoughts),
                Part::Thinking(unsigned),
                Part::ToolCall(searched),
                "Let me see".to_owned().into(),
                Part::ToolCall(call),
            ],
        ),
        Message::new("3", Role::Tool, vec![Part::ToolResult(result)]),
        Message::text("4", Role::User, "And?"),
    ];
    Request {
        system: vec!["Be brief".into()],
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![weather()],
        ..Request::default()
    }
}

#[tokio::test]
async fn a_conversation_in_chat_completions() {
    let body = sent(Wire::Chat, conversation()).await.unwrap();
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[0], json!({ "role": "system", "content": "Be brief" }));
    assert_eq!(
        messages[1]["content"],
        json!([
            { "type": "text", "text": "Look" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
        ])
    );
    assert_eq!(messages[2]["content"], "Let me see");
    let calls = messages[2]["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["function"]["arguments"], r#"{"city":"Rome"}"#);
    // The id has a colon, which OpenAI takes in no call; both sides are mended alike.
    assert!(calls[0]["id"].as_str().unwrap().starts_with("call_"));
    assert_eq!(messages[3]["role"], "tool");
    assert_eq!(messages[3]["tool_call_id"], calls[0]["id"]);
    assert!(messages[3]["content"].as_str().unwrap().starts_with("sunny\n"));
    // A tool cannot show a picture here, so it follows as if a person showed it.
    assert_eq!(messages[4]["role"], "user");
    assert_eq!(messages[4]["content"][1]["type"], "image_url");
    assert_eq!(messages[5], json!({ "role": "user", "content": "And?" }));
    assert!(!body.to_string().contains("Hm"), "thoughts are not given back");
    assert_eq!(body["tools"][0]["function"]["strict"], true);
    assert_eq!(body["tools"][0]["function"]["parameters"]["additionalProperties"], false);
    assert_eq!(body["stream_options"], json!({ "include_usage": true }));

    let body = sent(Wire::Compatible, conversation()).await.unwrap();
    assert_eq!(body["tools"][0]["function"]["parameters"], weather().input);
    assert_eq!(body["tools"][0]["function"].get("strict"), None);
}

#[tokio::test]
async fn a_conversation_in_responses() {
    let body = sent(Wire::Responses, conversation()).await.unwrap();
    assert_eq!(body["instructions"], "Be brief");
    assert_eq!((&body["store"], &body["stream"]), (&json!(false), &json!(true)));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    let input = body["input"].as_array().unwrap();
    assert_eq!(
        input[0]["content"],
        json!([
            { "type": "input_text", "text": "Look" },
            { "type": "input_image", "image_url": "data:image/png;base64,AAAA" },
        ])
    );
    assert_eq!(
        input[1],
        json!({
            "type": "reasoning",
            "summary": [{ "type": "summary_text", "text": "Hm" }],
            "encrypted_content": "gAAA",
        })
    );
    assert_eq!(input[2], json!({ "type": "web_search_call", "id": "ws_1" }));
    assert_eq!(input[3]["content"], json!([{ "type": "output_text", "text": "Let me see" }]));
    assert_eq!(input[4]["type"], "function_call");
    assert_eq!(input[5]["call_id"], input[4]["call_id"]);
    assert_eq!(
        input[5]["output"],
        json!([
            { "type": "input_text", "text": "sunny" },
            { "type": "input_image", "image_url": "data:image/png;base64,AAAA" },
        ])
    );
    assert_eq!(input.len(), 7);
    assert_eq!(body["tools"][0]["name"], "weather");
}

#[tokio::test]
async fn a_conversation_in_ollama() {
    let body = sent(Wire::Ollama, conversation()).await.unwrap();
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[1], json!({ "role": "user", "content": "Look", "images": ["AAAA"] }));
    assert_eq!(
        messages[2]["tool_calls"],
        json!([{ "function": { "name": "weather", "arguments": { "city": "Rome" } } }])
    );
    let answer =
        json!({ "role": "tool", "tool_name": "weather", "content": "sunny", "images": ["AAAA"] });
    assert_eq!(messages[3], answer);
    assert_eq!(body["tools"][0]["function"]["parameters"], weather().input);
}

#[tokio::test]
async fn settings_choices_and_schemas() {
    let settings = Settings {
        tokens_max: Some(9),
        temperature: Some(0.5),
        top_p: Some(0.25),
        thinking: Some(ThinkingEffort::Low),
        parallel_tools: Some(true),
        extra: json!({ "temperature": 1, "seed": 4 }).as_object().unwrap().clone(),
        ..Settings::default()
    };
    let schema = json!({
        "type": "object", "properties": { "a": { "type": "integer", "default": 1 } },
    });
    let request = Request {
        settings,
        choice: ToolChoice::Tool("weather".into()),
        output: Some(OutputSpec { name: "my answer".into(), schema: schema.clone() }),
        ..conversation()
    };
    let body = sent(Wire::Chat, request.clone()).await.unwrap();
    assert_eq!((&body["temperature"], &body["seed"]), (&json!(1), &json!(4)), "extra fields win");
    assert_eq!(body["max_completion_tokens"], 9);
    assert_eq!(body["reasoning_effort"], "low");
    let choice = json!({ "type": "function", "function": { "name": "weather" } });
    assert_eq!(body["tool_choice"], choice);
    let format = json!({ "name": "my_answer", "schema": schema, "strict": false });
    assert_eq!(body["response_format"]["json_schema"], format);

    let body = sent(Wire::Compatible, request.clone()).await.unwrap();
    assert_eq!(body["max_tokens"], 9);

    let body = sent(Wire::Responses, request.clone()).await.unwrap();
    assert_eq!(body["max_output_tokens"], 9);
    assert_eq!(body["reasoning"], json!({ "effort": "low", "summary": "auto" }));
    assert_eq!(body["tool_choice"], json!({ "type": "function", "name": "weather" }));
    assert_eq!(body["text"]["format"]["type"], "json_schema");

    let request = Request { choice: ToolChoice::Auto, ..request };
    let body = sent(Wire::Ollama, request).await.unwrap();
    assert_eq!(body["format"], schema);
    assert_eq!(body["think"], "low");
    assert_eq!(body["options"], json!({ "num_predict": 9, "temperature": 0.5, "top_p": 0.25 }));
}

#[tokio::test]
async fn documents_go_as_each_wire_takes_them() {
    let with = |part: Part| {
        let message = Message::new("1", Role::User, vec![part]);
        Request { messages: [message].into(), ..Request::default() }
    };
    let data = || pdf(Source::Data { value: "JVBE".into(), mime_type: "application/pdf".into() });
    let url = || pdf(Source::Url { value: "https://example.com/a".into(), mime_type: None });
    let body = sent(Wire::Chat, with(data())).await.unwrap();
    let file = json!({ "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE" });
    assert_eq!(body["messages"][0]["content"][0]["file"], file);
    refused(sent(Wire::Chat, with(url())).await, "messages");
    let body = sent(Wire::Responses, with(url())).await.unwrap();
    assert_eq!(body["input"][0]["content"][0]["file_url"], "https://example.com/a");
    refused(sent(Wire::Ollama, with(data())).await, "messages");
    let wav = Source::Data { value: "UklG".into(), mime_type: "audio/wav".into() };
    let sound = Part::Audio(media(wav, None));
    let body = sent(Wire::Chat, with(sound.clone())).await.unwrap();
    let audio = json!({ "data": "UklG", "format": "wav" });
    assert_eq!(body["messages"][0]["content"][0]["input_audio"], audio);
    refused(sent(Wire::Responses, with(sound)).await, "messages");
    for wire in [Wire::Chat, Wire::Responses, Wire::Ollama] {
        refused(sent(wire, with(Part::Video(picture()))).await, "messages");
    }
}

#[tokio::test]
async fn what_a_wire_has_no_words_for_is_refused_before_anything_is_sent() {
    let hello = || Request {
        messages: [Message::text("1", Role::User, "Hello")].into(),
        ..Request::default()
    };
    let all = [Wire::Chat, Wire::Responses, Wire::Compatible, Wire::Ollama];
    for wire in all {
        refused(sent(wire, Request::default()).await, "messages");
        let choice = ToolChoice::Required;
        refused(sent(wire, Request { choice, ..hello() }).await, "choice");
        let choice = ToolChoice::Tool("nobody".into());
        refused(sent(wire, Request { choice, ..hello() }).await, "choice");
        let thinking = Some(ThinkingEffort::Tokens(7));
        let settings = Settings { thinking, ..Settings::default() };
        refused(sent(wire, Request { settings, ..hello() }).await, "settings.thinking");
    }
    let odd = Arc::new(ToolSpec::new("my tool", "", json!({ "type": "object" })));
    for wire in [Wire::Chat, Wire::Responses] {
        refused(sent(wire, Request { tools: vec![odd.clone()], ..hello() }).await, "tools");
    }
    let settings = Settings { stop: vec!["END".into()], ..Settings::default() };
    refused(sent(Wire::Responses, Request { settings, ..hello() }).await, "settings.stop");
    let choice = ToolChoice::Required;
    let required = Request { choice, tools: vec![weather()], ..hello() };
    refused(sent(Wire::Ollama, required).await, "choice");
}
