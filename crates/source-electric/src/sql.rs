//! Subsets as SQL, for a server that must bring all rows of them and may bring more.
//!
//! The server's word must not be narrower than ours: a row that a query wants and the server leaves
//! out would never come. So only what means the same on both sides is written down, which texts
//! in order do not, as their order depends on the database; the rest is left out, and the answer
//! is wider.

use query::{Expr, Order, Subset, Value};

use crate::{builder::quoted, schema::Columns};

/// What a server is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sql {
    pub(crate) condition: String,
    /// The values of `$1` and those that follow.
    pub(crate) params: Vec<String>,
    /// The first so many rows of an order, if it can tell which those are.
    pub(crate) window: Option<(String, usize)>,
}

/// Types whose values are equal, and but for texts in order, as we say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exact {
    Int { min: i64, max: i64 },
    Float,
    Bool,
    Text,
    Uuid,
}

impl Sql {
    pub(crate) fn of(subset: &Subset, columns: &Columns, key: &str) -> Self {
        let mut writer = Writer { columns, params: Vec::new() };
        let (mut parts, mut is_whole) = (Vec::new(), true);
        for filter in &subset.filters {
            match writer.exact(filter) {
                Some(part) => parts.push(part),
                None => {
                    is_whole = false;
                    parts.extend(writer.wide(filter));
                }
            }
        }
        let window = subset.limit.filter(|_| is_whole).and_then(|limit| {
            let order = writer.order(&subset.order_by, key)?;
            Some((order, limit))
        });
        let condition = if parts.is_empty() { "TRUE".to_owned() } else { parts.join(" AND ") };
        Self { condition, params: writer.params, window }
    }
}

struct Writer<'a> {
    columns: &'a Columns,
    params: Vec<String>,
}

impl Writer<'_> {
    /// A condition that is true, false and unknown for the same rows.
    fn exact(&mut self, expr: &Expr) -> Option<String> {
        let before = self.params.len();
        let written = self.try_exact(expr);
        if written.is_none() {
            self.params.truncate(before);
        }
        written
    }

    fn try_exact(&mut self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Val(Value::Bool(true)) => Some("TRUE".to_owned()),
            Expr::Val(Value::Bool(false)) => Some("FALSE".to_owned()),
            Expr::Ref(_) => {
                let (name, exact) = self.column(expr)?;
                (exact == Exact::Bool).then(|| format!("({name} = TRUE)"))
            }
            Expr::Call(function, args) => match (function.as_str(), &args[..]) {
                ("and", args) => self.joined(args, " AND "),
                ("or", args) => self.joined(args, " OR "),
                ("not", [arg]) => self.try_exact(arg).map(|arg| format!("(NOT {arg})")),
                ("isNull", [arg]) => Some(format!("({} IS NULL)", self.column(arg)?.0)),
                ("in", [arg, Expr::Val(Value::List(list))]) => {
                    let (name, exact) = self.column(arg)?;
                    let values = list.iter().map(|value| self.param(exact.written(value)?));
                    let values: Vec<_> = values.collect::<Option<_>>()?;
                    (!values.is_empty()).then(|| format!("({name} IN ({}))", values.join(", ")))
                }
                ("like", [arg, Expr::Val(pattern)]) => {
                    let (name, exact) = self.column(arg)?;
                    let pattern = pattern.as_text().filter(|text| !text.contains('\\'))?;
                    let pattern = self.param(pattern.into_owned())?;
                    (exact == Exact::Text).then(|| format!("({name} LIKE {pattern})"))
                }
                (function, [left, right]) => self.compared(function, left, right),
                _ => None,
            },
            Expr::Val(_) | Expr::Aggregate(..) | Expr::Include(_) => None,
        }
    }

    fn joined(&mut self, args: &[Expr], glue: &str) -> Option<String> {
        let parts: Vec<_> = args.iter().map(|arg| self.try_exact(arg)).collect::<Option<_>>()?;
        (!parts.is_empty()).then(|| format!("({})", parts.join(glue)))
    }

    fn compared(&mut self, function: &str, left: &Expr, right: &Expr) -> Option<String> {
        let (column, value, operator) = match (left, right) {
            (Expr::Ref(_), Expr::Val(value)) => (left, value, operator(function, false)?),
            (Expr::Val(value), Expr::Ref(_)) => (right, value, operator(function, true)?),
            _ => return None,
        };
        let (name, exact) = self.column(column)?;
        let is_ordered = matches!(exact, Exact::Int { .. } | Exact::Float);
        if !is_ordered && !matches!(operator, "=" | "<>") {
            return None;
        }
        let value = self.param(exact.written(value)?)?;
        Some(format!("({name} {operator} {value})"))
    }

    /// A condition that is true for more rows: texts that are equal for us are equal for every
    /// type, such as an enum, but not the other way round.
    fn wide(&mut self, expr: &Expr) -> Option<String> {
        let Expr::Call(function, args) = expr else { return None };
        let (Expr::Ref(path), Expr::Val(value)) = (args.first()?, args.get(1)?) else {
            return None;
        };
        let [name] = &path[..] else { return None };
        let is_plain = |kind: &str| !matches!(kind, "json" | "jsonb" | "bytea");
        self.columns.get(name).filter(|column| column.dims == 0 && is_plain(&column.kind))?;
        let texts: Vec<String> = match (function.as_str(), value) {
            ("eq", value) => vec![value.as_text()?.into_owned()],
            ("in", Value::List(list)) => list
                .iter()
                .map(|value| Some(value.as_text()?.into_owned()))
                .collect::<Option<_>>()?,
            _ => return None,
        };
        let values: Vec<_> = texts.into_iter().filter_map(|text| self.param(text)).collect();
        (!values.is_empty()).then(|| format!("({} IN ({}))", quoted(name), values.join(", ")))
    }

    /// An order in which no two rows are equal, and which the database agrees with.
    fn order(&self, order_by: &[Order], key: &str) -> Option<String> {
        let mut parts = Vec::new();
        for order in order_by {
            let name = self.ordered(&order.expr)?;
            let direction = if order.is_descending { "DESC" } else { "ASC" };
            let nulls = if order.is_nulls_last { "LAST" } else { "FIRST" };
            parts.push(format!("{name} {direction} NULLS {nulls}"));
        }
        let key = self.ordered(&Expr::path([key]))?;
        parts.push(format!("{key} ASC"));
        Some(parts.join(", "))
    }

    fn ordered(&self, expr: &Expr) -> Option<String> {
        let (name, exact) = self.column(expr)?;
        matches!(exact, Exact::Int { .. } | Exact::Float | Exact::Uuid).then_some(name)
    }

    fn column(&self, expr: &Expr) -> Option<(String, Exact)> {
        let Expr::Ref(path) = expr else { return None };
        let [name] = &path[..] else { return None };
        let column = self.columns.get(name).filter(|column| column.dims == 0)?;
        Some((quoted(name), Exact::of(&column.kind)?))
    }

    fn param(&mut self, value: String) -> Option<String> {
        self.params.push(value);
        Some(format!("${}", self.params.len()))
    }
}

impl Exact {
    fn of(kind: &str) -> Option<Self> {
        let int = |min: i64, max: i64| Some(Self::Int { min, max });
        match kind {
            "int2" => int(i16::MIN.into(), i16::MAX.into()),
            "int4" => int(i32::MIN.into(), i32::MAX.into()),
            "int8" => int(i64::MIN, i64::MAX),
            "float8" => Some(Self::Float),
            "bool" => Some(Self::Bool),
            "text" | "varchar" => Some(Self::Text),
            "uuid" => Some(Self::Uuid),
            _ => None,
        }
    }

    /// A value of this type, as a parameter.
    fn written(self, value: &Value) -> Option<String> {
        match (self, value) {
            (Self::Int { min, max }, Value::Int(number)) => {
                (min..=max).contains(number).then(|| number.to_string())
            }
            (Self::Float, Value::Int(number)) => Some(number.to_string()),
            (Self::Float, Value::Float(number)) => {
                number.is_finite().then(|| format!("{number:?}"))
            }
            (Self::Bool, Value::Bool(truth)) => Some(truth.to_string()),
            (Self::Text, value) => Some(value.as_text()?.into_owned()),
            (Self::Uuid, value) => Some(value.as_text()?.into_owned()).filter(|text| is_uuid(text)),
            _ => None,
        }
    }
}

/// True for a UUID as Postgres writes it, and for no other form of it.
fn is_uuid(text: &str) -> bool {
    let fits = |(index, byte): (usize, u8)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}

fn operator(function: &str, is_turned: bool) -> Option<&'static str> {
    Some(match (function, is_turned) {
        ("eq", _) => "=",
        ("ne", _) => "<>",
        ("lt", false) | ("gt", true) => "<",
        ("lte", false) | ("gte", true) => "<=",
        ("gt", false) | ("lt", true) => ">",
        ("gte", false) | ("lte", true) => ">=",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use query::Query;

    use super::*;

    fn sql(clauses: &str) -> Sql {
        let columns = r#"{"id":{"type":"int8"},"n":{"type":"int4"},"f":{"type":"float8"},
            "t":{"type":"text"},"b":{"type":"bool"},"mood":{"type":"mood"},"j":{"type":"jsonb"},
            "u":{"type":"uuid"},"a":{"type":"text","dims":1}}"#;
        let columns = Columns::parse(columns).unwrap();
        let query = format!(r#"{{"from":{{"col":"x","as":"x"}},{clauses}}}"#);
        let subsets = query::Database::new().subsets(&Query::from_json(&query).unwrap());
        Sql::of(&subsets[0].1, &columns, "id")
    }

    fn check(filter: &str, condition: &str, params: &[&str]) {
        let written = sql(&format!(r#""where":[{filter}]"#));
        assert_eq!(
            (written.condition.as_str(), &written.params[..]),
            (condition, &params.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>()[..]),
            "{filter}"
        );
    }

    fn call(function: &str, column: &str, value: &str) -> String {
        format!(r#"{{"fn":"{function}","args":[{{"ref":["x","{column}"]}},{{"val":{value}}}]}}"#)
    }

    #[test]
    fn what_means_the_same_is_written_down() {
        check(&call("eq", "t", "\"a\""), r#"("t" = $1)"#, &["a"]);
        check(&call("ne", "b", "true"), r#"("b" <> $1)"#, &["true"]);
        check(&call("gte", "n", "3"), r#"("n" >= $1)"#, &["3"]);
        check(&call("lt", "f", "0.5"), r#"("f" < $1)"#, &["0.5"]);
        check(&call("in", "n", "[1,2]"), r#"("n" IN ($1, $2))"#, &["1", "2"]);
        check(&call("like", "t", "\"a%\""), r#"("t" LIKE $1)"#, &["a%"]);
        check(r#"{"fn":"isNull","args":[{"ref":["x","t"]}]}"#, r#"("t" IS NULL)"#, &[]);
        check(r#"{"ref":["x","b"]}"#, r#"("b" = TRUE)"#, &[]);
        check(r#"{"fn":"gt","args":[{"val":7},{"ref":["x","n"]}]}"#, r#"("n" < $1)"#, &["7"]);
        let either = format!(
            r#"{{"fn":"or","args":[{},{{"fn":"not","args":[{}]}}]}}"#,
            call("eq", "n", "1"),
            call("eq", "t", "\"b\"")
        );
        check(&either, r#"(("n" = $1) OR (NOT ("t" = $2)))"#, &["1", "b"]);
        let two = format!("{},{}", call("eq", "n", "1"), call("eq", "t", "\"b\""));
        check(&two, r#"("n" = $1) AND ("t" = $2)"#, &["1", "b"]);
    }

    #[test]
    fn what_does_not_is_left_out_and_the_answer_is_wider() {
        for filter in [
            call("lt", "t", "\"a\""),
            call("eq", "n", "1.5"),
            call("eq", "n", "4000000000"),
            call("eq", "n", "null"),
            call("eq", "j", "\"a\""),
            call("eq", "a", "\"a\""),
            call("eq", "unknown", "\"a\""),
            call("ne", "mood", "\"sad\""),
            call("ilike", "t", "\"a%\""),
            call("like", "t", r#""a\\%""#),
            call("in", "n", "[]"),
        ] {
            check(&filter, "TRUE", &[]);
        }
        check(&call("eq", "mood", "\"sad\""), r#"("mood" IN ($1))"#, &["sad"]);
        let both = format!("{},{}", call("lt", "t", "\"a\""), call("eq", "n", "1"));
        check(&both, r#"("n" = $1)"#, &["1"]);
        let either = format!(
            r#"{{"fn":"or","args":[{},{}]}}"#,
            call("eq", "n", "1"),
            call("lt", "t", "\"b\"")
        );
        check(&either, "TRUE", &[]);
        let uuid = "\"0190a6b2-7c1e-7d4a-8a60-0123456789ab\"";
        check(&call("eq", "u", uuid), r#"("u" = $1)"#, &[uuid.trim_matches('"')]);
    }

    #[test]
    fn windows_are_asked_for_where_the_order_is_the_same() {
        let by = |column: &str| {
            format!(r#""orderBy":[{{"expr":{{"ref":["x","{column}"]}},"dir":"desc"}}],"limit":9"#)
        };
        let (order, limit) = sql(&by("n")).window.unwrap();
        assert!(
            order.starts_with(r#""n" DESC NULLS "#) && order.ends_with(r#", "id" ASC"#),
            "{order}"
        );
        assert_eq!(limit, 9);
        assert_eq!(sql(&by("t")).window, None);
        let wider = format!(r#""where":[{}],{}"#, call("lt", "t", "\"a\""), by("n"));
        assert_eq!(sql(&wider).window, None);
    }
}
