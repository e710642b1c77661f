//! One life of log and engine: opened, used by everybody at once, and ended.

use std::{path::Path, sync::Arc, time::Duration};

use log::{Append, Create, Log, file::FileLog};
use parking_lot::Mutex;
use sys::{
    Sys,
    disk::{SimDisk, SimFaults},
};
use wake::{ChangeError, CreateError, Engine, SubscriptionId, Subscriptions as _};
use wire::{Address, ContentType, Messages, Offset, StreamPath};

use super::{
    Scene,
    worker::{self, Mood, Receiver},
};
use crate::{
    dice::Dice,
    oracle::{Verdict, Violation, demand},
    plan::draw_settings,
};

const DIR: &str = "/wakes";
/// Streams that are followed.
const STREAMS: u64 = 4;
/// Those who pull.
const WORKERS: u64 = 3;
/// Work that is not done after so long, in simulated time, is forgotten.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// A life that does not end for this long hangs.
const LIFE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Both, open.
struct Place {
    log: FileLog,
    engine: Arc<Engine>,
    disk: SimDisk,
}

/// A life in which anything may go wrong; the disk on which the next one begins.
pub(super) async fn live(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<SimDisk> {
    let place = open(scene, disk, dice, Mood::Any).await?;
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
    let operations = dice.magnitude(5..=60);
    let mut tasks = Vec::new();
    for number in 0..=WORKERS {
        let (scene, engine, dice) = (scene.clone(), place.engine.clone(), dice.split());
        let log = place.log.clone();
        let sys = scene.sys.clone();
        tasks.push(sys.spawn.task("somebody", async move {
            match number {
                0 => append(&scene, &log, &dice, operations).await,
                _ => worker::pull(&scene, &engine, &dice, Mood::Any, operations).await,
            }
        }));
    }
    let working = async {
        for task in tasks {
            task.join().await;
        }
    };
    let done = scene.sys.clock.timeout(LIFE_MAX, working).await;
    done.map_err(|_| Violation("a life never ended".to_owned()))?;
    scene.check()?;
    Ok(end(scene, place, is_cut).await)
}

/// A life in which nothing goes wrong, until all is done.
pub(super) async fn finish(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict {
    scene.note("the last life");
    let place = open(scene, disk, dice, Mood::Diligent).await?;
    append(scene, &place.log, dice, 10).await;
    let deadline = scene.sys.clock.elapsed() + PATIENCE;
    while let Some(left) = what_is_left(scene, &place).await? {
        demand(scene.sys.clock.elapsed() < deadline, || format!("work was forgotten: {left}"))?;
        worker::pull(scene, &place.engine, dice, Mood::Diligent, 10).await;
        scene.check()?;
    }
    end(scene, place, false).await;
    scene.check()
}

async fn open(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice, mood: Mood) -> Verdict<Place> {
    disk.set_faults(SimFaults::default());
    let sys = Sys { disk: Arc::new(disk.clone()), ..scene.sys.clone() };
    let wrong = |what: &str, error: &dyn std::fmt::Display| Violation(format!("{what}: {error}"));
    let log = FileLog::open(&sys, Path::new(DIR), draw_settings(dice)).await;
    let log = log.map_err(|error| wrong("opening the log", &error))?;
    let waist: Arc<dyn Log> = Arc::new(log.clone());
    let receiver = Arc::new(Receiver {
        scene: scene.clone(),
        dice: dice.split(),
        mood,
        engine: Mutex::default(),
    });
    let engine = Engine::open(waist, &sys, receiver.clone(), scene.keys.clone()).await;
    let engine = Arc::new(engine.map_err(|error| wrong("opening subscriptions", &error))?);
    *receiver.engine.lock() = Arc::downgrade(&engine);
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
    Ok(Place { log, engine, disk })
}

/// Ends a life; the disk as it is found by the next one.
async fn end(scene: &Scene, place: Place, is_cut: bool) -> SimDisk {
    let Place { log, engine, disk } = place;
    let is_cut = is_cut || disk.is_off();
    if is_cut {
        disk.power_cut();
        scene.met().cuts += 1;
    }
    scene.note(if is_cut { "the power goes" } else { "the log is closed" });
    let mut shared = engine;
    loop {
        match Arc::try_unwrap(shared) {
            Ok(engine) => break engine.close().await,
            // Somebody is still about to report.
            Err(engine) => shared = engine,
        }
        scene.sys.clock.sleep(Duration::from_secs(1)).await;
    }
    log.close().await;
    if is_cut { disk.restart() } else { disk }
}

async fn append(scene: &Scene, log: &FileLog, dice: &Dice, operations: u64) {
    for _ in 0..operations {
        let stream = format!("s/{}", dice.between(0..=STREAMS - 1));
        make(log, &stream).await;
        let messages = Messages::one("1").expect("one small message");
        // Whether it is there, the log knows.
        let appended = log.append(&address(&stream), Append::messages(messages)).await;
        let appended = appended.map(|appended| appended.tail);
        scene.note(&format!("{stream} ends at {appended:?}"));
        scene.sys.clock.sleep(dice.pause()).await;
    }
}

async fn make(log: &FileLog, stream: &str) {
    let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
    let _ = log.create(&address(stream), create).await;
}

fn address(stream: &str) -> Address {
    Address::from(stream.parse::<StreamPath>().expect("a path"))
}

/// What nobody has acknowledged, or nobody has done; none if all is well.
async fn what_is_left(scene: &Scene, place: &Place) -> Verdict<Option<String>> {
    for id in scene.subscriptions.keys() {
        let id: SubscriptionId = id.parse().expect("an id");
        let view = match place.engine.get(&id).await {
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
    }
    Ok(None)
}
