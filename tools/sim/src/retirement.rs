//! The end of a run: when all is over, what is left on the disk?

use std::{sync::Arc, time::Duration};

use log::file::{FileLog, OpenError};
use sys::disk::SimFaults;

use crate::{
    client::Client,
    dice::Dice,
    inspect::inspect,
    life::{close, end, open},
    oracle::{Verdict, demand},
    plan::{Ending, Life, Plan},
    residue,
    witness::{Reach, Witness},
    world::World,
};

/// How long a log is left alone, beyond what its settings say, until it has tidied up.
const REST: Duration = Duration::from_secs(60);

/// Lives the last life; the disk as it is left.
pub(crate) async fn retire(
    world: &Arc<World>,
    witness: Witness,
    plan: &Plan,
    dice: &Dice,
) -> Verdict<Witness> {
    let settings = plan.lives[plan.lives.len() - 1].settings.clone();
    let rest = settings.reclaim_after + REST;
    let life = Life::calm(settings);
    let mut client = open(world, witness, &life, dice).await?;
    inspect(&client).await?;
    check_lock(&client, &life).await?;
    // Nothing that was erased, in whichever life, is on the disk after a rest.
    world.sys.clock.sleep(rest).await;
    residue::check_erased(&client)?;
    inspect(&client).await?;
    let before = residue::usage(&client);
    match dice.percent(30) {
        true => delete_on_full_disk(&client, rest).await?,
        false => residue::delete_everything(&client).await?,
    }
    if dice.percent(50) {
        let interrupted = Life { ending: Ending::CloseThenPowerCut, ..life.clone() };
        let witness = end(client, &interrupted).await?;
        client = open(world, witness, &life, dice).await?;
    }
    // A log without streams is as small as a new one after a rest.
    world.sys.clock.sleep(rest).await;
    residue::check_reclaimed(&client, before)?;
    inspect(&client).await?;
    close(world, client.log).await?;
    Ok(client.witness)
}

/// Deletes everything while there is no room to tidy up.
async fn delete_on_full_disk(client: &Client, rest: Duration) -> Verdict {
    let Client { world, witness, .. } = client;
    let capacity_bytes = Some(residue::usage(client).total());
    world.note("the disk is full");
    world.change_trouble(|trouble| trouble.full = true);
    witness.set_faults(SimFaults { capacity_bytes, ..SimFaults::default() }, Reach::Everything);
    residue::delete_everything(client).await?;
    world.sys.clock.sleep(rest).await;
    witness.clear_faults();
    world.note("there is room again");
    // Those whose delete was refused.
    residue::delete_everything(client).await
}

/// Nobody can open a log that is open.
async fn check_lock(client: &Client, life: &Life) -> Verdict {
    let sys = client.world.sys_on(&client.witness);
    let second = FileLog::open(&sys, &client.world.dir, life.settings.clone()).await;
    let is_locked = matches!(second, Err(OpenError::Locked(_)));
    demand(is_locked, || format!("an open log was opened again: {second:?}"))
}
