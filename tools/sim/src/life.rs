//! One life of the log: it is opened, looked at, used by everybody at once, and ends.

use std::{sync::Arc, time::Duration};

use log::{Unavailable, file::FileLog};
use parking_lot::Mutex;
use sys::disk::SimFaults;
use wire::{ContentType, Expiry, StreamPath};

use crate::{
    actors::{self, Producer},
    client::{Client, Refusal},
    coverage::Event,
    dice::Dice,
    inspect::inspect,
    oracle::{Make, Verdict, Violation, demand},
    plan::{Ending, Life, Plan, Weather},
    residue,
    witness::{Area, Reach, Remains, Witness},
    world::{Trouble, World},
};

/// A log that does nothing for this long, in simulated time, hangs.
const LIFE_MAX: Duration = Duration::from_secs(24 * 3600);
/// When nothing is wrong any more, the log takes writes again within this time.
const CONVALESCENCE: Duration = Duration::from_secs(60);

/// Those who live through all lives of the log.
pub(crate) type Producers = [Arc<Mutex<Producer>>];

/// Lives one life on a disk; the disk on which the next one begins.
pub(crate) async fn live(
    world: &Arc<World>,
    witness: Witness,
    life: &Life,
    producers: &Producers,
    dice: &Dice,
) -> Verdict<Witness> {
    let client = open(world, witness, life, dice).await?;
    inspect(&client).await?;
    serve(&client, life, producers).await?;
    end(client, life).await
}

/// A first life in which a crowd of streams is made.
pub(crate) async fn gather(
    world: &Arc<World>,
    witness: Witness,
    plan: &Plan,
    dice: &Dice,
) -> Verdict<Witness> {
    let life = Life::calm(plan.lives[0].settings.clone());
    let client = open(world, witness, &life, dice).await?;
    actors::gather_crowd(&client, plan.crowd).await?;
    world.met(Event::CheckpointInParts);
    end(client, &life).await
}

/// The last life: what is left of everything?
pub(crate) async fn retire(
    world: &Arc<World>,
    witness: Witness,
    plan: &Plan,
    dice: &Dice,
) -> Verdict {
    let settings = plan.lives[plan.lives.len() - 1].settings.clone();
    let reclaim_after = settings.reclaim_after;
    let client = open(world, witness, &Life::calm(settings), dice).await?;
    inspect(&client).await?;
    residue::check_erased(&client, reclaim_after).await?;
    inspect(&client).await?;
    residue::check_reclaimed(&client, reclaim_after).await?;
    close(world, client.log).await
}

/// Opens the log, if need be after power cuts that hit recovery itself.
pub(crate) async fn open(
    world: &Arc<World>,
    mut witness: Witness,
    life: &Life,
    dice: &Dice,
) -> Verdict<Client> {
    for cut in &life.opening_cuts {
        witness.cut_after(*cut);
        let opened = open_once(world, &witness, life).await;
        witness.clear_faults();
        if !witness.is_off() {
            return Ok(client(world, witness, opened?, dice));
        }
        world.note("the power goes while the log is opened");
        world.met(Event::CutInRecovery);
        if let Ok(log) = opened {
            log.close().await;
        }
        witness = witness.restart();
    }
    let log = open_once(world, &witness, life).await?;
    Ok(client(world, witness, log, dice))
}

async fn open_once(world: &World, witness: &Witness, life: &Life) -> Verdict<FileLog> {
    world.change_trouble(|trouble| *trouble = Trouble::default());
    world.note(&format!("open with {:?}", life.settings));
    let opened = FileLog::open(&world.sys_on(witness), &world.dir, life.settings.clone()).await;
    opened.map_err(|error| Violation(format!("opening the log: {error}")))
}

fn client(world: &Arc<World>, witness: Witness, log: FileLog, dice: &Dice) -> Client {
    let (world, dice) = (world.clone(), dice.split());
    Client { world, log, witness, dice, name: "inspector".to_owned() }
}

/// Lets everybody work, in the weather of this life.
async fn serve(client: &Client, life: &Life, producers: &Producers) -> Verdict {
    let Client { world, witness, .. } = client;
    let power_cut_at_op = match life.ending {
        Ending::PowerCut { at_op } => Some(witness.sim().op_count() + at_op),
        Ending::Close | Ending::CloseThenPowerCut => None,
    };
    let fair = SimFaults { power_cut_at_op, ..SimFaults::default() };
    witness.set_faults(fair.clone(), Reach::Everything);
    let tasks = actors::start(client, producers, life.operations);
    let working = async {
        for task in tasks {
            task.join().await;
        }
    };
    let all = futures_util::future::join(working, weather(client, life.weather, fair));
    let done = world.sys.clock.timeout(LIFE_MAX, all).await;
    world.check()?;
    done.map_err(|_| Violation("the work of this life never ended".to_owned()))?;
    // Nothing goes wrong while the oracle looks.
    witness.clear_faults();
    if is_healthy(client).await? {
        inspect(client).await?;
    }
    Ok(())
}

/// What goes wrong, and when.
async fn weather(client: &Client, weather: Weather, fair: SimFaults) {
    let Client { world, witness, dice, .. } = client;
    let sleep = |most| world.sys.clock.sleep(Duration::from_millis(dice.magnitude(1..=most)));
    sleep(1_000).await;
    let ppm = dice.magnitude(1_000..=200_000) as u32;
    let (foul, reach) = match weather {
        Weather::Fair => return,
        Weather::FailingSyncs => {
            (SimFaults { sync_error_ppm: ppm, ..fair.clone() }, Reach::Everything)
        }
        Weather::FailingWrites => {
            (SimFaults { write_error_ppm: ppm, ..fair.clone() }, Reach::Everything)
        }
        Weather::FailingBackground => {
            let ppm = dice.magnitude(20_000..=500_000) as u32;
            let failing = SimFaults { sync_error_ppm: ppm, write_error_ppm: ppm, ..fair.clone() };
            (failing, Reach::Background)
        }
        Weather::FullDisk => {
            let room = 4_096 * dice.between(0..=20);
            let capacity_bytes = Some(residue::usage(client).total() + room);
            (SimFaults { capacity_bytes, ..fair.clone() }, Reach::Everything)
        }
    };
    world.note(&format!("weather: {foul:?}, {reach:?}"));
    world.change_trouble(|trouble| match weather {
        Weather::Fair | Weather::FailingBackground => {}
        Weather::FullDisk => trouble.full = true,
        Weather::FailingSyncs | Weather::FailingWrites => trouble.failing = true,
    });
    witness.set_faults(foul, reach);
    sleep(3_000).await;
    if weather == Weather::FullDisk || dice.percent(50) {
        world.note("weather: fair");
        witness.set_faults(fair, Reach::Everything);
    }
}

/// Whether the log takes writes. With nothing wrong any more it must, unless it is poisoned.
async fn is_healthy(client: &Client) -> Verdict<bool> {
    let Client { world, witness, .. } = client;
    let probe = "probe".parse::<StreamPath>().expect("a path").into();
    let deadline = world.sys.clock.elapsed() + CONVALESCENCE;
    loop {
        if witness.is_off() {
            return Ok(false);
        }
        let make = Make::plain(&probe, ContentType::json(), Expiry::Never);
        let answer = client.create(make, &[], false).await?;
        // Whoever is refused for another reason was heard.
        let unavailable = answer.as_ref().err().and_then(Refusal::unavailable);
        match unavailable {
            None => return Ok(true),
            Some(Unavailable::Poisoned(_)) => return Ok(false),
            Some(error) => demand(world.sys.clock.elapsed() < deadline, || {
                format!("nothing is wrong any more, but the log answers: {error}")
            })?,
        }
        world.sys.clock.sleep(Duration::from_secs(1)).await;
    }
}

/// Ends the life as planned, whatever state the log is in.
async fn end(client: Client, life: &Life) -> Verdict<Witness> {
    let Client { world, log, witness, dice, .. } = client;
    let poisoned = world.trouble().poisoned && !witness.is_off();
    note_failures(&world, &witness, poisoned);
    world.change_trouble(|trouble| trouble.closing = true);
    if let Ending::PowerCut { .. } = life.ending {
        note_cut(&world, &witness);
        witness.sim().power_cut();
    }
    close(&world, log).await?;
    world.note(&format!("the life ends: {:?}", life.ending));
    match life.ending {
        Ending::Close => {
            world.met(if poisoned { Event::ReopenedPoisoned } else { Event::CleanClose });
            Ok(witness.reopen())
        }
        Ending::PowerCut { .. } | Ending::CloseThenPowerCut => {
            for _ in 0..life.what_ifs {
                look_at_another_ending(&world, &witness, life, &dice).await?;
            }
            let notes = witness.notes();
            let restarted = witness.restart();
            if notes.cut == Some(Area::Commit) {
                note_remains(&world, restarted.remains_of_newest_frame(&notes));
            }
            Ok(restarted)
        }
    }
}

pub(crate) async fn close(world: &World, log: FileLog) -> Verdict {
    let closed = world.sys.clock.timeout(LIFE_MAX, log.close()).await;
    closed.map_err(|_| Violation("the log never closed".to_owned()))
}

/// The same power cut, had it gone otherwise.
async fn look_at_another_ending(
    world: &World,
    witness: &Witness,
    life: &Life,
    dice: &Dice,
) -> Verdict {
    world.note("what if the power cut had gone otherwise?");
    let branch = world.branch();
    let calm = Life::calm(life.settings.clone());
    let client = open(&branch, witness.restart(), &calm, dice).await?;
    inspect(&client).await?;
    close(&branch, client.log).await?;
    world.note("but it went like this.");
    Ok(())
}

fn note_failures(world: &World, witness: &Witness, poisoned: bool) {
    let notes = witness.notes();
    if notes.checkpoints > 0 {
        world.met(Event::Regrouped);
    }
    let regrouping = |area: &Area| matches!(area, Area::Pack | Area::Checkpoint);
    if notes.failures.iter().any(|failure| regrouping(&failure.area)) {
        world.met(Event::RegroupFailed);
    }
    let commit = notes.failures.iter().find(|failure| failure.area == Area::Commit);
    if let Some(failure) = commit.filter(|_| poisoned) {
        world.met(if failure.is_sync { Event::PoisonedBySync } else { Event::PoisonedByWrite });
    }
}

fn note_cut(world: &World, witness: &Witness) {
    let cut = witness.notes().cut;
    world.note(&format!("the power goes: {cut:?}"));
    world.met(match cut {
        None => Event::CutAtRest,
        Some(Area::Commit) => Event::CutInCommit,
        Some(Area::Slot) => Event::CutInSlot,
        Some(Area::Pack) => Event::CutInPack,
        Some(Area::Checkpoint) => Event::CutInCheckpoint,
        Some(Area::Other) => Event::CutInRecovery,
    });
}

fn note_remains(world: &World, remains: Option<Remains>) {
    let event = match remains {
        Some(Remains::All) => Event::FrameKept,
        Some(Remains::Some) => Event::FrameTorn,
        Some(Remains::None) => Event::FrameLost,
        None => return,
    };
    world.note(event.words());
    world.met(event);
}
