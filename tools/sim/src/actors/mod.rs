//! Those who use the log, all at once.

mod metronome;
mod producer;
mod reader;
mod steward;
mod writer;

use std::sync::Arc;

use log::Incarnation;
use parking_lot::Mutex;
use sys::Task;
use wire::{Address, ContentType, Expiry, StreamPath};

pub(crate) use self::producer::Producer;
use crate::{
    client::Client,
    oracle::{Make, Verdict},
    plan::{Company, Life},
};

const WRITERS: usize = 2;
const STEWARDS: usize = 2;
const READERS: usize = 2;
const FOLLOWERS: usize = 2;
/// Producers of a run; they live longer than the log and remember what is not acknowledged.
pub(crate) const PRODUCERS: usize = 3;

/// How the names of the crowd begin.
const CROWD: &str = "crowd/";
/// Names that other streams go by.
pub(crate) const NAMES: u64 = 14;

/// Sends those who use the log in this life to work.
pub(crate) fn start(client: &Client, producers: &[Arc<Mutex<Producer>>], life: &Life) -> Vec<Task> {
    match life.company {
        Company::Everybody => start_everybody(client, producers, life.operations),
        Company::Metronome => {
            let client = named(client, "metronome", 0);
            let work = metronome::work(client.clone(), life.operations);
            vec![spawn(&client, "metronome", work)]
        }
    }
}

fn start_everybody(
    client: &Client,
    producers: &[Arc<Mutex<Producer>>],
    operations: u64,
) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (number, producer) in producers.iter().enumerate() {
        let client = named(client, "producer", number);
        let work = producer::work(client.clone(), producer.clone(), operations);
        tasks.push(spawn(&client, "producer", work));
    }
    for number in 0..WRITERS {
        let client = named(client, "writer", number);
        tasks.push(spawn(&client, "writer", writer::work(client.clone(), operations)));
    }
    for number in 0..STEWARDS {
        let client = named(client, "steward", number);
        tasks.push(spawn(&client, "steward", steward::work(client.clone(), operations)));
    }
    for number in 0..READERS {
        let client = named(client, "reader", number);
        tasks.push(spawn(&client, "reader", reader::work(client.clone(), operations)));
    }
    for number in 0..FOLLOWERS {
        let client = named(client, "follower", number);
        tasks.push(spawn(&client, "follower", reader::follow(client.clone(), operations)));
    }
    tasks
}

fn named(client: &Client, role: &str, number: usize) -> Client {
    let (name, dice) = (format!("{role} {number}"), client.dice.split());
    Client { name, dice, ..client.clone() }
}

fn spawn(
    client: &Client,
    role: &'static str,
    work: impl Future<Output = Verdict> + Send + 'static,
) -> Task {
    let world = client.world.clone();
    client.world.sys.spawn.clone().task(role, async move {
        if let Err(violation) = work.await {
            world.fail(violation);
        }
    })
}

/// Makes many small streams at once.
pub(crate) async fn gather_crowd(client: &Client, count: u64) -> Verdict {
    for number in 0..count {
        let path = format!("{CROWD}{number:04}").parse::<StreamPath>().expect("a path");
        let make = Make::plain(&path.into(), ContentType::json(), Expiry::Never);
        client.create(make, &[1], false).await?.ok();
    }
    Ok(())
}

fn is_of_crowd(address: &Address) -> bool {
    address.stream().is_some_and(|path| path.as_str().starts_with(CROWD))
}

impl Client {
    /// A stream that is certainly there and free to use; rarely one of the crowd.
    pub(crate) fn some_stream(&self) -> Option<(Address, Incarnation)> {
        let mut live = self.world.oracle().live(self.now());
        if !self.dice.percent(10) {
            live.retain(|(address, _)| !is_of_crowd(address));
        }
        self.dice.pick(&live).cloned()
    }

    /// Sizes of the messages of one append.
    pub(crate) fn some_sizes(&self, most: u64) -> Vec<usize> {
        let count = self.dice.magnitude(1..=most);
        (0..count).map(|_| self.world.sizes.draw(&self.dice)).collect()
    }
}
