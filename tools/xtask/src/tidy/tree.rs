//! The repository's text files, in memory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Folders that hold nothing people wrote.
const SKIPPED_FOLDERS: [&str; 4] = [".git", ".headwater", "node_modules", "target"];

/// Endings of the files that some rule reads.
const READ_ENDINGS: [&str; 3] = ["md", "rs", "toml"];

/// All files that rules are about, sorted by path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<TextFile>,
}

#[derive(Debug)]
pub(super) struct TextFile {
    /// Relative to the root, with `/` between folders.
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            tree.load_folder(root, &folder, &mut folders)?;
        }
        tree.files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(tree)
    }

    /// The file at exactly this path.
    pub(super) fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The folders directly in `group` that are crates, for instance `crates/wire`.
    pub(super) fn crates_in(&self, group: &str) -> impl Iterator<Item = &str> {
        self.files.iter().filter_map(move |file| {
            let folder = file.path.strip_suffix("/Cargo.toml")?;
            let name = folder.strip_prefix(group)?.strip_prefix('/')?;
            (!name.contains('/')).then_some(folder)
        })
    }

    fn load_folder(
        &mut self,
        root: &Path,
        folder: &Path,
        folders: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            if entry.file_type()?.is_dir() {
                if !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|own| READ_ENDINGS.iter().any(|e| own == *e)) {
                let text = fs::read_to_string(&path);
                let text = text.with_context(|| path.display().to_string())?;
                self.files.push(TextFile { path: relative(root, &path), text });
            }
        }
        Ok(())
    }
}

impl TextFile {
    /// Lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub(super) fn has_ending(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == ending)
    }
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    let folders: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    folders.join("/")
}

#[cfg(test)]
pub(super) mod sketch {
    //! Made-up trees for the tests of the rules.

    use super::*;
    use crate::offence::Offence;

    /// A tree of the given paths and texts.
    pub(in crate::tidy) fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files
            .iter()
            .map(|(path, text)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() });
        Tree { files: files.collect() }
    }

    /// Asserts where a rule finds offences.
    pub(in crate::tidy) fn assert_places(offences: &[Offence], places: &[&str]) {
        let found: Vec<_> = offences.iter().map(|offence| offence.place.as_str()).collect();
        assert_eq!(found, places, "{offences:#?}");
    }
}
