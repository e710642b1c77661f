//! Answers of Gemini.

use chat::ModelErrorKind;
use providers::gemini::GeminiDecoder;

use crate::told::{check, check_chance, check_cuts, check_failure, grown, read};

fn parts(parts: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}},"index":0}}]}}"#)
}

fn text(text: &str) -> String {
    format!(r#"{{"text":{}}}"#, serde_json::to_string(text).unwrap())
}

fn because(reason: &str) -> String {
    format!(r#"{{"candidates":[{{"finishReason":"{reason}","index":0}}]}}"#)
}

/// A whole answer of these parts, each in a piece of its own and all in one.
#[track_caller]
fn check_parts(all: &[&str], expected: &[&str]) {
    let end = because("STOP");
    let mut one_by_one: Vec<_> = all.iter().map(|part| parts(part)).collect();
    one_by_one.push(end.clone());
    check(GeminiDecoder::default(), &one_by_one, expected);
    check(GeminiDecoder::default(), &[parts(&all.join(",")), end], expected);
}

#[test]
fn text_keeps_its_space() {
    let all = [text("Hi"), text(" \n"), text(""), text("you")];
    check_parts(
        &all.each_ref().map(String::as_str),
        &["open 0 text", "more 0 Hi", "more 0  \n", "more 0 you", "close 0", "stop End"],
    );
    check_parts(&[&text("\n")], &["open 0 text", "more 0 \n", "close 0", "stop End"]);
}

#[test]
fn thoughts_and_texts_take_turns() {
    check_parts(
        &[
            r#"{"text":"hm","thought":true}"#,
            r#"{"text":"a"}"#,
            r#"{"text":"oh","thought":true}"#,
            r#"{"text":"b"}"#,
        ],
        &[
            "open 0 thinking",
            "more 0 hm",
            "close 0",
            "open 1 text",
            "more 1 a",
            "close 1",
            "open 2 thinking",
            "more 2 oh",
            "close 2",
            "open 3 text",
            "more 3 b",
            "close 3",
            "stop End",
        ],
    );
}

#[test]
fn a_signature_ends_its_block() {
    check_parts(
        &[
            r#"{"text":"a","thought":true,"thoughtSignature":"s0"}"#,
            r#"{"text":"b"}"#,
            r#"{"text":"c","thoughtSignature":"s1"}"#,
            r#"{"text":"d"}"#,
            r#"{"text":"","thoughtSignature":"s2"}"#,
            r#"{"text":"","thoughtSignature":"s3"}"#,
        ],
        &[
            "open 0 thinking",
            "more 0 a",
            "sign 0 s0",
            "close 0",
            "open 1 text",
            "more 1 b",
            "more 1 c",
            "sign 1 s1",
            "close 1",
            "open 2 text",
            "more 2 d",
            "sign 2 s2",
            "close 2",
            "open 3 text",
            "sign 3 s3",
            "close 3",
            "stop End",
        ],
    );
}

#[test]
fn calls_come_whole_with_or_without_ids() {
    check_parts(
        &[
            r#"{"text":"let me see"}"#,
            r#"{"functionCall":{"name":"weather","args":{"city": "Köln"}},"thoughtSignature":"s"}"#,
            r#"{"functionCall":{"id":"c2","name":"time","args":{}}}"#,
            r#"{"functionCall":{"id":"","name":"time"}}"#,
        ],
        &[
            "open 0 text",
            "more 0 let me see",
            "close 0",
            "open 1 call - weather",
            "more 1 {\"city\": \"Köln\"}",
            "sign 1 s",
            "close 1",
            "open 2 call c2 time",
            "more 2 {}",
            "close 2",
            "open 3 call - time",
            "close 3",
            "stop ToolCalls",
        ],
    );
}

#[test]
fn code_that_gemini_runs_is_a_call_with_its_raw_result() {
    check_parts(
        &[
            r#"{"executableCode":{"language":"PYTHON","code":"print(1)"},"thoughtSignature":"s"}"#,
            concat!(
                r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"},"#,
                r#""thoughtSignature":"t"}"#
            ),
            r#"{"text":"1"}"#,
            r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}"#,
        ],
        &[
            "open 0 provider-call - code_execution",
            r#"more 0 {"language":"PYTHON","code":"print(1)"}"#,
            "sign 0 s",
            concat!(
                r#"result 0 {"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"},"#,
                r#""thoughtSignature":"t"}"#
            ),
            "close 0",
            "open 1 text",
            "more 1 1",
            "close 1",
            "open 2 provider-call - code_execution",
            r#"result 2 {"codeExecutionResult":{"outcome":"OUTCOME_OK"}}"#,
            "close 2",
            "stop End",
        ],
    );
}

#[test]
fn tools_that_gemini_runs_are_answered_by_id() {
    check_parts(
        &[
            r#"{"toolCall":{"id":"a","toolType":"GOOGLE_SEARCH_WEB","args":{"q":"x"}}}"#,
            r#"{"toolCall":{"id":"b","toolType":"URL_CONTEXT"}}"#,
            r#"{"toolResponse":{"id":"a","toolType":"GOOGLE_SEARCH_WEB","response":{}}}"#,
        ],
        &[
            "open 0 provider-call a GOOGLE_SEARCH_WEB",
            r#"more 0 {"q":"x"}"#,
            "open 1 provider-call b URL_CONTEXT",
            r#"result 0 {"toolResponse":{"id":"a","response":{},"toolType":"GOOGLE_SEARCH_WEB"}}"#,
            "close 0",
            "close 1",
            "stop End",
        ],
    );
}

#[test]
fn what_else_gemini_says_is_a_note() {
    check_parts(
        &[r#"{"inlineData":{"mimeType":"image/png","data":"AA=="}}"#],
        &[r#"note inline-data {"data":"AA==","mimeType":"image/png"}"#, "stop End"],
    );
    let grounded = concat!(
        r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","#,
        r#""finishMessage":"done","groundingMetadata":{"webSearchQueries":["x"]},"#,
        r#""citationMetadata":{}}]}"#
    );
    let expected = [
        "open 0 text",
        "more 0 a",
        r#"note grounding {"webSearchQueries":["x"]}"#,
        r#"note finish-message "done""#,
        "close 0",
        "stop End",
    ];
    check(GeminiDecoder::default(), &[grounded], &expected);
}

#[test]
fn every_finish_reason_is_an_answer_that_ends_once() {
    let rows = [
        ("STOP", "stop ToolCalls"),
        ("MAX_TOKENS", "stop Length"),
        ("SAFETY", "stop ContentFilter"),
        ("RECITATION", "stop ContentFilter"),
        ("PROHIBITED_CONTENT", "stop ContentFilter"),
        ("MALFORMED_FUNCTION_CALL", "stop Other(\"MALFORMED_FUNCTION_CALL\")"),
        ("UNEXPECTED_TOOL_CALL", "stop Other(\"UNEXPECTED_TOOL_CALL\")"),
        ("OTHER", "stop Other(\"OTHER\")"),
    ];
    for (word, stop) in rows {
        let frames = [parts(r#"{"functionCall":{"name":"a"}}"#), because(word)];
        let expected = ["open 0 call - a", "close 0", stop];
        check(GeminiDecoder::default(), &frames, &expected);
    }
}

#[test]
fn a_question_that_is_not_let_through_is_answered_so() {
    let blocked = concat!(
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4,"#,
        r#""totalTokenCount":4}}"#
    );
    let expected = [
        r#"note prompt-feedback {"blockReason":"SAFETY"}"#,
        r#"usage {"inputTokens":4,"totalTokens":4}"#,
        "stop ContentFilter",
    ];
    check(GeminiDecoder::default(), &[blocked], &expected);
}

#[test]
fn the_last_finish_reason_counts_and_usage_is_told_when_it_changes() {
    let piece = |text: &str, tokens: u32| {
        format!(
            concat!(
                r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}},"#,
                r#""finishReason":"STOP"}},{{"content":{{"parts":[{{"text":"other"}}]}},"#,
                r#""index":1}}],"usageMetadata":{{"promptTokenCount":10,"#,
                r#""toolUsePromptTokenCount":5,"candidatesTokenCount":{tokens},"#,
                r#""thoughtsTokenCount":3,"cachedContentTokenCount":8,"totalTokenCount":20}},"#,
                r#""modelVersion":"gemini-x-001"}}"#
            ),
            text = text,
            tokens = tokens
        )
    };
    let usage = concat!(
        r#"usage {"inputTokens":15,"outputTokens":5,"totalTokens":20,"reasoningTokens":3,"#,
        r#""cachedInputTokens":8}"#
    );
    let expected =
        ["model gemini-x-001", "open 0 text", "more 0 a", usage, "more 0 b", "close 0", "stop End"];
    check(GeminiDecoder::default(), &[piece("a", 2), piece("b", 2)], &expected);
}

#[test]
fn an_answer_that_is_cut_off_is_never_whole() {
    let frames = [
        parts(r#"{"text":"a","thought":true}"#),
        parts(r#"{"text":"b"}"#),
        parts(r#"{"functionCall":{"name":"a"}}"#),
        because("STOP"),
    ];
    check_cuts(GeminiDecoder::default, &frames, frames.len());
    assert!(read(GeminiDecoder::default(), &frames).is_ok());
}

#[test]
fn arguments_are_kept_to_the_byte() {
    let args = r#"{"city":"Zürich \"Süd\"","n":[1,2.50,{}]}"#;
    let call = parts(&format!(r#"{{"functionCall":{{"name":"a","args":{args}}}}}"#));
    let events = read(GeminiDecoder::default(), &[call, because("STOP")]).unwrap();
    assert_eq!(grown(&events, 0), args);
}

#[test]
fn an_error_in_the_stream_says_what_it_means() {
    let rows = [
        (503, "UNAVAILABLE", ModelErrorKind::Unavailable),
        (429, "RESOURCE_EXHAUSTED", ModelErrorKind::RateLimited),
        (400, "INVALID_ARGUMENT", ModelErrorKind::BadRequest),
    ];
    for (code, word, kind) in rows {
        let error =
            format!(r#"{{"error":{{"code":{code},"message":"so it is","status":"{word}"}}}}"#);
        let frames = [parts(r#"{"text":"a"}"#), error];
        check_failure(GeminiDecoder::default(), &frames, kind, "so it is");
    }
}

#[test]
fn what_the_wire_does_not_allow_is_malformed() {
    let rows = [
        ("{\"candidates\":[{".to_owned(), "not readable"),
        ("[DONE]".to_owned(), "not readable"),
        ("7".to_owned(), "not readable"),
        (parts(r#"{"functionCall":{"args":{}}}"#), "a functionCall without name"),
        (
            parts(r#"{"functionCall":{"name":"a","willContinue":true}}"#),
            "leave streamFunctionCallArguments out",
        ),
    ];
    for (frame, message) in rows {
        let decoder = GeminiDecoder::default();
        check_failure(decoder, &[frame], ModelErrorKind::Malformed, message);
    }
}

#[test]
fn blocks_have_a_bound() {
    let call = r#"{"functionCall":{"name":"a"}}"#;
    let frames = [parts(&[call; 1_025].join(","))];
    check_failure(GeminiDecoder::default(), &frames, ModelErrorKind::TooLarge, "1024 blocks");
}

#[test]
fn whatever_comes_blocks_are_balanced() {
    let frames = [
        parts(r#"{"text":"a"}"#),
        parts(r#"{"text":"b","thought":true}"#),
        parts(r#"{"text":"c","thoughtSignature":"s"}"#),
        parts(r#"{"text":"","thought":true,"thoughtSignature":"s"}"#),
        parts(r#"{"functionCall":{"name":"a","args":{}}},{"text":"d"}"#),
        parts(r#"{"executableCode":{"code":"1"}}"#),
        parts(r#"{"codeExecutionResult":{}}"#),
        parts(r#"{"toolCall":{"id":"x","toolType":"T"}}"#),
        parts(r#"{"toolResponse":{"id":"x"}}"#),
        parts(r#"{"toolResponse":{"id":"y"}}"#),
        because("STOP"),
        because("MAX_TOKENS"),
        r#"{"promptFeedback":{"blockReason":"OTHER"}}"#.to_owned(),
        "{".to_owned(),
    ];
    check_chance(GeminiDecoder::default, &frames);
}
