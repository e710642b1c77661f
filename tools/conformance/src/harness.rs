//! One run: a fresh server, the suite, the verdict.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    Engine, Fault, Report, Scope,
    server::Server,
    suite::{Suite, Target},
};

/// Makes sure that the packages which the lockfile in `node_dir` pins are installed there.
///
/// # Errors
///
/// When there is no Node, or the packages cannot be had.
pub fn install_packages(node_dir: &Path) -> Result<()> {
    Suite::install(node_dir).map(drop)
}

/// Where everything a run needs is, and where it may write.
#[derive(Debug, Clone)]
pub struct Harness {
    /// The built `headwater` binary.
    pub server_binary: PathBuf,
    /// The folder with the suite's `package.json`.
    pub node_dir: PathBuf,
    /// A folder for the server's data, its log and the suite's results; emptied by every run,
    /// kept after it.
    pub scratch_dir: PathBuf,
}

impl Harness {
    /// Runs `scope` of the suite against a fresh server with `engine`.
    ///
    /// # Errors
    ///
    /// When the run could not take place: no Node, no packages, a server that does not start, a
    /// suite that does not end. Failing tests are no error, they are in the report.
    pub fn run(&self, engine: Engine, scope: &Scope) -> Result<Report> {
        let suite = Suite::install(&self.node_dir)?;
        let dir = self.empty_dir(engine.name())?;
        let results_path = dir.join("results.json");
        let mut server = Server::start(&self.server_binary, &dir, engine)?;
        // The suite runs in a folder of its own.
        let binary = std::path::absolute(&self.server_binary)?;
        let target = Target::Server { url: &server.url(), binary: &binary };
        suite.run(target, scope, &results_path)?;
        let json = fs::read_to_string(&results_path).context("the suite wrote no results")?;
        let mut report = Report::parse(&json, scope)?;
        if !server.is_alive()? {
            let message = server.log_tail();
            report.faults.push(Fault { name: "the server ended during the run".into(), message });
        }
        Ok(report)
    }

    /// Lets Electric's client and our source read what the program `electric-driver` serves.
    ///
    /// # Errors
    ///
    /// When the run could not take place. Failing tests are no error, they are in the report.
    pub fn run_shapes(&self, driver_binary: &Path) -> Result<Report> {
        let suite = Suite::install(&self.node_dir)?;
        let results_path = self.empty_dir("shapes")?.join("results.json");
        let binary = std::path::absolute(driver_binary)?;
        suite.run(Target::Driver { binary: &binary }, &Scope::Shapes, &results_path)?;
        let json = fs::read_to_string(&results_path).context("the tests wrote no results")?;
        Report::parse(&json, &Scope::Shapes)
    }

    /// Lets the vendors' SDKs and our providers, in the program `models-driver`, read what the
    /// program `models-server` serves.
    ///
    /// # Errors
    ///
    /// When the run could not take place. Failing tests are no error, they are in the report.
    pub fn run_models(&self, server_binary: &Path, driver_binary: &Path) -> Result<Report> {
        let suite = Suite::install(&self.node_dir)?;
        let results_path = self.empty_dir("models")?.join("results.json");
        let server = std::path::absolute(server_binary)?;
        let driver = std::path::absolute(driver_binary)?;
        let target = Target::Models { server: &server, driver: &driver };
        suite.run(target, &Scope::Models, &results_path)?;
        let json = fs::read_to_string(&results_path).context("the tests wrote no results")?;
        Report::parse(&json, &Scope::Models)
    }

    /// Opens the page of a session in `browser`, on servers that the tests start and kill. Its
    /// pictures are in `scratch_dir/browser` afterwards.
    ///
    /// # Errors
    ///
    /// When the run could not take place. Failing tests are no error, they are in the report.
    pub fn run_page(&self, browser: &Path) -> Result<Report> {
        let suite = Suite::install(&self.node_dir)?;
        let pictures = self.empty_dir("browser")?;
        let results_path = pictures.join("results.json");
        let server = std::path::absolute(&self.server_binary)?;
        let target = Target::Page { server: &server, browser, pictures: &pictures };
        suite.run(target, &Scope::Page, &results_path)?;
        let json = fs::read_to_string(&results_path).context("the tests wrote no results")?;
        Report::parse(&json, &Scope::Page)
    }

    /// An absolute path, because the suite runs in a folder of its own.
    fn empty_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = std::path::absolute(self.scratch_dir.join(name))?;
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
        }
        fs::create_dir_all(dir.join("data"))
            .with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }
}
