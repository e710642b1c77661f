//! The official suite: the pinned npm packages and one run of them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{child::OwnedChild, server::LONG_POLL_MS};

/// How many tests a whole run has: all of the suite, the six of subscriptions included.
pub const TESTS_EXPECTED: u32 = 338;

/// How many tests of our own the clients that people use are put to.
pub const INTEROP_EXPECTED: u32 = 11;

/// How many tests put our source of shapes beside Electric's own client.
pub const SHAPES_EXPECTED: u32 = 14;

/// How many tests put our providers beside the vendors' SDKs.
pub const MODELS_EXPECTED: u32 = 275;

/// How many tests the page of a session has: those of its parts, and those in a browser.
pub const PAGE_EXPECTED: u32 = 103;

const RUN_TIME_MAX: Duration = Duration::from_secs(300);

/// Which tests of the suite to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All of them, and none may be missing.
    Whole,
    /// Those whose full name matches this pattern.
    Named(String),
    /// Not the suite, but the npm clients at work.
    Interop,
    /// Not our server, but one of shapes, read by Electric's client and by our source.
    Shapes,
    /// Not our server, but one of model wires, read by the vendors' SDKs and by our providers.
    Models,
    /// Not the suite, but the page of a session, in a browser.
    Page,
}

impl Scope {
    /// What the files that its tests stand in are called.
    fn file(&self) -> &'static str {
        match self {
            Self::Whole | Self::Named(_) => "conf.test.mjs",
            Self::Interop => "interop.test.mjs",
            Self::Shapes => "shapes.test.mjs",
            Self::Models => "models.test.mjs",
            Self::Page => ".test.",
        }
    }
}

/// What the tests are about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    /// A server that runs, and the program that it is.
    Server { url: &'a str, binary: &'a Path },
    /// A program that the tests start by themselves.
    Driver { binary: &'a Path },
    /// Two such programs: who speaks the wires of models, and who reads them.
    Models { server: &'a Path, driver: &'a Path },
    /// A server that the tests start and kill, a browser, and where to put pictures.
    Page { server: &'a Path, browser: &'a Path, pictures: &'a Path },
}

/// The folder with the suite's `package.json`, and its `node_modules`.
#[derive(Debug)]
pub(crate) struct Suite<'a> {
    node_dir: &'a Path,
}

impl<'a> Suite<'a> {
    /// Makes sure the pinned packages are installed in `node_dir`.
    pub(crate) fn install(node_dir: &'a Path) -> Result<Self> {
        let suite = Self { node_dir };
        let wanted = fs::read(node_dir.join("package-lock.json"))
            .with_context(|| format!("no package-lock.json in {}", node_dir.display()))?;
        if fs::read(suite.installed_lock()).is_ok_and(|installed| installed == wanted) {
            return Ok(suite);
        }
        let status = Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund"])
            .current_dir(node_dir)
            .stdin(Stdio::null())
            .status()
            .map_err(explain_missing_node)?;
        ensure!(status.success(), "`npm ci` failed in {}", node_dir.display());
        fs::write(suite.installed_lock(), wanted)?;
        Ok(suite)
    }

    /// Runs the suite against `target`; its results are JSON in `results_path` afterwards.
    pub(crate) fn run(&self, target: Target<'_>, scope: &Scope, results_path: &Path) -> Result<()> {
        let mut command = Command::new("node");
        command
            .args(["node_modules/vitest/vitest.mjs", "run", scope.file(), "--reporter=json"])
            .arg(format!("--outputFile={}", results_path.display()))
            .current_dir(self.node_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        match target {
            Target::Server { url, binary } => command
                .env("CONFORMANCE_URL", url)
                .env("CONFORMANCE_BINARY", binary)
                .env("CONFORMANCE_LONG_POLL_MS", LONG_POLL_MS.to_string())
                .env("CONFORMANCE_SUBSCRIPTIONS", "true"),
            Target::Driver { binary } => command.env("CONFORMANCE_ELECTRIC_DRIVER", binary),
            Target::Models { server, driver } => command
                .env("CONFORMANCE_MODELS_SERVER", server)
                .env("CONFORMANCE_MODELS_DRIVER", driver),
            Target::Page { server, browser, pictures } => command
                .env("HEADWATER_BINARY", server)
                .env("CHROMIUM", browser)
                .env("BROWSER_ARTIFACTS", pictures),
        };
        if let Scope::Named(pattern) = scope {
            command.args(["--testNamePattern", pattern]);
        }
        // The exit code repeats what the results say, so only a missing end matters.
        match OwnedChild::spawn(&mut command)?.wait(RUN_TIME_MAX)? {
            Some(_) => Ok(()),
            None => bail!("the suite was still running after {RUN_TIME_MAX:?}"),
        }
    }

    /// A copy of the lockfile that `node_modules` was installed from.
    fn installed_lock(&self) -> PathBuf {
        self.node_dir.join("node_modules/.installed-package-lock.json")
    }
}

fn explain_missing_node(error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context("cannot start `npm`; install Node 20 or newer")
}
