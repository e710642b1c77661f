//! Tools that a fresh machine may lack, and getting them.
//!
//! Rust and Node are assumed. What rustup or Debian's package manager can add is added without
//! asking, because the test run must need nobody at the keyboard.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::cargo::{output_of, succeeds};

/// Makes sure that the component with this program exists; rustup's minimal profile lacks a few.
pub(crate) fn ensure_rust_component(component: &str, program: &str) -> Result<()> {
    if starts(program) {
        return Ok(());
    }
    println!("adding {component}");
    let added = succeeds(Command::new("rustup").args(["component", "add", component]))?;
    ensure!(added, "`rustup component add {component}` failed; install {component} by hand");
    Ok(())
}

/// Makes sure there is a C++ compiler, which libFuzzer is built with.
pub(crate) fn ensure_cxx_compiler() -> Result<()> {
    if starts("c++") {
        return Ok(());
    }
    ensure!(
        is_installed("g++")?,
        "no C++ compiler, and apt-get could not install g++; install one by hand"
    );
    Ok(())
}

/// Makes sure there is Debian's browser, and says where.
pub(crate) fn ensure_chromium() -> Result<&'static Path> {
    let chromium = Path::new("/usr/bin/chromium");
    ensure!(
        chromium.exists() || is_installed("chromium")?,
        "no {}, and apt-get could not install chromium; install it by hand",
        chromium.display()
    );
    Ok(chromium)
}

/// The target triple of this machine.
pub(crate) fn host_triple() -> Result<String> {
    let version = output_of(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` names no host")
}

/// Whether Rust can compile for this target here.
pub(crate) fn has_rust_target(target: &str) -> Result<bool> {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", target]);
    Ok(Path::new(output_of(&mut command)?.trim()).is_dir())
}

/// Installs a package of Debian; true when it is there afterwards.
fn is_installed(package: &str) -> Result<bool> {
    println!("installing {package}");
    let apt_get = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        succeeds(command.args(words).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    Ok(apt_get(&["update"])? && apt_get(&["install", "-y", "--no-install-recommends", package])?)
}

fn starts(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
