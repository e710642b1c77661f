//! `cargo xtask fuzz`: the targets of `tools/fuzz`, on stable Rust, with nothing installed.
//!
//! libFuzzer only needs coverage counters in the crates it looks at, and the compiler can be told
//! to add them with plain code generation flags. Each target first replays its committed corpus,
//! which is a regression test, and then hunts for a while; what it learns goes to a scratch folder
//! so that the committed corpus only grows on purpose.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus},
    thread,
};

use anyhow::{Context, Result, ensure};

use crate::{
    args::{Args, parse},
    cargo::{cargo, root, succeeds},
    metadata::Metadata,
    tally::Tally,
    toolbox,
};

const SECONDS_BY_DEFAULT: u64 = 60;
const LOG_LINES_SHOWN: usize = 40;

const COVERAGE_FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
];

/// What libFuzzer prints when the flags above did their work.
const COVERAGE_SIGN: &str = "inline 8-bit counters";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let seconds = match args.option("--seconds")? {
        Some(word) => parse(&word, "a number of seconds")?,
        None => SECONDS_BY_DEFAULT,
    };
    let mut targets = targets()?;
    if let Some(name) = args.positional() {
        ensure!(targets.contains(&name), "no target `{name}`; there are: {}", targets.join(", "));
        targets = vec![name];
    }
    args.finish()?;
    let tally = hunt(&targets, seconds)?;
    Ok(if tally.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The names of all targets: the binaries of `tools/fuzz`.
pub(crate) fn targets() -> Result<Vec<String>> {
    let metadata = Metadata::load_members(&manifest())?;
    let targets = metadata.packages.into_iter().flat_map(|package| package.targets);
    Ok(targets.filter(|target| target.is("bin")).map(|target| target.name).collect())
}

/// How many targets run at a time.
pub(crate) fn parallelism() -> u64 {
    thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

/// Replays the corpus of each target and hunts for `seconds`, a few targets at a time.
pub(crate) fn hunt(targets: &[String], seconds: u64) -> Result<Tally> {
    toolbox::ensure_cxx_compiler()?;
    let workshop = Workshop::open()?;
    workshop.build(targets)?;
    let mut tally = Tally::default();
    let mut sound = Vec::new();
    for target in targets {
        match workshop.replay(target)? {
            Verdict::Sound => sound.push(target),
            Verdict::Broken => tally.fail(target, "an input of the corpus breaks it"),
        }
    }
    for batch in sound.chunks(usize::try_from(parallelism())?) {
        println!("fuzzing for {seconds} s: {}", names(batch));
        let hunts = batch.iter().map(|target| workshop.start_hunt(target, seconds));
        for mut hunt in hunts.collect::<Result<Vec<_>>>()? {
            match hunt.finish()? {
                Verdict::Sound => tally.pass(&hunt.target),
                Verdict::Broken => tally.fail(&hunt.target, "a new input breaks it"),
            }
        }
    }
    Ok(tally)
}

/// The folders that fuzzing works in.
struct Workshop {
    binaries: PathBuf,
    artifacts: PathBuf,
    target_dir: PathBuf,
    host: String,
}

enum Verdict {
    Sound,
    Broken,
}

/// A target at work, writing to its log.
struct Hunt {
    target: String,
    child: Child,
    log: PathBuf,
}

impl Workshop {
    fn open() -> Result<Self> {
        let build_dir = Metadata::load_members(&root().join("Cargo.toml"))?.target_directory;
        let host = toolbox::host_triple()?;
        let target_dir = build_dir.join("fuzz");
        let binaries = target_dir.join(&host).join("release");
        Ok(Self { binaries, artifacts: build_dir.join("fuzz-artifacts"), target_dir, host })
    }

    fn build(&self, targets: &[String]) -> Result<()> {
        let mut command = cargo();
        // Naming the target keeps the flags away from build scripts and macros.
        command
            .args(["build", "--release", "--target", &self.host, "--manifest-path"])
            .arg(manifest())
            .arg("--target-dir")
            .arg(&self.target_dir)
            .args(targets.iter().flat_map(|target| ["--bin", target]))
            .env("CARGO_ENCODED_RUSTFLAGS", COVERAGE_FLAGS.join("\x1f"));
        ensure!(succeeds(&mut command)?, "the fuzz targets do not build");
        Ok(())
    }

    /// Runs the committed inputs once each.
    fn replay(&self, target: &str) -> Result<Verdict> {
        let mut command = self.command(target)?;
        command.arg("-runs=0").arg(corpus(target));
        let mut replay = self.start(target, command)?;
        let verdict = replay.finish()?;
        let log = fs::read_to_string(&replay.log)?;
        ensure!(log.contains(COVERAGE_SIGN), "{target} was built without coverage counters");
        Ok(verdict)
    }

    /// Starts a search for new inputs; libFuzzer itself keeps to the time.
    fn start_hunt(&self, target: &str, seconds: u64) -> Result<Hunt> {
        let finds = self.artifacts.join(target).join("finds");
        fs::create_dir_all(&finds)?;
        let mut command = self.command(target)?;
        command
            // To libFuzzer, no seconds mean no end.
            .arg(format!("-max_total_time={}", seconds.max(1)))
            .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
            // The first folder is written to, the others are only read.
            .args([finds, corpus(target)]);
        self.start(target, command)
    }

    fn command(&self, target: &str) -> Result<Command> {
        let artifacts = self.artifacts.join(target);
        fs::create_dir_all(&artifacts)?;
        fs::create_dir_all(corpus(target))?;
        let mut command = Command::new(self.binaries.join(target));
        command
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            // A backtrace would push the message out of the lines that are shown.
            .env("RUST_BACKTRACE", "0")
            .current_dir(root());
        Ok(command)
    }

    fn start(&self, target: &str, mut command: Command) -> Result<Hunt> {
        let log = self.artifacts.join(target).join("log");
        let file = fs::File::create(&log)?;
        let child = command.stdout(file.try_clone()?).stderr(file).spawn();
        let child = child.with_context(|| format!("cannot start the fuzz target {target}"))?;
        Ok(Hunt { target: target.to_owned(), child, log })
    }
}

impl Hunt {
    /// Waits for the end and shows people what they need to know.
    fn finish(&mut self) -> Result<Verdict> {
        let status = self.child.wait()?;
        let log = fs::read(&self.log)?;
        self.show(status, &String::from_utf8_lossy(&log));
        Ok(if status.success() { Verdict::Sound } else { Verdict::Broken })
    }

    fn show(&self, status: ExitStatus, log: &str) {
        let lines: Vec<_> = log.lines().collect();
        if status.success() {
            let summary = lines.iter().rfind(|line| line.starts_with("Done "));
            println!("  {}: {}", self.target, summary.unwrap_or(&"done"));
            return;
        }
        println!("  {}: FAILED ({status}), the end of {}:", self.target, self.log.display());
        for line in &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..] {
            println!("    {line}");
        }
        if let Some(input) = crashing_input(log) {
            println!("  the input is kept in {input}");
        }
    }
}

/// The file that libFuzzer says it wrote the offending input to.
fn crashing_input(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path)
}

fn names(targets: &[&String]) -> String {
    let names: Vec<_> = targets.iter().map(|target| target.as_str()).collect();
    names.join(", ")
}

fn manifest() -> PathBuf {
    root().join("tools/fuzz/Cargo.toml")
}

fn corpus(target: &str) -> PathBuf {
    root().join(Path::new("tools/fuzz/corpus")).join(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crashing_input_is_read_from_the_log() {
        let log = "==7== ERROR: libFuzzer: deadly signal\n\
                   artifact_prefix='target/'; Test unit written to target/crash-a5\nBase64: Mg==\n";
        assert_eq!(crashing_input(log), Some("target/crash-a5"));
        assert_eq!(crashing_input("Done 3 runs in 0 second(s)\n"), None);
    }
}
