//! Rules about documents: they name what exists, and read the same on every machine.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{TextFile, Tree};
use crate::{
    offence::Offence,
    stages::{STAGES, Stage},
};

const MAP: &str = "ARCHITECTURE.md";
const GUIDE: &str = "CONTRIBUTING.md";
const DECISIONS: &str = "docs/adr/";
const CRATE_GROUPS: [&str; 2] = ["crates", "tools"];

/// Starts of paths that only exist on somebody's machine. Split, so that no rule finds them here.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// The map names every crate, and every crate it names exists.
pub(super) fn check_map(tree: &Tree) -> Vec<Offence> {
    let Some(map) = tree.file(MAP) else {
        return vec![Offence::of_file(MAP, "write it: the map of this repository")];
    };
    let crates: BTreeSet<&str> =
        CRATE_GROUPS.into_iter().flat_map(|group| tree.crates_in(group)).collect();
    let mentions: BTreeMap<&str, usize> =
        map.lines().flat_map(|(number, line)| mentions(line).map(move |m| (m, number))).collect();
    let unknown = mentions
        .iter()
        .filter(|(mention, _)| !crates.contains(*mention))
        .map(|(mention, line)| Offence::at_line(MAP, *line, format!("{mention} does not exist")));
    let missing = crates
        .iter()
        .filter(|folder| !mentions.contains_key(*folder))
        .map(|folder| Offence::of_file(MAP, format!("say what `{folder}` is")));
    unknown.chain(missing).collect()
}

/// Every `crates/<name>` and `tools/<name>` in a line; placeholders such as `crates/log-<x>` and
/// longer paths such as `web/tools/x` are no mentions.
fn mentions(line: &str) -> impl Iterator<Item = &str> {
    let is_word = |character: char| character.is_alphanumeric() || "-_/.*<>".contains(character);
    line.split(move |character| !is_word(character)).filter_map(|word| {
        let mut parts = word.split('/');
        let (group, name) = (parts.next()?, parts.next()?.trim_end_matches('.'));
        let is_name = !name.is_empty() && !name.contains(['*', '<']);
        let length = group.len() + 1 + name.len();
        (CRATE_GROUPS.contains(&group) && is_name).then(|| &word[..length])
    })
}

/// A decision is `NNNN-title.md`, and its number is never used again.
pub(super) fn check_decisions(tree: &Tree) -> Vec<Offence> {
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    let mut offences = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with(DECISIONS)) {
        let name = &file.path[DECISIONS.len()..];
        let Some(number) = decision_number(name) else {
            offences.push(Offence::of_file(&file.path, "name it NNNN-title.md, in lower case"));
            continue;
        };
        if let Some(earlier) = taken.insert(number, name) {
            let remedy = format!("{number} is the number of {earlier}: take the next free one");
            offences.push(Offence::of_file(&file.path, remedy));
        }
    }
    offences
}

fn decision_number(name: &str) -> Option<&str> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_title_byte =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (is_number && !title.is_empty() && title.bytes().all(is_title_byte)).then_some(number)
}

/// Documents hold no path of the machine they were written on.
pub(super) fn check_paths(tree: &Tree) -> Vec<Offence> {
    let documents = tree.files.iter().filter(|file| file.has_ending("md"));
    let lines =
        documents.flat_map(|file| file.lines().map(move |(number, line)| (file, number, line)));
    lines
        .filter_map(|(file, number, line)| {
            let path = MACHINE_PATHS.iter().find(|path| starts_a_path(line, path))?;
            let remedy =
                format!("`{path}…` is a path of one machine: make it relative to the root");
            Some(Offence::at_line(&file.path, number, remedy))
        })
        .collect()
}

/// Whether `start` stands in `line` where a path begins, and not in the middle of one.
fn starts_a_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|character| character.is_alphanumeric() || "-_./~".contains(character))
    })
}

/// The stages' budgets in the guide are those the test run goes by.
pub(super) fn check_budgets(tree: &Tree) -> Vec<Offence> {
    let Some(guide) = tree.file(GUIDE) else {
        return vec![Offence::of_file(GUIDE, "write it: how to work here")];
    };
    let rows = budget_rows(guide);
    let missing = STAGES.iter().filter(|stage| !rows.contains_key(stage.name)).map(|stage| {
        let remedy = format!("the table of stages lacks `| {} | {} |`", stage.name, stage.minutes);
        Offence::of_file(GUIDE, remedy)
    });
    let wrong = rows.iter().filter_map(|(name, row)| {
        let stage = STAGES.iter().find(|stage| stage.name == *name);
        let remedy = complain_of_row(stage, row.minutes)?;
        Some(Offence::at_line(GUIDE, row.line, remedy))
    });
    missing.chain(wrong).collect()
}

struct BudgetRow {
    line: usize,
    minutes: u64,
}

/// The rows of the guide's table whose second cell is a number, by stage.
fn budget_rows(guide: &TextFile) -> BTreeMap<&str, BudgetRow> {
    let rows = guide.lines().filter_map(|(line, text)| {
        let mut cells = text.strip_prefix('|')?.split('|').map(str::trim);
        let (name, minutes) = (cells.next()?, cells.next()?.parse().ok()?);
        Some((name, BudgetRow { line, minutes }))
    });
    rows.collect()
}

fn complain_of_row(stage: Option<&Stage>, minutes: u64) -> Option<String> {
    match stage {
        None => Some("there is no such stage: remove the row".to_owned()),
        Some(stage) if stage.minutes != minutes => {
            Some(format!("the budget of {} is {} minutes", stage.name, stage.minutes))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tree::sketch::{assert_places, tree},
        *,
    };

    #[test]
    fn the_map_and_the_crates_agree() {
        let check = |map, places: &[&str]| {
            let crates = [("crates/log/Cargo.toml", ""), ("tools/sim/Cargo.toml", "")];
            assert_places(&check_map(&tree(&[&crates[..], &[(MAP, map)]].concat())), places);
        };
        check("`crates/log`, tools/sim.", &[]);
        check("`crates/log/src/lib.rs`\ntools/sim, crates/log-<x>, crates/*\n", &[]);
        check("crates/log", &["ARCHITECTURE.md:1"]);
        check("crates/log\ntools/sim\ncrates/attic\n", &["ARCHITECTURE.md:3"]);
        check("web/tools/x, crates/log, tools/sim", &[]);
        assert_places(&check_map(&tree(&[])), &["ARCHITECTURE.md:1"]);
    }

    #[test]
    fn decisions_have_numbers_of_their_own() {
        let check = |names: &[&str], places: &[&str]| {
            let paths: Vec<_> = names.iter().map(|name| format!("{DECISIONS}{name}")).collect();
            let files: Vec<_> = paths.iter().map(|path| (path.as_str(), "")).collect();
            assert_places(&check_decisions(&tree(&files)), places);
        };
        check(&["0001-one-waist.md", "0002-one-machine.md"], &[]);
        check(&["0001-one-waist.md", "0001-other.md"], &["docs/adr/0001-other.md:1"]);
        check(&["1-one-waist.md"], &["docs/adr/1-one-waist.md:1"]);
        check(&["0001-One.md"], &["docs/adr/0001-One.md:1"]);
        check(&["0001.md"], &["docs/adr/0001.md:1"]);
    }

    #[test]
    fn machine_paths_are_caught_where_a_path_begins() {
        for start in MACHINE_PATHS {
            let text = format!("see src{start}x, ..{start}x\nbut not `{start}x`\n");
            assert_places(&check_paths(&tree(&[("docs/guide.md", &text)])), &["docs/guide.md:2"]);
        }
    }

    #[test]
    fn budgets_agree_with_the_stages() {
        let table =
            |rows: &[String]| format!("| stage | minutes |\n|---|---|\n{}", rows.join("\n"));
        let check = |rows: &[String], places: &[&str]| {
            assert_places(&check_budgets(&tree(&[(GUIDE, &table(rows))])), places);
        };
        let mut rows: Vec<_> =
            STAGES.iter().map(|stage| format!("| {} | {} |", stage.name, stage.minutes)).collect();
        check(&rows, &[]);
        rows[0].push_str(" what it does |");
        check(&rows, &[]);
        rows.push("| party | 9 |".to_owned());
        check(&rows, &[&format!("CONTRIBUTING.md:{}", rows.len() + 2)]);
        rows.pop();
        rows.remove(0);
        check(&rows, &["CONTRIBUTING.md:1"]);
    }
}
