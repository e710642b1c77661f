//! Puts the page of `headwater dev` into the program, if it was built: every file below `web/dist`.
//! It runs nothing. Without a page the program says how to build it.
#![allow(
    clippy::disallowed_methods,
    reason = "a build script is the one place where there is no sys to go through"
)]

use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::{Path, PathBuf},
};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let dist = root.join("../../web/dist");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        gather(&dist.canonicalize()?, "", &mut files)?;
    }
    files.sort();
    let mut table = String::from("&[\n");
    for (name, path) in files {
        let mut hasher = DefaultHasher::new();
        fs::read(&path)?.hash(&mut hasher);
        let tag = format!("\"{:016x}\"", hasher.finish());
        let row = format!(
            "    File {{ name: {name:?}, tag: {tag:?}, bytes: include_bytes!({:?}) }},\n",
            path.display().to_string(),
        );
        table.push_str(&row);
    }
    table.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("page.rs"), table)
}

/// All files below a directory, by the names they are served under.
fn gather(dir: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            gather(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.push((name, entry.path()));
        }
    }
    Ok(())
}
