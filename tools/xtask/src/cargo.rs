//! Calling cargo in this workspace.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// Every stage builds with these, so that what is linted is what is tested, and a dependency is
/// compiled once and not once for each set of features. All features are here but those that
/// [`ALONE`] names.
pub(crate) const WHOLE_WORKSPACE: [&str; 3] = [
    "--workspace",
    "--features",
    "headwater-log/file,headwater-log/suite,headwater-providers/mcp,headwater-sys/sim",
];

/// Features that change what others are built from: `genai` makes `serde_json` keep the order of
/// keys, and then something else is tested than what users get. Each is tested alone.
pub(crate) const ALONE: [&str; 1] = ["headwater-providers/genai"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    // Asked for at run time first: a compiled path is stale once a clone has moved.
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = manifest_dir.ancestors().nth(2).map(Path::to_owned);
    root.expect("this crate lies two folders below the root")
}

/// Cargo, at the root, with output that a program can read.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo told these to this program, not to the one it starts: build scripts that watch them
    // would run again whenever cargo is called by hand in between.
    let is_ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST");
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_ours) {
            command.env_remove(name);
        }
    }
    // Its bookkeeping costs a quarter of the build, and helps only who builds again.
    command.env("CARGO_INCREMENTAL", "0").env("CARGO_TERM_COLOR", "never");
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a command to its end and lets people see its output; true when it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let program = command.get_program().to_owned();
    let status = command.status();
    Ok(status.with_context(|| format!("cannot start {}", program.display()))?.success())
}

/// Runs a command to its end and returns what it printed.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_owned();
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(output.status.success(), "{} failed: {}", program.display(), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Builds everything a test can need, the server's binary included.
pub(crate) fn build_workspace() -> Result<bool> {
    succeeds(cargo().args(["build", "--all-targets"]).args(WHOLE_WORKSPACE))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metadata::Metadata;

    #[test]
    fn every_feature_is_built_somewhere() {
        let metadata = Metadata::load().unwrap();
        let features = metadata.members().flat_map(|package| {
            let own = package.features.keys().filter(|name| *name != "default");
            own.map(|feature| format!("{}/{feature}", package.name))
        });
        let together = WHOLE_WORKSPACE[2].split(',').map(str::to_owned);
        let built: BTreeSet<_> = together.chain(ALONE.map(str::to_owned)).collect();
        assert_eq!(features.collect::<BTreeSet<_>>(), built);
    }
}
