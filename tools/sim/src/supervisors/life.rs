//! One life of a log with two supervisors on it.

use std::{path::Path, sync::Arc, time::Duration};

use agent::{
    Home,
    caps::{CLAIM_SLACK, FOREMAN_PAUSE, LEASE_DEFAULT},
    rows::{CallStatus, Decision},
};
use log::{Log, file::FileLog};
use sessions::{
    Actions, Deed, Halt, Resolve, Say, SessionId,
    caps::{FAILURE_PAUSE_MAX, SHELF_PAUSE_FIRST},
};
use sys::{
    Sys,
    disk::{SimDisk, SimFaults},
};
use wire::Address;

use super::{
    Scene, calls,
    executor::{CLAIM_LEASE, Executor},
    judge::{self, Reading},
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
/// Once all is done, whatever would run a call a second time does so within this.
const AFTERWARDS: Duration =
    CLAIM_LEASE.saturating_mul(2).saturating_add(CLAIM_SLACK).saturating_add(FOREMAN_PAUSE);
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
    executors: [Option<Executor>; 2],
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
    recover(scene, &mut place, dice).await?;
    all_is_done(scene, &mut place, dice).await?;
    for process in place.processes.iter_mut().filter_map(Option::take) {
        let _ = process.shut_down().await;
    }
    for executor in place.executors.iter_mut().filter_map(Option::take) {
        executor.dispose().await;
    }
    place.log.close().await;
    Ok(())
}

/// Every process is there, and reaches the log.
async fn recover(scene: &Arc<Scene>, place: &mut Place, dice: &Dice) -> Verdict {
    for slot in 0..place.processes.len() {
        match &place.processes[slot] {
            Some(process) => process.line().recover(),
            None => revive(scene, place, slot, dice)?,
        }
    }
    for slot in 0..place.executors.len() {
        match &place.executors[slot] {
            Some(executor) => executor.line().recover(),
            None => employ(scene, place, slot, dice).await,
        }
    }
    Ok(())
}

/// Waits until all is done, which must be in time, and judges how.
async fn all_is_done(scene: &Arc<Scene>, place: &mut Place, dice: &Dice) -> Verdict {
    let since = scene.sys.clock.elapsed();
    let until = since + BOUND;
    let mut readings: Vec<_> = sessions().into_iter().map(Reading::new).collect();
    loop {
        serve(scene, place).await;
        let (now, mut left) = (scene.sys.clock.elapsed(), Vec::new());
        for reading in &mut readings {
            reading.read_on(&place.log).await?;
            scene.calls.lock().look(&reading.session, &reading.told, now)?;
            left.extend(reading.told.left().map(|what| (reading.session.clone(), what)));
            decide(scene, place, reading, dice).await;
        }
        if left.is_empty() {
            break;
        }
        demand(now <= until, || format!("not answered after {BOUND:?}: {left:?}"))?;
        scene.sys.clock.sleep(LOOK_PAUSE).await;
    }
    scene.note("all is answered");
    scene.met.lock().seconds_max = (scene.sys.clock.elapsed() - since).as_secs();
    scene.sys.clock.sleep(AFTERWARDS).await;
    for reading in &mut readings {
        reading.read_on(&place.log).await?;
    }
    judge::judge(scene, &readings)
}

async fn open(scene: &Arc<Scene>, disk: SimDisk, dice: &Dice) -> Verdict<Place> {
    disk.set_faults(SimFaults::default());
    let sys = Sys { disk: Arc::new(disk.clone()), ..scene.sys.clone() };
    let log = FileLog::open(&sys, Path::new(DIR), draw_settings(dice)).await;
    let log = log.map_err(|error| Violation(format!("opening the log: {error}")))?;
    let actions = Actions::for_agent(&sys, Arc::new(log.clone()), AGENT);
    let home = dice.percent(50).then(|| Home::draw(&sys.chance));
    let (processes, executors) = ([None, None], [None, None]);
    let mut place = Place { log, disk, actions, home, processes, executors };
    recover(scene, &mut place, dice).await?;
    Ok(place)
}

fn revive(scene: &Arc<Scene>, place: &mut Place, slot: usize, dice: &Dice) -> Verdict {
    let log: Arc<dyn Log> = Arc::new(place.log.clone());
    place.processes[slot] = Some(Process::start(scene, log, place.home, dice)?);
    Ok(())
}

/// An executor comes, or comes back.
async fn employ(scene: &Arc<Scene>, place: &mut Place, slot: usize, dice: &Dice) {
    let log: Arc<dyn Log> = Arc::new(place.log.clone());
    place.executors[slot] = Some(Executor::start(scene, log, dice));
    serve(scene, place).await;
}

/// Ends a life with a power cut; the disk as it is found by the next one.
async fn end(scene: &Scene, mut place: Place) -> SimDisk {
    scene.note("the power goes");
    scene.met.lock().cuts += 1;
    for process in place.processes.iter_mut().filter_map(Option::take) {
        process.kill(scene);
    }
    place.executors.iter_mut().filter_map(Option::take).for_each(Executor::kill);
    place.disk.power_cut();
    place.log.close().await;
    place.disk.restart()
}

/// Something happens.
async fn something(scene: &Arc<Scene>, place: &mut Place, dice: &Dice) -> Verdict {
    let slot = dice.index(place.processes.len());
    let session = sessions().swap_remove(dice.index(SESSIONS));
    match dice.between(0..=99) {
        0..45 => {
            say(scene, place, &session, dice).await;
            serve(scene, place).await;
        }
        45..53 => stop(scene, place, &session).await,
        53..66 => happens_to_executor(scene, place, slot, dice).await,
        66..68 => {
            let mut reading = Reading::new(session);
            // The power may be gone.
            if reading.read_on(&place.log).await.is_ok() {
                decide(scene, place, &reading, dice).await;
            }
        }
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
                process.line().cut_off();
                scene.sys.clock.sleep(Duration::from_millis(dice.magnitude(10..=3_000))).await;
                process.line().connect();
            }
        }
        _ => {
            if let Some(process) = &place.processes[slot] {
                process.line().lose_hints(dice.magnitude(1..=20));
            }
        }
    }
    Ok(())
}

/// An executor dies, or comes back; it is cut off, or reaches the log again.
async fn happens_to_executor(scene: &Arc<Scene>, place: &mut Place, slot: usize, dice: &Dice) {
    match place.executors[slot].take() {
        None => employ(scene, place, slot, dice).await,
        Some(executor) if dice.percent(40) => {
            scene.note(&format!("executor {slot} dies"));
            scene.met.lock().executors_killed += 1;
            executor.kill();
        }
        Some(executor) => {
            let is_cut_off = executor.line().is_cut_off();
            scene.note(&format!("executor {slot} is cut off: {}", !is_cut_off));
            match is_cut_off {
                true => executor.line().connect(),
                false => {
                    scene.met.lock().executors_cut_off += 1;
                    executor.line().cut_off();
                }
            }
            place.executors[slot] = Some(executor);
        }
    }
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

/// A person decides on what is parked.
async fn decide(scene: &Scene, place: &Place, reading: &Reading, dice: &Dice) {
    let Reading { session, told, .. } = reading;
    for call in told.calls.iter().filter(|call| call.status == CallStatus::Parked) {
        let draw = || match dice.between(0..=2) {
            0 => Decision::Complete,
            1 => Decision::Fail,
            _ => Decision::Retry,
        };
        let decision = scene.calls.lock().decide(session, call, draw);
        let (tool_call_id, attempt) = (call.id.clone(), call.attempt);
        let result = (decision == Decision::Complete).then(calls::decided_answer);
        let resolve = Deed::Resolve(Resolve { id: None, tool_call_id, attempt, decision, result });
        let said = place.actions.act(session, "ada", resolve);
        let said = scene.sys.clock.timeout(WRITE_WAIT, said).await;
        scene.note(&format!("{} {attempt} in {session}: {decision:?} {said:?}", call.id));
    }
}

/// Executors run what sessions ask for that have come to be.
async fn serve(scene: &Arc<Scene>, place: &mut Place) {
    for session in sessions() {
        let address = Address::from(session.path().clone());
        if place.log.head(&address).await.is_ok() {
            for executor in place.executors.iter_mut().flatten() {
                executor.serve(scene, &session);
            }
        }
    }
}

fn sessions() -> Vec<SessionId> {
    (0..SESSIONS).map(|number| format!("s{number}").parse().expect("a name")).collect()
}
