//! Answers of Anthropic.

use chat::ModelErrorKind;
use providers::anthropic::AnthropicDecoder;

use crate::told::{check, check_chance, check_cuts, check_failure, grown, read};

const START: &str = concat!(
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","#,
    r#""model":"claude-x-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"#,
    r#""input_tokens":10,"cache_creation_input_tokens":2,"cache_read_input_tokens":30,"#,
    r#""output_tokens":1}}}"#
);
const STARTED: [&str; 2] = [
    "model claude-x-1",
    concat!(
        r#"usage {"inputTokens":42,"outputTokens":1,"totalTokens":43,"cachedInputTokens":30,"#,
        r#""cacheWriteInputTokens":2}"#
    ),
];
const ENDED: [&str; 2] = [
    concat!(
        r#"usage {"inputTokens":42,"outputTokens":7,"totalTokens":49,"cachedInputTokens":30,"#,
        r#""cacheWriteInputTokens":2}"#
    ),
    "stop End",
];
const STOP: &str = r#"{"type":"message_stop"}"#;

fn begin(index: u32, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn grow(index: u32, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn text(index: u32, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    grow(index, &format!(r#"{{"type":"text_delta","text":{text}}}"#))
}

fn json(index: u32, part: &str) -> String {
    let part = serde_json::to_string(part).unwrap();
    grow(index, &format!(r#"{{"type":"input_json_delta","partial_json":{part}}}"#))
}

fn end(index: u32) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

fn because(reason: &str) -> String {
    format!(
        concat!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","#,
            r#""stop_sequence":null}},"usage":{{"output_tokens":7}}}}"#
        ),
        reason = reason
    )
}

/// A whole answer of these frames.
fn answer(frames: impl IntoIterator<Item = String>) -> Vec<String> {
    let end = [because("end_turn"), STOP.to_owned()];
    [START.to_owned()].into_iter().chain(frames).chain(end).collect()
}

#[track_caller]
fn check_blocks(frames: impl IntoIterator<Item = String>, expected: &[&str]) {
    let expected: Vec<_> = STARTED.iter().chain(expected).chain(&ENDED).copied().collect();
    check(AnthropicDecoder::default(), &answer(frames), &expected);
}

const TEXT: &str = r#"{"type":"text","text":""}"#;

#[test]
fn text_with_pings_and_unknown_events_between() {
    check_blocks(
        [
            r#"{"type":"ping"}"#.to_owned(),
            begin(0, TEXT),
            text(0, "Grüß "),
            r#"{"type":"something_new","index":0}"#.to_owned(),
            grow(0, r#"{"type":"something_delta","x":1}"#),
            text(0, "\n\"dich\""),
            end(0),
        ],
        &["open 0 text", "more 0 Grüß ", "more 0 \n\"dich\"", "close 0"],
    );
}

#[test]
fn a_second_thought_after_a_text_is_a_block_of_its_own() {
    let thinking = r#"{"type":"thinking","thinking":"","signature":""}"#;
    let think = |index, words: &str| {
        grow(index, &format!(r#"{{"type":"thinking_delta","thinking":"{words}"}}"#))
    };
    let sign = |index, signature: &str| {
        grow(index, &format!(r#"{{"type":"signature_delta","signature":"{signature}"}}"#))
    };
    check_blocks(
        [
            begin(0, thinking),
            think(0, "hm"),
            sign(0, "s0"),
            end(0),
            begin(1, TEXT),
            text(1, "a"),
            end(1),
            begin(2, thinking),
            think(2, "oh"),
            sign(2, "s2"),
            end(2),
            begin(3, TEXT),
            text(3, "b"),
            end(3),
        ],
        &[
            "open 0 thinking",
            "more 0 hm",
            "sign 0 s0",
            "close 0",
            "open 1 text",
            "more 1 a",
            "close 1",
            "open 2 thinking",
            "more 2 oh",
            "sign 2 s2",
            "close 2",
            "open 3 text",
            "more 3 b",
            "close 3",
        ],
    );
}

#[test]
fn redacted_thoughts_are_only_a_signature() {
    let redacted = r#"{"type":"redacted_thinking","data":"secret"}"#;
    let expected = ["open 0 redacted", "sign 0 secret", "close 0"];
    check_blocks([begin(0, redacted), end(0)], &expected);
}

#[test]
fn parallel_calls_may_overlap() {
    let call = |id: &str, name: &str| {
        format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}"#)
    };
    check_blocks(
        [
            begin(0, &call("t0", "weather")),
            begin(1, &call("t1", "time")),
            json(0, ""),
            json(0, "{\"city\":"),
            json(1, "{}"),
            json(0, "\"Ulm\"}"),
            end(1),
            end(0),
        ],
        &[
            "open 0 call t0 weather",
            "open 1 call t1 time",
            "more 0 {\"city\":",
            "more 1 {}",
            "more 0 \"Ulm\"}",
            "close 1",
            "close 0",
        ],
    );
}

#[test]
fn arguments_may_come_with_the_start_or_not_at_all() {
    let whole = r#"{"type":"tool_use","id":"t0","name":"a","input":{"x": 1}}"#;
    let none = r#"{"type":"tool_use","id":"t1","name":"b","input":{}}"#;
    check_blocks(
        [begin(0, whole), end(0), begin(1, whole), json(1, "{}"), end(1), begin(2, none), end(2)],
        &[
            "open 0 call t0 a",
            "more 0 {\"x\": 1}",
            "close 0",
            "open 1 call t0 a",
            "more 1 {}",
            "close 1",
            "open 2 call t1 b",
            "close 2",
        ],
    );
}

#[test]
fn arguments_split_at_every_byte_are_the_same() {
    let whole = r#"{"city":"Zürich \"Süd\"","n":[1,2.50,{}]}"#;
    let call = begin(0, r#"{"type":"tool_use","id":"t","name":"a","input":{}}"#);
    for cut in 0..=whole.len() {
        if !whole.is_char_boundary(cut) {
            continue;
        }
        let (left, right) = whole.split_at(cut);
        let frames = answer([call.clone(), json(0, left), json(0, right), end(0)]);
        let events = read(AnthropicDecoder::default(), &frames).unwrap();
        assert_eq!(grown(&events, 0), whole, "cut at {cut}");
    }
    let one_by_one = whole.chars().map(|letter| json(0, &letter.to_string()));
    let frames = answer([call].into_iter().chain(one_by_one).chain([end(0)]));
    let events = read(AnthropicDecoder::default(), &frames).unwrap();
    assert_eq!(grown(&events, 0), whole);
}

#[test]
fn tools_that_anthropic_runs_keep_their_raw_result() {
    let call = r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#;
    let result = concat!(
        r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"#,
        r#""type":"web_search_result","encrypted_content":"e"}]}"#
    );
    let citation = concat!(
        r#"{"type":"citations_delta","citation":{"type":"web_search_result_location","#,
        r#""cited_text":"c"}}"#
    );
    check_blocks(
        [
            begin(0, call),
            json(0, "{\"query\":\"x\"}"),
            end(0),
            begin(1, result),
            end(1),
            begin(2, TEXT),
            grow(2, citation),
            text(2, "x"),
            end(2),
        ],
        &[
            "open 0 provider-call s1 web_search",
            "more 0 {\"query\":\"x\"}",
            concat!(
                r#"result 0 {"content":[{"encrypted_content":"e","type":"web_search_result"}],"#,
                r#""tool_use_id":"s1","type":"web_search_tool_result"}"#
            ),
            "close 0",
            "open 2 text",
            r#"note citation {"cited_text":"c","type":"web_search_result_location"}"#,
            "more 2 x",
            "close 2",
        ],
    );
}

#[test]
fn a_result_may_belong_to_a_call_of_the_answer_before() {
    let result = r#"{"type":"web_fetch_tool_result","tool_use_id":"s0","content":{}}"#;
    check_blocks(
        [begin(0, result), end(0)],
        &[
            "open 0 provider-call s0 web_fetch",
            r#"result 0 {"content":{},"tool_use_id":"s0","type":"web_fetch_tool_result"}"#,
            "close 0",
        ],
    );
}

#[test]
fn a_call_that_anthropic_has_not_answered_ends_with_the_answer() {
    let call = r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#;
    let frames = [START.to_owned(), begin(0, call), end(0), because("pause_turn"), STOP.to_owned()];
    let open = "open 0 provider-call s1 web_search";
    let expected = [STARTED[0], STARTED[1], open, ENDED[0], "close 0", "stop Pause"];
    check(AnthropicDecoder::default(), &frames, &expected);
    // The stop reason is enough here too.
    check(AnthropicDecoder::default(), &frames[..4], &expected);
}

#[test]
fn an_mcp_call_is_signed_with_its_server() {
    let call =
        r#"{"type":"mcp_tool_use","id":"m1","name":"echo","server_name":"srv","input":{"a":1}}"#;
    let result = r#"{"type":"mcp_tool_result","tool_use_id":"m1","is_error":false,"content":[]}"#;
    check_blocks(
        [begin(0, call), end(0), begin(1, result), end(1)],
        &[
            "open 0 provider-call m1 echo",
            "sign 0 srv",
            "more 0 {\"a\":1}",
            concat!(
                r#"result 0 {"content":[],"is_error":false,"tool_use_id":"m1","#,
                r#""type":"mcp_tool_result"}"#
            ),
            "close 0",
        ],
    );
}

#[test]
fn an_unknown_block_is_a_note() {
    let block = r#"{"type":"container_upload","file_id":"f"}"#;
    check_blocks(
        [begin(0, block), grow(0, r#"{"type":"text_delta","text":"?"}"#), end(0)],
        &[r#"note container_upload {"file_id":"f","type":"container_upload"}"#],
    );
}

#[test]
fn every_stop_reason_is_an_answer() {
    let rows = [
        ("end_turn", "stop End"),
        ("stop_sequence", "stop End"),
        ("max_tokens", "stop Length"),
        ("model_context_window_exceeded", "stop Length"),
        ("tool_use", "stop ToolCalls"),
        ("pause_turn", "stop Pause"),
        ("refusal", "stop Refusal"),
        ("something_else", "stop Other(\"something_else\")"),
    ];
    for (word, expected) in rows {
        let frames = [START.to_owned(), because(word), STOP.to_owned()];
        let expected = [STARTED[0], STARTED[1], ENDED[0], expected];
        check(AnthropicDecoder::default(), &frames, &expected);
    }
}

#[test]
fn a_refusal_says_why() {
    let refusal = concat!(
        r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"#,
        r#""type":"refusal","category":"bio"}},"usage":{"output_tokens":7,"#,
        r#""output_tokens_details":{"thinking_tokens":3}}}"#
    );
    let expected = [
        STARTED[0],
        STARTED[1],
        concat!(
            r#"usage {"inputTokens":42,"outputTokens":7,"totalTokens":49,"reasoningTokens":3,"#,
            r#""cachedInputTokens":30,"cacheWriteInputTokens":2}"#
        ),
        r#"note stop-details {"category":"bio","type":"refusal"}"#,
        "stop Refusal",
    ];
    check(AnthropicDecoder::default(), &[START, refusal, STOP], &expected);
}

#[test]
fn an_answer_that_is_cut_off_is_never_whole() {
    let frames = answer([begin(0, TEXT), text(0, "a"), end(0), begin(1, TEXT), end(1)]);
    // The stop reason is enough, once every block has ended.
    check_cuts(AnthropicDecoder::default, &frames, frames.len() - 1);
    let open = [START.to_owned(), begin(0, TEXT), because("end_turn")];
    let decoder = AnthropicDecoder::default();
    check_failure(decoder, &open, ModelErrorKind::Truncated, "message_stop");
}

#[test]
fn an_error_in_the_stream_says_what_it_means() {
    let rows = [
        ("overloaded_error", ModelErrorKind::Unavailable),
        ("api_error", ModelErrorKind::Unavailable),
        ("rate_limit_error", ModelErrorKind::RateLimited),
        ("invalid_request_error", ModelErrorKind::BadRequest),
        ("timeout_error", ModelErrorKind::TimedOut),
    ];
    for (word, kind) in rows {
        let error =
            format!(r#"{{"type":"error","error":{{"type":"{word}","message":"Overloaded"}}}}"#);
        let frames = [START.to_owned(), begin(0, TEXT), error];
        check_failure(AnthropicDecoder::default(), &frames, kind, "Overloaded");
    }
}

#[test]
fn what_the_wire_does_not_allow_is_malformed() {
    let signature = grow(0, r#"{"type":"signature_delta","signature":"s"}"#);
    let rows: [(&[String], &str); 11] = [
        (&["{\"type\":\"content_bl".to_owned()], "not readable"),
        (&["[DONE]".to_owned()], "not readable"),
        (&["{}".to_owned()], "not readable"),
        (&[text(0, "a")], "block 0 grew, but is not open"),
        (&[end(3)], "block 3 ended, but is not open"),
        (&[begin(0, TEXT), begin(0, TEXT)], "block 0 began twice"),
        (&[begin(0, TEXT), end(0), begin(0, TEXT)], "block 0 began twice"),
        (&[begin(0, TEXT), json(0, "{")], "a input_json_delta is none of block 0"),
        (&[begin(0, TEXT), signature], "a signature_delta is none of block 0"),
        (&[begin(0, r#"{"type":"tool_use","id":"a"}"#)], "a tool_use without name"),
        (&[STOP.to_owned(), begin(0, TEXT)], "content_block_start came after message_stop"),
    ];
    for (frames, message) in rows {
        let decoder = AnthropicDecoder::default();
        check_failure(decoder, frames, ModelErrorKind::Malformed, message);
    }
}

#[test]
fn blocks_have_a_bound() {
    let many: Vec<_> = (0..=1_024).flat_map(|index| [begin(index, TEXT), end(index)]).collect();
    check_failure(AnthropicDecoder::default(), &many, ModelErrorKind::TooLarge, "1024 blocks");
    let far = [begin(u32::MAX, TEXT)];
    check_failure(AnthropicDecoder::default(), &far, ModelErrorKind::TooLarge, "1024 blocks");
}

#[test]
fn whatever_comes_blocks_are_balanced() {
    let call = r#"{"type":"tool_use","id":"t","name":"a","input":{"x":1}}"#;
    let run = r#"{"type":"server_tool_use","id":"s","name":"a","input":{}}"#;
    let found = r#"{"type":"a_tool_result","tool_use_id":"s","content":1}"#;
    let thinking = r#"{"type":"thinking","thinking":"","signature":""}"#;
    let mut frames = vec![START.to_owned(), STOP.to_owned(), because("end_turn"), "{".to_owned()];
    for index in 0..4 {
        frames.extend([TEXT, call, run, found, thinking].map(|block| begin(index, block)));
        let sign = grow(index, r#"{"type":"signature_delta","signature":"s"}"#);
        frames.extend([text(index, "a"), json(index, "{}"), sign, end(index), end(index)]);
    }
    check_chance(AnthropicDecoder::default, &frames);
}
