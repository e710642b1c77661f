//! The adapter that lets the official suite for clients drive ours.
//!
//! Commands come as lines of JSON, and each is answered by one. It is a thin shell: whatever it
//! finds out, the client did. How to run it stands in `docs/client-conformance.md`.

mod answer;
mod badge;
mod command;
mod reading;
mod session;
mod validate;

use std::io::{BufRead as _, Write as _};

use session::Session;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut session = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let (answer, is_last) = Session::handle(&mut session, &line).await;
        // Some readers of lines take these for the end of one.
        let text = answer.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()?;
        if is_last {
            break;
        }
    }
    Ok(())
}
