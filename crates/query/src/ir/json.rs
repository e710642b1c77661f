//! The JSON form of a query. Writing and reading are inverse to each other.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use smol_str::SmolStr;

use super::{Expr, Form, Include, Join, JoinKind, Order, Query, Rows, Source, View};
use crate::value::Value;

/// JSON that is no query.
#[derive(Debug, thiserror::Error)]
#[error("this is not a query: {0}")]
pub struct BadQuery(#[from] serde_json::Error);

impl Query {
    /// Reads a query from JSON.
    ///
    /// ```
    /// let query = query::Query::from_json(
    ///     r#"{"from":{"col":"messages","as":"m"},
    ///         "where":[{"fn":"eq","args":[{"ref":["m","role"]},{"val":"user"}]}]}"#,
    /// )?;
    /// assert_eq!(query.filters.len(), 1);
    /// # Ok::<(), query::BadQuery>(())
    /// ```
    ///
    /// # Errors
    /// If it is not one; the error says where and why.
    pub fn from_json(json: &str) -> Result<Self, BadQuery> {
        Ok(serde_json::from_str(json)?)
    }

    /// The query as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a query must be an object, such as {\"from\":{\"col\":\"messages\",\"as\":\"m\"}}"
)]
struct QueryJson {
    from: SourceJson,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    join: Vec<JoinJson>,
    #[serde(default, rename = "where", skip_serializing_if = "Vec::is_empty")]
    filters: Vec<Expr>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    group_by: Vec<Expr>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    having: Vec<Expr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    select: Option<Fields>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    order_by: Vec<OrderJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    #[serde(default, skip_serializing_if = "is_zero")]
    offset: usize,
    #[serde(default, skip_serializing_if = "is_false")]
    distinct: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    synced: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(truth: &bool) -> bool {
    !truth
}

#[derive(Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a source must be an object, such as {\"col\":\"messages\",\"as\":\"m\"}"
)]
struct SourceJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    col: Option<SmolStr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<Box<Query>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    union: Option<Vec<Query>>,
    #[serde(rename = "as")]
    alias: SmolStr,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a join must be an object with type, col, as and on")]
struct JoinJson {
    #[serde(rename = "type")]
    kind: JoinKindJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    col: Option<SmolStr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<Box<Query>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    union: Option<Vec<Query>>,
    #[serde(rename = "as")]
    alias: SmolStr,
    on: Vec<(Expr, Expr)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JoinKindJson {
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an order must be an object with expr and dir")]
struct OrderJson {
    expr: Expr,
    #[serde(default)]
    dir: DirJson,
    #[serde(default)]
    nulls: NullsJson,
    #[serde(default, skip_serializing_if = "is_false")]
    nocase: bool,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DirJson {
    #[default]
    Asc,
    Desc,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NullsJson {
    #[default]
    First,
    Last,
}

/// An expression as it is written: exactly one of its forms.
#[derive(Default, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an expression must be an object with one of ref, val, fn, agg and include"
)]
struct ExprJson {
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    path: Option<Vec<SmolStr>>,
    /// `null` is a value, too.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    val: Option<Value>,
    #[serde(default, rename = "fn", skip_serializing_if = "Option::is_none")]
    function: Option<SmolStr>,
    #[serde(default, rename = "agg", skip_serializing_if = "Option::is_none")]
    aggregate: Option<SmolStr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<Vec<Expr>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    include: Option<Box<Query>>,
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    form: Option<FormJson>,
}

fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FormJson {
    List,
    Text,
    One,
}

/// Named expressions, in the order they are written.
struct Fields(Vec<(SmolStr, Expr)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, expr)| (name, expr)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of named expressions")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Fields, A::Error> {
                let mut fields: Vec<(SmolStr, Expr)> = Vec::new();
                while let Some((name, expr)) = map.next_entry::<SmolStr, Expr>()? {
                    if fields.iter().any(|(own, _)| *own == name) {
                        return Err(A::Error::custom(format!("{name:?} is selected twice")));
                    }
                    fields.push((name, expr));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl<'de> Deserialize<'de> for Query {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = QueryJson::deserialize(deserializer)?;
        let SourceJson { col, query, union, alias } = json.from;
        let joins = json.join.into_iter().map(join).collect::<Result<_, _>>();
        Ok(Self {
            from: source(col, query, union, alias).map_err(D::Error::custom)?,
            joins: joins.map_err(D::Error::custom)?,
            filters: json.filters,
            group_by: json.group_by,
            having: json.having,
            select: json.select.map(|fields| fields.0),
            distinct: json.distinct,
            order_by: json.order_by.into_iter().map(order).collect(),
            limit: json.limit,
            offset: json.offset,
            view: if json.synced { View::Synced } else { View::Visible },
        })
    }
}

fn source(
    col: Option<SmolStr>,
    query: Option<Box<Query>>,
    union: Option<Vec<Query>>,
    alias: SmolStr,
) -> Result<Source, String> {
    let rows = match (col, query, union) {
        (Some(name), None, None) => Rows::Collection(name),
        (None, Some(query), None) => Rows::Query(query),
        (None, None, Some(queries)) => Rows::Union(queries),
        _ => return Err(format!("source {alias:?} needs one of \"col\", \"query\" and \"union\"")),
    };
    Ok(Source { rows, alias })
}

fn join(json: JoinJson) -> Result<Join, String> {
    let kind = match json.kind {
        JoinKindJson::Inner => JoinKind::Inner,
        JoinKindJson::Left => JoinKind::Left,
        JoinKindJson::Right => JoinKind::Right,
        JoinKindJson::Full => JoinKind::Full,
    };
    let source = source(json.col, json.query, json.union, json.alias)?;
    Ok(Join { kind, source, on: json.on })
}

fn order(json: OrderJson) -> Order {
    Order {
        expr: json.expr,
        is_descending: matches!(json.dir, DirJson::Desc),
        is_nulls_last: matches!(json.nulls, NullsJson::Last),
        folds_case: json.nocase,
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        expr(ExprJson::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn expr(json: ExprJson) -> Result<Expr, String> {
    let args = |args: Option<Vec<Expr>>, name: &str| {
        args.ok_or_else(|| format!("{name:?} needs \"args\", a list of expressions"))
    };
    match json {
        ExprJson {
            path: Some(path),
            val: None,
            function: None,
            aggregate: None,
            args: None,
            include: None,
            form: None,
        } => Ok(Expr::Ref(path)),
        ExprJson {
            path: None,
            val: Some(value),
            function: None,
            aggregate: None,
            args: None,
            include: None,
            form: None,
        } => Ok(Expr::Val(value)),
        ExprJson {
            path: None,
            val: None,
            function: Some(name),
            aggregate: None,
            args: list,
            include: None,
            form: None,
        } => args(list, &name).map(|args| Expr::Call(name, args)),
        ExprJson {
            path: None,
            val: None,
            function: None,
            aggregate: Some(name),
            args: list,
            include: None,
            form: None,
        } => args(list, &name).map(|args| Expr::Aggregate(name, args)),
        ExprJson {
            path: None,
            val: None,
            function: None,
            aggregate: None,
            args: None,
            include: Some(query),
            form,
        } => {
            let form = match form {
                None | Some(FormJson::List) => Form::List,
                Some(FormJson::Text) => Form::Text,
                Some(FormJson::One) => Form::One,
            };
            Ok(Expr::Include(Box::new(Include { query: *query, form })))
        }
        _ => Err("an expression is one of {\"ref\"}, {\"val\"}, {\"fn\",\"args\"}, \
                  {\"agg\",\"args\"} and {\"include\"}"
            .into()),
    }
}

impl Serialize for Query {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (col, query, union) = rows_json(&self.from.rows);
        let json = QueryJson {
            from: SourceJson { col, query, union, alias: self.from.alias.clone() },
            join: self.joins.iter().map(join_json).collect(),
            filters: self.filters.clone(),
            group_by: self.group_by.clone(),
            having: self.having.clone(),
            select: self.select.clone().map(Fields),
            order_by: self.order_by.iter().map(order_json).collect(),
            limit: self.limit,
            offset: self.offset,
            distinct: self.distinct,
            synced: self.view == View::Synced,
        };
        json.serialize(serializer)
    }
}

type RowsJson = (Option<SmolStr>, Option<Box<Query>>, Option<Vec<Query>>);

fn rows_json(rows: &Rows) -> RowsJson {
    match rows {
        Rows::Collection(name) => (Some(name.clone()), None, None),
        Rows::Query(query) => (None, Some(query.clone()), None),
        Rows::Union(queries) => (None, None, Some(queries.clone())),
    }
}

fn join_json(join: &Join) -> JoinJson {
    let (col, query, union) = rows_json(&join.source.rows);
    let kind = match join.kind {
        JoinKind::Inner => JoinKindJson::Inner,
        JoinKind::Left => JoinKindJson::Left,
        JoinKind::Right => JoinKindJson::Right,
        JoinKind::Full => JoinKindJson::Full,
    };
    JoinJson { kind, col, query, union, alias: join.source.alias.clone(), on: join.on.clone() }
}

fn order_json(order: &Order) -> OrderJson {
    OrderJson {
        expr: order.expr.clone(),
        dir: if order.is_descending { DirJson::Desc } else { DirJson::Asc },
        nulls: if order.is_nulls_last { NullsJson::Last } else { NullsJson::First },
        nocase: order.folds_case,
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let empty = ExprJson::default();
        let json = match self {
            Self::Ref(path) => ExprJson { path: Some(path.clone()), ..empty },
            Self::Val(value) => ExprJson { val: Some(value.clone()), ..empty },
            Self::Call(name, args) => {
                ExprJson { function: Some(name.clone()), args: Some(args.clone()), ..empty }
            }
            Self::Aggregate(name, args) => {
                ExprJson { aggregate: Some(name.clone()), args: Some(args.clone()), ..empty }
            }
            Self::Include(include) => {
                let form = match include.form {
                    Form::List => FormJson::List,
                    Form::Text => FormJson::Text,
                    Form::One => FormJson::One,
                };
                let query = Some(Box::new(include.query.clone()));
                ExprJson { include: query, form: Some(form), ..empty }
            }
        };
        json.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str) {
        let query = Query::from_json(json).unwrap();
        let again = Query::from_json(&query.to_json()).unwrap();
        assert_eq!(again, query);
    }

    #[test]
    fn every_clause_goes_through_json_and_back() {
        check(
            r#"{"from":{"query":{"from":{"col":"m","as":"m"},"synced":true},"as":"s"},
            "join":[{"type":"full","col":"c","as":"c",
                     "on":[[{"ref":["s","id"]},{"ref":["c","m"]}]]},
                    {"type":"left","union":[{"from":{"col":"m","as":"m"}}],"as":"u","on":[]}],
            "where":[{"fn":"in","args":[{"ref":["s","n"]},{"val":[1,null,"x"]}]},{"val":null}],
            "groupBy":[{"ref":["s","n"]}],
            "having":[{"fn":"gt","args":[{"agg":"count","args":[]},{"val":1}]}],
            "select":{"z":{"ref":["s","n"]},
                      "a":{"include":{"from":{"col":"c","as":"k"}},"as":"text"}},
            "orderBy":[{"expr":{"ref":["s","n"]},"dir":"desc","nulls":"last","nocase":true}],
            "limit":3,"offset":1,"distinct":true}"#,
        );
    }

    #[test]
    fn what_is_no_query_is_told_why() {
        for (json, why) in [
            (r#"{"from":{"as":"m"}}"#, r#"source "m" needs one of"#),
            (r#"{"from":{"col":"m","as":"m"},"where":[{"fn":"eq"}]}"#, r#""eq" needs "args""#),
            (r#"{"from":{"col":"m","as":"m"},"where":[{}]}"#, "an expression is one of"),
            (r#"{"from":{"col":"m","as":"m"},"wehre":[]}"#, "unknown field `wehre`"),
            (r#"{"from":{"col":"m","as":"m"},"select":{"a":{"val":1},"a":{"val":2}}}"#, "twice"),
            (r#"{"from":{"col":"m","as":"m"},"limit":-1}"#, "expected usize"),
        ] {
            let told = Query::from_json(json).unwrap_err().to_string();
            assert!(told.contains(why), "{json}: {told}");
        }
    }
}
