//! A server process of our own, that never outlives its handle.

use std::{
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::program::{command, command_by, command_within};

/// How long a server that does not answer may take to be dead: ten seconds.
const DEATH_LOOKS_MAX: u32 = 2_000;
const DEATH_LOOK_PAUSE: Duration = Duration::from_millis(5);

/// How a server is started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    data_dir: PathBuf,
    listen: String,
    args: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    /// What a shell does before it starts the program.
    first: Option<String>,
    /// A program that starts it, with its arguments.
    within: Vec<OsString>,
}

/// A server that listens.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// None once another thread reads it.
    log: Option<BufReader<ChildStderr>>,
    pub(crate) address: String,
}

impl Launch {
    /// On a free port, with its streams in `data_dir`.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            listen: "127.0.0.1:0".to_owned(),
            args: Vec::new(),
            environment: Vec::new(),
            first: None,
            within: Vec::new(),
        }
    }

    /// Lets it have no more descriptors than this.
    pub(crate) fn descriptors(mut self, most: u32) -> Self {
        self.first = Some(format!("ulimit -n {most}"));
        self
    }

    /// The same, but it may raise the limit itself.
    pub(crate) fn soft_descriptors(mut self, most: u32) -> Self {
        self.first = Some(format!("ulimit -Sn {most}"));
        self
    }

    /// Has it started by another program, which becomes the server.
    pub(crate) fn within(mut self, program: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.within = program.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    pub(crate) fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.listen);
        self
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts the process and waits until it listens.
    ///
    /// # Errors
    /// What it said before it ended instead.
    pub(crate) fn start(&self) -> Result<Server, String> {
        let here = Path::new(".");
        let mut command = match (&self.first, self.within.as_slice()) {
            (None, []) => command(here),
            (None, within) => command_by(here, within),
            (Some(first), _) => command_within(here, first),
        };
        command
            .args(["serve", "--log-format", "json", "--listen", &self.listen, "--data-dir"])
            .arg(&self.data_dir)
            .args(&self.args)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program was built for this test");
        let log = Some(BufReader::new(child.stderr.take().expect("piped")));
        let mut server = Server { child, log, address: String::new() };
        let mut said = String::new();
        while server.log().read_line(&mut said).unwrap() > 0 {
            let line = said.lines().next_back().unwrap_or_default();
            if let Some(address) = address_in(line) {
                server.address = address;
                return Ok(server);
            }
        }
        let status = server.child.wait().unwrap();
        Err(format!("{status}\n{said}"))
    }

    /// The same, for a server that may be killed before it listens; none if it was.
    ///
    /// # Panics
    /// If it ended in another way.
    pub(crate) fn start_deadly(&self) -> Option<Server> {
        match self.start() {
            Ok(server) => Some(server),
            Err(why) => {
                assert!(why.contains("signal: 9"), "it was to be killed: {why}");
                None
            }
        }
    }
}

impl Server {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What the system says of the process, in kibibytes.
    pub(crate) fn peak_memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// True until the process has ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks for an orderly end and waits for it; tells how it ended and what it logged.
    pub(crate) fn stop(self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits until it has logged this, and gives the line.
    pub(crate) fn logged(&mut self, message: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.log().read_line(&mut line).unwrap() > 0, "it ended before {message:?}");
            if line.contains(message) {
                return line;
            }
        }
    }

    /// Reads what it logs from now on, so that one that logs much need not wait until it is read;
    /// the whole of it when the server has ended.
    pub(crate) fn overheard(&mut self) -> thread::JoinHandle<String> {
        let mut said = self.log.take().expect("it is read once");
        thread::spawn(move || {
            let mut log = String::new();
            said.read_to_string(&mut log).unwrap();
            log
        })
    }

    fn log(&mut self) -> &mut BufReader<ChildStderr> {
        self.log.as_mut().expect("no other thread reads it")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // A process that has died by itself cannot be signalled; its end tells why.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits until it has died by its own hand, as a crash test told it to.
    ///
    /// # Panics
    /// If it lives on, or ended in another way.
    pub(crate) fn died(mut self) {
        for _ in 0..DEATH_LOOKS_MAX {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
                return;
            }
            thread::sleep(DEATH_LOOK_PAUSE);
        }
        panic!("the server does not answer, but it has not died either");
    }

    /// Waits until it has ended.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let mut log = String::new();
        if let Some(said) = &mut self.log {
            said.read_to_string(&mut log).unwrap();
        }
        (self.child.wait().unwrap(), log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the process has already ended, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in the line that says it is being served.
fn address_in(line: &str) -> Option<String> {
    let event: serde_json::Value = serde_json::from_str(line).ok()?;
    let fields = event.get("fields")?;
    (fields.get("message")? == "serving").then_some(())?;
    Some(fields.get("address")?.as_str()?.to_owned())
}
