//! Tokens stay out of the operator's log, however much of everything else it tells.

#![allow(clippy::disallowed_methods, reason = "processes, and what they leave behind, are real")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../server/tests/http/raw_http2.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod raw_http2;
mod support;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use support::Launch;

/// One that is known, one that is not, and one in a scheme that is none.
const KNOWN: &str = "known-3f6a90d2c47b4e1f-token";
const UNKNOWN: &str = "unknown-7be1c0aa93d84f52-token";
const ODD: &str = "odd-c2d86f1b05e9473a-token";
/// What shows that a request of each version got as far as the log.
const PATHS: [&str; 2] = ["/v1/stream/seen/1", "/v1/stream/seen/2"];
const PATIENCE: Duration = Duration::from_secs(10);

fn connect(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn over_http1(address: &str, shown: &str) -> String {
    let mut socket = connect(address);
    let head = format!(
        "GET {} HTTP/1.1\r\nhost: localhost\r\nauthorization: {shown}\r\nconnection: close\r\n\r\n",
        PATHS[0]
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks, and waits for the head of the answer.
fn over_http2(address: &str, shown: &str) -> Vec<u8> {
    const HEADERS: u8 = 1;
    let mut socket = connect(address);
    socket.write_all(&raw_http2::preface(65_535)).unwrap();
    let get = raw_http2::get_with(1, PATHS[1], &[("authorization", shown)]);
    socket.write_all(&get).unwrap();
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).unwrap();
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        socket.read_exact(&mut payload).unwrap();
        if head[3] == HEADERS {
            return payload;
        }
    }
}

#[test]
fn no_token_is_logged_however_much_is() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys.toml");
    let scopes = "scopes = [{ glob = \"**\", allow = [\"read\"] }]";
    fs::write(&keys, format!("[[key]]\nname = \"k\"\ntoken = \"{KNOWN}\"\n{scopes}\n")).unwrap();
    let launch = Launch::new(&dir.path().join("data")).args(["--auth", "keys", "--keys-file"]);
    let launch = launch.args([&keys]).args(["--log", "trace"]);
    let mut server = launch.start().unwrap();
    let log = server.overheard();
    for (shown, status) in [
        (format!("Bearer {KNOWN}"), "404"),
        (format!("Bearer {UNKNOWN}"), "401"),
        (format!("Token {ODD}"), "401"),
    ] {
        let answer = over_http1(&server.address, &shown);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{shown}: {answer}");
        over_http2(&server.address, &shown);
    }
    let (status, _) = server.stop();
    assert!(status.success(), "{status}");
    let log = log.join().unwrap();
    // It is the log of these requests, and it tells all it can.
    for path in PATHS {
        assert!(log.contains(path), "{path} was not logged");
    }
    assert!(log.contains("TRACE"), "nothing was traced");
    for token in [KNOWN, UNKNOWN, ODD] {
        // Not in part, either: a debugger's eye would find it in escaped bytes, too.
        let part = token.split('-').nth(1).unwrap();
        let hex: String = part.bytes().map(|byte| format!("{byte:02x}")).collect();
        let list = format!("{:?}", part.as_bytes());
        let list = list.trim_matches(['[', ']']);
        for form in [part, &hex, list] {
            let line = log.lines().find(|line| line.contains(form));
            assert_eq!(line, None, "a token is in the log");
        }
    }
}
