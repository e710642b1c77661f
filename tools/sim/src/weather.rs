//! What goes wrong while the log serves, and when.

use std::time::Duration;

use sys::disk::SimFaults;

use crate::{client::Client, plan::Weather, residue, witness::Reach};

/// Lets the weather turn, and perhaps clear up again. `fair` is what goes wrong in any weather.
pub(crate) async fn turn(client: &Client, weather: Weather, fair: SimFaults) {
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
