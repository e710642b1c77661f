//! No query that comes as JSON makes the engine panic, and one that is kept up to date shows what
//! it shows when it is asked anew, also under a name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use query::{Database, Query, Schema, Tick, Write};

/// More rows only make joins larger.
const ROWS_MAX: usize = 8;

fuzz_target!(|input: &str| {
    let mut lines = input.lines();
    let Some(Ok(query)) = lines.next().map(Query::from_json) else { return };
    let again = Query::from_json(&query.to_json()).expect("what was written can be read");
    assert_eq!(again.to_json(), query.to_json());
    let mut db = Database::new();
    let collections = ["a", "b"].map(|name| db.collection(name, Schema::open("id")).ok());
    let Ok(live) = db.live(&query) else { return };
    // Under a name it has the same rows; it may be too deep for that.
    let by_name = Query::from_json(r#"{"from":{"col":"named","as":"n"}}"#).expect("it is a query");
    let named = db.define("named", &query).and_then(|()| db.live(&by_name));
    for (number, row) in lines.take(ROWS_MAX).enumerate() {
        let Some(collection) = collections[number % 2] else { return };
        let Ok(record) = db.record(collection, row) else { continue };
        let writes = vec![(collection, Write::Put(record, Default::default()))];
        let _ = db.apply(Tick { writes, retires: Vec::new() });
    }
    let anew = db.once(&query).expect("it ran before");
    assert!(db.result(live).eq(&anew), "{}", query.to_json());
    if let Ok(named) = named {
        assert_eq!(db.result_len(named), anew.len(), "{}", query.to_json());
    }
});
