//! The project's own commands: `cargo xtask <command>`.
//!
//! Everything a person or a machine does to check this repository is a command here, so that one
//! clone with Rust and Node is enough. `stages` is the whole test run, `tidy` and `firewall` are
//! rules about the tree, `fuzz` and `conformance` drive outside programs; the rest is plumbing.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program for people at a terminal, on real time and a real disk"
)]

mod args;
mod cargo;
mod conformance_command;
mod differential_command;
mod firewall;
mod fuzz;
mod long_runs;
mod metadata;
mod offence;
mod stages;
mod tally;
mod tidy;
mod toolbox;
mod web;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::args::Args;

struct Command {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(Args) -> Result<ExitCode>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        usage: "[--stage NAME] [--engine NAME]",
        about: "everything, in stages; ends with `N passed, N failed`",
        run: stages::run,
    },
    Command {
        name: "tidy",
        usage: "",
        about: "rules about files: docs, sizes, marks, manifests, decisions",
        run: tidy::run,
    },
    Command { name: "firewall", usage: "", about: "which room may see which", run: firewall::run },
    Command { name: "web", usage: "", about: "the page that the binary serves", run: web::run },
    Command {
        name: "browser",
        usage: "",
        about: "that page in Chromium, on a server that is killed",
        run: conformance_command::open_page,
    },
    Command {
        name: "conformance",
        usage: "[--engine NAME] [--filter PATTERN]",
        about: "the official Durable Streams suite against the server",
        run: conformance_command::run,
    },
    Command {
        name: "differential",
        usage: "[--seeds N] [--steps N] [--seed N]",
        about: "live queries against those of @tanstack/db, on random traces",
        run: differential_command::run,
    },
    Command {
        name: "fuzz",
        usage: "[TARGET] [--seconds N]",
        about: "replay the corpus, then look for new crashes",
        run: fuzz::run,
    },
    Command {
        name: "bench",
        usage: "NAME [ARGS]",
        about: "one benchmark, in release mode",
        run: long_runs::bench,
    },
    Command {
        name: "kill",
        usage: "",
        about: "real processes, killed at every write of every scenario",
        run: long_runs::kill,
    },
    Command {
        name: "soak",
        usage: "[MINUTES] [--seeds N]",
        about: "100,000 seeds of each phase, and fuzzing for MINUTES",
        run: long_runs::soak,
    },
];

fn main() -> ExitCode {
    match dispatch(Args::from_env()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(mut args: Args) -> Result<ExitCode> {
    let Some(name) = args.positional() else {
        print_help();
        return Ok(ExitCode::SUCCESS);
    };
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(args),
        None => bail!("there is no command `{name}`; `cargo xtask` lists them"),
    }
}

fn print_help() {
    println!("cargo xtask COMMAND\n");
    for Command { name, usage, about, .. } in COMMANDS {
        println!("  {:<48}{about}", format!("{name} {usage}"));
    }
}
