//! A disk that is really full: a server on a file system of a few megabytes.
//!
//! The file system is a tmpfs in a mount namespace of its own, held by a process that outlives the
//! server, so that a killed server finds its files again. That takes `unshare` and `nsenter` of
//! util-linux, and either root or unprivileged user namespaces. Where they are missing this test
//! fails and says what is: it is never skipped.

#![allow(clippy::disallowed_methods, reason = "processes, and what they leave behind, are real")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use http::Method;
use support::{Answer, Client, Launch};
use sys::Sys;
use tempfile::TempDir;

/// The size of the file system.
const SIZE: &str = "size=24m";
const MESSAGE_BYTES: usize = 60_000;
/// More messages than fit.
const MESSAGES_MAX: usize = 1_000;
/// How long a disk that seems full gets to make room by itself.
const SETTLES: Duration = Duration::from_secs(6);
/// How soon writes go on once there is room.
const RECOVERS: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// A small file system, there as long as the process that holds it.
struct SmallDisk {
    holder: Child,
    _dir: TempDir,
    path: PathBuf,
}

impl SmallDisk {
    fn mount() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let script = format!("mount -t tmpfs -o {SIZE} headwater \"$0\" && echo mounted && cat");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).arg(&path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder =
            command.spawn().unwrap_or_else(|error| panic!("unshare: {error}; {NEEDS}"));
        let mut said = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        if said != "mounted\n" {
            let mut why = String::new();
            holder.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("no small file system can be had here: {}; {NEEDS}", why.trim());
        }
        Self { holder, _dir: dir, path }
    }

    /// What starts a program that sees the file system.
    fn entrance(&self) -> Vec<String> {
        let target = self.holder.id().to_string();
        ["nsenter", "--user", "--mount", "--preserve-credentials", "--target", &target]
            .map(str::to_owned)
            .to_vec()
    }
}

const NEEDS: &str = "this test needs util-linux (unshare, nsenter, mount) and the right to make a \
                     user namespace with a tmpfs in it: root, or `sysctl \
                     kernel.unprivileged_userns_clone=1` and \
                     `kernel.apparmor_restrict_unprivileged_userns=0`; in a container, \
                     CAP_SYS_ADMIN";

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The file system goes with the last process that sees it.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn message(number: usize) -> String {
    format!("{number:06}{}", "z".repeat(MESSAGE_BYTES - 6))
}

async fn append(client: &Client, stream: &str, number: usize) -> Answer {
    let post = client.ask(Method::POST, stream).body("text/plain", message(number));
    post.send().await.unwrap()
}

/// What was acknowledged of a stream.
#[derive(Default)]
struct Stored {
    stream: &'static str,
    /// Where the stream ended after each of its messages.
    tails: Vec<String>,
}

/// Appends in turn until there is no room, and none comes by itself: the last refusal.
async fn fill(client: &Client, streams: &mut [Stored]) -> Answer {
    let mut full_since: Option<Instant> = None;
    loop {
        for Stored { stream, tails } in streams.iter_mut() {
            let answer = append(client, stream, tails.len()).await;
            match answer.status {
                204 => {
                    tails.push(answer.header("stream-next-offset").to_owned());
                    full_since = None;
                }
                507 if full_since.is_some_and(|since| since.elapsed() > SETTLES) => return answer,
                507 => {
                    full_since.get_or_insert_with(Instant::now);
                    Sys::real().clock.sleep(PAUSE).await;
                }
                other => panic!("{other}: {}", String::from_utf8_lossy(&answer.body)),
            }
            assert!(tails.len() < MESSAGES_MAX, "the disk never fills up");
        }
    }
}

/// The numbers of all messages from there on.
async fn numbers(client: &Client, stream: &str, mut from: String) -> Vec<usize> {
    let mut numbers = Vec::new();
    loop {
        let path = format!("{stream}?offset={from}");
        let answer = client.ask(Method::GET, &path).send().await.unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        if answer.body.is_empty() {
            return numbers;
        }
        for text in answer.body.chunks(MESSAGE_BYTES) {
            let text = std::str::from_utf8(text).unwrap();
            let number = text[..6].parse().unwrap();
            assert!(text == message(number), "{stream} has other bytes than were sent");
            numbers.push(number);
        }
        answer.header("stream-next-offset").clone_into(&mut from);
    }
}

/// The messages of a stream are those that were acknowledged, from this one on.
async fn check(client: &Client, stored: &Stored, from: usize) {
    let offset = from.checked_sub(1).map_or("-1", |before| &stored.tails[before]);
    let found = numbers(client, stored.stream, offset.to_owned()).await;
    assert_eq!(found, (from..stored.tails.len()).collect::<Vec<_>>(), "{}", stored.stream);
}

/// Waits until an append is taken.
async fn until_taken(client: &Client, stored: &mut Stored) {
    let began = Instant::now();
    loop {
        let answer = append(client, stored.stream, stored.tails.len()).await;
        match answer.status {
            204 => return stored.tails.push(answer.header("stream-next-offset").to_owned()),
            507 => assert!(began.elapsed() < RECOVERS, "writes do not go on by themselves"),
            other => panic!("{other}"),
        }
        Sys::real().clock.sleep(PAUSE).await;
    }
}

fn launch(disk: &SmallDisk) -> Launch {
    let settings = ["--engine-segment-bytes", "1MiB", "--engine-hot-bytes", "1MiB"];
    Launch::new(Path::new(&disk.path)).args(settings).within(disk.entrance())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_frees_room_and_loses_nothing() {
    let disk = SmallDisk::mount();
    let server = launch(&disk).start().unwrap();
    let client = Client::new(&server.address);
    let mut streams = ["keep", "trim", "gone"].map(|stream| Stored { stream, tails: Vec::new() });
    for Stored { stream, .. } in &streams {
        let put = client.ask(Method::PUT, stream).body("text/plain", "");
        assert_eq!(put.send().await.unwrap().status, 201);
    }
    let refused = fill(&client, &mut streams).await;
    let counts = streams.each_ref().map(|stored| stored.tails.len());
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");

    // What to do is said, and nothing else stops.
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("disk-full") && text.contains("delete or trim streams"), "{text}");
    assert_eq!(refused.header("retry-after"), "10");
    assert_eq!(client.get("/readyz").await.unwrap().status, 507);
    assert_eq!(client.get("/healthz").await.unwrap().status, 200);
    for stored in &streams {
        check(&client, stored, 0).await;
    }

    // Each way to let go makes room, and writes go on by themselves.
    let half = counts[1] / 2;
    let trim = format!("trim?before={}", streams[1].tails[half - 1]);
    for target in [trim.as_str(), "gone"] {
        let freed = client.ask(Method::DELETE, target).send().await.unwrap();
        assert_eq!(freed.status, 204, "{target}: {}", String::from_utf8_lossy(&freed.body));
        until_taken(&client, &mut streams[0]).await;
        assert_eq!(client.get("/readyz").await.unwrap().status, 200, "after {target}");
        fill(&client, &mut streams[..1]).await;
        assert_eq!(client.get("/readyz").await.unwrap().status, 507, "after {target}");
    }

    // A full disk is no reason to lose anything in a crash.
    server.kill();
    let server = launch(&disk).start().unwrap();
    let client = Client::new(&server.address);
    check(&client, &streams[0], 0).await;
    check(&client, &streams[1], half).await;
    assert_eq!(client.ask(Method::GET, "gone").send().await.unwrap().status, 404);
    let trimmed = client.ask(Method::GET, "trim?offset=-1").send().await.unwrap();
    assert_eq!(&trimmed.body[..6], &message(half).as_bytes()[..6]);
    drop(server);
}
