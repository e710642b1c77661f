//! A rule about manifests: versions stand in one place, the root.

use super::tree::{TextFile, Tree};
use crate::offence::Offence;

pub(super) fn check(tree: &Tree) -> Vec<Offence> {
    let folders = ["crates", "tools"].into_iter().flat_map(|group| tree.crates_in(group));
    let manifests = folders.filter_map(|folder| tree.file(&format!("{folder}/Cargo.toml")));
    manifests.filter(|manifest| !is_own_workspace(manifest)).flat_map(check_manifest).collect()
}

/// A workspace of its own cannot inherit from the root.
fn is_own_workspace(manifest: &TextFile) -> bool {
    manifest.text.lines().any(|line| line.trim() == "[workspace]")
}

fn check_manifest(manifest: &TextFile) -> Vec<Offence> {
    let strays = dependencies(&manifest.text).into_iter().filter(|one| !one.is_inherited());
    let complain = |one: Declaration| {
        let remedy = format!(
            "move {} to [workspace.dependencies] and write `{}.workspace = true`",
            one.name, one.name
        );
        Offence::at_line(&manifest.path, one.line, remedy)
    };
    strays.map(complain).collect()
}

/// One dependency and everything its manifest says about it.
struct Declaration {
    name: String,
    line: usize,
    settings: String,
}

impl Declaration {
    fn is_inherited(&self) -> bool {
        let settings: String = self.settings.split_whitespace().collect();
        settings.contains("workspace=true") || settings.contains("path=")
    }
}

/// What the current table of a manifest is about.
enum Table {
    Other,
    /// `[dependencies]` and its relatives: one key for each dependency.
    Dependencies,
    /// `[dependencies.name]`: one key for each setting.
    Dependency,
}

/// Reads the declarations of a manifest. Manifests are plain enough to be read line by line, and
/// lines are what an offence needs.
fn dependencies(manifest: &str) -> Vec<Declaration> {
    let mut found: Vec<Declaration> = Vec::new();
    let mut table = Table::Other;
    let mut open_brackets = 0;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let is_continued = open_brackets > 0;
        if !is_continued && line.starts_with('[') {
            let (kind, name) = classify(line);
            table = kind;
            found.extend(name.map(|name| Declaration::new(&name, index, "")));
            continue;
        }
        open_brackets += depth(line);
        match table {
            Table::Other => {}
            Table::Dependencies if !is_continued && line.contains('=') => {
                let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
                found.push(Declaration::new(name, index, line));
            }
            Table::Dependencies | Table::Dependency => {
                if let Some(last) = found.last_mut() {
                    last.settings.push_str(line);
                }
            }
        }
    }
    found
}

impl Declaration {
    fn new(name: &str, index: usize, settings: &str) -> Self {
        let name = name.trim_matches('"').to_owned();
        Self { name, line: index + 1, settings: settings.to_owned() }
    }
}

/// What a table header such as `[target.'cfg(unix)'.dev-dependencies.rustix]` announces.
fn classify(header: &str) -> (Table, Option<String>) {
    let header = header.trim_matches(['[', ']']);
    let tail = match header.rfind("dependencies") {
        Some(at) => &header[at + "dependencies".len()..],
        None => return (Table::Other, None),
    };
    match tail.strip_prefix('.') {
        Some(name) => (Table::Dependency, Some(name.to_owned())),
        None if tail.is_empty() => (Table::Dependencies, None),
        None => (Table::Other, None),
    }
}

/// How many more brackets a line opens than it closes.
fn depth(line: &str) -> i32 {
    line.chars().fold(0, |depth, character| match character {
        '[' | '{' => depth + 1,
        ']' | '}' => depth - 1,
        _ => depth,
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::tree::sketch::{assert_places, tree},
        *,
    };

    fn check_text(text: &str, lines: &[u32]) {
        let places: Vec<_> = lines.iter().map(|n| format!("crates/log/Cargo.toml:{n}")).collect();
        let places: Vec<_> = places.iter().map(String::as_str).collect();
        assert_places(&check(&tree(&[("crates/log/Cargo.toml", text)])), &places);
    }

    #[test]
    fn inherited_and_local_dependencies_pass() {
        check_text("[dependencies]\nbytes.workspace = true\n", &[]);
        check_text("[dependencies]\nserde = { workspace = true, features = [\"rc\"] }\n", &[]);
        check_text("[dev-dependencies]\nsim = { path = \"../sim\" }\n", &[]);
        check_text("[dependencies]\nserde = { workspace = true, features = [\n\"rc\",\n] }\n", &[]);
        check_text("[dependencies.serde]\nworkspace = true\n", &[]);
        check_text("[package]\nversion = \"1\"\n[features]\ndefault = []\n", &[]);
    }

    #[test]
    fn versions_are_caught_wherever_they_stand() {
        check_text("[dependencies]\nbytes = \"1\"\nhttp.version = \"1\"\n", &[2, 3]);
        check_text("[build-dependencies]\ncc = { version = \"1\", features = [\n\"a\" ] }\n", &[2]);
        check_text("[target.'cfg(unix)'.dependencies]\nrustix = \"1\"\n", &[2]);
        check_text("[dependencies.serde]\nversion = \"1\"\n", &[1]);
    }

    #[test]
    fn a_workspace_of_its_own_is_left_alone() {
        check_text("[workspace]\n[dependencies]\nserde_json = \"1\"\n", &[]);
    }
}
