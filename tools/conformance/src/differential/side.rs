//! The two sides of a comparison: programs that answer lines with lines.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::child::OwnedChild;

/// Whoever can be asked.
pub(super) trait Side: Send {
    /// Sends all `lines` and collects the reply to each.
    fn converse(&mut self, lines: &[String]) -> Result<Conversation>;
}

/// The replies, in order; fewer than lines when the side fell silent.
#[derive(Debug, Default, Clone)]
pub(super) struct Conversation {
    pub(super) replies: Vec<String>,
    /// Why there are no more replies.
    pub(super) silence: Option<String>,
}

/// A program that speaks the protocol, and how to start it.
#[derive(Debug, Clone)]
pub struct Program {
    /// What to run.
    pub program: PathBuf,
    /// The words it is given.
    pub args: Vec<OsString>,
    /// The folder it runs in.
    pub dir: PathBuf,
}

/// A side that is a process: started when first needed, and again after it fell silent.
#[derive(Debug)]
pub(super) struct Process {
    program: Program,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: OwnedChild,
    input: ChildStdin,
    replies: Receiver<String>,
}

/// Far more than any command takes; whoever exceeds it hangs.
const REPLY_TIME_MAX: Duration = Duration::from_secs(20);

/// How many replies may wait to be read.
const REPLIES_WAITING_MAX: usize = 256;

impl Process {
    pub(super) fn new(program: &Program) -> Self {
        Self { program: program.clone(), running: None }
    }

    fn start(&self) -> Result<Running> {
        let mut command = Command::new(&self.program.program);
        command.args(&self.program.args).current_dir(&self.program.dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = OwnedChild::spawn(&mut command)?;
        let (input, output) = child.pipes().context("a side has no pipes")?;
        Ok(Running { child, input, replies: read_lines(output) })
    }
}

impl Side for Process {
    fn converse(&mut self, lines: &[String]) -> Result<Conversation> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let conversation = running.converse(lines);
        if conversation.silence.is_none() {
            self.running = Some(running);
        }
        Ok(conversation)
    }
}

impl Running {
    fn converse(&mut self, lines: &[String]) -> Conversation {
        let Self { child, input, replies } = self;
        let mut conversation = Conversation::default();
        thread::scope(|scope| {
            // It writes while this thread reads, or two full pipes would wait for each other. That
            // a line could not be written shows in its missing reply.
            scope.spawn(move || input.write_all((lines.join("\n") + "\n").as_bytes()));
            for _ in lines {
                match replies.recv_timeout(REPLY_TIME_MAX) {
                    Ok(reply) => conversation.replies.push(reply),
                    Err(error) => {
                        child.kill();
                        conversation.silence = Some(explain(error));
                        break;
                    }
                }
            }
        });
        conversation
    }
}

fn explain(error: RecvTimeoutError) -> String {
    match error {
        RecvTimeoutError::Timeout => format!("it said nothing for {REPLY_TIME_MAX:?}"),
        RecvTimeoutError::Disconnected => "it ended".to_owned(),
    }
}

/// The lines of `output` as they come; the thread ends with the output or with its reader.
fn read_lines(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = sync_channel(REPLIES_WAITING_MAX);
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let args = vec!["-c".into(), script.into()];
        Process::new(&Program { program: "sh".into(), args, dir: ".".into() })
    }

    #[test]
    fn every_line_gets_its_reply() {
        let lines: Vec<_> = (0..5000).map(|number| format!("line {number}")).collect();
        let mut cat = shell("exec cat");
        for _ in 0..2 {
            let conversation = cat.converse(&lines).unwrap();
            assert!(conversation.silence.is_none());
            assert_eq!(conversation.replies, lines);
        }
    }

    #[test]
    fn a_side_that_ends_is_started_again() {
        let mut head = shell("exec head -n 2");
        for _ in 0..2 {
            let lines = ["a", "b", "c"].map(str::to_owned);
            let conversation = head.converse(&lines).unwrap();
            assert_eq!(conversation.replies, ["a", "b"]);
            assert_eq!(conversation.silence.as_deref(), Some("it ended"));
        }
    }
}
