//! Output: what goes to the terminal, or to the program that reads us.
//!
//! Results go to the standard output, everything else to the standard error. Nothing here panics
//! when a reader leaves early: that is [`Failure::Unread`], and a quiet end.

use std::{
    env,
    io::{self, ErrorKind, IsTerminal, Write},
};

use serde::Serialize;

use crate::failure::Failure;

/// Writes one line of results.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(b'\n');
    raw(&bytes)
}

/// Writes one result for programs: an object on a line of its own.
pub(crate) fn json(result: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(result).map_err(Failure::refused)?;
    line(&text)
}

/// Writes bytes as they are, and sees to it that they arrive.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::about("the output cannot be written", error),
    })
}

/// Says something by the way.
pub(crate) fn note(text: &str) {
    say("note", text);
}

/// Says why the command failed.
pub(crate) fn complain(failure: &Failure) {
    if let Some(text) = failure.text() {
        say("error", text);
    }
}

/// True if people may be shown colours on `stream`.
pub(crate) fn is_colourful(stream: &impl IsTerminal) -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused
}

fn say(kind: &str, text: &str) {
    // With nobody left to read it, there is nobody to tell that either.
    let _ = writeln!(io::stderr().lock(), "{kind}: {text}");
}
