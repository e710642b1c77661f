//! Values as Postgres writes them, and what they are as JSON.

use serde_json::Value;

use crate::{caps::ARRAY_DEPTH_MAX, schema::Column};

/// Why a text is not the value that it should be. It never holds the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadText {
    #[error("it is no whole number")]
    Int,
    #[error("it is no number")]
    Float,
    #[error("it is neither true nor false")]
    Bool,
    #[error("it is no JSON")]
    Json,
    #[error("it is no array")]
    Array,
    #[error("the array has more than {ARRAY_DEPTH_MAX} dimensions")]
    Depth,
}

/// A value of a column. What has no exact form in JSON stays a text: numbers of any precision,
/// times, bytes, and the floats that are no numbers.
pub(crate) fn read(text: &str, column: &Column) -> Result<Value, BadText> {
    match column.dims {
        0 => scalar(text, &column.kind),
        _ => array(text, &column.kind),
    }
}

fn scalar(text: &str, kind: &str) -> Result<Value, BadText> {
    match kind {
        "int2" | "int4" | "int8" => text.parse::<i64>().map(Value::from).map_err(|_| BadText::Int),
        "float4" | "float8" => float(text),
        "bool" => match text {
            "t" | "true" => Ok(Value::Bool(true)),
            "f" | "false" => Ok(Value::Bool(false)),
            _ => Err(BadText::Bool),
        },
        "json" | "jsonb" => serde_json::from_str(text).map_err(|_| BadText::Json),
        _ => Ok(Value::from(text)),
    }
}

fn float(text: &str) -> Result<Value, BadText> {
    if matches!(text, "NaN" | "Infinity" | "-Infinity") {
        return Ok(Value::from(text));
    }
    let number: f64 = text.parse().map_err(|_| BadText::Float)?;
    // What Rust reads beyond the largest number is not what Postgres wrote.
    if number.is_finite() { Ok(Value::from(number)) } else { Err(BadText::Float) }
}

/// An array such as `{1,NULL,"a \"b\"",{2}}`, perhaps with bounds in front: `[0:1]={1,2}`.
fn array(text: &str, kind: &str) -> Result<Value, BadText> {
    let text = match text.strip_prefix('[') {
        Some(bounded) => bounded.split_once("]=").ok_or(BadText::Array)?.1,
        None => text,
    };
    let delimiter = if kind == "box" { ';' } else { ',' };
    let mut reader = Reader { rest: text, kind, delimiter };
    let list = reader.list(1)?;
    if reader.rest.is_empty() { Ok(list) } else { Err(BadText::Array) }
}

struct Reader<'a> {
    rest: &'a str,
    kind: &'a str,
    delimiter: char,
}

impl Reader<'_> {
    fn list(&mut self, depth: usize) -> Result<Value, BadText> {
        if depth > ARRAY_DEPTH_MAX {
            return Err(BadText::Depth);
        }
        self.eat('{')?;
        let mut values = Vec::new();
        if self.eat('}').is_ok() {
            return Ok(Value::Array(values));
        }
        loop {
            values.push(self.element(depth)?);
            if self.eat('}').is_ok() {
                return Ok(Value::Array(values));
            }
            self.eat(self.delimiter)?;
        }
    }

    fn element(&mut self, depth: usize) -> Result<Value, BadText> {
        match self.rest.chars().next() {
            Some('{') => self.list(depth + 1),
            Some('"') => {
                let text = self.quoted()?;
                scalar(&text, self.kind)
            }
            Some(_) => {
                let end = self.rest.find([self.delimiter, '}']).ok_or(BadText::Array)?;
                let (text, rest) = self.rest.split_at(end);
                self.rest = rest;
                match text {
                    "" => Err(BadText::Array),
                    "NULL" => Ok(Value::Null),
                    text => scalar(text, self.kind),
                }
            }
            None => Err(BadText::Array),
        }
    }

    fn quoted(&mut self) -> Result<String, BadText> {
        self.eat('"')?;
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        loop {
            match chars.next().ok_or(BadText::Array)?.1 {
                '"' => break,
                '\\' => text.push(chars.next().ok_or(BadText::Array)?.1),
                other => text.push(other),
            }
        }
        self.rest = chars.as_str();
        Ok(text)
    }

    fn eat(&mut self, wanted: char) -> Result<(), BadText> {
        self.rest = self.rest.strip_prefix(wanted).ok_or(BadText::Array)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(kind: &str, dims: usize, text: &str, wanted: Value) {
        let column = Column { kind: kind.to_owned(), dims };
        assert_eq!(read(text, &column), Ok(wanted), "{kind} {text}");
    }

    fn refuse(kind: &str, dims: usize, text: &str, wanted: BadText) {
        let column = Column { kind: kind.to_owned(), dims };
        assert_eq!(read(text, &column), Err(wanted), "{kind} {text}");
    }

    #[test]
    fn scalars() {
        check("int2", 0, "-7", json!(-7));
        check("int8", 0, "9223372036854775807", json!(i64::MAX));
        check("int8", 0, "-9223372036854775808", json!(i64::MIN));
        check("float4", 0, "1.5", json!(1.5));
        check("float8", 0, "1e-300", json!(1e-300));
        check("float8", 0, "NaN", json!("NaN"));
        check("bool", 0, "t", json!(true));
        check("bool", 0, "false", json!(false));
        check("jsonb", 0, r#"{"a": [1, null]}"#, json!({"a": [1, null]}));
        check("numeric", 0, "12345678901234567890.10", json!("12345678901234567890.10"));
        check("timestamptz", 0, "2024-01-15 10:30:00+00", json!("2024-01-15 10:30:00+00"));
        check("mood", 0, "happy", json!("happy"));
        refuse("int4", 0, "1.5", BadText::Int);
        refuse("int8", 0, "9223372036854775808", BadText::Int);
        refuse("float8", 0, "inf", BadText::Float);
        refuse("float8", 0, "", BadText::Float);
        refuse("bool", 0, "yes", BadText::Bool);
        refuse("json", 0, "{", BadText::Json);
    }

    #[test]
    fn arrays() {
        check("int4", 1, "{}", json!([]));
        check("int4", 1, "{1,NULL,3}", json!([1, null, 3]));
        check("int8", 2, "{{1,2},{3,4}}", json!([[1, 2], [3, 4]]));
        check("int4", 1, "[0:1]={1,2}", json!([1, 2]));
        check(
            "text",
            1,
            r#"{a,"b,c","d\"e\\f","","NULL",NULL,ü}"#,
            json!(["a", "b,c", "d\"e\\f", "", "NULL", null, "ü"]),
        );
        check("bool", 1, "{t,f}", json!([true, false]));
        check("jsonb", 1, r#"{"{\"a\": 1}",null}"#, json!([{"a": 1}, null]));
        check("box", 1, "{(1,1),(0,0);(2,2),(1,1)}", json!(["(1,1),(0,0)", "(2,2),(1,1)"]));
        for broken in
            ["", "{", "{1", "{1,", "{1,}", "{,1}", "1", "{1}x", "[1={1}", "{\"a", "{\"a\\"]
        {
            refuse("text", 1, broken, BadText::Array);
        }
        refuse("int4", 1, "{a}", BadText::Int);
        let deep = |depth| format!("{}1{}", "{".repeat(depth), "}".repeat(depth));
        assert!(read(&deep(6), &Column { kind: "int4".into(), dims: 6 }).is_ok());
        refuse("int4", 7, &deep(7), BadText::Depth);
    }
}
