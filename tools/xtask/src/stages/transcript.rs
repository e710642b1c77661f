//! Reading the output of `cargo test`: which crate, how many, which ones failed.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    metadata::Metadata,
    tally::{Count, Tally},
};

/// A reader of one `cargo test` run, line by line.
pub(super) struct Transcript {
    /// Package names by package id.
    packages: BTreeMap<String, String>,
    /// Package names by library name, which is what doc tests are announced by.
    libraries: BTreeMap<String, String>,
    /// Package names by the file name of a test binary.
    binaries: BTreeMap<String, String>,
    running: Option<Running>,
    tally: Tally,
}

/// The test binary whose output is being read.
struct Running {
    package: String,
    binary: String,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Silent,
    Reported,
}

/// What a line is to whoever watches.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// For this program, or one of thousands of tests that passed.
    Noise,
    Worth,
}

impl Line {
    pub(super) fn is_worth_showing(&self) -> bool {
        *self == Self::Worth
    }
}

impl Transcript {
    pub(super) fn new(metadata: &Metadata) -> Self {
        let mut packages = BTreeMap::new();
        let mut libraries = BTreeMap::new();
        for package in metadata.members() {
            packages.insert(package.id.clone(), package.name.clone());
            let own_libraries = package.targets.iter().filter(|target| target.is_library());
            libraries.extend(own_libraries.map(|own| (own.name.clone(), package.name.clone())));
        }
        let binaries = BTreeMap::new();
        Self { packages, libraries, binaries, running: None, tally: Tally::default() }
    }

    pub(super) fn read(&mut self, line: &str) -> Line {
        if let Some(artifact) = parse_artifact(line) {
            self.note_binary(artifact);
            return Line::Noise;
        }
        if let Some(heading) = Heading::parse(line) {
            self.begin(heading);
            return Line::Worth;
        }
        if let Some(count) = parse_result(line) {
            self.count(count);
            return Line::Worth;
        }
        if let Some(test) = parse_failed_test(line) {
            let package = self.running.as_ref().map_or("cargo test", |running| &running.package);
            self.tally.failures.push(format!("{package}: {test}"));
        }
        if is_noise(line) { Line::Noise } else { Line::Worth }
    }

    /// The counts; `success` is what cargo's exit code says.
    pub(super) fn finish(mut self, success: bool) -> Tally {
        self.close();
        if !success && self.tally.all_passed() {
            self.tally.fail("cargo test", "it failed before it could run a test");
        }
        self.tally
    }

    fn note_binary(&mut self, artifact: Artifact) {
        if let (Some(path), Some(package)) =
            (artifact.executable, self.packages.get(&artifact.package_id))
        {
            self.binaries.insert(file_name(&path).to_owned(), package.clone());
        }
    }

    fn begin(&mut self, heading: Heading<'_>) {
        self.close();
        let (owners, binary) = match heading {
            Heading::Binary(path) => (&self.binaries, file_name(path)),
            Heading::DocTests(library) => (&self.libraries, library),
        };
        let package = owners.get(binary).map_or(binary, String::as_str).to_owned();
        self.running = Some(Running { package, binary: binary.to_owned(), state: State::Silent });
    }

    fn count(&mut self, count: Count) {
        let Some(running) = &mut self.running else { return };
        running.state = State::Reported;
        self.tally.add(&running.package, count);
    }

    /// A binary that was started and reported nothing did not survive its tests.
    fn close(&mut self) {
        if let Some(running) = self.running.take()
            && running.state == State::Silent
        {
            let what = format!("{} ended without a result", running.binary);
            self.tally.fail(&running.package, &what);
        }
    }
}

/// What cargo announces before the output of a test binary.
#[derive(Clone, Copy)]
enum Heading<'a> {
    Binary(&'a str),
    DocTests(&'a str),
}

impl<'a> Heading<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim_start();
        if let Some(library) = line.strip_prefix("Doc-tests ") {
            return Some(Self::DocTests(library));
        }
        let (_, path) = line.strip_prefix("Running ")?.rsplit_once('(')?;
        path.strip_suffix(')').map(Self::Binary)
    }
}

/// A message of cargo's; those without an executable say nothing to us.
#[derive(Deserialize)]
struct Artifact {
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    executable: Option<String>,
}

fn parse_artifact(line: &str) -> Option<Artifact> {
    if !line.starts_with("{\"reason\":") {
        return None;
    }
    serde_json::from_str(line).ok()
}

/// Reads `test result: ok. 3 passed; 0 failed; …`.
fn parse_result(line: &str) -> Option<Count> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count_of = |word: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(word))?;
        part.trim().parse().ok()
    };
    Some(Count { passed: count_of("passed")?, failed: count_of("failed")? })
}

/// Reads `test append::keeps_order ... FAILED`.
fn parse_failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

fn is_noise(line: &str) -> bool {
    let passed = line.starts_with("test ") && line.ends_with(" ... ok");
    let header = line.starts_with("running ") && line.ends_with(['s', 't']);
    passed || header || line.is_empty()
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A workspace of one package, `headwater-wire`, whose library is called `wire`.
    fn metadata() -> Metadata {
        let target = json!({ "name": "wire", "kind": ["lib"] });
        let package = json!({ "id": "w", "name": "headwater-wire", "manifest_path": "/r/Cargo.toml",
                              "dependencies": [], "features": {}, "targets": [target] });
        let metadata = json!({ "packages": [package], "workspace_members": ["w"],
                               "target_directory": "/r/target" });
        Metadata::parse(&metadata.to_string()).unwrap()
    }

    const ARTIFACT: &str = "{\"reason\":\"compiler-artifact\",\"package_id\":\"w\",\
                            \"executable\":\"/r/target/debug/deps/caps-1f\"}";

    /// Reads the lines and returns `group passed/failed` for each group, then the failures.
    fn check(lines: &[&str], success: bool, expect: &[&str]) {
        let mut transcript = Transcript::new(&metadata());
        for line in lines {
            let _ = transcript.read(line);
        }
        let tally = transcript.finish(success);
        let groups = tally.groups.iter();
        let groups = groups.map(|(name, c)| format!("{name} {}/{}", c.passed, c.failed));
        let found: Vec<_> = groups.chain(tally.failures.clone()).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn results_go_to_the_crate_of_the_binary() {
        let lines = [
            ARTIFACT,
            "     Running tests/caps.rs (target/debug/deps/caps-1f)",
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "   Doc-tests wire",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        ];
        check(&lines, true, &["headwater-wire 6/0"]);
    }

    #[test]
    fn failures_are_named() {
        let lines = [
            ARTIFACT,
            "     Running unittests src/lib.rs (/elsewhere/deps/caps-1f)",
            "test offset::orders ... FAILED",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        ];
        check(&lines, false, &["headwater-wire 0/1", "headwater-wire: offset::orders"]);
    }

    #[test]
    fn a_binary_that_dies_is_a_failure() {
        let lines = [ARTIFACT, "     Running tests/caps.rs (target/debug/deps/caps-1f)"];
        let expect = ["headwater-wire 0/1", "headwater-wire: caps-1f ended without a result"];
        check(&lines, false, &expect);
    }

    #[test]
    fn a_run_that_does_not_compile_is_a_failure() {
        let expect = ["cargo test 0/1", "cargo test: it failed before it could run a test"];
        check(&["error[E0308]: mismatched types"], false, &expect);
    }

    #[test]
    fn only_telling_lines_are_shown() {
        let mut transcript = Transcript::new(&metadata());
        for noise in [ARTIFACT, "", "running 1 test", "test a::b ... ok", r#"{"reason":"x"}"#] {
            assert_eq!(transcript.read(noise), Line::Noise, "{noise}");
        }
        for worth in ["thread 'a' panicked", "test a::b ... FAILED", "error: no"] {
            assert_eq!(transcript.read(worth), Line::Worth, "{worth}");
        }
    }
}
