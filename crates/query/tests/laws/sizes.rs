//! What a query may make of little.

use query::{
    Database, Meta, Query, QueryError, Schema, Semantics, Tick, Value, Write, caps::TEXT_BYTES_MAX,
};

/// One row, `{"id":1,"a":"aaaaaaaaaa"}`.
fn database(semantics: Semantics) -> Database {
    let mut db = Database::with_semantics(semantics);
    let rows = db.collection("rows", Schema::open("id")).unwrap();
    let record = db.record(rows, r#"{"id":1,"a":"aaaaaaaaaa"}"#).unwrap();
    let writes = vec![(rows, Write::Put(record, Meta::default()))];
    db.apply(Tick { writes, retires: vec![] }).unwrap();
    db
}

const COLUMN: &str = r#"{"ref":["r","a"]}"#;
const CONSTANT: &str = r#"{"val":"aaaaaaaaaa"}"#;

/// Each time ten times as long.
fn replaced(inner: &str, times: usize) -> String {
    (0..times).fold(inner.to_owned(), |inner, _| {
        format!(r#"{{"fn":"replace","args":[{inner},{{"val":"a"}},{{"val":"aaaaaaaaaa"}}]}}"#)
    })
}

fn selecting(select: &str) -> Query {
    let json = format!(r#"{{"from":{{"col":"rows","as":"r"}},"select":{{{select}}}}}"#);
    Query::from_json(&json).unwrap()
}

/// What an expression of the row comes to, by all semantics and ways to ask.
#[track_caller]
fn check(select: &str, expected: &Value) {
    for semantics in [Semantics::Sql, Semantics::Tanstack] {
        let mut db = database(semantics);
        let query = selecting(&format!(r#""x":{select}"#));
        let live = db.live(&query).unwrap();
        let found = db.result(live).next().unwrap().record.column(0).into_owned();
        assert!(found == *expected, "{} bytes of {semantics:?}", found.to_string().len());
        assert!(db.once(&query).unwrap()[0].record.column(0).as_ref() == expected);
    }
}

#[test]
fn a_text_that_rows_make_too_long_is_null() {
    check(&replaced(COLUMN, 4), &"a".repeat(100_000).into());
    check(&replaced(COLUMN, 60), &Value::Null);
    // What is made of it goes on with null.
    let long = replaced(COLUMN, 5);
    let four = [long.as_str(); 4].join(",");
    check(&format!(r#"{{"fn":"concat","args":[{four}]}}"#), &"a".repeat(4_000_000).into());
    check(&format!(r#"{{"fn":"concat","args":[{four},{long}]}}"#), &Value::Null);
    let list = format!(r#"{{"fn":"array","args":[{four},{long}]}}"#);
    check(&format!(r#"{{"fn":"length","args":[{list}]}}"#), &Value::Int(5));
    check(&format!(r#"{{"fn":"concat","args":[{list}]}}"#), &Value::Null);
}

#[test]
fn a_list_that_rows_make_too_large_is_null() {
    let long = replaced(COLUMN, 5);
    for (count, expected) in [(30, Value::Int(30)), (60, Value::Null)] {
        let list = format!(r#"{{"fn":"array","args":[{}]}}"#, vec![long.as_str(); count].join(","));
        let get = format!(r#"{{"fn":"get","args":[{list},{{"val":"0"}},{{"val":"none"}}]}}"#);
        let is_null = format!(r#"{{"fn":"isNull","args":[{list}]}}"#);
        let length = format!(r#"{{"fn":"length","args":[{list}]}}"#);
        let select = format!(r#"{{"fn":"caseWhen","args":[{is_null},{get},{length}]}}"#);
        check(&select, &expected);
    }
}

#[test]
fn rows_of_rows_do_not_double_for_ever() {
    for semantics in [Semantics::Sql, Semantics::Tanstack] {
        let mut db = database(semantics);
        let json = (0..30).fold(r#"{"from":{"col":"rows","as":"r"}}"#.to_owned(), |json, _| {
            format!(
                r#"{{"from":{{"query":{json},"as":"r"}},
                "select":{{"x":{{"ref":["r"]}},"y":{{"ref":["r"]}}}}}}"#
            )
        });
        let rows = db.once(&Query::from_json(&json).unwrap()).unwrap();
        assert!(serde_json::to_string(&rows[0].record.column(0)).is_ok());
        let bytes = rows[0].record.column(0).to_string().len();
        assert!(bytes <= 4 * query::caps::VALUE_BYTES_MAX, "{bytes}");
    }
}

#[test]
fn a_text_of_constants_that_is_too_long_refuses_the_query() {
    for semantics in [Semantics::Sql, Semantics::Tanstack] {
        let mut db = database(semantics);
        let short = selecting(&format!(r#""x":{}"#, replaced(CONSTANT, 4)));
        assert_eq!(db.once(&short).unwrap()[0].record.column(0).to_string().len(), 100_002);
        let texts: Vec<_> =
            (0..100).map(|n| format!(r#""x{n}":{}"#, replaced(CONSTANT, 5))).collect();
        for select in [format!(r#""x":{}"#, replaced(CONSTANT, 60)), texts.join(",")] {
            let refused = db.live(&selecting(&select)).unwrap_err();
            assert!(matches!(refused, QueryError::ConstantTooLarge { .. }), "{refused}");
            let told = refused.to_string();
            assert!(told.contains("replace(") && told.len() < 400, "{told}");
            assert!(told.contains(&TEXT_BYTES_MAX.to_string()), "{told}");
        }
    }
}
