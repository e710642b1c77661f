//! One life of a log, a database over it and an effect: opened, used, and ended.

use std::{path::Path, sync::Arc, time::Duration};

use live::{Row, StreamDb};
use log::{Create, Log, file::FileLog};
use serde::{Deserialize, Serialize};
use sys::{
    Sys,
    disk::{SimDisk, SimFaults},
};
use wire::{Address, ContentType, StreamPath};

use super::{Scene, ledger::Ledger, process::Process};
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
pub(super) struct Message {
    pub(super) id: String,
    pub(super) is_open: bool,
    edits: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, Row)]
pub(super) struct Answer {
    pub(super) id: String,
}

/// Everything, open.
struct Place {
    log: FileLog,
    /// Of those who write rows.
    db: StreamDb,
    processes: Processes,
    disk: SimDisk,
}

/// All that run the effect, the one that has it last.
struct Processes {
    sys: Sys,
    log: FileLog,
    list: Vec<Process>,
    /// Whether the one that had the effect is dead: the others know that they have it no more.
    is_orphaned: bool,
    /// Whether any has died in this life of the log.
    has_died: bool,
}

impl Processes {
    /// One more process takes the effect over.
    fn employ(&mut self, scene: &Arc<Scene>, dice: &Dice) -> Verdict {
        self.list.push(Process::start(scene, &self.sys, &self.log, dice)?);
        self.is_orphaned = false;
        Ok(())
    }

    /// One of several is gone.
    fn kill(&mut self, scene: &Scene, index: usize) {
        scene.note(&format!("process {index} of {} dies", self.list.len()));
        scene.met.lock().deaths += 1;
        self.has_died = true;
        self.is_orphaned |= index + 1 == self.list.len();
        self.list.remove(index).kill();
    }

    /// Faults of processes stop. If the one that had the effect is dead, it is started again: no
    /// other restart makes up for what a process has missed.
    fn settle(&mut self, scene: &Arc<Scene>, dice: &Dice) -> Verdict {
        self.list.iter().for_each(|process| process.line().recover());
        if self.is_orphaned { self.employ(scene, dice) } else { Ok(()) }
    }
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
    work(scene, &mut place, dice, &others, operations).await?;
    Ok(end(scene, place, is_cut).await)
}

/// A life in which the disk is sound, but handlers fail and runners take over; then none does, and
/// everything is answered without a restart.
pub(super) async fn calm_down(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<SimDisk> {
    scene.note("a life that calms down");
    let mut place = open(scene, disk, dice).await?;
    let (others, operations) = (dice.split(), dice.magnitude(5..=60));
    work(scene, &mut place, dice, &others, operations).await?;
    scene.calm(true);
    place.processes.settle(scene, dice)?;
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
    // A second process runs the effect, too, and one of the two dies at its work.
    let others = dice.split();
    let Place { db, processes, .. } = &mut place;
    processes.employ(scene, dice)?;
    let dying = async {
        scene.sys.clock.sleep(others.pause()).await;
        processes.kill(scene, others.index(2));
        scene.sys.clock.sleep(others.pause()).await;
        processes.settle(scene, &others)
    };
    let ((), died) = tokio::join!(write(scene, db, dice, 10), dying);
    died?;
    all_is_answered(scene, &place).await?;
    end(scene, place, false).await;
    Ok(())
}

/// Rows are written, while processes come and go.
async fn work(
    scene: &Arc<Scene>,
    place: &mut Place,
    dice: &Dice,
    others: &Dice,
    operations: u64,
) -> Verdict {
    let Place { db, processes, .. } = place;
    let coming = come_and_go(scene, processes, others);
    let ((), came) = tokio::join!(write(scene, db, dice, operations), coming);
    came
}

/// More processes run the effect while the first one does, which is not told to stop; one dies, or
/// is cut off for a while and goes on.
async fn come_and_go(scene: &Arc<Scene>, processes: &mut Processes, dice: &Dice) -> Verdict {
    while dice.percent(50) {
        for _ in 0..dice.between(1..=20) {
            scene.sys.clock.sleep(dice.pause()).await;
        }
        match dice.between(0..=9) {
            0..6 => {
                scene.note("another process takes over");
                processes.employ(scene, dice)?;
                scene.met.lock().takeovers += 1;
            }
            6..8 if processes.list.len() > 1 => {
                processes.kill(scene, dice.index(processes.list.len()));
            }
            _ => {
                let index = dice.index(processes.list.len());
                scene.note(&format!("process {index} is cut off"));
                scene.met.lock().outages += 1;
                processes.list[index].line().cut_off();
                scene.sys.clock.sleep(Duration::from_millis(dice.magnitude(10..=3_000))).await;
                // Meanwhile another one may have taken the effect over.
                if dice.percent(50) {
                    processes.employ(scene, dice)?;
                    scene.sys.clock.sleep(dice.pause()).await;
                }
                processes.list[index].line().connect();
            }
        }
    }
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
    let list = vec![Process::start(scene, &sys, &log, dice)?];
    let processes = Processes { sys, log: log.clone(), list, is_orphaned: false, has_died: false };
    Ok(Place { log, db, processes, disk })
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
    let Place { log, db, processes, disk, .. } = place;
    // What a dead process has asked for is never answered, and holds on to the log: such a life
    // ends with the power.
    let is_cut = is_cut || disk.is_off() || processes.has_died;
    if is_cut {
        disk.power_cut();
        scene.met.lock().cuts += 1;
    }
    scene.note(if is_cut { "the power goes" } else { "the log is closed" });
    for process in processes.list {
        process.dispose().await;
    }
    drop(db);
    log.close().await;
    if is_cut { disk.restart() } else { disk }
}

pub(super) fn address() -> Address {
    Address::from("session".parse::<StreamPath>().expect("a path"))
}
