//! A `headwater dev` of our own that never outlives its handle, and the program run to its end.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that serves.
pub(crate) struct Dev {
    child: Child,
    pub(crate) welcome: String,
    pub(crate) address: String,
    /// The session that it opened.
    pub(crate) session: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// What became of a program.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

/// The program, with nothing of ours in its environment.
fn program(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("HEADWATER_") || name.ends_with("_API_KEY") || name == "OLLAMA_HOST" {
            command.env_remove(name);
        }
    }
    command.current_dir(dir);
    command
}

/// Runs the program to its end, with this to read.
pub(crate) fn run(dir: &Path, args: &[&str], stdin: &str) -> Output {
    run_with(dir, args, &[], stdin)
}

/// The same, with this in its environment.
pub(crate) fn run_with(
    dir: &Path,
    args: &[&str],
    environment: &[(&str, &str)],
    stdin: &str,
) -> Output {
    let mut command = program(dir);
    command.args(args).envs(environment.iter().copied());
    let mut running = Running::spawn(command);
    running.type_in(stdin);
    running.end()
}

/// A program that runs, and is typed to.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    /// What it says beside its results, line by line.
    lines: Receiver<String>,
    said: String,
}

impl Running {
    pub(crate) fn start(dir: &Path, args: &[&str]) -> Self {
        let mut command = program(dir);
        command.args(args);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take().unwrap());
        let (tell, lines) = channel();
        thread::spawn(move || {
            let told = BufReader::new(stderr).lines().map_while(Result::ok);
            told.for_each(|line| drop(tell.send(line + "\n")));
        });
        Self { child, stdin, lines, said: String::new() }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        // A program that fails at once does not read its input.
        let _ = self.stdin.as_mut().unwrap().write_all(text.as_bytes());
    }

    /// Waits until it has said this, beside its results.
    pub(crate) fn until(&mut self, words: &str) {
        while !self.said.contains(words) {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.said.push_str(&line),
                Err(error) => panic!("{error}, without {words:?}: {}", self.said),
            }
        }
    }

    /// Ends its input, and waits for its end.
    pub(crate) fn end(mut self) -> Output {
        drop(self.stdin.take());
        let output = self.child.wait_with_output().unwrap();
        Output {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: self.said + &self.lines.iter().collect::<String>(),
            code: output.status.code().expect("not killed"),
        }
    }
}

impl Dev {
    /// With the scripted model, and its data in `dir/data`.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_on(dir, "127.0.0.1:0")
    }

    /// The same, on this address.
    pub(crate) fn start_on(dir: &Path, address: &str) -> Self {
        let mut command = program(dir);
        command.args(["dev", "--listen", address, "--data-dir", "data"]);
        command.args(["--model", "scripted"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut dev =
            Self { child, welcome: String::new(), address: String::new(), session: String::new() };
        while !dev.welcome.contains("live=sse") {
            dev.welcome.push_str(&lines.next().expect("the welcome has not ended").unwrap());
            dev.welcome.push('\n');
        }
        let url = dev.welcome.split("http://").nth(1).unwrap();
        let url = url.split_whitespace().next().unwrap();
        let (address, session) = url.split_once("/s/").unwrap();
        (dev.address, dev.session) = (address.to_owned(), session.to_owned());
        dev
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As Ctrl-C would.
    pub(crate) fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    pub(crate) fn ask(&self, method: &str, target: &str, token: &str, body: &str) -> Answer {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let authorization = match token {
            "" => String::new(),
            token => format!("authorization: Bearer {token}\r\n"),
        };
        let (address, length) = (&self.address, body.len());
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: {address}\r\n{authorization}\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn token(&self, session: &str) -> String {
        let given = self.ask("POST", &format!("/v1/sessions/{session}/token"), "", "");
        assert_eq!(given.status, 201, "{given:?}");
        let given: Value = serde_json::from_str(&given.body).unwrap();
        given["token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn say(&self, session: &str, token: &str, id: &str, text: &str) -> Answer {
        let body = json!({ "id": id, "text": text }).to_string();
        self.ask("POST", &format!("/v1/sessions/{session}/messages"), token, &body)
    }

    /// Reads a session until `is_enough` says so of all its messages.
    pub(crate) fn until(&self, session: &str, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let began = Instant::now();
        let (mut all, mut offset) = (Vec::new(), "-1".to_owned());
        loop {
            assert!(began.elapsed() < PATIENCE, "it takes too long: {all:#?}");
            let target =
                format!("/v1/stream/main/sessions/{session}?offset={offset}&live=long-poll");
            let answer = self.ask("GET", &target, "", "");
            assert!(matches!(answer.status, 200 | 204), "{answer:?}");
            let next = answer.head.lines().find_map(|it| it.strip_prefix("stream-next-offset: "));
            next.unwrap().clone_into(&mut offset);
            if answer.status == 200 {
                let messages: Vec<Value> = serde_json::from_str(&answer.body).unwrap();
                all.extend(messages);
            }
            if is_enough(&all) {
                return all;
            }
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Both fail only when the process has already ended, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Output {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

/// The newest rows of a type, in the order in which they came.
pub(crate) fn rows(messages: &[Value], type_name: &str) -> Vec<Value> {
    let mut rows: Vec<(Value, Value)> = Vec::new();
    for message in messages.iter().filter(|message| message["type"] == type_name) {
        let (key, value) = (message["key"].clone(), message["value"].clone());
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some(row) => row.1 = value,
            None => rows.push((key, value)),
        }
    }
    rows.into_iter().map(|(_, value)| value).filter(|value| !value.is_null()).collect()
}

/// Whether every generation has ended, and there are so many.
pub(crate) fn has_ended(messages: &[Value], count: usize) -> bool {
    let generations = rows(messages, "generation");
    let is_over = |row: &Value| !matches!(row["status"].as_str(), Some("pending" | "generating"));
    generations.len() == count && generations.iter().all(is_over)
}

/// What the agent has said last.
pub(crate) fn answer_in(messages: &[Value]) -> String {
    let said = rows(messages, "message");
    let last = said.iter().rfind(|row| row["role"] == "assistant").unwrap();
    last["content"].as_str().unwrap().to_owned()
}

/// Writes a session of so many rounds into `dir/data`: a question, and an answer that is over.
pub(crate) fn write_rounds(dir: &Path, session: &str, rounds: usize) {
    let path = format!("main/sessions/{session}");
    let place = ["--data-dir", "data"];
    let json = ["--content-type", "application/json"];
    run(dir, &[&["stream", "create", &path][..], &json, &place].concat(), "").ok();
    let rows: String = (0..rounds).flat_map(|number| round(number, number * ROUND)).collect();
    run(dir, &[&["stream", "append", &path][..], &place].concat(), &rows).ok();
}

/// Rows of a round.
const ROUND: usize = 6;

fn round(number: usize, position: usize) -> [String; ROUND] {
    let at = "2026-01-01T00:00:00.000Z";
    let id = format!("assistant-{position}");
    let message = format!("{id}:1");
    let row = |operation: &str, name: &str, value: Value| {
        let headers = json!({ "operation": operation });
        let key = value["id"].clone();
        json!({ "type": name, "key": key, "value": value, "headers": headers }).to_string() + "\n"
    };
    let generation = |status: &str| {
        json!({
            "id": id, "agentName": "assistant", "model": "none", "status": status,
            "readUpTo": position, "createdAt": at, "updatedAt": at,
        })
    };
    let step = |status: &str| {
        json!({
            "id": message, "generationId": id, "turn": 1, "attempt": 1, "firstChunk": 0,
            "status": status, "startedAt": at,
        })
    };
    let said = json!({
        "id": format!("q{number}"), "role": "user", "content": format!("Question {number}?"),
        "actorId": "ada", "targetAgent": "assistant", "createdAt": at,
    });
    let answer = json!({
        "id": message, "role": "assistant", "content": format!("Answer {number}."),
        "actorId": "assistant", "generationId": id, "createdAt": at,
    });
    [
        row("insert", "message", said),
        row("insert", "generation", generation("generating")),
        row("insert", "step", step("started")),
        row("insert", "message", answer),
        row("update", "step", step("completed")),
        row("update", "generation", generation("completed")),
    ]
}
