//! Rows of wire events, and what the decoders make of them.
#![allow(clippy::unwrap_used, reason = "tests fail where they stand")]

use std::collections::BTreeMap;

use chat::{Block, BlockKind, ModelError, ModelErrorKind, ModelEvent};
use providers::{
    Decoder,
    ollama::OllamaDecoder,
    openai::{ChatDecoder, ResponsesDecoder},
};
use serde_json::{Value, json};

fn run(mut decoder: impl Decoder, events: &[&str]) -> (Vec<ModelEvent>, Result<(), ModelError>) {
    let mut out = Vec::new();
    for data in events {
        if let Err(error) = decoder.push(None, data, &mut out) {
            return (out, Err(error));
        }
    }
    let end = decoder.finish(&mut out);
    (out, end)
}

/// An answer as lines that are easy to compare: one for each block, in the order they opened, then
/// everything else.
fn told(events: &[ModelEvent]) -> Vec<String> {
    let mut blocks: BTreeMap<Block, (String, String, String, bool)> = BTreeMap::new();
    let mut others = Vec::new();
    for event in events {
        match event {
            ModelEvent::Open { block, kind } => {
                let kind = match kind {
                    BlockKind::Text => "text".to_owned(),
                    BlockKind::Thinking => "thinking".to_owned(),
                    BlockKind::Call { id, name } => {
                        format!("call {} {name}", id.as_deref().unwrap_or("-"))
                    }
                    BlockKind::ProviderCall { id, name } => {
                        format!("provider {} {name}", id.as_deref().unwrap_or("-"))
                    }
                    other => format!("{other:?}"),
                };
                let fresh = (kind, String::new(), String::new(), false);
                assert!(blocks.insert(*block, fresh).is_none(), "opened twice: {block:?}");
            }
            ModelEvent::More { block, delta } => {
                let open = blocks.get_mut(block).unwrap();
                assert!(!open.3 && !delta.is_empty());
                open.1.push_str(delta);
            }
            ModelEvent::Sign { block, signature } => {
                let open = blocks.get_mut(block).unwrap();
                assert!(!open.3);
                open.2 = format!(" signed {signature}");
            }
            ModelEvent::ProviderResult { block, result } => {
                assert!(!blocks[block].3);
                others.push(format!("result {} {}", result["type"], result["status"]));
            }
            ModelEvent::Close { block } => {
                let open = blocks.get_mut(block).unwrap();
                assert!(!std::mem::replace(&mut open.3, true), "closed twice: {block:?}");
            }
            ModelEvent::Answering { model } => others.push(format!("by {model}")),
            ModelEvent::Usage(usage) => {
                let all = [
                    usage.input_tokens,
                    usage.output_tokens,
                    usage.total_tokens,
                    usage.reasoning_tokens,
                    usage.cached_input_tokens,
                ];
                let all = all.map(|count| count.map_or("-".to_owned(), |count| count.to_string()));
                others.push(format!("usage {}", all.join(" ")));
            }
            ModelEvent::Stop(reason) => {
                assert!(blocks.values().all(|block| block.3), "something is open at the stop");
                others.push(format!("stop {}", reason.word()));
            }
            ModelEvent::Note { name, .. } => others.push(format!("note {name}")),
            other => others.push(format!("{other:?}")),
        }
    }
    let blocks =
        blocks.into_values().map(|(kind, text, signed, _)| format!("{kind}: {text}{signed}"));
    blocks.chain(others).collect()
}

#[track_caller]
fn check(decoder: impl Decoder, events: &[&str], expect: &[&str]) {
    let (out, end) = run(decoder, events);
    end.unwrap();
    assert_eq!(told(&out), expect);
}

#[track_caller]
fn fails(decoder: impl Decoder, events: &[&str], kind: ModelErrorKind, why: &str) {
    let (_, end) = run(decoder, events);
    let error = end.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(why), "{error}");
}

fn chat() -> ChatDecoder {
    ChatDecoder::new("openai".into())
}

fn responses() -> ResponsesDecoder {
    ResponsesDecoder::new("openai".into())
}

fn ollama() -> OllamaDecoder {
    OllamaDecoder::new("ollama".into())
}

/// One chunk of Chat Completions.
fn chunk(delta: &str, reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":{reason}}}]}}"#)
}

/// Chunks of Chat Completions, the last of which says why it ends.
#[track_caller]
fn check_chat(deltas: &[&str], reason: &str, expect: &[&str]) {
    let mut chunks: Vec<String> = deltas.iter().map(|delta| chunk(delta, "null")).collect();
    chunks.push(chunk("{}", reason));
    chunks.push("[DONE]".into());
    check(chat(), &chunks.iter().map(String::as_str).collect::<Vec<_>>(), expect);
}

#[test]
fn chat_text_usage_and_names() {
    check(
        chat(),
        &[
            r#"{"id":"x","object":"chat.completion.chunk","model":"gpt-4o-2024","choices":[{
                "index":0,"delta":{"role":"assistant","content":"","refusal":null},
                "logprobs":null,"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"l\u00f6 \ud83d\ude00"}},{"index":
                1,"delta":{"content":"no"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,
                "total_tokens":13,"prompt_tokens_details":{"cached_tokens":2},
                "completion_tokens_details":{"reasoning_tokens":1}}}"#,
            "[DONE]",
        ],
        &["text: Hellö 😀", "by gpt-4o-2024", "usage 9 4 13 1 2", "stop stop"],
    );
}

#[test]
fn chat_calls_come_in_any_order() {
    let whole = ["call a weather: {\"city\":\"Rome\"}", "stop tool_calls"];
    for deltas in [
        vec![
            r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":
                "weather","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"Rome\"}"}}]}"#,
        ],
        // Arguments first, the name later, the id last.
        vec![
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"name":"weather","arguments":"\"Rome\""}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"}"}}]}"#,
        ],
        // Everything in every chunk.
        vec![
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":
                "{\"city\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":
                "\"Rome\"}"}}]}"#,
        ],
        // Arguments as an object, and no index.
        vec![
            r#"{"tool_calls":[{"id":"a","function":{"name":"weather",
                "arguments":{"city":"Rome"}}}]}"#,
        ],
    ] {
        check_chat(&deltas, r#""tool_calls""#, &whole);
    }
    let anonymous = r#"{"tool_calls":[{"function":{"name":"now"}}]}"#;
    check_chat(&[anonymous], r#""stop""#, &["call - now: ", "stop tool_calls"]);
}

#[test]
fn chat_calls_in_parallel_are_told_apart() {
    let two = ["text: Let me see", "call a f: {}", "call b g: [1]", "stop tool_calls"];
    check_chat(
        &[
            r#"{"content":"Let me see"}"#,
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{
                "index":1,"id":"b","function":{"name":"g","arguments":"["}}]}"#,
            r#"{"tool_calls":[{"index":1,"function":{"arguments":"1"}},{"index":0,
                "function":{"arguments":"{}"}}]}"#,
            r#"{"tool_calls":[{"index":1,"function":{"arguments":"]"}}]}"#,
        ],
        r#""tool_calls""#,
        &two,
    );
    // One index for all.
    check_chat(
        &[
            r#"{"content":"Let me see"}"#,
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"[1]"}}]}"#,
        ],
        r#""tool_calls""#,
        &two,
    );
}

#[test]
fn chat_arguments_cut_at_every_byte_are_the_same() {
    let arguments = json!({ "city": "Zürich \"x\" \\ 😀", "days": [1, 2.5, null] }).to_string();
    let cuts = arguments.char_indices().map(|(at, _)| at);
    for at in cuts.chain([arguments.len()]) {
        let (one, two) = arguments.split_at(at);
        let first = json!({ "tool_calls": [
            { "index": 0, "id": "a", "function": { "name": "f", "arguments": one } }
        ] });
        let second = json!({ "tool_calls": [{ "index": 0, "function": { "arguments": two } }] });
        let expect = format!("call a f: {arguments}");
        let deltas = [first.to_string(), second.to_string()];
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        check_chat(&deltas, r#""tool_calls""#, &[&expect, "stop tool_calls"]);
    }
}

#[test]
fn chat_thoughts_of_compatible_servers() {
    for name in ["reasoning_content", "reasoning"] {
        check_chat(
            &[
                &format!(r#"{{"content":null,"{name}":"Hm"}}"#),
                &format!(r#"{{"{name}":"m."}}"#),
                r#"{"content":"A","reasoning":null}"#,
                &format!(r#"{{"{name}":"Again"}}"#),
                r#"{"content":[{"type":"text","text":"B"}]}"#,
            ],
            r#""stop""#,
            &["thinking: Hmm.", "text: A", "thinking: Again", "text: B", "stop stop"],
        );
    }
}

#[test]
fn chat_says_why_it_ends_by_what_came() {
    let text = r#"{"content":"a"}"#;
    let call = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}"#;
    for (delta, reason, stop) in [
        (text, "null", "stop stop"),
        (text, r#""stop""#, "stop stop"),
        (text, r#""tool_calls""#, "stop stop"),
        (text, r#""length""#, "stop length"),
        (text, r#""content_filter""#, "stop content_filter"),
        (text, r#""whim""#, "stop whim"),
        (r#"{"refusal":"No."}"#, r#""stop""#, "stop refusal"),
        (call, r#""stop""#, "stop tool_calls"),
        (call, "null", "stop tool_calls"),
        (call, r#""function_call""#, "stop tool_calls"),
        (call, r#""length""#, "stop length"),
    ] {
        let chunks = [chunk(delta, "null"), chunk("{}", reason), "[DONE]".to_owned()];
        let (out, end) = run(chat(), &chunks.iter().map(String::as_str).collect::<Vec<_>>());
        end.unwrap();
        assert_eq!(told(&out).last().unwrap(), stop, "{delta} {reason}");
    }
}

#[test]
fn chat_failures_say_where_and_what() {
    let text = chunk(r#"{"content":"a"}"#, "null");
    fails(chat(), &[&text, "{"], ModelErrorKind::Malformed, "event 2 of the answer is no chunk");
    fails(chat(), &[r#"{"choices":7}"#], ModelErrorKind::Malformed, "event 1");
    let error = r#"{"error":{"message":"Busy","type":"server_error","code":null}}"#;
    fails(chat(), &[&text, error], ModelErrorKind::Unavailable, "Busy");
    let error = r#"{"error":{"message":"Slow down","code":429}}"#;
    fails(chat(), &[error], ModelErrorKind::RateLimited, "Slow down");
    let nameless = chunk(r#"{"tool_calls":[{"index":3,"id":"a"}]}"#, r#""stop""#);
    fails(chat(), &[&nameless], ModelErrorKind::Malformed, "tool call 3 without a name");
    let many: Vec<String> = (0..2_000)
        .map(|index| format!(r#"{{"index":{index},"id":"c{index}","function":{{"name":"f"}}}}"#))
        .collect();
    let many = chunk(&format!(r#"{{"tool_calls":[{}]}}"#, many.join(",")), "null");
    fails(chat(), &[&many], ModelErrorKind::Malformed, "more than");
}

/// Cut after every event, an answer is whole or truncated, and never says that it is whole early.
#[track_caller]
fn cut_everywhere<D: Decoder>(decoder: impl Fn() -> D, events: &[&str], whole_from: usize) {
    for end in 0..=events.len() {
        let (out, result) = run(decoder(), &events[..end]);
        let has_stopped = out.iter().any(|event| matches!(event, ModelEvent::Stop(_)));
        assert_eq!(result.is_ok(), end >= whole_from, "cut after {end}");
        assert_eq!(has_stopped, end >= whole_from, "cut after {end}");
        if let Err(error) = result {
            assert_eq!(error.kind, ModelErrorKind::Truncated, "cut after {end}");
        }
    }
}

#[test]
fn an_answer_that_is_cut_is_never_taken_for_whole() {
    let chunks = [
        chunk(r#"{"content":"a"}"#, "null"),
        chunk(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}"#, "null"),
        chunk("{}", r#""tool_calls""#),
        "[DONE]".to_owned(),
    ];
    cut_everywhere(chat, &chunks.iter().map(String::as_str).collect::<Vec<_>>(), 3);
    cut_everywhere(responses, TWO_TOOLS, TWO_TOOLS.len());
    cut_everywhere(ollama, OLLAMA_TOOLS, OLLAMA_TOOLS.len());
}

const TWO_TOOLS: &[&str] = &[
    r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":
        "gpt-5-2025","status":"in_progress","output":[]}}"#,
    r#"{"type":"response.in_progress","response":{}}"#,
    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":
        "reasoning","summary":[]}}"#,
    r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,
        "summary_index":0,"part":{"type":"summary_text","text":""}}"#,
    r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,
        "summary_index":0,"delta":"Two"}"#,
    r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,
        "summary_index":0,"delta":" cities."}"#,
    r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,
        "summary_index":1,"delta":"Ask."}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":
        "reasoning","summary":[{"type":"summary_text","text":"Two cities."}],
        "encrypted_content":"gAAA"}}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_1","type":
        "function_call","call_id":"call_1","name":"weather","arguments":""}}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,
        "delta":"{\"city\":"}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,
        "delta":"\"Rome\"}"}"#,
    r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":1,
        "arguments":"{\"city\":\"Rome\"}"}"#,
    r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"fc_1","type":
        "function_call","call_id":"call_1","name":"weather","arguments":
        "{\"city\":\"Rome\"}"}}"#,
    r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_2","type":
        "function_call","call_id":"call_2","name":"","arguments":""}}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":2,
        "delta":"{}"}"#,
    r#"{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_2","type":
        "function_call","call_id":"call_2","name":"weather","arguments":"{}"}}"#,
    r#"{"type":"response.completed","response":{"model":"gpt-5-2025","status":"completed",
        "output":[{"type":"reasoning","summary":[]},{"type":"function_call","call_id":
        "call_1","name":"weather","arguments":"{\"city\":\"Rome\"}"},{"type":
        "function_call","call_id":"call_2","name":"weather","arguments":"{}"}],"usage":{
        "input_tokens":5,"input_tokens_details":{"cached_tokens":1},"output_tokens":7,
        "output_tokens_details":{"reasoning_tokens":3},"total_tokens":12}}}"#,
];

#[test]
fn responses_thoughts_calls_and_usage() {
    check(
        responses(),
        TWO_TOOLS,
        &[
            "thinking: Two cities.\n\nAsk. signed gAAA",
            "call call_1 weather: {\"city\":\"Rome\"}",
            "call call_2 weather: {}",
            "by gpt-5-2025",
            "usage 5 7 12 3 1",
            "stop tool_calls",
        ],
    );
    // The last event alone says nearly everything.
    let last = TWO_TOOLS[TWO_TOOLS.len() - 1];
    let (out, end) = run(responses(), &[last]);
    end.unwrap();
    let told = told(&out);
    assert_eq!(told[0], "call call_1 weather: {\"city\":\"Rome\"}");
    assert_eq!(told[1], "call call_2 weather: {}");
}

#[test]
fn responses_take_from_the_whole_what_the_pieces_left_out() {
    let whole = r#"{"type":"response.completed","response":{"output":[{"type":"message",
        "content":[{"type":"output_text","text":"Grüße","annotations":[]},{"type":
        "output_text","text":"!"}]}]}}"#;
    let expect = ["text: Grüße", "text: !", "stop stop"];
    let delta = |text: &str| {
        let event = json!({
            "type": "response.output_text.delta", "output_index": 0, "content_index": 0,
            "delta": text,
        });
        event.to_string()
    };
    check(responses(), &[whole], &expect);
    for end in [1, 2, 4, 6, 7] {
        check(responses(), &[&delta(&"Grüße"[..end]), whole], &expect);
    }
    let done =
        r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Grüße"}"#;
    check(responses(), &[&delta("Gr"), done, whole], &expect);
}

#[test]
fn responses_whose_whole_leaves_something_out_tell_nothing_twice() {
    let added = |index: u32, item: Value| {
        let kind = "response.output_item.added";
        json!({ "type": kind, "output_index": index, "item": item }).to_string()
    };
    let delta = |kind: &str, index: u32, delta: &str| {
        let kind = format!("response.{kind}.delta");
        json!({ "type": kind, "output_index": index, "delta": delta }).to_string()
    };
    let whole = |output: Value| {
        json!({ "type": "response.completed", "response": { "output": output } }).to_string()
    };
    let call = |id: &str, call_id: &str, arguments: &str| {
        json!({
            "type": "function_call", "id": id, "call_id": call_id, "name": "pay",
            "arguments": arguments,
        })
    };
    let message = |id: &str| {
        let content = [json!({ "type": "output_text", "text": "Hi" })];
        json!({ "type": "message", "id": id, "content": content })
    };
    let streamed = [
        added(0, json!({ "type": "reasoning", "id": "rs_1" })),
        delta("reasoning_summary_text", 0, "Hm"),
        added(1, call("fc_1", "c1", "")),
        delta("function_call_arguments", 1, "{}"),
        added(2, message("m_1")),
        delta("output_text", 2, "Hi"),
        added(3, call("fc_2", "c2", "")),
        delta("function_call_arguments", 3, "{}"),
    ];
    let expect =
        ["thinking: Hm", "call c1 pay: {}", "text: Hi", "call c2 pay: {}", "stop tool_calls"];
    for output in [
        // All of it, nothing, and some of it.
        json!([{ "type": "reasoning", "id": "rs_1" }, call("fc_1", "c1", "{}"), message("m_1"),
            call("fc_2", "c2", "{}")]),
        json!([]),
        json!([call("fc_1", "c1", "{}"), message("m_1"), call("fc_2", "c2", "{}")]),
        json!([call("fc_2", "c2", "{}")]),
        json!([message("m_1"), call("fc_2", "c2", "{}")]),
        // In another order, and with other ids.
        json!([call("fc_2", "c2", "{}"), message("m_1"), call("fc_1", "c1", "{}")]),
        json!([call("x", "c1", "{}"), message("y"), call("z", "c2", "{}")]),
        json!([call("fc_1", "", "{}"), message(""), call("fc_2", "", "{}")]),
    ] {
        let mut events: Vec<String> = streamed.to_vec();
        events.push(whole(output));
        check(responses(), &events.iter().map(String::as_str).collect::<Vec<_>>(), &expect);
    }
    // A call that only the whole tells of is made.
    let mut events: Vec<String> = streamed.to_vec();
    events.push(whole(json!([call("fc_1", "c1", "{}"), call("fc_3", "c3", "{}")])));
    let events: Vec<_> = events.iter().map(String::as_str).collect();
    let (mut expect, last) = (expect.to_vec(), "stop tool_calls");
    expect.pop();
    expect.extend(["call c3 pay: {}", last]);
    check(responses(), &events, &expect);
}

#[test]
fn responses_tools_that_the_provider_runs() {
    check(
        responses(),
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"ws_1",
                "type":"web_search_call","status":"in_progress"}}"#,
            r#"{"type":"response.web_search_call.searching","output_index":0,"item_id":"ws_1"}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"ws_1",
                "type":"web_search_call","status":"completed","action":{"type":"search",
                "query":"q"}}}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"l","type":
                "mcp_list_tools","tools":[]}}"#,
            r#"{"type":"response.output_text.delta","output_index":2,"content_index":0,
                "delta":"Found"}"#,
            r#"{"type":"response.output_text.annotation.added","output_index":2,
                "annotation":{"type":"url_citation","url":"https://example.com"}}"#,
            r#"{"type":"response.completed","response":{"output":[{"id":"ws_1","type":
                "web_search_call"},{"id":"l","type":"mcp_list_tools"}]}}"#,
        ],
        &[
            r#"provider ws_1 web_search: {"query":"q","type":"search"}"#,
            "text: Found",
            r#"result "web_search_call" "completed""#,
            "note mcp_list_tools",
            "note annotation",
            "stop stop",
        ],
    );
}

#[test]
fn responses_say_why_they_end() {
    let refusal =
        r#"{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"No."}"#;
    let completed = r#"{"type":"response.completed","response":{}}"#;
    check(responses(), &[refusal, completed], &["text: No.", "stop refusal"]);
    for (reason, stop) in [("max_output_tokens", "length"), ("content_filter", "content_filter")] {
        let incomplete = json!({
            "type": "response.incomplete",
            "response": { "status": "incomplete", "incomplete_details": { "reason": reason } },
        });
        check(responses(), &[&incomplete.to_string()], &[&format!("stop {stop}")]);
    }
    let thought = r#"{"type":"response.reasoning_text.delta","output_index":0,
        "content_index":0,"delta":"Hm"}"#;
    check(responses(), &[thought, completed, "[DONE]"], &["thinking: Hm", "stop stop"]);
}

#[test]
fn responses_failures_say_where_and_what() {
    let failed = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":
        "server_error","message":"Oops"}}}"#;
    fails(responses(), &[failed], ModelErrorKind::Unavailable, "Oops");
    let limited = r#"{"type":"error","code":"rate_limit_exceeded","message":"Slow","param":null}"#;
    fails(responses(), &[limited], ModelErrorKind::RateLimited, "Slow");
    let nested = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Bad"}}"#;
    fails(responses(), &[nested], ModelErrorKind::BadRequest, "Bad");
    fails(responses(), &["{}", "nope"], ModelErrorKind::Malformed, "event 2");
    let nameless =
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call"}}"#;
    fails(responses(), &[nameless], ModelErrorKind::Malformed, "without a name");
}

const OLLAMA_TOOLS: &[&str] = &[
    r#"{"model":"qwen3","created_at":"x","message":{"role":"assistant","content":"",
        "thinking":"Hm"},"done":false}"#,
    r#"{"model":"qwen3","message":{"role":"assistant","content":"Let me "},"done":false}"#,
    r#"{"model":"qwen3","message":{"role":"assistant","content":"see","tool_calls":[{
        "function":{"name":"weather","arguments":{"city":"Rome"}}},{"id":"c2","function":{
        "index":1,"name":"now","arguments":{}}}]},"done":false}"#,
    r#"{"model":"qwen3","message":{"role":"assistant","content":""},"done_reason":"stop",
        "done":true,"total_duration":1,"prompt_eval_count":11,"eval_count":5}"#,
];

#[test]
fn ollama_thoughts_calls_and_usage() {
    check(
        ollama(),
        OLLAMA_TOOLS,
        &[
            "thinking: Hm",
            "text: Let me see",
            "call - weather: {\"city\":\"Rome\"}",
            "call c2 now: {}",
            "by qwen3",
            "usage 11 5 16 - -",
            "stop tool_calls",
        ],
    );
    let long = r#"{"message":{"content":"a"},"done":true,"done_reason":"length"}"#;
    check(ollama(), &[long], &["text: a", "stop length"]);
    fails(ollama(), &[r#"{"error":"model is gone"}"#], ModelErrorKind::Unavailable, "is gone");
    fails(ollama(), &["[]"], ModelErrorKind::Malformed, "line 1");
}
