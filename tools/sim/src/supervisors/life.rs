//! One life of a log with two supervisors on it.

use std::{path::Path, sync::Arc, time::Duration};

use agent::{
    Home,
    caps::LEASE_DEFAULT,
    rows::{self, CallStatus, ToolCall},
};
use live::StreamDb;
use log::{Log, file::FileLog};
use serde_json::json;
use sessions::{
    Actions, Deed, Halt, Say, SessionId,
    caps::{FAILURE_PAUSE_MAX, SHELF_PAUSE_FIRST},
};
use sys::{
    Sys,
    disk::{SimDisk, SimFaults},
};

use super::{
    Scene, judge,
    process::{AGENT, Process},
};
use crate::{
    dice::Dice,
    oracle::{Verdict, Violation, demand},
    plan::draw_settings,
};

const DIR: &str = "/supervisors";
const SESSIONS: usize = 4;
/// The longest that one turn of a model takes here: its pause, its words, and the call that another
/// turn follows.
const TURN_MAX: Duration = Duration::from_secs(20);
/// Once faults stop, everything is answered within this: two leases until the dead are taken over,
/// the longest backoff, and a turn for each session, one after the other. Nothing that is parked
/// comes back by itself so soon, so whatever relies on that to make up for a wake-up is late.
const BOUND: Duration = LEASE_DEFAULT
    .saturating_mul(2)
    .saturating_add(FAILURE_PAUSE_MAX)
    .saturating_add(TURN_MAX.saturating_mul(SESSIONS as u32));
const _: () = assert!(BOUND.as_secs() * 3 <= SHELF_PAUSE_FIRST.as_secs());
/// How often it is looked for what is left.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// How long a person waits for what was written; afterwards nobody knows.
const WRITE_WAIT: Duration = Duration::from_secs(5);

/// Everything, open.
struct Place {
    log: FileLog,
    disk: SimDisk,
    actions: Actions,
    home: Option<Home>,
    processes: [Option<Process>; 2],
}

/// A life in which anything may go wrong; the disk on which the next one begins.
pub(super) async fn live(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<SimDisk> {
    let mut place = open(scene, disk, dice).await?;
    let mut faults = SimFaults::default();
    if dice.percent(60) {
        faults.power_cut_at_op = Some(place.disk.op_count() + dice.magnitude(10..=400));
    }
    scene.note(&format!("a life with {faults:?}"));
    place.disk.set_faults(faults);
    for _ in 0..dice.magnitude(5..=30) {
        something(scene, &mut place, dice).await?;
        pass(scene, dice).await;
    }
    Ok(end(scene, place).await)
}

/// A life in which faults stop, and all is done in time.
pub(super) async fn finish(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict {
    scene.note("the last life");
    let mut place = open(scene, disk, dice).await?;
    for _ in 0..dice.magnitude(5..=30) {
        something(scene, &mut place, dice).await?;
        pass(scene, dice).await;
    }
    scene.note("faults stop");
    for slot in 0..place.processes.len() {
        match &place.processes[slot] {
            Some(process) => process.recover(),
            None => revive(scene, &mut place, slot, dice)?,
        }
    }
    let since = scene.sys.clock.elapsed();
    let until = since + BOUND;
    loop {
        let left = judge::left(&place.log, &sessions()).await?;
        if left.is_empty() {
            break;
        }
        let is_late = scene.sys.clock.elapsed() > until;
        demand(!is_late, || format!("not answered after {BOUND:?}: {left:?}"))?;
        for (session, _) in &left {
            measure(scene, &place, session).await;
        }
        scene.sys.clock.sleep(LOOK_PAUSE).await;
    }
    scene.note("all is answered");
    scene.met.lock().seconds_max = (scene.sys.clock.elapsed() - since).as_secs();
    judge::judge(scene, &place.log, &sessions()).await?;
    for process in place.processes.iter_mut().filter_map(Option::take) {
        let _ = process.shut_down().await;
    }
    place.log.close().await;
    Ok(())
}

async fn open(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<Place> {
    disk.set_faults(SimFaults::default());
    let sys = Sys { disk: Arc::new(disk.clone()), ..scene.sys.clone() };
    let log = FileLog::open(&sys, Path::new(DIR), draw_settings(dice)).await;
    let log = log.map_err(|error| Violation(format!("opening the log: {error}")))?;
    let actions = Actions::for_agent(&sys, Arc::new(log.clone()), AGENT);
    let home = dice.percent(50).then(|| Home::draw(&sys.chance));
    let mut place = Place { log, disk, actions, home, processes: [None, None] };
    for slot in 0..place.processes.len() {
        revive(scene, &mut place, slot, dice)?;
    }
    Ok(place)
}

fn revive(scene: &Arc<Scene>, place: &mut Place, slot: usize, dice: &Dice) -> Verdict {
    let log: Arc<dyn Log> = Arc::new(place.log.clone());
    place.processes[slot] = Some(Process::start(scene, log, place.home, dice)?);
    Ok(())
}

/// Ends a life with a power cut; the disk as it is found by the next one.
async fn end(scene: &Scene, mut place: Place) -> SimDisk {
    scene.note("the power goes");
    scene.met.lock().cuts += 1;
    for process in place.processes.iter_mut().filter_map(Option::take) {
        process.kill(scene);
    }
    place.disk.power_cut();
    place.log.close().await;
    place.disk.restart()
}

/// Something happens.
async fn something(scene: &Arc<Scene>, place: &mut Place, dice: &Dice) -> Verdict {
    let slot = dice.index(place.processes.len());
    let session = sessions().swap_remove(dice.index(SESSIONS));
    match dice.between(0..=99) {
        0..45 => say(scene, place, &session, dice).await,
        45..53 => stop(scene, place, &session).await,
        53..68 => measure(scene, place, &session).await,
        68..78 => match place.processes[slot].take() {
            Some(process) => {
                scene.note(&format!("supervisor {slot} dies"));
                scene.met.lock().deaths += 1;
                process.kill(scene);
            }
            None => revive(scene, place, slot, dice)?,
        },
        78..86 => {
            if let Some(process) = place.processes[slot].take() {
                scene.note(&format!("supervisor {slot} is deployed anew"));
                scene.met.lock().deploys += 1;
                revive(scene, place, slot, dice)?;
                // As a rule it has released what it ran, but it may have been cut off.
                let supervisor = process.shut_down().await;
                scene.dead.lock().extend(supervisor);
            }
        }
        86..94 => {
            if let Some(process) = &place.processes[slot] {
                scene.note(&format!("supervisor {slot} is cut off"));
                scene.met.lock().outages += 1;
                process.connect(false);
                scene.sys.clock.sleep(Duration::from_millis(dice.magnitude(10..=3_000))).await;
                process.connect(true);
            }
        }
        _ => {
            if let Some(process) = &place.processes[slot] {
                process.lose_hints(dice.magnitude(1..=20));
            }
        }
    }
    Ok(())
}

async fn pass(scene: &Scene, dice: &Dice) {
    let pause = match dice.between(0..=9) {
        0..3 => dice.pause(),
        3..8 => Duration::from_millis(dice.magnitude(10..=5_000)),
        _ => Duration::from_millis(dice.magnitude(5_000..=60_000)),
    };
    scene.sys.clock.sleep(pause).await;
}

async fn say(scene: &Scene, place: &Place, session: &SessionId, dice: &Dice) {
    let clock = &scene.sys.clock;
    let id = Some(format!("m{}", dice.between(0..=u64::MAX - 1)));
    let say = Deed::Say(Say { id, text: "hello".to_owned(), target_agent: None });
    let saying = async {
        let _ = place.actions.create(session).await;
        place.actions.act(session, "ada", say).await.is_ok()
    };
    let said = clock.timeout(WRITE_WAIT, saying).await;
    scene.note(&format!("said in {session}: {said:?}"));
}

async fn stop(scene: &Scene, place: &Place, session: &SessionId) {
    let halt = Deed::Halt(Halt { id: None, generation_id: None, reason: None });
    let said = place.actions.act(session, "ada", halt);
    let said = scene.sys.clock.timeout(WRITE_WAIT, said).await;
    scene.note(&format!("stop in {session}: {:?}", said.is_ok_and(|said| said.is_ok())));
}

/// Others answer what a session has asked them.
async fn measure(scene: &Scene, place: &Place, session: &SessionId) {
    let answering = async {
        let log: Arc<dyn Log> = Arc::new(place.log.clone());
        let db = StreamDb::builder(log, session.path().clone(), &scene.sys).client("gauge");
        let db = rows::session(db).open().ok()?;
        db.ready().await.ok()?;
        let calls = db.rows::<ToolCall>().ok()?;
        for call in calls.rows().iter().filter(|call| call.status == CallStatus::Pending) {
            let answered = calls.update(call.id.as_str(), |row| {
                row.status = CallStatus::Completed;
                row.result = Some(json!("3 mm"));
            });
            answered.ok()?.settled().await.ok()?;
            scene.note(&format!("measured {}", call.id));
            scene.met.lock().measured += 1;
        }
        Some(())
    };
    let _ = scene.sys.clock.timeout(WRITE_WAIT, answering).await;
}

fn sessions() -> Vec<SessionId> {
    (0..SESSIONS).map(|number| format!("s{number}").parse().expect("a name")).collect()
}
