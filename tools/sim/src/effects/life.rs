//! One life of a log, a database over it and an effect: opened, used, and ended.

use std::{path::Path, sync::Arc, time::Duration};

use live::{ChangeKind, Context, Effect, Event, HandlerError, Row, StreamDb, from};
use log::{Create, Log, file::FileLog};
use serde::{Deserialize, Serialize};
use sys::{
    Sys,
    disk::{SimDisk, SimFaults},
};
use wire::{Address, ContentType, StreamPath};

use super::{Scene, ledger::Ledger};
use crate::{
    dice::Dice,
    oracle::{Verdict, Violation, demand},
    plan::draw_settings,
};

/// What the effect is called.
pub(super) const NAME: &str = "answer";
const DIR: &str = "/effects";
/// Rows that come and go.
const ROWS: u64 = 5;
/// Once nothing goes wrong any more, everything is answered within this much simulated time: the
/// longest pause of an effect between two attempts, twice.
pub(super) const BOUND: Duration = Duration::from_secs(60);
/// How long a write is waited for; afterwards nobody knows.
const WRITE_WAIT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Serialize, Deserialize, Row)]
struct Message {
    id: String,
    is_open: bool,
    edits: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, Row)]
struct Answer {
    id: String,
}

/// Everything, open.
struct Place {
    log: FileLog,
    db: StreamDb,
    effects: Vec<Effect>,
    disk: SimDisk,
}

/// A life in which anything may go wrong; the disk on which the next one begins.
pub(super) async fn live(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<SimDisk> {
    let mut place = open(scene, disk, dice).await?;
    let mut faults = SimFaults::default();
    let is_cut = dice.percent(70);
    if is_cut {
        faults.power_cut_at_op = Some(place.disk.op_count() + dice.magnitude(1..=300));
    }
    if dice.percent(25) {
        faults.sync_error_ppm = dice.magnitude(1_000..=100_000) as u32;
    }
    scene.note(&format!("a life with {faults:?}"));
    place.disk.set_faults(faults);
    let (others, operations) = (dice.split(), dice.magnitude(5..=60));
    let taking_over = take_over(scene, &place.db, &others);
    let ((), taken) = tokio::join!(write(scene, &place.db, dice, operations), taking_over);
    place.effects.extend(taken?);
    Ok(end(scene, place, is_cut).await)
}

/// A life in which the disk is sound, but handlers fail and runners take over; then none does, and
/// everything is answered without a restart.
pub(super) async fn calm_down(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<SimDisk> {
    scene.note("a life that calms down");
    let mut place = open(scene, disk, dice).await?;
    let (others, operations) = (dice.split(), dice.magnitude(5..=60));
    let taking_over = take_over(scene, &place.db, &others);
    let ((), taken) = tokio::join!(write(scene, &place.db, dice, operations), taking_over);
    place.effects.extend(taken?);
    scene.calm(true);
    let answered = all_is_answered(scene, &place).await;
    scene.calm(false);
    answered?;
    scene.met.lock().calmed += 1;
    Ok(end(scene, place, false).await)
}

async fn all_is_answered(scene: &Scene, place: &Place) -> Verdict {
    let deadline = scene.sys.clock.elapsed() + BOUND;
    loop {
        let ledger = Ledger::read(&place.log, &address()).await?;
        if ledger.is_complete()? {
            return Ok(());
        }
        let is_late = scene.sys.clock.elapsed() >= deadline;
        let left = || format!("not answered {BOUND:?} after faults stopped: {:?}", ledger.left());
        demand(!is_late, left)?;
        scene.sys.clock.sleep(Duration::from_secs(1)).await;
    }
}

/// A life in which nothing goes wrong, until all is answered.
pub(super) async fn finish(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict {
    scene.note("the last life");
    scene.calm(true);
    let mut place = open(scene, disk, dice).await?;
    // A second executor takes over while the first is at work.
    let second = start(scene, &place.db, dice);
    place.effects.push(second.map_err(|error| Violation(format!("taking over: {error}")))?);
    write(scene, &place.db, dice, 10).await;
    all_is_answered(scene, &place).await?;
    end(scene, place, false).await;
    Ok(())
}

async fn open(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<Place> {
    disk.set_faults(SimFaults::default());
    let sys = Sys { disk: Arc::new(disk.clone()), ..scene.sys.clone() };
    let wrong = |what: &str, error: &dyn std::fmt::Display| Violation(format!("{what}: {error}"));
    let log = FileLog::open(&sys, Path::new(DIR), draw_settings(dice)).await;
    let log = log.map_err(|error| wrong("opening the log", &error))?;
    let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
    let created = log.create(&address(), create).await;
    let _ = created.map_err(|error| wrong("making the stream", &error))?;
    let waist: Arc<dyn Log> = Arc::new(log.clone());
    let db = StreamDb::builder(waist, address(), &sys).with::<Message>().with::<Answer>().open();
    let db = db.map_err(|error| wrong("opening the database", &error))?;
    db.ready().await.map_err(|error| wrong("reading the stream", &error))?;
    let effect = start(scene, &db, dice).map_err(|error| wrong("starting", &error))?;
    Ok(Place { log, db, effects: vec![effect], disk })
}

/// Starts more runners while the first one works, now and then; it is not told to stop.
async fn take_over(scene: &Arc<Scene>, db: &StreamDb, dice: &Dice) -> Verdict<Vec<Effect>> {
    let mut runners = Vec::new();
    while dice.percent(40) {
        for _ in 0..dice.between(1..=20) {
            scene.sys.clock.sleep(dice.pause()).await;
        }
        scene.note("another runner takes over");
        let started = start(scene, db, dice);
        runners.push(started.map_err(|error| Violation(format!("taking over: {error}")))?);
        scene.met.lock().takeovers += 1;
    }
    Ok(runners)
}

fn start(scene: &Arc<Scene>, db: &StreamDb, dice: &Dice) -> Result<Effect, live::DbError> {
    let query = from::<Message>().filter(Message::is_open.eq(true));
    let (scene, dice) = (scene.clone(), Arc::new(dice.split()));
    let concurrency = usize::try_from(dice.between(1..=3)).unwrap_or(1);
    let handler = move |event, context| answer(scene.clone(), dice.clone(), event, context);
    db.durable_effect(NAME, query)
        .on_enter(handler.clone())
        .on_update(handler.clone())
        .on_exit(handler)
        .concurrency(concurrency)
        .start()
}

/// Takes its time, fails now and then, and answers; or answers, and fails.
async fn answer(
    scene: Arc<Scene>,
    dice: Arc<Dice>,
    event: Event<Message>,
    context: Context,
) -> Result<(), HandlerError> {
    let kind = match event.kind() {
        ChangeKind::Enter => "enter",
        ChangeKind::Update => "update",
        ChangeKind::Exit => "exit",
    };
    let id = format!("{kind} {} {}", event.row().id, event.id().position);
    scene.delivered(&id, context.attempt());
    scene.sys.clock.sleep(dice.pause()).await;
    if !scene.is_calm() && dice.percent(20) {
        scene.met.lock().failed += 1;
        return Err(HandlerError::new("no luck"));
    }
    let committed = context.commit(|rows| rows.put(&Answer { id: id.clone() })).await;
    scene.note(&format!("committed {id}: {committed:?}"));
    if committed.is_err() {
        scene.met.lock().unanswered += 1;
    }
    committed?;
    if !scene.is_calm() && dice.percent(10) {
        scene.met.lock().failed_late += 1;
        return Err(HandlerError::new("too late"));
    }
    Ok(())
}

/// Opens, edits, closes and deletes rows, now and then several at once.
async fn write(scene: &Scene, db: &StreamDb, dice: &Dice, operations: u64) {
    for _ in 0..operations {
        let wrote = db.transaction(|writes| {
            for _ in 0..dice.between(1..=2) {
                let id = format!("m{}", dice.between(0..=ROWS - 1));
                match writes.get::<Message>(id.as_str())? {
                    None => {
                        let is_open = dice.percent(70);
                        writes.insert(Message { id, is_open, edits: 0 })?;
                    }
                    Some(_) if dice.percent(20) => writes.delete::<Message>(id.as_str())?,
                    Some(_) if dice.percent(30) => {
                        writes.update::<Message>(id.as_str(), |row| row.edits += 1)?;
                    }
                    Some(_) => {
                        writes.update::<Message>(id.as_str(), |row| row.is_open = !row.is_open)?;
                    }
                }
            }
            Ok(())
        });
        let outcome = match wrote {
            Ok(wrote) => {
                let settled = scene.sys.clock.timeout(WRITE_WAIT, wrote.settled()).await;
                format!("{settled:?}")
            }
            Err(error) => error.to_string(),
        };
        scene.note(&format!("wrote: {outcome}"));
        scene.sys.clock.sleep(dice.pause()).await;
    }
}

/// Ends a life; the disk as it is found by the next one.
async fn end(scene: &Scene, place: Place, is_cut: bool) -> SimDisk {
    let Place { log, db, effects, disk } = place;
    let is_cut = is_cut || disk.is_off();
    if is_cut {
        disk.power_cut();
        scene.met.lock().cuts += 1;
    }
    scene.note(if is_cut { "the power goes" } else { "the log is closed" });
    // Handlers are told, and what they could not finish is left to the next life.
    for effect in effects {
        effect.dispose().await;
    }
    drop(db);
    log.close().await;
    if is_cut { disk.restart() } else { disk }
}

fn address() -> Address {
    Address::from("session".parse::<StreamPath>().expect("a path"))
}
