//! Answers of tools: what can be one, and how much of it is told.

use std::any::Any;

use serde::Serialize;
use serde_json::Value;

use super::ToolError;
use crate::{
    CallEnd, ToolResult,
    agui::{Content, ContentPart, Media, Source},
    caps::{CUT_NOTE_BYTES_MAX, TOOL_FAILURE_BYTES_MIN},
};

/// What ends a text that was cut.
const CUT_NOTE_END: &str = " bytes are missing]";

/// What a tool can answer: anything that can be written as JSON. A text is told as it is; a
/// [`Content`], a [`ContentPart`] and a list of them become parts; all else becomes JSON.
pub trait IntoContent: Send + 'static {
    /// The answer.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    fn into_content(self) -> Result<Content, ToolError>;
}

impl<T: Serialize + Send + 'static> IntoContent for T {
    fn into_content(self) -> Result<Content, ToolError> {
        // These are data themselves, so only their type tells that they are not to be quoted.
        let mut this = Some(self);
        let any: &mut dyn Any = &mut this;
        if let Some(content) = any.downcast_mut::<Option<Content>>().and_then(Option::take) {
            return Ok(content);
        }
        if let Some(part) = any.downcast_mut::<Option<ContentPart>>().and_then(Option::take) {
            return Ok(Content::Parts(vec![part]));
        }
        if let Some(parts) = any.downcast_mut::<Option<Vec<ContentPart>>>().and_then(Option::take) {
            return Ok(Content::Parts(parts));
        }
        let Some(this) = this else { return Ok(Content::default()) };
        let text = match serde_json::to_value(&this) {
            Ok(Value::String(text)) => text,
            Ok(Value::Null) => "null".to_owned(),
            Ok(value) => value.to_string(),
            Err(error) => {
                return Err(ToolError::new(format_args!("the answer is no JSON: {error}")));
            }
        };
        Ok(Content::Text(text))
    }
}

/// A result of at most so many bytes, also if it tells of a failure. What was cut before stays.
pub(super) fn capped_result(result: ToolResult, bytes_max: usize) -> ToolResult {
    let ToolResult { call_id, content, end } = result;
    let bytes_max = match end {
        CallEnd::Done => bytes_max,
        CallEnd::Failed | CallEnd::Denied | CallEnd::Cancelled => failure_bytes_max(bytes_max),
    };
    match capped(content, bytes_max) {
        Ok(content) => ToolResult { call_id, content, end },
        Err(error) => {
            let content = Content::Text(error.to_string());
            ToolResult { call_id, content, end: CallEnd::Failed }
        }
    }
}

/// What a tool says of its failure that may answer with so many bytes.
pub(super) fn capped_failure(text: String, bytes_max: usize) -> String {
    cut(text, &mut failure_bytes_max(bytes_max))
}

/// Why a tool failed is worth a few words, however little it may answer.
fn failure_bytes_max(bytes_max: usize) -> usize {
    bytes_max.max(TOOL_FAILURE_BYTES_MIN)
}

/// An answer of at most so many bytes: texts are cut, and say so; anything else that does not fit
/// is refused.
pub(super) fn capped(content: Content, bytes_max: usize) -> Result<Content, ToolError> {
    let mut left = bytes_max;
    match content {
        Content::Text(text) => Ok(Content::Text(cut(text, &mut left))),
        Content::Parts(parts) => {
            let parts = parts.into_iter().map(|part| capped_part(part, &mut left, bytes_max));
            Ok(Content::Parts(parts.collect::<Result<_, _>>()?))
        }
    }
}

fn capped_part(
    part: ContentPart,
    left: &mut usize,
    bytes_max: usize,
) -> Result<ContentPart, ToolError> {
    match part {
        ContentPart::Text(mut text) => {
            text.text = cut(text.text, left);
            Ok(ContentPart::Text(text))
        }
        ContentPart::Image(media) => fits(media, left, bytes_max).map(ContentPart::Image),
        ContentPart::Audio(media) => fits(media, left, bytes_max).map(ContentPart::Audio),
        ContentPart::Video(media) => fits(media, left, bytes_max).map(ContentPart::Video),
        ContentPart::Document(media) => fits(media, left, bytes_max).map(ContentPart::Document),
    }
}

fn fits(media: Media, left: &mut usize, bytes_max: usize) -> Result<Media, ToolError> {
    let (Source::Data { value, .. } | Source::Url { value, .. } | Source::File { value, .. }) =
        &media.source;
    let len = value.len();
    match left.checked_sub(len) {
        Some(rest) => {
            *left = rest;
            Ok(media)
        }
        None => Err(ToolError::new(format_args!(
            "the answer holds something of {len} bytes, and only {left} of {bytes_max} are left; \
             answer with an address of it, or raise `output_bytes_max`"
        ))),
    }
}

fn cut(mut text: String, left: &mut usize) -> String {
    let len = text.len();
    if len <= *left {
        *left -= len;
        return text;
    }
    if len <= *left + CUT_NOTE_BYTES_MAX && text.ends_with(CUT_NOTE_END) {
        *left = 0;
        return text;
    }
    let kept = text.floor_char_boundary(*left);
    *left = 0;
    text.truncate(kept);
    text.push_str(&format!("\n[cut: {} of {len}{CUT_NOTE_END}", len - kept));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agui::TextPart;

    fn image(value: &str) -> ContentPart {
        let source = Source::Data { value: value.into(), mime_type: "image/png".into() };
        ContentPart::Image(source.into())
    }

    #[test]
    fn anything_can_be_an_answer() {
        let check = |content: Result<Content, ToolError>, expected: Content| {
            assert_eq!(content.unwrap(), expected);
        };
        let text = |text: &str| Content::Text(text.to_owned());
        check("a \"text\"".into_content(), text("a \"text\""));
        check(String::from("text").into_content(), text("text"));
        check(3.5.into_content(), text("3.5"));
        check(().into_content(), text("null"));
        check(json!({"b": [1], "a": null}).into_content(), text(r#"{"a":null,"b":[1]}"#));
        check(vec!["a", "b"].into_content(), text(r#"["a","b"]"#));
        check(text("same").into_content(), text("same"));
        check(image("x").into_content(), Content::Parts(vec![image("x")]));
        check(vec![image("x")].into_content(), Content::Parts(vec![image("x")]));
        let keys = std::collections::BTreeMap::from([((1, 2), 3)]);
        let error = keys.into_content().unwrap_err();
        assert!(error.to_string().starts_with("the answer is no JSON: "), "{error}");
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        let cut = capped(Content::Text("aüüü".to_owned()), 4).unwrap();
        assert_eq!(cut, Content::Text("aü\n[cut: 4 of 7 bytes are missing]".to_owned()));
        assert_eq!(capped(cut.clone(), 4).unwrap(), cut, "it is not cut again");
        let whole = Content::Text("aüüü".to_owned());
        assert_eq!(capped(whole.clone(), 7).unwrap(), whole);
    }

    #[test]
    fn parts_share_the_bytes_and_media_are_not_cut() {
        let text = |text: &str| {
            ContentPart::Text(TextPart { text: text.to_owned(), ..TextPart::default() })
        };
        let parts = Content::Parts(vec![image("1234"), text("abcdef")]);
        let expected = vec![image("1234"), text("ab\n[cut: 4 of 6 bytes are missing]")];
        assert_eq!(capped(parts, 6).unwrap(), Content::Parts(expected));
        let error = capped(Content::Parts(vec![text("abc"), image("1234")]), 6).unwrap_err();
        assert!(error.to_string().contains("4 bytes, and only 3 of 6 are left"), "{error}");
    }
}
