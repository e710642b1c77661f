//! The index of open work over real logs, in simulated time and on simulated disks.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeMap, future::Future, path::Path, sync::Arc};

use log::{
    Append, Create, Delete, Head, Incarnation, Log, MemoryLog,
    file::{FileLog, Settings},
};
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wake::{Feed, Found, OpenWork};
use wire::{Address, ContentType, Glob, Messages, Offset, StreamPath, SystemPath};

fn simulate<F: Future<Output = ()>>(test: impl FnOnce(Sys, SimDisk) -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let disk = SimDisk::new(1, SimFaults::default());
        let sys = Sys::simulated(1, disk.clone(), UnixMs::new(1_000_000_000_000));
        test(sys, disk).await;
    });
}

fn address(path: &str) -> Address {
    path.parse::<StreamPath>().unwrap().into()
}

async fn create(log: &dyn Log, path: &str) {
    let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
    let _ = log.create(&address(path), create).await.unwrap();
}

async fn append(log: &dyn Log, path: &str) {
    let append = Append::messages(Messages::one("1").unwrap());
    let _ = log.append(&address(path), append).await.unwrap();
}

async fn head(log: &dyn Log, path: &str) -> Head {
    log.head(&address(path)).await.unwrap()
}

async fn index(sys: &Sys, log: &Arc<dyn Log>) -> OpenWork {
    OpenWork::open(sys, log.clone(), "test", Glob::everything()).await.unwrap()
}

async fn leave(work: &OpenWork, log: &dyn Log, path: &str) {
    let head = head(log, path).await;
    work.leave(head.incarnation, head.tail).await.unwrap();
}

/// The paths that a pass tells, with those of hints that come meanwhile.
async fn pass(feed: &mut Feed) -> Vec<String> {
    let mut open = Vec::new();
    loop {
        match feed.next().await.unwrap().unwrap() {
            Found::Open { path, .. } => open.push(path.to_string()),
            Found::Passed => return open,
            _ => {}
        }
    }
}

#[test]
fn what_rests_is_not_told_again_until_it_moves() {
    simulate(|sys, _| async move {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        for path in ["a", "b", "c", "empty"] {
            create(&*log, path).await;
        }
        for path in ["a", "b", "c"] {
            append(&*log, path).await;
        }
        let work = index(&sys, &log).await;
        let mut feed = work.follow().unwrap();
        assert_eq!(pass(&mut feed).await, ["a", "b", "c"], "an index that is new has seen nothing");
        leave(&work, &*log, "a").await;
        leave(&work, &*log, "b").await;
        // Another writer, who knows nothing of the index.
        append(&*log, "b").await;
        let Some(Found::Open { path, tail, .. }) = feed.next().await.unwrap() else { panic!() };
        assert_eq!((path.as_str(), tail), ("b", head(&*log, "b").await.tail));
        feed.pass_again();
        assert_eq!(pass(&mut feed).await, ["b", "c"]);
        drop(feed);
        work.close().await;

        append(&*log, "a").await;
        leave(&index(&sys, &log).await, &*log, "c").await;
        let work = index(&sys, &log).await;
        assert_eq!(pass(&mut work.follow().unwrap()).await, ["a", "b"], "moved while it was away");
    });
}

#[test]
fn a_stream_made_again_is_open_and_one_deleted_is_forgotten() {
    simulate(|sys, _| async move {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let work = index(&sys, &log).await;
        for path in ["a", "b"] {
            create(&*log, path).await;
            append(&*log, path).await;
            leave(&work, &*log, path).await;
        }
        let mut feed = work.follow().unwrap();
        assert!(pass(&mut feed).await.is_empty());
        log.delete(&address("a"), Delete::Stream).await.unwrap();
        assert!(matches!(feed.next().await.unwrap(), Some(Found::Empty { .. })));
        assert_eq!(work.marks_count(), 1);
        create(&*log, "a").await;
        append(&*log, "a").await;
        feed.pass_again();
        assert_eq!(pass(&mut feed).await, ["a"], "one equally long message, but another stream");
        drop(feed);
        // Deleted where no feed hears of it.
        log.delete(&address("b"), Delete::Stream).await.unwrap();
        let mut feed = work.follow().unwrap();
        pass(&mut feed).await;
        assert_eq!(work.marks_count(), 0);
    });
}

#[test]
fn hints_that_were_lost_are_made_up_for_by_one_pass() {
    simulate(|sys, _| async move {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let work = index(&sys, &log).await;
        let mut feed = work.follow().unwrap();
        pass(&mut feed).await;
        for n in 0..3_000 {
            let path = format!("s/{n}");
            create(&*log, &path).await;
            append(&*log, &path).await;
        }
        let mut told = pass(&mut feed).await;
        told.sort();
        told.dedup();
        assert_eq!(told.len(), 3_000);
    });
}

#[test]
fn the_stream_of_an_index_does_not_grow_with_what_happened() {
    simulate(|sys, _| async move {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let work = index(&sys, &log).await;
        create(&*log, "a").await;
        for n in 1..=25_000 {
            work.leave(Incarnation::new(7 + n % 5), Offset::new(n, n)).await.unwrap();
        }
        let path: SystemPath = "wake/open/test".parse().unwrap();
        let kept = log.head(&path.into()).await.unwrap();
        let kept = kept.tail.position.get() - kept.earliest.position.get();
        assert!(kept <= 10_001, "{kept} messages are kept of 5 watermarks");
        let again = index(&sys, &log).await;
        assert_eq!(again.marks_count(), 5);
        assert!(!again.is_open(Incarnation::new(7), Offset::new(25_000, 25_000)));
    });
}

#[test]
fn damaged_watermarks_open_their_streams_and_no_others() {
    simulate(|sys, _| async move {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let work = index(&sys, &log).await;
        work.leave(Incarnation::new(7), Offset::new(1, 1)).await.unwrap();
        work.close().await;
        let path: SystemPath = "wake/open/test".parse().unwrap();
        for damage in ["[]", r#"{"marks":[[8,1]]}"#, r#"{"marks":[[9,1,18446744073709551615]]}"#] {
            let append = Append::messages(Messages::one(damage).unwrap());
            let _ = log.append(&path.clone().into(), append).await.unwrap();
        }
        let work = index(&sys, &log).await;
        let open = [7, 8, 9].map(|n| work.is_open(Incarnation::new(n), Offset::new(1, 1)));
        assert_eq!(open, [false, true, true]);
    });
}

/// A simulated disk keeps its files in memory.
fn small() -> Settings {
    Settings { segment_bytes: 64 * 1024, ..Settings::default() }
}

/// What is certain of a stream, whatever the disk did.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Left here, perhaps.
    asked: Offset,
    /// Left here, for sure.
    left: Offset,
}

/// A life that appends and leaves, one stream after another, until the power goes.
async fn live(sys: &Sys, known: &mut BTreeMap<String, Known>) -> Option<()> {
    let log = FileLog::open(sys, Path::new("/data"), small()).await.ok()?;
    let log: Arc<dyn Log> = Arc::new(log);
    let work = OpenWork::open(sys, log.clone(), "test", Glob::everything()).await.ok()?;
    for n in 0..6 {
        let path = format!("s/{}", n % 3);
        let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = log.create(&address(&path), create).await.ok()?;
        let append = Append::messages(Messages::one("1").unwrap());
        let tail = log.append(&address(&path), append).await.ok()?.tail;
        let head = log.head(&address(&path)).await.ok()?;
        let known = known.entry(path).or_default();
        // The last one is not judged.
        if n < 5 {
            known.asked = tail;
            work.leave(head.incarnation, tail).await.ok()?;
            known.left = tail;
        }
    }
    Some(())
}

/// Kills a life at its n-th write, and looks at what the next one finds. False if it was not
/// killed.
async fn killed_at(n: u64) -> bool {
    let disk = SimDisk::new(n, SimFaults::default());
    disk.set_faults(SimFaults { power_cut_at_op: Some(n), ..SimFaults::default() });
    let sys = Sys::simulated(n, disk.clone(), UnixMs::new(1_000_000_000_000));
    let mut known = BTreeMap::new();
    let lived = live(&sys, &mut known).await;
    let was_killed = disk.is_off();
    assert_eq!(lived.is_none(), was_killed, "write {n}");
    if !was_killed {
        disk.power_cut();
    }
    let sys = Sys { disk: Arc::new(disk.restart()), ..sys };
    let log = FileLog::open(&sys, Path::new("/data"), small()).await.unwrap();
    let log: Arc<dyn Log> = Arc::new(log);
    let work = index(&sys, &log).await;
    let open = pass(&mut work.follow().unwrap()).await;
    for (path, known) in &known {
        let Ok(head) = log.head(&address(path)).await else { continue };
        match open.contains(path) {
            true => assert_ne!(head.tail, known.left, "write {n}: {path} was left for sure"),
            false => assert!(
                head.tail == known.asked || head.tail == Offset::START,
                "write {n}: {path} ends at {} and was never judged so far",
                head.tail
            ),
        }
    }
    was_killed
}

#[test]
fn killed_at_any_write_the_index_names_too_much_but_never_too_little() {
    simulate(|_, _| async {
        let mut kills = 0;
        while killed_at(kills + 1).await {
            kills += 1;
        }
        assert!(kills >= 20, "only {kills} writes");
    });
}
