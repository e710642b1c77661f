//! No query that comes as JSON makes the engine panic, and one that is kept up to date shows what
//! it shows when it is asked anew.

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
    for (number, row) in lines.take(ROWS_MAX).enumerate() {
        let Some(collection) = collections[number % 2] else { return };
        let Ok(record) = db.record(collection, row) else { continue };
        let writes = vec![(collection, Write::Put(record, Default::default()))];
        let _ = db.apply(Tick { writes, retires: Vec::new() });
    }
    let anew = db.once(&query).expect("it ran before");
    assert!(db.result(live).eq(&anew), "{}", query.to_json());
});
