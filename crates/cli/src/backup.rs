//! `headwater backup`: a consistent copy of a data directory, also of one that a server has open.

use std::path::PathBuf;

use log::file::backup;
use sys::Sys;

use crate::{config::DATA_DIR_DEFAULT, crash_hook::CrashHook, failure::Failure, keys, output};

#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The directory to make; it must not exist, or be empty
    to: PathBuf,

    /// The directory to copy
    #[arg(long, value_name = "DIR", env = "HEADWATER_DATA_DIR", default_value = DATA_DIR_DEFAULT)]
    data_dir: PathBuf,
}

/// Copies the log and the keys, examines the copy, and tells what is in it.
pub(crate) fn run(args: &BackupArgs) -> Result<(), Failure> {
    let hook = CrashHook::from_environment()?;
    let sys = Sys { disk: hook.disk(), ..Sys::real() };
    keys::check(&sys, &args.data_dir)?;
    let done = backup(&sys, &args.data_dir, &args.to, &[keys::FILE]).map_err(Failure::refused)?;
    let report = &done.report;
    output::line(&format!(
        "{}: {} streams, {} messages, {} bytes written",
        args.to.display(),
        report.streams,
        report.messages,
        done.bytes
    ))?;
    if report.is_sound() {
        return Ok(());
    }
    let advice = "the copy is as damaged as its source; run headwater doctor on both";
    Err(Failure::about(args.to.display(), advice))
}
