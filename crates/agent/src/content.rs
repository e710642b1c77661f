//! Answers of tools as columns of a row, and back: what the model is told is exactly what the tool
//! said, in whatever process and however often it is read.

use chat::agui::{Content, ContentPart};
use serde_json::Value;

/// An answer as the two columns of a row: `result`, or `resultParts`.
///
/// JSON that a tool wrote is stored as JSON, so that queries can look into it. That is done only
/// if writing it again gives the same text; any other text is stored as a text.
pub(crate) fn to_result(content: &Content) -> (Option<Value>, Option<Value>) {
    match content {
        Content::Text(text) => {
            let json = serde_json::from_str::<Value>(text).ok();
            let is_same = |json: &Value| {
                let written = json.to_string();
                (json.is_object() || json.is_array())
                    && is_kept_by_columns(json)
                    && written.as_str() == text.as_str()
            };
            (Some(json.filter(is_same).unwrap_or_else(|| Value::String(text.clone()))), None)
        }
        // Parts are plain data; what serde cannot write is not among them.
        Content::Parts(parts) => (None, Some(serde_json::to_value(parts).unwrap_or_default())),
    }
}

/// Whether a column keeps it as it is: to a query, `1.0` and `1` are one number, and a number is
/// an `i64` or a float.
fn is_kept_by_columns(json: &Value) -> bool {
    match json {
        Value::Number(number) => {
            number.is_i64() || number.as_f64().is_some_and(|number| number.fract() != 0.0)
        }
        Value::Array(list) => list.iter().all(is_kept_by_columns),
        Value::Object(fields) => fields.values().all(is_kept_by_columns),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// The answer that these columns hold.
pub(crate) fn from_result(result: Option<&Value>, parts: Option<&Value>) -> Content {
    if let Some(parts) = parts {
        return match serde_json::from_value::<Vec<ContentPart>>(parts.clone()) {
            Ok(parts) => Content::Parts(parts),
            // Others may write rows, too; the model can still read what they wrote.
            Err(_) => Content::Text(parts.to_string()),
        };
    }
    match result {
        None => Content::default(),
        Some(Value::String(text)) => Content::Text(text.clone()),
        Some(json) => Content::Text(json.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use chat::agui::{Media, Source, TextPart};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Columns travel as JSON text, and answers also as values of a query.
    fn again(content: &Content) -> Content {
        let (result, parts) = to_result(content);
        let travel = |value: Value| serde_json::from_str::<Value>(&value.to_string()).unwrap();
        let column = |value: Value| serde_json::to_value(live::Value::from(value)).unwrap();
        let result = result.map(|value| column(travel(value)));
        from_result(result.as_ref(), parts.map(travel).as_ref())
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn any_part() -> impl Strategy<Value = ContentPart> {
        let media =
            |(value, mime_type): (String, String)| Media::from(Source::Data { value, mime_type });
        prop_oneof![
            any::<String>()
                .prop_map(|text| ContentPart::Text(TextPart { text, ..TextPart::default() })),
            any::<(String, String)>().prop_map(move |data| ContentPart::Image(media(data))),
            any::<(String, String)>().prop_map(move |data| ContentPart::Document(media(data))),
        ]
    }

    fn any_content() -> impl Strategy<Value = Content> {
        prop_oneof![
            any::<String>().prop_map(Content::Text),
            any_json().prop_map(|json| Content::Text(json.to_string())),
            any_json().prop_map(|json| Content::Text(format!("{json:#}"))),
            proptest::collection::vec(any_part(), 0..5).prop_map(Content::Parts),
        ]
    }

    proptest! {
        #[test]
        fn an_answer_is_read_as_it_was_written(content in any_content()) {
            prop_assert_eq!(again(&content), content);
        }
    }

    #[test]
    fn only_what_is_written_the_same_way_again_is_stored_as_json() {
        let check = |text: &str, stored: Value| {
            let content = Content::Text(text.to_owned());
            assert_eq!(to_result(&content), (Some(stored), None));
            assert_eq!(again(&content), content);
        };
        check(r#"{"a":[1,2.5]}"#, json!({"a": [1, 2.5]}));
        check("[]", json!([]));
        for text in [
            "",
            "plain",
            "3",
            "null",
            r#""quoted""#,
            r#"{"b":1,"a":2}"#,
            r#"{"a": 1}"#,
            r#"{"a":1,"a":2}"#,
            "[1e2]",
            "[0.10]",
            "[1.0]",
            "[18446744073709551615]",
            "{",
        ] {
            check(text, json!(text));
        }
    }

    #[test]
    fn rows_of_others_are_read_as_far_as_they_can_be() {
        assert_eq!(from_result(None, None), Content::default());
        assert_eq!(from_result(Some(&json!(3)), None), Content::Text("3".into()));
        assert_eq!(from_result(None, Some(&json!({"x": 1}))), Content::Text(r#"{"x":1}"#.into()));
    }
}
