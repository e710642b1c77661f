//! Real processes, killed at the worst moment: what was acknowledged is there, nothing else is.
//!
//! The first test kills a server instead of each of its durable writes, one after the other, while
//! a story is told to it; then again and again while it recovers. The second does the same on the
//! way from an append to a woken worker's acknowledgement. The third kills a server fifty times
//! under load. Others kill `headwater backup` and `keys rotate` at each write beside a server. A
//! killed process loses nothing that the kernel has taken; disks that forget are the simulator's
//! business.

#![allow(clippy::disallowed_methods, reason = "processes, and the time they take, are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "whoever looks for a failure needs to know where it was")]

#[path = "crash/commands.rs"]
mod commands;
#[path = "crash/load.rs"]
mod load;
#[path = "crash/model.rs"]
mod model;
#[path = "crash/step.rs"]
mod step;
#[path = "crash/story.rs"]
mod story;
mod support;
#[path = "crash/wakes.rs"]
mod wakes;

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use model::Model;
use rustix::process::Signal;
use step::Step;
use support::{Client, Launch, Server};
use sys::{
    Chance,
    disk::{End, KillMode, KillPoint, sweep},
};
use tempfile::TempDir;
use tokio::runtime::Builder;
use wakes::{Mode, Story};

/// Writes of a recovery at which further blows fall, one after the other.
const RECOVERY_WRITES: u64 = 8;

/// A server with full segments regroups them within this.
const REGROUPED_WITHIN: Duration = Duration::from_secs(30);

/// Writes at the start of a second life at which it ends, one after the other.
const EARLY_WRITES: u64 = 9;
/// Stories of wakes that are told at a time.
const WAKES_HANDS: usize = 12;

/// A directory in memory where there is one: a killed process cannot tell the difference.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// A server whose segments are so small that they fill and are regrouped while the story is told.
fn launch(dir: &Path) -> Launch {
    Launch::new(dir)
        .args(["--chunk-bytes", "2KiB", "--threads", "1", "--long-poll-timeout", "100ms"])
        .env("HEADWATER_ENGINE_SEGMENT_BYTES", "16KiB")
        .env("HEADWATER_ENGINE_HOT_BYTES", "4KiB")
        .env("HEADWATER_ENGINE_REGROUP_SEGMENTS", "1")
        .env("HEADWATER_ENGINE_RECLAIM_AFTER", "1ms")
}

/// Tells the story until it ends or the server dies; returns the step whose answer never came.
async fn tell(client: &Client, story: &[Step], model: &mut Model) -> Option<usize> {
    for (index, step) in story.iter().enumerate() {
        let Ok(answer) = step.send(client, model).await else { return Some(index) };
        step.check_first(&answer);
        step.apply(model);
    }
    None
}

/// How many durable writes the story causes.
fn count_writes(story: &[Step]) -> u64 {
    let dir = scratch();
    let count = dir.path().join("count");
    let data = dir.path().join("data");
    let mut server = launch(&data).env("HEADWATER_COUNT_WRITES", &count).start().unwrap();
    let mut model = Model::default();
    let client = Client::new(&server.address);
    assert_eq!(block_on(tell(&client, story, &mut model)), None);
    assert!(is_regrouped(&mut server, &data), "it is not to die");
    assert!(server.stop().0.success());
    fs::read_to_string(count).unwrap().trim().parse().unwrap()
}

/// Kills a server at a write, others while they recover, and looks what the last one finds.
fn survive(story: &[Step], point: KillPoint) -> End {
    let dir = scratch();
    let deadly = |at: u64| {
        let point = KillPoint { at, ..point };
        launch(dir.path()).env("HEADWATER_KILL_AT_WRITE", point.to_string()).start_deadly()
    };
    let mut model = Model::default();
    let mut unanswered = None;
    let mut end = End::Killed;
    if let Some(mut server) = deadly(point.at) {
        let client = Client::new(&server.address);
        unanswered = block_on(tell(&client, story, &mut model));
        match unanswered {
            Some(_) => server.died(),
            None if is_regrouped(&mut server, dir.path()) => end = stopped(server),
            None => server.died(),
        }
    }
    for at in 1..=RECOVERY_WRITES {
        if let Some(server) = deadly(at) {
            server.kill();
        }
    }
    let server = launch(dir.path()).start().expect("it recovers");
    block_on(go_on(&server, story, model, unanswered));
    end
}

/// Waits until segments of the log were regrouped, which goes on in the background after the last
/// answer; false if the server dies before.
fn is_regrouped(server: &mut Server, dir: &Path) -> bool {
    let deadline = Instant::now() + REGROUPED_WITHIN;
    while fs::read_dir(dir.join("packs")).unwrap().next().is_none() {
        if !server.is_alive() {
            return false;
        }
        assert!(Instant::now() < deadline, "a story that was told to its end was not regrouped");
        thread::sleep(Duration::from_millis(2));
    }
    true
}

/// How a server ends that is asked to: it may die of its last writes.
fn stopped(server: Server) -> End {
    let (status, log) = server.stop();
    match status.signal() {
        None if status.success() => End::Whole,
        Some(signal) if signal == Signal::KILL.as_raw() => End::Killed,
        _ => panic!("the server ended with {status}:\n{log}"),
    }
}

/// Checks what is there, asks again what was not answered, and tells the rest of the story.
async fn go_on(server: &Server, story: &[Step], mut model: Model, unanswered: Option<usize>) {
    let client = Client::new(&server.address);
    let shown = model::observe(&client).await;
    let told = match unanswered {
        None => {
            assert_eq!(shown, model.shown());
            // If the server died before it listened, nothing was told.
            if model == Model::default() { 0 } else { story.len() }
        }
        Some(index) => {
            let step = &story[index];
            let before = model.clone();
            step.apply(&mut model);
            let landed = shown == model.shown();
            assert!(landed || shown == before.shown(), "{step:?}\n{shown:#?}\n{before:#?}");
            step.ask_again(&client, &before, landed).await;
            assert_eq!(model::observe(&client).await, model.shown(), "{step:?} asked again");
            index + 1
        }
    };
    model.prove_memory(&client).await;
    assert_eq!(tell(&client, &story[told..], &mut model).await, None);
    assert_eq!(model::observe(&client).await, model.shown());
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Kills servers at each write of a story, in two ways, some at a time, until the story is told to
/// its end: at each of its steps, of which all last before they are answered, some must have died.
fn at_every_write(steps: usize, hands: usize, survive: impl Fn(KillPoint) -> End + Sync) {
    let killed = sweep(hands, |point| {
        let surviving = AssertUnwindSafe(|| survive(point));
        catch_unwind(surviving).unwrap_or_else(|panic| {
            println!("failed with HEADWATER_KILL_AT_WRITE={point}");
            resume_unwind(panic)
        })
    });
    println!("servers died at each of {killed} writes, in both ways");
    assert!(killed > steps as u64, "killed at {killed} writes, and there are {steps} steps");
}

#[test]
fn a_crash_at_any_write_loses_nothing_and_invents_nothing() {
    let story = story::story();
    let writes = count_writes(&story);
    println!("the story has {} steps and {writes} writes", story.len());
    let hands = thread::available_parallelism().map_or(2, usize::from);
    at_every_write(story.len(), hands, |point| survive(&story, point));
}

/// Kills a server at a write while workers are woken, the next one early, and goes on.
fn survive_wakes(point: KillPoint) -> End {
    let dir = scratch();
    // Both ways to be killed meet both modes, at every other write.
    let is_usual = (point.mode == KillMode::Before) == point.at.is_multiple_of(2);
    let mode = if is_usual { Mode::Usual } else { Mode::ByStream };
    block_on(async {
        let story = Story::new(mode);
        let mut end = End::Whole;
        for at in [point.at, 1 + point.at % EARLY_WRITES] {
            let point = KillPoint { at, ..point };
            let deadly = launch(dir.path()).env("HEADWATER_KILL_AT_WRITE", point.to_string());
            let Some(server) = deadly.start_deadly() else {
                end = End::Killed;
                continue;
            };
            match story.tell(&server).await {
                Ok(()) if end == End::Whole => return stopped(server),
                Ok(()) => return end,
                Err(_) => server.died(),
            }
            end = End::Killed;
        }
        let server = launch(dir.path()).start().expect("it recovers");
        story.tell(&server).await.expect("nobody kills it");
        assert!(server.stop().0.success());
        end
    })
}

/// How many writes a server has from the first append to the last acknowledgement.
fn count_writes_of_wakes(mode: Mode) -> u64 {
    let dir = scratch();
    let count = dir.path().join("count");
    let counted = launch(&dir.path().join("data")).env("HEADWATER_COUNT_WRITES", &count);
    block_on(async {
        let server = counted.start().unwrap();
        Story::new(mode).tell(&server).await.unwrap();
        assert!(server.stop().0.success());
    });
    fs::read_to_string(count).unwrap().trim().parse().unwrap()
}

#[test]
fn a_crash_at_any_write_forgets_no_wake() {
    let modes = [Mode::Usual, Mode::ByStream];
    let [usual, by_stream] = modes.map(count_writes_of_wakes);
    println!("the wakes have {usual} writes, or {by_stream}");
    // Most of the time they wait for retries and leases.
    at_every_write(wakes::STEPS, WAKES_HANDS, survive_wakes);
}

#[test]
fn producers_are_exactly_once_through_fifty_kills() {
    let given = std::env::var("HEADWATER_CRASH_SEED").ok();
    let seed = given.map_or_else(|| Chance::real().below(1 << 32), |text| text.parse().unwrap());
    println!("HEADWATER_CRASH_SEED={seed}");
    load::run(&Chance::seeded(seed));
}
