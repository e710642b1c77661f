//! Puts the page of `headwater dev` into the program: every file below `web/dist`.
//!
//! If the page was not built, or from other sources, npm builds it. Without npm, and without a
//! network, the program is built all the same, and says how to build the page.
#![allow(
    clippy::disallowed_methods,
    reason = "a build script is the one place where there is no sys to go through"
)]

use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

/// What the page is made from, beside the schemas of the rows.
const SOURCES: [&str; 7] = [
    "src",
    "public",
    "scripts",
    "index.html",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.mjs",
];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let (web, schemas) = (root.join("web"), root.join("docs/rows.schema.json"));
    let dist = web.join("dist");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", dist.display());
    let sources: Vec<_> = SOURCES.iter().map(|name| web.join(name)).chain([schemas]).collect();
    for source in &sources {
        println!("cargo::rerun-if-changed={}", source.display());
    }
    let built = fs::metadata(dist.join("index.html")).and_then(|page| page.modified());
    let is_fresh = built.is_ok_and(|built| sources.iter().all(|it| newest(it) <= built));
    if !is_fresh && let Err(why) = build(&web) {
        println!("cargo::warning=the page of `headwater dev` was not built: {why}");
    }
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

/// When a file, or anything below a directory, was last written.
fn newest(path: &Path) -> SystemTime {
    let written = fs::metadata(path).and_then(|file| file.modified());
    let written = written.unwrap_or(SystemTime::UNIX_EPOCH);
    let Ok(entries) = fs::read_dir(path) else { return written };
    let below = entries.filter_map(Result::ok);
    // What is generated anew with each build is no source.
    let below = below.filter(|entry| !entry.file_name().to_string_lossy().contains(".gen."));
    below.map(|entry| newest(&entry.path())).max().unwrap_or(written)
}

/// Builds the page with npm.
fn build(web: &Path) -> Result<(), String> {
    for words in [["ci", "--silent"].as_slice(), &["run", "--silent", "build"]] {
        // What npm has installed it writes down at the end.
        let installed = newest(&web.join("node_modules/.package-lock.json"));
        if words[0] == "ci" && installed >= newest(&web.join("package-lock.json")) {
            continue;
        }
        let mut npm = Command::new("npm");
        npm.args(words).current_dir(web).stdin(Stdio::null()).stdout(Stdio::null());
        let output = npm.stderr(Stdio::piped()).output();
        let output = output.map_err(|error| format!("npm cannot be started: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.lines().map(str::trim).find(|line| !line.is_empty());
            return Err(format!("`npm {}` failed: {}", words.join(" "), why.unwrap_or("")));
        }
    }
    Ok(())
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
