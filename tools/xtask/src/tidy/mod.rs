//! `cargo xtask tidy`: rules about files that no compiler checks.
//!
//! Every rule is a pure function from a [`Tree`] to its offences; all of them run, and all
//! offences are shown at once.

mod documents;
mod manifests;
mod sources;
mod tree;

use std::process::ExitCode;

use anyhow::Result;

use self::tree::Tree;
use crate::{
    args::Args,
    cargo::root,
    offence::{self, Offence},
};

const RULES: &[fn(&Tree) -> Vec<Offence>] = &[
    sources::check,
    manifests::check,
    documents::check_map,
    documents::check_decisions,
    documents::check_paths,
    documents::check_budgets,
];

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    Ok(offence::print_all("tidy", &check()?))
}

/// Everything untidy in this repository.
pub(crate) fn check() -> Result<Vec<Offence>> {
    let tree = Tree::load(&root())?;
    Ok(RULES.iter().flat_map(|rule| rule(&tree)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_is_tidy() {
        let offences = check().unwrap();
        let lines: Vec<_> = offences.iter().map(ToString::to_string).collect();
        assert!(offences.is_empty(), "\n{}", lines.join("\n"));
    }
}
