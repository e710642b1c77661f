//! One life of the log: it is opened, looked at, used by everybody at once, and ends.

use std::{sync::Arc, time::Duration};

use log::{Unavailable, file::FileLog};
use parking_lot::Mutex;
use sys::disk::SimFaults;
use wire::{ContentType, Expiry, StreamPath};

use crate::{
    actors::{self, Producer},
    aftermath::{note_cut, note_failures, note_remains},
    client::{Client, Refusal},
    coverage::Event,
    dice::Dice,
    inspect::inspect,
    oracle::{Make, Verdict, Violation, demand},
    plan::{Ending, Life, Moment, Plan},
    weather,
    witness::{Area, Reach, Witness},
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
    let mut fair = SimFaults::default();
    if let Ending::PowerCut(Moment::Operation(number)) = life.ending {
        fair.power_cut_at_op = Some(witness.sim().op_count() + number);
    }
    witness.set_faults(fair.clone(), Reach::Everything);
    if let Ending::PowerCut(Moment::SectorEdge(number)) = life.ending {
        witness.cut_at_edge(number);
    }
    let tasks = actors::start(client, producers, life);
    let working = async {
        for task in tasks {
            task.join().await;
        }
    };
    let all = futures_util::future::join(working, weather::turn(client, life.weather, fair));
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
pub(crate) async fn end(client: Client, life: &Life) -> Verdict<Witness> {
    let Client { world, log, witness, dice, .. } = client;
    let poisoned = world.trouble().poisoned && !witness.is_off();
    note_failures(&world, &witness, poisoned);
    world.change_trouble(|trouble| trouble.closing = true);
    if let Ending::PowerCut(moment) = life.ending {
        note_cut(&world, &witness);
        if matches!(moment, Moment::SectorEdge(_)) && witness.is_off() {
            world.met(Event::CutAtSectorEdge);
        }
        witness.sim().power_cut();
    }
    close(&world, log).await?;
    world.note(&format!("the life ends: {:?}", life.ending));
    match life.ending {
        Ending::Close => {
            world.met(if poisoned { Event::ReopenedPoisoned } else { Event::CleanClose });
            Ok(witness.reopen())
        }
        Ending::PowerCut(_) | Ending::CloseThenPowerCut => {
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
