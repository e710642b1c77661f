//! JSON mode: one message is one JSON value, and an array of them is a batch.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

use crate::{
    BadMessages, Messages,
    caps::{APPEND_MESSAGES_MAX, JSON_DEPTH_MAX},
};

/// A body that JSON mode refuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadJson {
    /// Not JSON at all.
    #[error("the body is not valid JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// A message with white space around its value.
    #[error("a framed JSON message is one value without white space around it")]
    Surrounded,
    /// Nested too deep for other readers.
    #[error("the body nests deeper than {JSON_DEPTH_MAX} levels")]
    TooDeep,
    /// Valid, but no append may carry it.
    #[error(transparent)]
    Messages(#[from] BadMessages),
}

/// Validates a body and flattens one level of array: each element is a message.
///
/// ```
/// let messages = wire::json::split(&b"[{\"a\":1}, [2]]".as_slice().into()).unwrap();
/// assert!(messages.iter().eq([b"{\"a\":1}".as_slice(), b"[2]"]));
/// ```
///
/// # Errors
/// If the body is not one JSON value, or its messages are too many, too large or too deep.
pub fn split(body: &Bytes) -> Result<Messages, BadJson> {
    let commas = survey(body)?;
    if body.trim_ascii_start().first() == Some(&b'[') {
        // Before a place is made for each of them: a place takes more than a small element does.
        if commas >= APPEND_MESSAGES_MAX {
            return Err(BadMessages::TooMany.into());
        }
        let elements: Vec<&RawValue> = serde_json::from_slice(body)?;
        return Ok(Messages::copied(elements.iter().map(|raw| raw.get().as_bytes()))?);
    }
    let value: &RawValue = serde_json::from_slice(body)?;
    Ok(Messages::one(body.slice_ref(value.get().as_bytes()))?)
}

/// Demands that a message is one JSON value.
///
/// # Errors
/// If it is none, or nests too deep.
pub fn check(message: &[u8]) -> Result<(), BadJson> {
    survey(message)?;
    let value: &RawValue = serde_json::from_slice(message)?;
    if value.get().len() == message.len() { Ok(()) } else { Err(BadJson::Surrounded) }
}

/// Writes runs of messages as one JSON array.
#[must_use]
pub fn join<'a>(runs: impl IntoIterator<Item = &'a Messages, IntoIter: Clone>) -> Bytes {
    let runs = runs.into_iter();
    let size: usize = runs.clone().map(|run| run.data().len() + run.len()).sum();
    let mut array = BytesMut::with_capacity(size + 2);
    array.put_u8(b'[');
    for message in runs.flat_map(Messages::iter) {
        if array.len() > 1 {
            array.put_u8(b',');
        }
        array.put_slice(message);
    }
    array.put_u8(b']');
    array.freeze()
}

/// Looks at what stands outside strings: refuses brackets that nest too deep, and counts the commas
/// of the outermost ones. Anything but valid JSON is caught by the parser afterwards.
fn survey(body: &[u8]) -> Result<usize, BadJson> {
    let (mut depth, mut commas, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    return Err(BadJson::TooDeep);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => commas += 1,
            _ => {}
        }
    }
    Ok(commas)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &[&str]) {
        let messages = split(&Bytes::copy_from_slice(body.as_bytes())).unwrap();
        assert!(messages.iter().eq(expected.iter().map(|m| m.as_bytes())), "{body}: {messages:?}");
    }

    #[test]
    fn one_level_of_array_is_flattened() {
        check("{\"a\":1}", &["{\"a\":1}"]);
        check(" 7\n", &["7"]);
        check("[1, \"x\" ,null]", &["1", "\"x\"", "null"]);
        check("[[1,2],[3]]", &["[1,2]", "[3]"]);
        check("[[[1,2,3]]]", &["[[1,2,3]]"]);
        check("[]", &[]);
        check("\"[,\\\"]\"", &["\"[,\\\"]\""]);
    }

    #[test]
    fn broken_bodies_are_refused() {
        for bad in ["", " ", "{", "[1,]", "1 2", "{'a':1}", "[1", "NaN", "\u{feff}1", "\"\u{1}\""] {
            assert!(split(&Bytes::copy_from_slice(bad.as_bytes())).is_err(), "{bad:?}");
        }
        assert!(split(&Bytes::from_static(b"\"\xff\"")).is_err());
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(matches!(split(&deep.into()), Err(BadJson::TooDeep)));
    }

    #[test]
    fn an_array_has_at_most_as_many_elements_as_an_append() {
        let array = |count: usize| Bytes::from(format!("[0{}]", ",0".repeat(count - 1)));
        assert_eq!(split(&array(APPEND_MESSAGES_MAX)).unwrap().len(), APPEND_MESSAGES_MAX);
        let refused = split(&array(APPEND_MESSAGES_MAX + 1));
        assert!(matches!(refused, Err(BadJson::Messages(BadMessages::TooMany))), "{refused:?}");
        // What is within one message is none of its business.
        for (open, close) in [('[', ']'), ('{', '}')] {
            let inner = match open {
                '[' => vec!["0"; APPEND_MESSAGES_MAX + 1].join(","),
                _ => vec!["\"a\":0"; APPEND_MESSAGES_MAX + 1].join(","),
            };
            let one = format!("{open}{inner}{close}");
            assert_eq!(split(&format!("[{one}]").into()).unwrap().len(), 1);
            assert!(open == '[' || split(&one.into()).unwrap().len() == 1);
        }
        let text = format!("[\"{}\"]", ",".repeat(APPEND_MESSAGES_MAX));
        assert_eq!(split(&text.into()).unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn join_undoes_split(
            values in prop::collection::vec("-?[1-9][0-9]{0,5}|\"[a-z,\\[\\]]*\"", 0..20),
        ) {
            let body = format!("[{}]", values.join(","));
            let messages = split(&body.clone().into()).unwrap();
            let cut = messages.len() / 2;
            let runs = [messages.slice(0, cut), messages.slice(cut, messages.len())];
            prop_assert_eq!(join(&runs), body);
        }
    }
}
