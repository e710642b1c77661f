//! The program, run to its end as a person at a shell would.

use std::{
    ffi::{OsStr, OsString},
    io::Write,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::Signal;

/// A command line in the making.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    stdin: Vec<u8>,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

/// The program itself, with nothing of ours in its environment.
pub(crate) fn command(dir: &Path) -> Command {
    prepared(dir, Command::new(env!("CARGO_BIN_EXE_headwater")))
}

/// The same, started by a shell that does this first.
pub(crate) fn command_within(dir: &Path, first: &str) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("{first} && exec \"$0\" \"$@\"");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_headwater")]);
    prepared(dir, shell)
}

/// The same, started by a program with these arguments, which becomes it.
pub(crate) fn command_by(dir: &Path, program: &[OsString]) -> Command {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).arg(env!("CARGO_BIN_EXE_headwater"));
    prepared(dir, command)
}

fn prepared(dir: &Path, mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HEADWATER_") {
            command.env_remove(name);
        }
    }
    command.current_dir(dir);
    command
}

impl Program {
    /// Runs in `dir`, where `./.headwater` is.
    pub(crate) fn in_dir(dir: &Path) -> Self {
        Self { command: command(dir), stdin: Vec::new() }
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn stdin(mut self, text: impl AsRef<[u8]>) -> Self {
        self.stdin = text.as_ref().to_vec();
        self
    }

    pub(crate) fn run(self) -> Output {
        self.run_deadly().expect("not killed")
    }

    /// The same, for a command that may be killed; none if it was.
    pub(crate) fn run_deadly(mut self) -> Option<Output> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the program was built for this test");
        let mut stdin = child.stdin.take().expect("piped");
        // A program that fails at once does not read its input.
        let _ = stdin.write_all(&self.stdin);
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        if output.status.signal() == Some(Signal::KILL.as_raw()) {
            return None;
        }
        Some(Output {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().expect("no other signal"),
        })
    }
}

impl Output {
    /// The results, from a command that must not fail.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self.stdout
    }

    /// The complaint, from a command that must fail with `code`.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        self.stderr
    }
}
