//! What is typed, or piped in: lines, their end, and Ctrl-C.

use std::io::{BufRead, IsTerminal, Read, stdin};

use sessions::caps::TEXT_BYTES_MAX;
use sys::{Sys, Task};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::failure::Failure;

/// Lines that were typed and wait to be sent.
const LINES_MAX: usize = 16;

/// Something that was typed.
#[derive(Debug)]
pub(super) enum Typed {
    Line(String),
    /// A line that cannot be sent, and why.
    Bad(String),
    End,
}

/// The standard input, and the signals that come from it.
pub(super) struct Keyboard {
    is_terminal: bool,
    lines: mpsc::Receiver<Typed>,
    has_ended: bool,
    /// It may wait for input for ever; nobody waits for it.
    _reader: Task,
}

/// Ctrl-C, each time.
pub(super) struct Interrupts(Signal);

impl Interrupts {
    pub(super) fn listen() -> Result<Self, Failure> {
        let interrupts = signal(SignalKind::interrupt());
        interrupts.map(Self).map_err(|error| Failure::about("signals", error))
    }

    pub(super) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

impl Keyboard {
    pub(super) fn listen(sys: &Sys) -> Self {
        let (typed, lines) = mpsc::channel(LINES_MAX);
        let reader = sys.spawn.owner("keyboard", async move { read(&typed) });
        let is_terminal = stdin().is_terminal();
        Self { is_terminal, lines, has_ended: false, _reader: reader }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The next thing that is typed; the end comes once.
    pub(super) async fn next(&mut self) -> Typed {
        if self.has_ended {
            return std::future::pending().await;
        }
        let typed = self.lines.recv().await.unwrap_or(Typed::End);
        self.has_ended = matches!(typed, Typed::End);
        typed
    }
}

fn read(typed: &mpsc::Sender<Typed>) {
    let mut input = stdin().lock();
    loop {
        let mut line = Vec::new();
        let most = TEXT_BYTES_MAX as u64 + 1;
        let read = input.by_ref().take(most).read_until(b'\n', &mut line);
        let next = match read {
            Ok(0) => return,
            Ok(_) if line.len() as u64 == most && !line.ends_with(b"\n") => {
                Typed::Bad(format!("a line has more than {TEXT_BYTES_MAX} bytes; it is cut"))
            }
            Ok(_) => match String::from_utf8(line) {
                Ok(line) => Typed::Line(line.trim_end_matches(['\r', '\n']).to_owned()),
                Err(_) => Typed::Bad("a line is not UTF-8 text; it is left out".to_owned()),
            },
            Err(error) => {
                let _ = typed.blocking_send(Typed::Bad(format!("the input is lost: {error}")));
                return;
            }
        };
        if typed.blocking_send(next).is_err() {
            return;
        }
    }
}
