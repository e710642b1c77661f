//! One life of log and engine: opened, used by everybody at once, and ended.

use std::{
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use log::{Append, Create, Delete, Log, file::FileLog};
use parking_lot::Mutex;
use sys::{
    Sys,
    disk::{SimDisk, SimFaults},
};
use wake::{ChangeError, CreateError, Engine, SubscriptionId, Subscriptions as _};
use wire::{Address, ContentType, Expiry, Messages, Offset, StreamPath, Ttl};

use super::{
    Scene,
    worker::{self, Receiver},
};
use crate::{
    dice::Dice,
    line::Line,
    oracle::{Verdict, Violation, demand},
    plan::draw_settings,
};

const DIR: &str = "/wakes";
/// Streams that are followed.
const STREAMS: u64 = 4;
/// Streams that are followed, and deleted and made again.
const FLEETING: u64 = 2;
/// Streams that are followed, and expire and are made again.
const MORTAL: u64 = 2;
/// How long these last when no message comes.
const MORTAL_SECONDS: u64 = 3;
/// Those who pull.
const WORKERS: u64 = 3;
/// Once nothing goes wrong any more, all work is done within this much simulated time: the longest
/// pause between two calls, which is a minute and a fifth, a lease, and a little for those who are
/// at it.
pub(super) const BOUND: Duration = Duration::from_secs(90);
/// A log that is busy for so long hangs.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// A life that does not end for this long hangs.
const LIFE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Log and engine, open.
struct Place {
    log: FileLog,
    desk: Arc<Desk>,
    disk: SimDisk,
    sys: Sys,
    receiver: Arc<Receiver>,
    /// How engines reach the log, one for each.
    // Held to add one, or for a walk over them.
    lines: Mutex<Vec<Arc<Line>>>,
}

impl Place {
    /// The log as one more engine reaches it.
    fn line(&self, scene: &Scene, dice: &Dice) -> Arc<Line> {
        let line = line(scene, &self.log, dice);
        self.lines.lock().push(line.clone());
        line
    }

    /// Hints arrive, and engines that lost some are told.
    fn recover(&self) {
        self.lines.lock().iter().for_each(|line| line.recover());
    }
}

/// The log as an engine reaches it: with hints that may get lost, and nothing else wrong.
fn line(scene: &Scene, log: &FileLog, dice: &Dice) -> Arc<Line> {
    Line::new(&scene.sys, Arc::new(log.clone()), dice, 0, &scene.tally)
}

/// Where workers find the engine that is in charge.
#[derive(Debug)]
pub(super) struct Desk {
    /// The newest last; held for moments.
    engines: Mutex<Vec<Arc<Engine>>>,
}

impl Desk {
    pub(super) fn engine(&self) -> Arc<Engine> {
        self.engines.lock().last().expect("there is one from the start").clone()
    }

    pub(super) fn weak(&self) -> Weak<Engine> {
        self.engines.lock().last().map(Arc::downgrade).unwrap_or_default()
    }
}

/// A life in which anything may go wrong; the disk on which the next one begins.
pub(super) async fn live(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<SimDisk> {
    let place = open(scene, disk, dice).await?;
    let mut faults = SimFaults::default();
    let is_cut = dice.percent(70);
    if is_cut {
        let operation = place.disk.op_count() + dice.magnitude(1..=400);
        faults.power_cut_at_op = Some(operation);
    }
    if dice.percent(25) {
        faults.sync_error_ppm = dice.magnitude(1_000..=100_000) as u32;
    }
    scene.note(&format!("a life with {faults:?}"));
    place.disk.set_faults(faults);
    work(scene, &place, dice).await?;
    Ok(end(scene, place, is_cut).await)
}

/// A life in which the disk is sound, but no worker can be relied on; then all can, and everything
/// that is owed is done without a restart.
pub(super) async fn calm_down(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<SimDisk> {
    let place = open(scene, disk, dice).await?;
    scene.note("a life that calms down");
    work(scene, &place, dice).await?;
    scene.calm(true);
    place.recover();
    let done = all_is_done(scene, &place, dice).await;
    scene.calm(false);
    done?;
    scene.met().calmed += 1;
    Ok(end(scene, place, false).await)
}

/// All at once: one who writes, workers, and now and then an engine that takes over.
async fn work(scene: &Arc<Scene>, place: &Place, dice: &Dice) -> Verdict {
    let operations = dice.magnitude(5..=60);
    let mut tasks = Vec::new();
    for number in 0..=WORKERS {
        let (scene, desk, dice) = (scene.clone(), place.desk.clone(), dice.split());
        let log = place.log.clone();
        let sys = scene.sys.clone();
        tasks.push(sys.spawn.task("somebody", async move {
            match number {
                0 => append(&scene, &log, &desk, &dice, operations).await,
                _ => worker::pull(&scene, &desk, &dice, operations).await,
            }
        }));
    }
    let working = async {
        lose_hints(scene, place, dice).await;
        if dice.percent(30) {
            take_over(scene, place, dice).await;
            lose_hints(scene, place, dice).await;
        }
        for task in tasks {
            task.join().await;
        }
    };
    let done = scene.sys.clock.timeout(LIFE_MAX, working).await;
    done.map_err(|_| Violation("a life never ended".to_owned()))?;
    scene.check()
}

/// Hints of some engines are lost from now on.
async fn lose_hints(scene: &Scene, place: &Place, dice: &Dice) {
    if dice.percent(50) {
        scene.sys.clock.sleep(dice.pause()).await;
        let lines = place.lines.lock().clone();
        for line in lines.iter().filter(|_| dice.percent(70)) {
            line.lose_hints(dice.magnitude(1..=40));
        }
    }
}

/// Opens another engine over the same log, while the first one is at work.
async fn take_over(scene: &Scene, place: &Place, dice: &Dice) {
    for _ in 0..dice.between(1..=10) {
        scene.sys.clock.sleep(dice.pause()).await;
    }
    let (log, receiver) = (place.line(scene, dice), place.receiver.clone());
    let keys = scene.keys.clone();
    // If the log takes nothing any more, there is nothing to take over.
    if let Ok(engine) = Engine::open(log, &place.sys, receiver, keys).await {
        scene.note("another engine takes over");
        place.desk.engines.lock().push(Arc::new(engine));
        scene.met().takeovers += 1;
    }
}

/// Two workers do what is left, within the bound.
async fn all_is_done(scene: &Arc<Scene>, place: &Place, dice: &Dice) -> Verdict {
    let deadline = scene.sys.clock.elapsed() + BOUND;
    let (one, other) = (dice.split(), dice.split());
    while let Some(left) = what_is_left(scene, place).await? {
        let is_late = scene.sys.clock.elapsed() >= deadline;
        demand(!is_late, || format!("not done {BOUND:?} after faults stopped: {left}"))?;
        let pull = |dice| worker::pull(scene, &place.desk, dice, 3);
        tokio::join!(pull(&one), pull(&other));
        scene.check()?;
    }
    scene.check()
}

/// A life in which nothing goes wrong, until all is done.
pub(super) async fn finish(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict {
    scene.note("the last life");
    scene.calm(true);
    let place = open(scene, disk, dice).await?;
    append(scene, &place.log, &place.desk, dice, 10).await;
    all_is_done(scene, &place, dice).await?;
    end(scene, place, false).await;
    scene.check()
}

async fn open(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<Place> {
    disk.set_faults(SimFaults::default());
    let sys = Sys { disk: Arc::new(disk.clone()), ..scene.sys.clone() };
    let wrong = |what: &str, error: &dyn std::fmt::Display| Violation(format!("{what}: {error}"));
    let log = FileLog::open(&sys, Path::new(DIR), draw_settings(dice)).await;
    let log = log.map_err(|error| wrong("opening the log", &error))?;
    let line = line(scene, &log, dice);
    let desk = Arc::new(Desk { engines: Mutex::default() });
    let receiver =
        Receiver { scene: scene.clone(), dice: dice.split(), desk: Arc::downgrade(&desk) };
    let receiver = Arc::new(receiver);
    let engine = Engine::open(line.clone(), &sys, receiver.clone(), scene.keys.clone()).await;
    let engine = Arc::new(engine.map_err(|error| wrong("opening subscriptions", &error))?);
    desk.engines.lock().push(engine.clone());
    make(&log, "wakes").await;
    for (id, config) in &scene.subscriptions {
        let id: SubscriptionId = id.parse().expect("an id");
        let deadline = scene.sys.clock.elapsed() + PATIENCE;
        loop {
            match engine.create(&id, config.clone(), String::new()).await {
                Ok(_) => break,
                // The log may be busy, or have been.
                Err(CreateError::Unavailable(_)) if scene.sys.clock.elapsed() < deadline => {
                    scene.sys.clock.sleep(Duration::from_secs(1)).await;
                }
                Err(error) => return Err(wrong("making a subscription", &error)),
            }
        }
    }
    let lines = Mutex::new(vec![line]);
    Ok(Place { log, desk, disk, sys, receiver, lines })
}

/// Ends a life; the disk as it is found by the next one.
async fn end(scene: &Scene, place: Place, is_cut: bool) -> SimDisk {
    let Place { log, desk, disk, receiver, .. } = place;
    let is_cut = is_cut || disk.is_off();
    if is_cut {
        disk.power_cut();
        scene.met().cuts += 1;
    }
    scene.note(if is_cut { "the power goes" } else { "the log is closed" });
    let engines = std::mem::take(&mut *desk.engines.lock());
    drop((desk, receiver));
    for mut shared in engines {
        loop {
            match Arc::try_unwrap(shared) {
                Ok(engine) => break engine.close().await,
                // A worker is still about to report.
                Err(engine) => shared = engine,
            }
            scene.sys.clock.sleep(Duration::from_secs(1)).await;
        }
    }
    log.close().await;
    if is_cut { disk.restart() } else { disk }
}

async fn append(scene: &Scene, log: &FileLog, desk: &Desk, dice: &Dice, operations: u64) {
    for _ in 0..operations {
        let stream = match dice.between(0..=STREAMS + FLEETING + MORTAL - 1) {
            number if number < STREAMS => format!("s/{number}"),
            number if number < STREAMS + FLEETING => format!("s/d/{}", number - STREAMS),
            number => format!("s/t/{}", number - STREAMS - FLEETING),
        };
        if stream.starts_with("s/t/") && dice.percent(40) {
            expire(scene, log, desk, &stream).await;
        } else if stream.starts_with("s/d/") && dice.percent(40) {
            let deleted = log.delete(&address(&stream), Delete::Stream).await;
            scene.met().deleted += u64::from(deleted.is_ok());
            scene.note(&format!("{stream} is deleted: {deleted:?}"));
        } else {
            make(log, &stream).await;
            let messages = Messages::one("1").expect("one small message");
            // Whether it is there, the log knows.
            let appended = log.append(&address(&stream), Append::messages(messages)).await;
            let appended = appended.map(|appended| appended.tail);
            scene.note(&format!("{stream} ends at {appended:?}"));
        }
        scene.sys.clock.sleep(dice.pause()).await;
    }
}

/// Lets a stream expire, unless a worker that reads it, or a lost touch, prolongs its life.
async fn expire(scene: &Scene, log: &FileLog, desk: &Desk, stream: &str) {
    let is_there = log.head(&address(stream)).await.is_ok();
    let is_linked = is_there && is_linked(scene, &desk.engine(), stream).await;
    scene.sys.clock.sleep(Duration::from_secs(2 * MORTAL_SECONDS)).await;
    let is_gone = log.head(&address(stream)).await.is_err();
    scene.met().expired += u64::from(is_linked && is_gone);
    scene.note(&format!("{stream} was there: {is_there}, linked: {is_linked}, gone: {is_gone}"));
}

/// Whether a subscription has a link to a stream.
async fn is_linked(scene: &Scene, engine: &Engine, stream: &str) -> bool {
    for id in scene.subscriptions.keys() {
        let id: SubscriptionId = id.parse().expect("an id");
        let view = engine.get(&id).await;
        if view.is_ok_and(|view| view.links.iter().any(|link| link.path.as_str() == stream)) {
            return true;
        }
    }
    false
}

async fn make(log: &FileLog, stream: &str) {
    let expiry = match stream.starts_with("s/t/") {
        true => Expiry::Sliding(Ttl::from_seconds(MORTAL_SECONDS)),
        false => Expiry::Never,
    };
    let create = Create { content_type: Some(ContentType::json()), expiry, ..Create::default() };
    let _ = log.create(&address(stream), create).await;
}

fn address(stream: &str) -> Address {
    Address::from(stream.parse::<StreamPath>().expect("a path"))
}

/// What nobody has acknowledged, or nobody has done; none if all is well.
async fn what_is_left(scene: &Scene, place: &Place) -> Verdict<Option<String>> {
    for id in scene.subscriptions.keys() {
        let id: SubscriptionId = id.parse().expect("an id");
        let view = match place.desk.engine().get(&id).await {
            Ok(view) => view,
            Err(ChangeError::Unavailable(why)) => return Ok(Some(why.to_string())),
            Err(error) => return Err(Violation(format!("{id} is not shown: {error}"))),
        };
        for number in 0..STREAMS {
            let stream = format!("s/{number}");
            let head = place.log.head(&address(&stream)).await;
            let tail = head.map_or(Offset::START, |head| head.tail);
            let path: StreamPath = stream.parse().expect("a path");
            let link = view.links.iter().find(|link| link.path == path);
            let acked = link.and_then(|link| link.acked).unwrap_or_default();
            let (done, confirmed) =
                scene.ledger(&id, |ledger| (ledger.done(&path), ledger.confirmed(&path)));
            demand(acked >= confirmed, || format!("{id} {path}: {acked} after {confirmed}"))?;
            demand(acked <= done, || format!("{id} {path}: {acked}, but done up to {done}"))?;
            if acked < tail {
                return Ok(Some(format!("{id} {path}: {acked} of {tail}")));
            }
        }
        let fleeting = (0..FLEETING).map(|number| format!("s/d/{number}"));
        for stream in fleeting.chain((0..MORTAL).map(|number| format!("s/t/{number}"))) {
            let head = place.log.head(&address(&stream)).await.ok();
            let link = view.links.iter().find(|link| link.path.as_str() == stream);
            match (head.map(|head| head.tail).filter(|tail| *tail > Offset::START), link) {
                (None, Some(_)) => {
                    return Ok(Some(format!("{id} follows {stream}, which is gone")));
                }
                (Some(tail), link) if link.and_then(|link| link.acked) != Some(tail) => {
                    return Ok(Some(format!("{id} {stream}: {link:?} of {tail}")));
                }
                _ => {}
            }
        }
    }
    Ok(None)
}
