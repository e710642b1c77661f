//! Rules about Rust files: a doc at the top, a bounded size, nothing left unfinished.

use super::tree::{TextFile, Tree};
use crate::offence::Offence;

const FILE_LINES_MAX: usize = 600;
const LIB_LINES_MAX: usize = 150;
const LINE_COLUMNS_MAX: usize = 100;

/// Words that promise work instead of doing it. Split, so that this file does not hold them.
const MARKED_WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Code that compiles and then is not there.
const MARKED_CODE: [&str; 3] =
    [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("#[ig", "nore")];

pub(super) fn check(tree: &Tree) -> Vec<Offence> {
    let is_ours = |file: &&TextFile| {
        file.has_ending("rs") && ["crates/", "tools/"].iter().any(|dir| file.path.starts_with(dir))
    };
    tree.files.iter().filter(is_ours).flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Offence> {
    let mut offences = Vec::new();
    if !file.text.starts_with("//!") {
        let remedy = "start the file with a `//!` line that says what it is for";
        offences.push(Offence::of_file(&file.path, remedy));
    }
    offences.extend(check_size(file));
    for (number, line) in file.lines() {
        let remedies = [check_width(line), check_marks(line)];
        let at_line = |remedy| Offence::at_line(&file.path, number, remedy);
        offences.extend(remedies.into_iter().flatten().map(at_line));
    }
    offences
}

fn check_size(file: &TextFile) -> Option<Offence> {
    let lines_max = if file.path.ends_with("/src/lib.rs") { LIB_LINES_MAX } else { FILE_LINES_MAX };
    let lines = code_lines(file);
    (lines > lines_max).then(|| {
        let remedy = format!("{lines} lines of code, at most {lines_max}: split the file by noun");
        Offence::at_line(&file.path, lines_max + 1, remedy)
    })
}

/// Lines that are not tests: tests are read one at a time, so a file may have many.
fn code_lines(file: &TextFile) -> usize {
    if file.path.contains("/tests/") || file.path.ends_with("/tests.rs") {
        return 0;
    }
    file.text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count()
}

fn check_width(line: &str) -> Option<String> {
    let columns = line.chars().count();
    // A link cannot be broken.
    let is_too_wide = columns > LINE_COLUMNS_MAX && !line.contains("://");
    is_too_wide.then(|| format!("{columns} columns, at most {LINE_COLUMNS_MAX}: break the line"))
}

fn check_marks(line: &str) -> Option<String> {
    let word = MARKED_WORDS.iter().find(|mark| has_word(line, mark));
    let mark = word.or_else(|| MARKED_CODE.iter().find(|mark| line.contains(**mark)));
    mark.map(|mark| format!("`{mark}` is unfinished work: finish it or open an issue"))
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.split(|character| !is_part(character)).any(|own| own == word)
}

#[cfg(test)]
mod tests {
    use super::{
        super::tree::sketch::{assert_places, tree},
        *,
    };

    const PATH: &str = "crates/log/src/record.rs";

    fn check_text(path: &str, text: &str, places: &[&str]) {
        assert_places(&check(&tree(&[(path, text)])), places);
    }

    #[test]
    fn a_file_starts_with_its_doc() {
        check_text(PATH, "//! Records.\n", &[]);
        check_text(PATH, "use std::fmt;\n", &["crates/log/src/record.rs:1"]);
        check_text("docs/snippet.rs", "use std::fmt;\n", &[]);
    }

    #[test]
    fn size_is_counted_without_tests() {
        let code = |lines: usize| format!("//! Doc.\n{}", "//\n".repeat(lines - 1));
        check_text(PATH, &code(600), &[]);
        check_text(PATH, &code(601), &["crates/log/src/record.rs:601"]);
        check_text(PATH, &format!("{}#[cfg(test)]\n{}", code(600), code(9)), &[]);
        check_text("crates/log/src/lib.rs", &code(151), &["crates/log/src/lib.rs:151"]);
        check_text("crates/log/tests/crash.rs", &code(900), &[]);
    }

    #[test]
    fn long_lines_are_caught_unless_they_are_links() {
        let line = |filling: &str| format!("//! Doc.\n// {filling}\n");
        check_text(PATH, &line(&"é".repeat(97)), &[]);
        check_text(PATH, &line(&"é".repeat(98)), &["crates/log/src/record.rs:2"]);
        check_text(PATH, &line(&format!("https://{}", "a".repeat(98))), &[]);
    }

    #[test]
    fn marks_are_caught_as_words() {
        for mark in MARKED_WORDS.iter().chain(&MARKED_CODE) {
            let text = format!("//! Doc.\n    {mark} later\n");
            check_text(PATH, &text, &["crates/log/src/record.rs:2"]);
        }
        check_text(PATH, &format!("//! Doc.\nconst {}_LIST: u8 = 0;\n", MARKED_WORDS[0]), &[]);
    }
}
