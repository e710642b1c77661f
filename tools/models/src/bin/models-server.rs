//! The fixture as a process: prints its URL and serves until its input ends.
#![allow(clippy::print_stdout, reason = "a line of output is what this program is for")]

use anyhow::Result;
use models::Fixture;
use sys::Sys;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let fixture = runtime.block_on(Fixture::start(&Sys::real()))?;
    println!("{}", fixture.url());
    // Whoever started this ends it by closing its input.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
