//! The build stage: everything compiles without a warning, and the tree keeps its rules.

use anyhow::Result;

use super::Run;
use crate::{
    cargo::{WHOLE_WORKSPACE, build_workspace, cargo, succeeds},
    firewall,
    offence::Offence,
    tally::Tally,
    tidy, toolbox, web,
};

/// What browsers run.
const WASM: &str = "wasm32-unknown-unknown";

/// The name of the one check that later stages cannot do without.
const COMPILE: &str = "compile";

struct Check {
    name: &'static str,
    holds: fn(&Run) -> Result<bool>,
}

/// The cheap ones first: whoever watches learns soonest.
const CHECKS: &[Check] = &[
    Check { name: "format", holds: |_| is_formatted() },
    Check { name: "tidy", holds: |_| Ok(is_clean(&tidy::check()?)) },
    Check { name: "firewall", holds: |run| Ok(is_clean(&firewall::check(&run.metadata))) },
    // Before anything is compiled: the page is part of the binary.
    Check { name: "web", holds: |_| web::build().map(|()| true) },
    Check { name: "clippy", holds: |_| is_free_of_lints() },
    // Clippy and rustdoc share one half of cargo's work, every test shares the other: this one.
    Check { name: COMPILE, holds: |_| build_workspace() },
    Check { name: "docs", holds: |_| is_documented() },
    Check { name: "wasm", holds: |_| is_fit_for_browsers() },
];

pub(super) fn run(run: &Run) -> Result<Tally> {
    let mut tally = Tally::default();
    for check in CHECKS {
        println!("--- {}", check.name);
        match (check.holds)(run) {
            Ok(true) => tally.pass(check.name),
            Ok(false) => tally.fail(check.name, "see above"),
            Err(error) => tally.fail(check.name, &format!("{error:#}")),
        }
    }
    Ok(tally)
}

/// Whether this tally says that there is nothing to run tests with.
pub(super) fn is_hopeless(tally: &Tally) -> bool {
    tally.groups.get(COMPILE).is_some_and(|count| count.failed > 0)
}

fn is_formatted() -> Result<bool> {
    toolbox::ensure_rust_component("rustfmt", "cargo-fmt")?;
    let workspace = succeeds(cargo().args(["fmt", "--all", "--check"]))?;
    let fuzz_manifest = "tools/fuzz/Cargo.toml";
    let fuzz = succeeds(cargo().args(["fmt", "--check", "--manifest-path", fuzz_manifest]))?;
    Ok(workspace && fuzz)
}

fn is_free_of_lints() -> Result<bool> {
    toolbox::ensure_rust_component("clippy", "cargo-clippy")?;
    let mut command = cargo();
    command.args(["clippy", "--all-targets"]).args(WHOLE_WORKSPACE).args(["--", "-Dwarnings"]);
    succeeds(&mut command)
}

fn is_documented() -> Result<bool> {
    let mut command = cargo();
    command.args(["doc", "--no-deps"]).args(WHOLE_WORKSPACE).env("RUSTDOCFLAGS", "-Dwarnings");
    succeeds(&mut command)
}

/// Whether the engine compiles for browsers, on machines that can tell.
fn is_fit_for_browsers() -> Result<bool> {
    if !toolbox::has_rust_target(WASM)? {
        println!("skipped: the target {WASM} is not installed");
        return Ok(true);
    }
    succeeds(cargo().args(["check", "-p", "headwater-query", "--target", WASM]))
}

fn is_clean(offences: &[Offence]) -> bool {
    for offence in offences {
        println!("{offence}");
    }
    offences.is_empty()
}
