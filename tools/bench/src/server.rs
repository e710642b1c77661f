//! The contestants: where their binaries come from, how they are started, watched and stopped.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Resource, Rlimit};

const OFFICIAL_PACKAGE: &str = "durable-streams";
const OFFICIAL_VERSION: &str = "0.1.5";
const OFFICIAL_BINARY: &str = "durable-streams-server";

const START_TIME_MAX: Duration = Duration::from_secs(20);
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
const PROBE_PAUSE: Duration = Duration::from_millis(20);
const EPITAPH_BYTES_MAX: usize = 600;

/// The cargo workspace this program was started in.
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    pub(crate) fn locate() -> Result<Self> {
        let root = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(package) => PathBuf::from(package).join("../.."),
            None => std::env::current_dir()?,
        };
        let root = root.canonicalize().context("find the workspace")?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map(|target| root.join(target));
        Ok(Self { target: target.unwrap_or_else(|| root.join("target")), root })
    }

    /// Where the servers keep their data: beside the build output, hence on a real disk.
    pub(crate) fn data_root(&self) -> Result<PathBuf> {
        let path = self.target.join("bench-data");
        std::fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(path)
    }

    /// A folder with npm packages, installed.
    pub(crate) fn node_dir(&self, path: &str) -> Result<PathBuf> {
        let dir = self.root.join(path);
        let status = Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund"])
            .current_dir(&dir)
            .stdout(Stdio::null())
            .status()
            .context("cannot start npm; install Node 20 or newer")?;
        ensure!(status.success(), "`npm ci` failed in {}", dir.display());
        Ok(dir)
    }

    fn cargo(&self, args: &[&str]) -> Result<()> {
        eprintln!("cargo {}", args.join(" "));
        let status = Command::new("cargo").args(args).current_dir(&self.root).status()?;
        ensure!(status.success(), "cargo {} failed", args.join(" "));
        Ok(())
    }
}

/// A server that can be started any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    kind: Kind,
    binary: PathBuf,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Headwater,
    Official,
}

impl Contestant {
    /// Our server: the given binary, or a release build of this workspace.
    pub(crate) fn headwater(workspace: &Workspace, given: Option<&Path>) -> Result<Self> {
        let binary = match given {
            Some(path) => path.to_owned(),
            None => {
                workspace.cargo(&["build", "--release"])?;
                workspace.target.join("release/headwater")
            }
        };
        Self::new(Kind::Headwater, binary)
    }

    /// The official server: the given binary, or the released package, installed once.
    pub(crate) fn official(workspace: &Workspace, given: Option<&Path>) -> Result<Self> {
        let root = workspace.target.join("official");
        let binary = match given {
            Some(path) => path.to_owned(),
            None => root.join("bin").join(OFFICIAL_BINARY),
        };
        if given.is_none() && !binary.exists() {
            install_official(workspace, &root)?;
        }
        Self::new(Kind::Official, binary)
    }

    fn new(kind: Kind, binary: PathBuf) -> Result<Self> {
        ensure!(binary.exists(), "there is no server at {}", binary.display());
        Ok(Self { kind, binary })
    }

    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    fn command(&self, address: SocketAddr, data: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        match self.kind {
            Kind::Headwater => {
                command.args(["serve", "--engine", "file", "--auth", "none"]);
                command.arg("--listen").arg(address.to_string());
            }
            Kind::Official => {
                // Its default, stated so that a later default cannot turn fsync off unseen.
                command.args(["--durability", "wal"]);
                command.arg("--host").arg(address.ip().to_string());
                command.arg("--port").arg(address.port().to_string());
            }
        }
        command.arg("--data-dir").arg(data);
        command
    }

    fn is_ready(&self, address: SocketAddr) -> bool {
        match self.kind {
            Kind::Headwater => probe_status(address, "/readyz") == Some(200),
            // It has no health route; any answer shows that it serves.
            Kind::Official => probe_status(address, "/").is_some(),
        }
    }
}

/// A fresh directory on the disk under test, removed when dropped.
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    pub(crate) fn create(root: &Path) -> Result<Self> {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let serial = CREATED.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("{}-{serial}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn flush_filesystem(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.0)?)?)
    }

    pub(crate) fn server_data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn server_output(&self) -> PathBuf {
        self.0.join("output")
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("left {} behind: {error}", self.0.display());
        }
    }
}

/// A started server; it is killed when dropped, and its data removed with it.
pub(crate) struct Running {
    child: Child,
    address: SocketAddr,
    data_dir: DataDir,
}

impl Running {
    /// Starts the server on a free port and waits until it answers.
    pub(crate) fn start(contestant: &Contestant, data_dir: DataDir) -> Result<Self> {
        let address = free_address()?;
        let output = File::create(data_dir.server_output())?;
        let child = contestant
            .command(address, &data_dir.server_data())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("start {}", contestant.binary.display()))?;
        let mut running = Self { child, address, data_dir };
        running.wait_until_ready(contestant)?;
        Ok(running)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resident memory now.
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next());
        let kib: f64 = kib.context("the server has no VmRSS; did it end?")?.parse()?;
        Ok(kib / 1024.0)
    }

    /// Open file descriptors now.
    pub(crate) fn open_files(&self) -> Result<u64> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count() as u64)
    }

    /// The last words of the server, for the report of a failure.
    pub(crate) fn epitaph(&self) -> String {
        let output = std::fs::read(self.data_dir.server_output()).unwrap_or_default();
        let tail = &output[output.len().saturating_sub(EPITAPH_BYTES_MAX)..];
        let words: Vec<_> =
            String::from_utf8_lossy(tail).split_whitespace().map(str::to_owned).collect();
        format!("the server last said {:?}", words.join(" "))
    }

    fn wait_until_ready(&mut self, contestant: &Contestant) -> Result<()> {
        let give_up = Instant::now() + START_TIME_MAX;
        while Instant::now() < give_up {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at start ({status}); {}", self.epitaph());
            }
            if contestant.is_ready(self.address) {
                return Ok(());
            }
            std::thread::sleep(PROBE_PAUSE);
        }
        bail!("the server was not ready within {START_TIME_MAX:?}; {}", self.epitaph())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The child may have ended by itself: then there is nothing to kill, only to reap.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Allows this process and its servers as many open files as the system permits.
///
/// Returns that number: a server with a file per stream cannot hold more streams.
pub(crate) fn raise_open_files_limit() -> Result<u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(Resource::Nofile, raised).context("raise the open files limit")?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

fn install_official(workspace: &Workspace, root: &Path) -> Result<()> {
    let root = root.to_str().context("the target directory is not valid UTF-8")?;
    let install = ["install", OFFICIAL_PACKAGE, "--version", OFFICIAL_VERSION, "--root", root];
    let locked = [&install[..], &["--locked"]].concat();
    // Its lock file may name a dependency that has since been withdrawn.
    workspace.cargo(&locked).or_else(|_| workspace.cargo(&install))
}

/// Another process may take the port before the server does; the row then fails and says so.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?)
}

/// The status of a `GET`, or `None` when nobody answers.
pub(crate) fn probe_status(address: SocketAddr, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut status_line = [0; 12];
    stream.read_exact(&mut status_line).ok()?;
    std::str::from_utf8(&status_line).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
}
