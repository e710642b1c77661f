//! `cargo xtask conformance`: the official suite, engine by engine.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use conformance::{Engine, Harness, Report, Scope};

use crate::{
    args::Args,
    cargo::{cargo, root, succeeds},
    metadata::Metadata,
    tally::{Count, Tally},
    toolbox, web,
};

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let engines = engines_option(&mut args)?;
    let scope = args.option("--filter")?.map_or(Scope::Whole, Scope::Named);
    args.finish()?;
    // Only what the server needs: whoever runs this alone is waiting for it.
    ensure!(succeeds(cargo().args(["build", "--bin", "headwater"]))?, "the server does not build");
    let tally = run_engines(&Metadata::load()?, &engines, &scope);
    Ok(if tally.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `cargo xtask browser`: the page of a session, without the other tests.
pub(crate) fn open_page(args: Args) -> Result<ExitCode> {
    args.finish()?;
    web::build()?;
    ensure!(succeeds(cargo().args(["build", "--bin", "headwater"]))?, "the server does not build");
    let tally = run_page(&Metadata::load()?)?;
    Ok(if tally.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The engines that `--engine` asks for, or all.
pub(crate) fn engines_option(args: &mut Args) -> Result<Vec<Engine>> {
    match args.option("--engine")? {
        Some(name) => Ok(vec![name.parse()?]),
        None => Ok(Engine::ALL.to_vec()),
    }
}

/// Runs the suite on each engine in turn, with the server binary that was built last.
pub(crate) fn run_engines(metadata: &Metadata, engines: &[Engine], scope: &Scope) -> Tally {
    let harness = harness(metadata);
    let mut tally = Tally::default();
    for engine in engines {
        let group = format!("{engine} engine");
        match scope {
            Scope::Interop => println!("{group}: the npm clients at work"),
            _ => println!("{group}: running the official suite"),
        }
        count(&mut tally, &group, harness.run(*engine, scope));
    }
    tally
}

/// Lets our source of shapes and Electric's client read the same server.
pub(crate) fn run_shapes(metadata: &Metadata) -> Tally {
    println!("shapes: Electric's client and our source");
    let mut tally = Tally::default();
    let driver = metadata.target_directory.join("debug/electric-driver");
    count(&mut tally, "shapes", harness(metadata).run_shapes(&driver));
    tally
}

/// Lets the vendors' SDKs and our providers read the same server of model wires.
pub(crate) fn run_models(metadata: &Metadata) -> Tally {
    println!("models: the vendors' SDKs and our providers");
    let mut tally = Tally::default();
    let built = |name: &str| metadata.target_directory.join("debug").join(name);
    let (server, driver) = (built("models-server"), built("models-driver"));
    count(&mut tally, "models", harness(metadata).run_models(&server, &driver));
    tally
}

/// Opens the page of a session in a browser.
pub(crate) fn run_page(metadata: &Metadata) -> Result<Tally> {
    let browser = toolbox::ensure_chromium()?;
    println!("page: a session in {}", browser.display());
    let mut tally = Tally::default();
    let harness = Harness {
        node_dir: web::folder(),
        scratch_dir: metadata.target_directory.clone(),
        ..harness(metadata)
    };
    count(&mut tally, "page", harness.run_page(browser));
    Ok(tally)
}

fn harness(metadata: &Metadata) -> Harness {
    Harness {
        server_binary: metadata.target_directory.join("debug/headwater"),
        node_dir: root().join("tools/conformance/node"),
        scratch_dir: metadata.target_directory.join("conformance"),
    }
}

fn count(tally: &mut Tally, group: &str, outcome: Result<Report>) {
    match outcome {
        Ok(report) => {
            println!("{report}");
            tally.add(group, Count { passed: u64::from(report.passed), failed: 0 });
            report.faults.iter().for_each(|fault| tally.fail(group, &fault.name));
        }
        Err(error) => {
            println!("{group}: {error:#}");
            tally.fail(group, "the suite could not run");
        }
    }
}
