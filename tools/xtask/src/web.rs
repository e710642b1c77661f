//! `cargo xtask web`: the page of a session, built into `web/dist`, which the binary takes in.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{
    args::Args,
    cargo::{root, succeeds},
};

/// What the page is made from and is not in its folder.
const SCHEMAS: &str = "docs/rows.schema.json";

/// What in its folder it is not made from.
const PRODUCTS: [&str; 3] = ["node_modules", "dist", "rows.gen.ts"];

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    build()?;
    println!("the page is in {}", folder().join("dist").display());
    Ok(ExitCode::SUCCESS)
}

/// Where the page's sources are.
pub(crate) fn folder() -> PathBuf {
    root().join("web")
}

/// Builds the page, unless it was built from what is there now.
pub(crate) fn build() -> Result<()> {
    let folder = folder();
    conformance::install_packages(&folder)?;
    let stamp_path = folder.join("node_modules/.built-from");
    let stamp = format!("{:016x}", print_of_inputs(&folder)?);
    let is_built = folder.join("dist/index.html").exists();
    if is_built && fs::read_to_string(&stamp_path).is_ok_and(|built| built == stamp) {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args(["run", "--silent", "build"]).current_dir(&folder).stdin(Stdio::null());
    ensure!(succeeds(&mut npm)?, "`npm run build` failed in {}", folder.display());
    fs::write(stamp_path, stamp)?;
    Ok(())
}

/// A number that is another one if any input is.
fn print_of_inputs(folder: &Path) -> Result<u64> {
    let mut paths = vec![root().join(SCHEMAS)];
    collect(folder, &mut paths)?;
    paths.sort();
    let mut hasher = DefaultHasher::new();
    for path in paths {
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        (path, bytes).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if PRODUCTS.iter().any(|product| entry.file_name() == *product) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), paths)?;
        } else {
            paths.push(entry.path());
        }
    }
    Ok(())
}
