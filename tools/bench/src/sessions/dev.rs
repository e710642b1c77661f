//! The real `headwater dev`, in a process of its own, and what a client asks of it.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::wakes::is_end;
use crate::{
    process::Process,
    server::{free_address, probe_status},
};

const START_TIME_MAX: Duration = Duration::from_secs(300);
const PROBE_PAUSE: Duration = Duration::from_millis(5);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a process must have done nothing to count as settled.
const QUIET: Duration = Duration::from_secs(1);
/// Time on the processor within [`QUIET`] that still counts as nothing.
const QUIET_CPU_SECONDS: f64 = 0.02;

/// A running server; it is killed when dropped.
pub(super) struct Dev {
    child: Child,
    address: SocketAddr,
}

impl Dev {
    /// Starts it over this directory and waits until it serves. Its model is at this address.
    pub(super) fn start(binary: &Path, data: &Path, model: SocketAddr) -> Result<Self> {
        let address = free_address()?;
        let output = File::create(data.with_extension("output"))?;
        let child = Command::new(binary)
            .args(["dev", "--model", "ollama:bench", "--listen", &address.to_string()])
            .arg("--data-dir")
            .arg(data)
            .env("OLLAMA_HOST", format!("http://{model}"))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut dev = Self { child, address };
        let give_up = Instant::now() + START_TIME_MAX;
        while Instant::now() < give_up {
            if let Some(status) = dev.child.try_wait()? {
                let said = std::fs::read_to_string(data.with_extension("output"))?;
                bail!("headwater dev ended at start ({status}): {said}");
            }
            if probe_status(address, "/readyz") == Some(200) {
                return Ok(dev);
            }
            std::thread::sleep(PROBE_PAUSE);
        }
        bail!("headwater dev was not ready within {START_TIME_MAX:?}")
    }

    pub(super) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Waits until it has nothing left to do, which cannot be heard from outside.
    pub(super) fn settle(&self) -> Result<()> {
        let mut before = self.process().cpu_seconds()?;
        loop {
            std::thread::sleep(QUIET);
            let now = self.process().cpu_seconds()?;
            if now - before <= QUIET_CPU_SECONDS {
                return Ok(());
            }
            before = now;
        }
    }

    /// A client that posts to a session, with the token that a page would ask for.
    pub(super) fn poster(&self, session: &str) -> Result<Poster> {
        #[derive(serde::Deserialize)]
        struct Given {
            token: String,
        }
        let head = format!("Host: {}\r\nContent-Type: application/json\r\n", self.address);
        let reader = BufReader::new(self.connect()?);
        let place = format!("/v1/sessions/{session}");
        let mut poster = Poster { reader, place, head };
        let given: Given = serde_json::from_slice(&poster.exchange("token", "{}")?)?;
        poster.head.push_str(&format!("Authorization: Bearer {}\r\n", given.token));
        Ok(poster)
    }

    /// A connection of a client that follows a session from its tail.
    pub(super) fn follower(&self, session: &str) -> Result<Follower> {
        let mut stream = self.connect()?;
        let target = format!("/v1/stream/main/sessions/{session}?offset=now&live=sse");
        write!(stream, "GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address)?;
        let mut follower = Follower { stream, text: Vec::new() };
        follower.until(|text| text.contains("\r\n\r\n"))?;
        ensure!(follower.text.starts_with(b"HTTP/1.1 200"), "{}", follower.shown());
        Ok(follower)
    }

    /// Ends it as an operator would.
    pub(super) fn stop(mut self) -> Result<()> {
        let id = i32::try_from(self.child.id())?;
        let id = rustix::process::Pid::from_raw(id).context("a process has an id")?;
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "headwater dev has failed: {status}");
        Ok(())
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.address).context("connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to kill, only to reap.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that posts messages, one after the other, on one connection.
pub(super) struct Poster {
    reader: BufReader<TcpStream>,
    /// The session.
    place: String,
    /// What every request says.
    head: String,
}

impl Poster {
    /// Posts a message and reads the whole answer.
    pub(super) fn post(&mut self, id: &str) -> Result<()> {
        self.exchange("messages", &format!(r#"{{"id":"{id}","text":"Hello?"}}"#))?;
        Ok(())
    }

    /// Sends a request that makes something; the body of the answer.
    fn exchange(&mut self, what: &str, body: &str) -> Result<Vec<u8>> {
        let Self { place, head, .. } = self;
        let length = body.len();
        let request =
            format!("POST {place}/{what} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{body}");
        self.reader.get_mut().write_all(request.as_bytes())?;
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            ensure!(self.reader.read_line(&mut head)? > 0, "the server closed the connection");
            let line = head[start..].to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.reader.read_exact(&mut answer)?;
        let is_made = head.starts_with("HTTP/1.1 201");
        ensure!(is_made, "{head}{}", String::from_utf8_lossy(&answer));
        Ok(answer)
    }
}

/// A client that follows a session by server-sent events.
pub(super) struct Follower {
    stream: TcpStream,
    /// What has come since the last answer was complete.
    text: Vec<u8>,
}

impl Follower {
    /// Waits for the first piece of an answer.
    pub(super) fn first_token(&mut self) -> Result<Instant> {
        self.until(|text| text.contains(r#"{"type":"chunk""#))
    }

    /// Waits for the end of an answer.
    pub(super) fn end(&mut self) -> Result<()> {
        self.until(|text| {
            text.match_indices(r#"{"type":"#).any(|(at, _)| {
                let event = &text[at..];
                let next = event[1..].find(r#"{"type":"#).map_or(event.len(), |next| next + 1);
                is_end(&event.as_bytes()[..next])
            })
        })?;
        self.text.clear();
        Ok(())
    }

    fn until(&mut self, is_such: impl Fn(&str) -> bool) -> Result<Instant> {
        let mut buffer = [0; 16 * 1024];
        while !is_such(&self.shown()) {
            let read = self.stream.read(&mut buffer).context("follow the session")?;
            ensure!(read > 0, "the server closed the connection");
            self.text.extend_from_slice(&buffer[..read]);
        }
        Ok(Instant::now())
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }
}
