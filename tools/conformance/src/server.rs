//! The server under test: the real binary, on a free port, with an empty data folder.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    Engine,
    child::{OwnedChild, POLL_INTERVAL},
};

/// How long a server holds a long poll open; short, because the suite waits for it many times.
pub(crate) const LONG_POLL_MS: u32 = 500;

const READY_TIME_MAX: Duration = Duration::from_secs(30);
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);
const LOG_LINES_SHOWN: usize = 40;

/// A running server; dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Server {
    child: OwnedChild,
    address: SocketAddr,
    log_path: PathBuf,
}

impl Server {
    /// Starts `binary` in the empty folder `dir` and waits until it is ready to serve.
    pub(crate) fn start(binary: &Path, dir: &Path, engine: Engine) -> Result<Self> {
        let address = free_address()?;
        let log_path = dir.join("server.log");
        let log = fs::File::create(&log_path).context("cannot create the server's log")?;
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .args(["--listen", &address.to_string()])
            .arg("--data-dir")
            .arg(dir.join("data"))
            .args(["--engine", engine.name()])
            .args(["--auth", "none"])
            .args(["--long-poll-timeout", &format!("{LONG_POLL_MS}ms")])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut server = Self { child: OwnedChild::spawn(&mut command)?, address, log_path };
        server.wait_until_ready()?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The last lines the server logged, for people to read.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(&self.log_path).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    /// Says whether the server ended by itself, which no test may cause.
    pub(crate) fn is_alive(&mut self) -> Result<bool> {
        Ok(self.child.ended()?.is_none())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_TIME_MAX;
        while Instant::now() < deadline {
            if let Some(status) = self.child.ended()? {
                bail!("the server ended before it was ready ({status}):\n{}", self.log_tail());
            }
            // A refused connection only means that the server is still opening its log.
            if probe_status_line(self.address).is_ok_and(|line| line.contains(" 200 ")) {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!("the server was not ready within {READY_TIME_MAX:?}:\n{}", self.log_tail());
    }
}

/// An address nobody listens on. The server takes it a moment later; a process that snatches it
/// in between makes the server end early, which is reported as such.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}

fn probe_status_line(address: SocketAddr) -> Result<String> {
    let mut connection = TcpStream::connect_timeout(&address, PROBE_TIME_MAX)?;
    connection.set_read_timeout(Some(PROBE_TIME_MAX))?;
    connection.set_write_timeout(Some(PROBE_TIME_MAX))?;
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    connection.take(1024).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves one connection with `answer` and returns the status line a probe sees.
    fn probe(answer: &'static str) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = connection.read(&mut request).unwrap();
            connection.write_all(answer.as_bytes()).unwrap();
        });
        let line = probe_status_line(address).unwrap();
        serving.join().unwrap();
        line
    }

    #[test]
    fn a_probe_reads_the_status_line() {
        assert_eq!(probe("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), "HTTP/1.1 200 OK");
        assert_eq!(probe("HTTP/1.1 503 Busy\r\n\r\n"), "HTTP/1.1 503 Busy");
        assert_eq!(probe(""), "");
    }

    #[test]
    fn a_server_that_ends_early_is_reported() {
        let dir = std::env::temp_dir().join(format!("conformance-early-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let error = Server::start(Path::new("false"), &dir, Engine::Memory).unwrap_err();
        fs::remove_dir_all(&dir).unwrap();
        assert!(error.to_string().contains("ended before it was ready"), "{error}");
    }
}
