//! Our engine behind the lines that the oracle of `@tanstack/db` speaks: a JSON command a line on
//! the standard input, a JSON reply a line on the standard output.
//!
//! It runs with the semantics of `@tanstack/db`; where ours are other by design, see
//! `docs/tanstack-deviations.md`.

mod commands;
mod driver;
mod errors;

use std::io::{BufRead, Write};

use anyhow::{Context, Result};

use self::driver::Driver;

fn main() -> Result<()> {
    let (stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut driver = Driver::default();
    for line in stdin.lines() {
        let line = line.context("the commands cannot be read")?;
        if line.trim().is_empty() {
            continue;
        }
        let reply = match serde_json::from_str(&line) {
            Ok(command) => driver.run(command),
            Err(error) => serde_json::json!({"error": "BadCommand", "message": error.to_string()}),
        };
        writeln!(stdout, "{reply}").context("the replies cannot be written")?;
        stdout.flush().context("the replies cannot be written")?;
    }
    Ok(())
}
