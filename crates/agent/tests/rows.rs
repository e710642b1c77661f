//! The rows of a session, as others see them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "the files of the project are real")]

use std::{fs, path::Path};

/// Set to write the file instead of comparing with it.
const BLESS: &str = "HEADWATER_BLESS";

#[test]
fn the_schemas_in_the_docs_are_those_of_the_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rows.schema.json");
    let now = format!("{}\n", serde_json::to_string_pretty(&agent::rows::schemas()).unwrap());
    if std::env::var_os(BLESS).is_some() {
        fs::write(&path, &now).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == now, "run `{BLESS}=1 cargo test -p headwater-agent --test rows`");
}

#[test]
fn the_readme_shows_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let example = read("examples/durable_agent.rs");
    let code = &example[example.find("use std::").unwrap()..];
    assert!(read("README.md").contains(code), "README.md shows another example");
}
