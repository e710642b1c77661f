//! The program as people and scripts meet it: every command, every source of settings, and what
//! it says when something is wrong.

#![allow(clippy::disallowed_methods, reason = "tests prepare files and processes as people do")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use http::Method;
use http_body_util::BodyExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{Answer, Client, Launch, Output, Program, Server};
use tempfile::TempDir;
use tokio::{runtime::Runtime, task::JoinSet};

/// A place with streams: a directory, or a server.
struct Place {
    dir: TempDir,
    server: Option<Server>,
}

impl Place {
    fn local() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), server: None }
    }

    fn remote() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let launch = Launch::new(dir.path()).args(["--engine", "memory"]);
        let server = launch.args(["--long-poll-timeout", "200ms"]).start().unwrap();
        Self { dir, server: Some(server) }
    }

    /// `headwater stream` with these words, and the place.
    fn program(&self, words: &str) -> Program {
        let program = Program::in_dir(self.dir.path()).args(["stream"]);
        let program = program.args(words.split_whitespace());
        match &self.server {
            None => program.args(["--data-dir", "streams"]),
            Some(server) => program.args(["--url", &server.url()]),
        }
    }

    fn run(&self, words: &str) -> Output {
        self.program(words).run()
    }

    fn pipe(&self, words: &str, stdin: &str) -> Output {
        self.program(words).stdin(stdin).run()
    }
}

fn on_both(check: impl Fn(&Place)) {
    check(&Place::local());
    check(&Place::remote());
}

fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn offset(position: u64, byte: u64) -> String {
    format!("{position:016}_{byte:016}")
}

#[test]
fn json_streams_hold_a_message_per_value() {
    on_both(|place| {
        let made = place.run("create chats/1 --content-type application/json").ok();
        assert_eq!(made, "created chats/1 (application/json)\n");
        let made = place.run("create chats/1 --content-type application/json").ok();
        assert_eq!(made, "found chats/1 (application/json)\n");
        let told = place.pipe("append chats/1", "{\"a\":\n1}\n[2] 3").ok();
        let tail = offset(3, 12);
        assert_eq!(told, format!("appended 3 messages to chats/1; it ends at {tail}\n"));
        assert_eq!(place.run("read chats/1").ok(), "{\"a\": 1}\n[2]\n3\n");
        assert_eq!(place.run("read chats/1 --from now").ok(), "");
        assert_eq!(place.run(&format!("read chats/1 --from {}", offset(1, 8))).ok(), "[2]\n3\n");
        let end = json!({"next": tail, "upToDate": true, "closed": false});
        let shown = [json!({"message": {"a": 1}}), json!({"message": [2]}), json!({"message": 3})];
        let read = objects(&place.run("read chats/1 --json").ok());
        assert_eq!((&read[..3], &read[3]), (&shown[..], &end));
    });
}

#[test]
fn other_streams_hold_a_message_per_append_or_line() {
    on_both(|place| {
        place.run("create log --content-type text/plain").ok();
        let told = place.pipe("append log --lines --json", "one\ntwo\n").ok();
        assert_eq!(objects(&told)[0]["messages"], 2);
        place.pipe("append log", "three\nfour\n").ok();
        place.program("append log").args(["--message", "five six"]).run().ok();
        assert_eq!(place.run("read log").ok(), "onetwothree\nfour\nfive six");
        let head = objects(&place.run("head log --json").ok()).remove(0);
        assert_eq!(head["tail"], offset(4, 25));
        let failed = place.pipe("append log", "").failed(1);
        assert!(failed.contains("log: there is nothing to append"), "{failed}");
    });
}

#[test]
fn conditions_guard_an_append() {
    on_both(|place| {
        place.run("create s --content-type application/json").ok();
        let append = |conditions: &str| {
            let output = place.pipe(&format!("append s --json {conditions}"), "1");
            match output.code {
                0 => Ok(objects(&output.ok()).remove(0)["outcome"].as_str().unwrap().to_owned()),
                _ => Err(output.failed(1)),
            }
        };
        #[track_caller]
        fn refused(result: Result<String, String>, why: &str) {
            let told = result.unwrap_err();
            assert!(told.starts_with("error: s: ") && told.contains(why), "{told}");
        }
        assert_eq!(append("--producer p --epoch 0 --seq 0"), Ok("new".into()));
        assert_eq!(append("--producer p --epoch 0 --seq 0"), Ok("duplicate".into()));
        refused(append("--producer p --epoch 0 --seq 5"), "leaves a gap; send 1 first");
        assert_eq!(append("--producer p --epoch 1 --seq 0"), Ok("new".into()));
        refused(append("--producer p --epoch 0 --seq 1"), "epoch 1 has taken over");
        assert_eq!(append("--seq-header b"), Ok("new".into()));
        refused(append("--seq-header a"), "Sequence conflict");
        let tail = offset(3, 3);
        assert_eq!(append(&format!("--expected-offset {tail}")), Ok("new".into()));
        refused(append(&format!("--expected-offset {tail}")), "Expected offset conflict");
        assert_eq!(append("--close"), Ok("new".into()));
        refused(append(""), "the stream is closed");
        assert_eq!(place.run("tail s").ok(), "1\n1\n1\n1\n1\n");
    });
}

#[test]
fn a_stream_can_be_forked_trimmed_closed_and_deleted() {
    on_both(|place| {
        place.run("create a --content-type application/json --ttl 2h").ok();
        place.pipe("append a", "1 2 3 4").ok();
        place.run("fork a b").ok();
        place.run(&format!("fork a c --offset {} --sub-offset 2", offset(1, 1))).ok();
        assert_eq!(place.run("read b").ok(), "1\n2\n3\n4\n");
        assert_eq!(place.run("read c").ok(), "1\n2\n3\n");
        let trimmed = place.run(&format!("trim b --before {}", offset(2, 2))).ok();
        assert_eq!(trimmed, format!("trimmed b before {}\n", offset(2, 2)));
        assert_eq!(place.run("read b").ok(), "3\n4\n");
        let closed = place.run("close b").ok();
        assert_eq!(closed, format!("closed b at {}\n", offset(4, 4)));
        let head = place.run("head b").ok();
        assert!(head.contains("\nstate         closed\n"), "{head}");
        assert!(head.contains("\nexpires       7200 s after its last use\n"), "{head}");
        assert_eq!(place.run("list").ok(), "a\nb\nc\n");
        assert_eq!(place.run("delete b").ok(), "deleted b\n");
        assert_eq!(place.run("delete a --erase").ok(), "erased a\n");
        assert_eq!(place.run("list").ok(), "");
        for verb in ["read", "head", "close", "delete", "append", "tail"] {
            let told = place.pipe(&format!("{verb} b"), "1").failed(1);
            assert_eq!(told, "error: b: there is no such stream; create it first\n", "{verb}");
        }
    });
}

#[test]
fn a_stream_of_rows_can_be_compacted() {
    on_both(|place| {
        place.run("create s --content-type application/json").ok();
        let put = |key: &str, n: usize| {
            let headers = r#"{"operation":"upsert"}"#;
            format!(r#"{{"type":"n","key":"{key}","value":{n},"headers":{headers}}}"#)
        };
        let puts: Vec<_> = (0..40).map(|n| put(["a", "b"][n % 2], n)).collect();
        place.pipe("append s", &puts.join(" ")).ok();
        let planned = place.run("compact s --dry-run").ok();
        let begins = "s would begin with a snapshot of 2 rows: 40 messages become 4, ";
        assert!(planned.starts_with(begins), "{planned}");
        let held = objects(&place.run("compact s --dry-run --keep-from 30 --json").ok()).remove(0);
        assert_eq!((&held["keptFrom"], &held["messagesAfter"]), (&30.into(), &14.into()));
        assert_eq!(place.run("read s").ok().lines().count(), 40, "nothing was done");
        let compacted = objects(&place.run("compact s --json").ok()).remove(0);
        assert_eq!((&compacted["outcome"], &compacted["rows"]), (&"compacted".into(), &2.into()));
        let left = place.run("read s").ok();
        assert_eq!(left.lines().count(), 4);
        assert!(left.contains(r#""headwater.position":"39","headwater.inserted":"1""#), "{left}");
        assert_eq!(place.run("compact s").ok(), "s has nothing to give back\n");
        let cursor = r#"{"start":0,"position":0,"epoch":1}"#;
        let headers = r#"{"operation":"upsert"}"#;
        place.run("create held --content-type application/json").ok();
        let cursor = format!(
            r#"{{"type":"headwater.cursor","key":"greet","value":{cursor},"headers":{headers}}}"#
        );
        place.pipe("append held", &format!("{} {cursor}", put("a", 1))).ok();
        let told = place.run("compact held").ok();
        assert!(told.contains(r#"position 0 on is kept for the effect "greet""#), "{told}");
        place.pipe("append s", "7").ok();
        let told = place.run("compact s").failed(1);
        assert!(told.contains("position 44 would be lost") && told.contains("--drop"), "{told}");
        assert!(place.run("compact s --keep-from x").failed(2).lines().count() > 1);
        assert!(place.run("compact s --keep-chunks x").failed(2).contains("use until-message"));
        let told = place.run("compact nothing").failed(1);
        assert_eq!(told, "error: nothing: there is no such stream; create it first\n");
    });
}

#[test]
fn the_chunks_of_an_answer_are_kept_as_long_as_is_said() {
    let row = |name: &str, value: &str| {
        let headers = r#"{"operation":"insert"}"#;
        let key = &value[r#"{"id":""#.len()..];
        let key = &key[..key.find('"').unwrap()];
        format!(r#"{{"type":"{name}","key":"{key}","value":{value},"headers":{headers}}}"#)
    };
    let at = "2026-01-01T00:00:00Z";
    let generation = format!(
        r#"{{"id":"g","agentName":"a","status":"completed","model":"m","readUpTo":0,
        "createdAt":"{at}","updatedAt":"{at}","completedAt":"{at}"}}"#
    );
    let message = format!(
        r#"{{"id":"m","role":"assistant","content":"x","actorId":"a","createdAt":"{at}"}}"#
    );
    let chunk = |index: usize| {
        format!(
            r#"{{"id":"c{index}","generationId":"g","messageId":"m","index":{index},
            "type":"text","content":"x"}}"#
        )
    };
    let mut rows = vec![row("generation", &generation), row("message", &message)];
    rows.extend((0..20).map(|index| row("chunk", &chunk(index))));
    on_both(|place| {
        place.run("create s --content-type application/json").ok();
        place.pipe("append s", &rows.join(" ")).ok();
        for (keep, left) in [("forever", 22), ("1000000h", 22), ("1ms", 2), ("until-message", 2)] {
            let told = place.run(&format!("compact s --dry-run --json --keep-chunks {keep}")).ok();
            assert_eq!(objects(&told).remove(0)["rows"], left, "{keep}: {told}");
        }
        place.run("compact s --keep-chunks until-message").ok();
        let left = place.run("read s").ok();
        let has = |name: &str| left.contains(&format!(r#""type":"{name}""#));
        assert!(has("message") && !has("chunk"), "{left}");
    });
}

#[test]
fn effects_are_listed_and_forgotten() {
    on_both(|place| {
        place.run("create s --content-type application/json").ok();
        let headers = r#"{"operation":"upsert"}"#;
        let row = |kind: &str, key: &str, value: &str| {
            format!(
                r#"{{"type":"headwater.{kind}","key":"{key}","value":{value},"headers":{headers}}}"#
            )
        };
        let cursor = r#"{"start":0,"position":1,"epoch":1,"seenAt":1900000000000}"#;
        let rows = [
            row("claim", "new", r#"{"epoch":1,"runner":"r"}"#),
            row("cursor", "greet", cursor),
            row("cursor", "old", r#"{"start":0,"position":0,"epoch":1}"#),
        ];
        place.pipe("append s", &rows.join(" ")).ok();
        let told = place.run("effects s").ok();
        let expected = "greet: cursor 1, lag 2, last seen 2030-03-17T17:46:40.000Z\n\
                        new: no cursor yet, last seen at an unknown time\n\
                        old: cursor 0, lag 3, last seen at an unknown time\n";
        assert_eq!(told, expected);
        let listed = objects(&place.run("effects s --json").ok());
        assert_eq!((&listed[0]["cursor"], &listed[0]["lag"]), (&1.into(), &2.into()));
        let told = place.run("effects s --forget greet").ok();
        assert_eq!(told, "s has forgotten the effect \"greet\"\n");
        let names = place.run("effects s").ok();
        assert!(names.starts_with("new: ") && names.lines().count() == 2, "{names}");
        let told = place.run("effects s --forget greet").failed(1);
        assert!(told.contains(r#"there is no effect "greet"; there are ["new", "old"]"#), "{told}");
        let told = place.run("effects nothing").failed(1);
        assert_eq!(told, "error: nothing: there is no such stream; create it first\n");
    });
}

#[test]
fn a_generation_that_is_not_over_keeps_its_history() {
    on_both(|place| {
        place.run("create s --content-type application/json").ok();
        let row = |key: &str, position: usize, status: &str| {
            let at = "2026-11-17T12:00:00.000Z";
            let row = serde_json::json!({
                "id": key, "agentName": "a", "status": status, "model": "m", "readUpTo": position,
                "createdAt": at, "updatedAt": at,
            });
            let headers = r#"{"operation":"upsert"}"#;
            format!(r#"{{"type":"generation","key":"{key}","value":{row},"headers":{headers}}}"#)
        };
        let over: Vec<_> = (0..20).map(|n| row("over", n, "completed")).collect();
        let open: Vec<_> = (20..40).map(|n| row("open", n, "generating")).collect();
        place.pipe("append s", &[over, open].concat().join(" ")).ok();
        let held = objects(&place.run("compact s --json").ok()).remove(0);
        assert_eq!((&held["keptFrom"], &held["messagesAfter"]), (&20.into(), &23.into()));
        place.pipe("append s", &row("open", 40, "completed")).ok();
        let whole = objects(&place.run("compact s --json").ok()).remove(0);
        assert_eq!((&whole["rows"], &whole["messagesAfter"]), (&2.into(), &4.into()));
    });
}

#[test]
fn a_stream_may_be_made_closed_or_with_an_end() {
    on_both(|place| {
        place.run("create done --closed").ok();
        assert_eq!(place.run("tail done").ok(), "");
        place.run("create soon --expires-at 2999-01-31T12:00:00Z").ok();
        let head = objects(&place.run("head soon --json").ok()).remove(0);
        assert_eq!(head["expiresAt"], "2999-01-31T12:00:00.000Z");
        assert_eq!(head["contentType"], "application/octet-stream");
    });
}

#[test]
fn a_list_is_read_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("streams");
    let server = Launch::new(&data).start().unwrap();
    Runtime::new().unwrap().block_on(async {
        let client = Client::new(&server.address);
        let mut making = JoinSet::new();
        for number in 0..1005 {
            let client = client.clone();
            making.spawn(async move {
                let made = client.ask(Method::PUT, &format!("many/{number:04}")).send().await;
                assert_eq!(made.unwrap().status, 201);
            });
        }
        making.join_all().await;
    });
    let list = |args: &[&str]| {
        let program = Program::in_dir(dir.path()).args(["stream", "list"]).args(args);
        program.run().ok().lines().count()
    };
    assert_eq!(list(&["--url", &server.url()]), 1005);
    assert_eq!(list(&["--url", &server.url(), "--prefix", "many/10"]), 5);
    assert!(server.stop().0.success());
    assert_eq!(list(&["--data-dir", "streams"]), 1005);
}

#[test]
fn a_tail_follows_until_the_stream_is_closed() {
    let place = Place::remote();
    place.run("create live --content-type application/json").ok();
    place.pipe("append live", "1").ok();
    let url = place.server.as_ref().unwrap().url();
    let mut tail = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["stream", "tail", "live", "--url", &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "1");
    place.pipe("append live", "2").ok();
    assert_eq!(lines.next().unwrap().unwrap(), "2");
    place.pipe("append live --close", "3").ok();
    assert_eq!(lines.next().unwrap().unwrap(), "3");
    assert!(lines.next().is_none());
    assert!(tail.wait().unwrap().success());
}

#[test]
fn messages_are_appended_as_they_come() {
    let place = Place::remote();
    place.run("create live --content-type application/json").ok();
    let url = place.server.as_ref().unwrap().url();
    let mut append = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["stream", "append", "live", "--json", "--url", &url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = append.stdin.take().unwrap();
    let mut told = BufReader::new(append.stdout.take().unwrap()).lines();
    for number in 1..=3 {
        stdin.write_all(b"{\"n\":1}\n").unwrap();
        let result: Value = serde_json::from_str(&told.next().unwrap().unwrap()).unwrap();
        assert_eq!(result["tail"], offset(number, number * 7));
    }
    // What has come stays, and whoever has to send the rest is told how much that is.
    stdin.write_all(b"{nonsense").unwrap();
    drop(stdin);
    let output = append.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(
        why.contains("message 4 of the input")
            && why.contains("the first 3 messages were appended"),
        "{why}"
    );
}

#[test]
fn a_reader_who_leaves_is_no_failure() {
    let place = Place::local();
    place.run("create big --content-type text/plain").ok();
    place.pipe("append big", &"long ".repeat(500_000)).ok();
    let mut read = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .current_dir(place.dir.path())
        .args(["stream", "read", "big", "--data-dir", "streams"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 4];
    read.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = read.wait_with_output().unwrap();
    assert_eq!((&first, output.status.code()), (b"long", Some(0)));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn wrong_places_are_told_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let list = || Program::in_dir(dir.path()).args(["stream", "list"]);
    let told = list().run().failed(1);
    assert!(told.contains("./.headwater: there are no streams here; create one"), "{told}");
    assert!(!dir.path().join(".headwater").exists());
    let told = list().env("HEADWATER_URL", "http://127.0.0.1:1").run().failed(1);
    assert!(told.contains("http://127.0.0.1:1: the server cannot be reached: "), "{told}");
    assert!(told.contains("check --url"), "{told}");
    let told = list().args(["--url", "localhost"]).run().failed(2);
    assert!(told.contains("\"localhost\" is not the URL of a server"), "{told}");
    let told = list().args(["--url", "http://a", "--data-dir", "b"]).run().failed(2);
    assert!(told.contains("cannot be used with"), "{told}");

    let server = Launch::new(&dir.path().join("busy")).start().unwrap();
    let told = list().args(["--data-dir", "busy"]).run().failed(1);
    let expected = "busy: a server is running on this directory; go through it with --url";
    assert!(told.contains(expected), "{told}");
    let url = server.url();
    let program = list().env("HEADWATER_URL", "http://127.0.0.1:1");
    assert_eq!(program.args(["--url", &format!("{url}/v1/stream/")]).run().ok(), "");
    let told = Launch::new(&dir.path().join("busy")).start().unwrap_err();
    assert!(told.contains("busy is in use by another process"), "{told}");
    let taken = Launch::new(&dir.path().join("other")).listen(&server.address).start().unwrap_err();
    assert!(taken.contains("choose another --listen"), "{taken}");
}

#[test]
fn wrong_words_are_refused_before_anything_is_done() {
    let dir = tempfile::tempdir().unwrap();
    #[track_caller]
    fn check(dir: &Path, words: &str, expected: &str) {
        let told = Program::in_dir(dir).args(words.split_whitespace()).run().failed(2);
        assert!(told.contains(expected), "{words}: {told}");
    }
    check(dir.path(), "stream read a//b", "the stream path has an empty segment");
    check(dir.path(), "stream read a --from yesterday", "use start, now, or an offset");
    check(dir.path(), "stream create a --ttl 500ms", "use whole seconds such as 90s");
    check(dir.path(), "stream create a --ttl 1s --expires-at 2030-01-31T12:00:00Z", "cannot be");
    check(dir.path(), "stream create a --content-type json", "must be a media type");
    check(dir.path(), "stream append a --producer p --seq 1", "--epoch");
    check(dir.path(), "stream fork a b --sub-offset 1", "--offset");
    check(dir.path(), "serve --port 80", "unexpected argument '--port'");
    check(dir.path(), "serve --config missing.toml", "missing.toml cannot be read");
    check(dir.path(), "serve --tls-cert a.pem", "tls-cert and tls-key go together");
    check(dir.path(), "serve --auth keys", "auth is keys, so keys-file must be given");
    check(dir.path(), "serve --keys-file keys.toml", "but auth is none");
    check(dir.path(), "serve --auth jwt --jwt-key k.pem", "jwt-key needs jwt-algorithm");
    check(dir.path(), "serve --jwt-audience a", "the other jwt settings need jwt-key");
    check(dir.path(), "serve --inflight-max 1KiB", "inflight-max is less than twice body-max");
    check(dir.path(), "serve --cors-origin app.example", "use * or origins such as https://");
    check(dir.path(), "serve --cors-origin null", "use * or origins such as https://");
    check(dir.path(), "serve --jwt-leeway 2h", "use whole seconds up to an hour");
    check(dir.path(), "serve --log a=b=c", "--log \"a=b=c\" is not allowed; use a level");
    check(dir.path(), "serve --listen 0.0.0.0:4437", "listen on 127.0.0.1");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Whether a server that is started so takes a body of 25 bytes.
fn takes_25_bytes(launch: &Launch) -> bool {
    let server = launch.start().unwrap();
    let client = Client::new(&server.address);
    let body = || client.ask(Method::PUT, "s").body("text/plain", "25 bytes, no more no less");
    let answer: Answer = Runtime::new().unwrap().block_on(body().send()).unwrap();
    answer.status == 201
}

#[test]
fn settings_come_from_flags_then_variables_then_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("headwater.toml");
    fs::write(&file, "engine = \"memory\"\nbody-max = \"25B\"\ntrust-proxy = true\n").unwrap();
    let launch =
        Launch::new(&dir.path().join("unused")).args(["--config".as_ref(), file.as_os_str()]);
    assert!(takes_25_bytes(&launch));
    let launch = launch.env("HEADWATER_BODY_MAX", "24");
    assert!(!takes_25_bytes(&launch));
    assert!(takes_25_bytes(&launch.clone().args(["--body-max", "1KiB", "--trust-proxy=false"])));
    assert!(!dir.path().join("unused").exists());

    let told = launch.clone().env("HEADWATER_BODY_MAX", "lots").start().unwrap_err();
    assert!(told.contains("HEADWATER_BODY_MAX=\"lots\" is not allowed; use a size"), "{told}");
    fs::write(&file, "engine = \"floppy\"\n").unwrap();
    let told = launch.start().unwrap_err();
    let place = format!("{}: engine = \"floppy\" is not allowed", file.display());
    assert!(told.contains(&place) && told.contains("use file or memory"), "{told}");
}

#[test]
fn serve_takes_exactly_the_documented_words() {
    for engine in ["file", "memory"] {
        let dir = tempfile::tempdir().unwrap();
        let words = ["--engine", engine, "--auth", "none", "--long-poll-timeout", "500ms"];
        let server = Launch::new(&dir.path().join("data")).args(words).start().unwrap();
        let client = Client::new(&server.address);
        Runtime::new().unwrap().block_on(async {
            assert_eq!(client.ask(Method::PUT, "s").send().await.unwrap().status, 201);
            let poll = client.ask(Method::GET, "s?offset=now&live=long-poll").send().await;
            assert_eq!(poll.unwrap().status, 204);
        });
        let (status, log) = server.stop();
        assert!(status.success(), "{log}");
        assert_eq!(dir.path().join("data").exists(), engine == "file");
    }
}

#[test]
fn a_second_signal_ends_the_server_now() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::new(dir.path()).args(["--engine", "memory"]).start().unwrap();
    // A request whose body never comes keeps the server from an orderly end.
    let mut connection = TcpStream::connect(&server.address).unwrap();
    let head = "PUT /v1/stream/s HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
                content-length: 10\r\n\r\n";
    connection.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 12];
    connection.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100");
    server.signal(Signal::TERM);
    while TcpStream::connect(&server.address).is_ok() {}
    server.signal(Signal::INT);
    let (status, log) = server.ended();
    assert_eq!(status.code(), Some(1), "{log}");
}

#[test]
fn a_token_opens_what_its_key_allows() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys.toml");
    let scopes = "scopes = [{ glob = \"mine/**\", allow = [\"read\", \"write\"] }]";
    let token = "a token of many bytes";
    fs::write(&keys, format!("[[key]]\nname = \"k\"\ntoken = \"{token}\"\n{scopes}\n")).unwrap();
    let launch = Launch::new(dir.path()).args(["--engine", "memory", "--auth", "keys"]);
    let server = launch.args(["--keys-file".as_ref(), keys.as_os_str()]).start().unwrap();
    let run = |words: &str, token: Option<&str>| {
        let program = Program::in_dir(dir.path()).env("HEADWATER_URL", server.url());
        let program = program.args(["stream"]).args(words.split_whitespace());
        match token {
            Some(token) => program.env("HEADWATER_TOKEN", token).run(),
            None => program.run(),
        }
    };
    run("create mine/a", Some(token)).ok();
    assert!(run("head mine/a", None).failed(1).contains("set HEADWATER_TOKEN"));
    assert!(run("head theirs/a", Some(token)).failed(1).contains("does not allow this"));
    let told = run("read mine/a", Some("another token of that length")).failed(1);
    assert!(told.contains("the token is unknown"), "{told}");
}

/// A server to play with; it never outlives its handle, and so neither does a failed test.
struct Dev {
    child: Child,
    /// The first lines it says.
    welcome: Vec<String>,
}

impl Dev {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command.current_dir(dir).arg("dev").args(args).stdout(Stdio::piped());
        let mut dev = Self { child: command.spawn().unwrap(), welcome: Vec::new() };
        let mut lines = BufReader::new(dev.child.stdout.take().unwrap()).lines();
        while !dev.welcome.last().is_some_and(|line| line.contains("live=sse")) {
            dev.welcome.push(lines.next().expect("the welcome has not ended").unwrap());
        }
        dev
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// As Ctrl-C would.
    fn stop(mut self) {
        self.signal(Signal::INT);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Both fail only when the process has already ended, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the lines as a person would who pastes them into a shell.
fn run_curls(lines: &[&str]) {
    for (line, expected) in lines.iter().zip(["", "", "data:[{\"text\":\"hi\"}]"]) {
        // The last one would go on for ever.
        let line = format!("{line} --silent --show-error --fail --max-time 2");
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains(expected), "{line}: {told}");
        assert_eq!(output.status.code(), Some(if expected.is_empty() { 0 } else { 28 }), "{line}");
    }
}

/// The same requests, where there is no curl.
async fn do_what_curls_do(client: &Client) {
    let create = client.ask(Method::PUT, "hello").body("application/json", "");
    assert_eq!(create.send().await.unwrap().status, 201);
    let append = client.ask(Method::POST, "hello").body("application/json", "{\"text\":\"hi\"}");
    assert_eq!(append.send().await.unwrap().status, 204);
    let mut events = client.follow("hello?offset=-1&live=sse").await.unwrap();
    let first = events.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"event: data\ndata:[{\"text\":\"hi\"}]\n"), "{first:?}");
}

#[test]
fn dev_welcomes_with_lines_that_work() {
    let dir = tempfile::tempdir().unwrap();
    // Whether we or somebody else has the usual port, it is taken: no other test here uses it.
    let _usual = TcpListener::bind("127.0.0.1:4437");
    let dev = Dev::start(dir.path(), &[]);
    let text = dev.welcome.join("\n");
    assert!(dev.welcome.len() < 15 && !text.contains('\x1b'), "{text}");
    assert!(text.contains("(port 4437 is taken)") && text.contains("in ./.headwater"), "{text}");
    let curls: Vec<&str> = dev.welcome.iter().map(|line| line.trim()).collect();
    let curls: Vec<&str> = curls.into_iter().filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(curls.len(), 3, "{text}");
    if Command::new("curl").arg("--version").output().is_ok() {
        run_curls(&curls);
    } else {
        let url = curls[0].split_whitespace().last().unwrap();
        let address = url.trim_start_matches("http://").split('/').next().unwrap();
        Runtime::new().unwrap().block_on(do_what_curls_do(&Client::new(address)));
    }
    dev.stop();
    assert!(dir.path().join(".headwater").is_dir());
}

/// How many keys a server publishes.
async fn keys_published(client: &Client) -> usize {
    let answer = client.ask(Method::GET, "__ds/jwks.json").send().await.unwrap();
    let document: Value = serde_json::from_slice(&answer.body).unwrap();
    document["keys"].as_array().unwrap().len()
}

#[test]
fn dev_takes_new_keys_at_a_hangup() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path(), &["--listen", "127.0.0.1:0"]);
    let url = dev.welcome.iter().find_map(|line| line.split_once("http://")).unwrap().1;
    let client = Client::new(url.split([' ', '/']).next().unwrap());
    let rotate = Program::in_dir(dir.path()).args(["keys", "rotate", "--data-dir", ".headwater"]);
    assert_eq!(rotate.run().ok().lines().count(), 2);
    Runtime::new().unwrap().block_on(async {
        assert_eq!(keys_published(&client).await, 1);
        dev.signal(Signal::HUP);
        let renewed = async {
            while keys_published(&client).await != 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), renewed).await.unwrap();
    });
    dev.stop();
}

/// Makes a stream whose messages stand in frames of their own, in one segment.
fn write_three_messages(data_dir: &Path) {
    let server =
        Launch::new(data_dir).env("HEADWATER_ENGINE_SEGMENT_BYTES", "1MiB").start().unwrap();
    let client = Client::new(&server.address);
    Runtime::new().unwrap().block_on(async {
        let create = client.ask(Method::PUT, "s").body("application/json", "[]");
        assert_eq!(create.send().await.unwrap().status, 201);
        for number in 0..3 {
            let message = format!("{{\"n\":{number}}}");
            let append = client.ask(Method::POST, "s").body("application/json", message);
            assert_eq!(append.send().await.unwrap().status, 204);
        }
    });
    assert!(server.stop().0.success());
}

#[test]
fn the_doctor_tells_a_sound_directory_from_a_damaged_one() {
    let place = Place::local();
    let doctor = |args: &[&str]| {
        let program = Program::in_dir(place.dir.path()).args(["doctor", "--data-dir", "streams"]);
        program.args(args).run()
    };
    assert!(doctor(&[]).failed(1).contains("streams: there is no such directory"));
    write_three_messages(&place.dir.path().join("streams"));
    let told = doctor(&[]).ok();
    assert!(told.contains("1 stream, 3 messages") && told.contains("is sound."), "{told}");
    assert_eq!(objects(&doctor(&["--json"]).ok())[0]["sound"], true);

    let segment = place.dir.path().join("streams/wal/slot-000000");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(7).position(|window| window == b"{\"n\":1}").unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let output = doctor(&[]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stdout.contains("damage: streams/wal/slot-000000 at byte"), "{output:?}");
    assert_eq!(objects(&doctor(&["--json"]).stdout)[0]["sound"], false);
    let told = place.run("read s").failed(1);
    assert!(told.contains("run headwater doctor"), "{told}");
    let told = doctor(&["--repair"]).ok();
    assert!(told.contains("mended: ") && told.contains("1 stream, 1 message"), "{told}");
    assert_eq!(place.run("read s").ok(), "{\"n\":0}\n");

    // What was cut off is kept, listed, and can be read back.
    let told = doctor(&[]).ok();
    let aside = place.dir.path().join("streams/lost+found/segment-1");
    assert!(told.contains("lost+found/segment-1") && told.contains("is sound."), "{told}");
    let found = objects(&doctor(&["--salvage", &aside.to_string_lossy()]).ok());
    // Streams of our own are in the file, too.
    let named = found.iter().filter(|one| one["name"] == "s");
    let texts: Vec<&str> = named.filter_map(|one| one["text"].as_str()).collect();
    assert_eq!(texts, ["{\"n\":0}", "{\"n\":2}"]);
}

#[test]
fn the_doctor_looks_at_the_keys_of_a_server_too() {
    let place = Place::local();
    let data = place.dir.path().join("streams");
    write_three_messages(&data);
    fs::write(data.join("keys.json"), "{\"secret\":\"hidden\"}").unwrap();
    let doctor = Program::in_dir(place.dir.path()).args(["doctor", "--data-dir", "streams"]).run();
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(doctor.stdout.contains("damage: streams/keys.json at byte 0"), "{doctor:?}");
    assert!(!doctor.stdout.contains("hidden"), "{doctor:?}");
}

#[test]
fn a_backup_of_a_directory_that_is_served_can_be_served() {
    let place = Place::local();
    let data = place.dir.path().join("streams");
    write_three_messages(&data);
    let server = Launch::new(&data).start().unwrap();
    let backup = |to: &str| {
        let program = Program::in_dir(place.dir.path());
        program.args(["backup", to, "--data-dir", "streams"]).run()
    };
    let told = backup("copy").ok();
    assert!(told.contains("copy: 1 streams, 3 messages"), "{told}");
    assert!(backup("copy").failed(1).contains("not empty"));
    assert!(server.stop().0.success());
    let keys = |dir: &str| fs::read(place.dir.path().join(dir).join("keys.json")).unwrap();
    assert_eq!(keys("copy"), keys("streams"));
    let server = Launch::new(&place.dir.path().join("copy")).start().unwrap();
    assert!(server.stop().0.success());
}

#[test]
fn help_and_version_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| Program::in_dir(dir.path()).args(words).run().ok();
    assert_eq!(run(&["--version"]), format!("headwater {}\n", env!("CARGO_PKG_VERSION")));
    let help = run(&["--help"]);
    for word in ["dev", "serve", "stream", "doctor", "First steps:"] {
        assert!(help.contains(word), "{help}");
    }
    let serve = run(&["serve", "--help"]);
    assert!(serve.contains("HEADWATER_DATA_DIR") && !serve.contains("engine-segment"), "{serve}");
}
