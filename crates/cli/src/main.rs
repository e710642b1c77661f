//! The `headwater` program: serves streams, and lets people and scripts work with them.
//!
//! This is the composition root: the one place that decides on an engine, reads flags, environment
//! and files, and talks to a terminal. Everything else it leaves to the libraries below it.
//!
//! In reading order: `args` is what can be asked; `config` is what a server goes by and where each
//! value came from; `serve` and `dev` run a server; `session` is who answers in sessions; `chat`
//! talks in one, and `inspect` tells what happened there; `stream` works with streams in a
//! directory or on a server; `ask` asks a model; `keys` and `doctor` look after a directory.
//! `failure` and `output` are what people see.

mod args;
mod ask;
mod backup;
mod chat;
mod config;
mod crash_hook;
mod dev;
mod doctor;
mod failure;
mod inspect;
mod keys;
mod output;
mod serve;
mod session;
mod stream;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Args, Command},
    failure::Failure,
};

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure);
            failure.exit_code()
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Dev(flags) => dev::run(flags),
        Command::Serve(flags) => serve::run(flags),
        Command::Ask(args) => ask::run(args),
        Command::Chat(args) => chat::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Stream(args) => stream::run(args),
        Command::Keys(args) => keys::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    }
}
