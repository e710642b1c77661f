//! Playing a run to an engine and to the model, side by side.

use std::time::Duration;

use log::{Append, Closing, Create, Delete, Fork, Lifetime, List};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use sys::{
    Chance, Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wire::{
    Address, ContentType, Epoch, Expiry, Messages, Offset, Producer, ProducerSeq, ReadFrom,
    StreamPath, SubOffset, Timestamp, Ttl,
};

use crate::{
    answer::{Answer, Lives, Refusal},
    engine::Engine,
    model::Model,
    operation::{self, Branch, From, Life, NAMES, Name, Operation, Triple, Write},
};

/// When a run begins.
const EPOCH: UnixMs = UnixMs::new(1_700_000_000_000);
/// A wait for a tail that lasts so long would last for ever.
const WAIT: Duration = Duration::from_millis(1);
/// How long to wait until the engine has dropped what expired.
const REST: Duration = Duration::from_millis(500);

/// Draws runs and plays them.
///
/// # Panics
/// If an answer differs from the model's.
pub(crate) fn check<E: Engine>() {
    let seed = match std::env::var("HEADWATER_MODEL_SEED") {
        Ok(seed) => seed.parse().expect("HEADWATER_MODEL_SEED is a number"),
        Err(_) => Chance::real().u64(),
    };
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = E::RUNS;
    }
    let mut seed_bytes = [0; 32];
    seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes);
    let outcome = TestRunner::new_with_rng(config, rng).run(&operation::operations(), |run| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build();
        runtime.expect("a runtime on this thread").block_on(play::<E>(&run))
    });
    if let Err(failure) = outcome {
        panic!("HEADWATER_MODEL_SEED={seed}\n{failure}");
    }
}

async fn play<E: Engine>(run: &[Operation]) -> Result<(), TestCaseError> {
    let sys = Sys::simulated(1, SimDisk::new(1, SimFaults::default()), EPOCH);
    let mut model = Model::new(EPOCH.get());
    let mut player = Player { log: E::open(&sys).await, lives: Lives::default(), sys };
    for (step, operation) in run.iter().enumerate() {
        while model.is_restless(player.now()) {
            player.sys.clock.sleep(REST).await;
        }
        model.pass_to(player.now());
        let told = match operation {
            Operation::Pass { ms } => {
                player.sys.clock.sleep(Duration::from_millis(*ms)).await;
                Answer::Silence
            }
            Operation::Reopen => {
                player.log = player.log.reopen(&player.sys).await;
                Answer::Silence
            }
            other => player.ask(&model, other).await.unwrap_or_else(Answer::Refused),
        };
        let expected = model.predict(operation);
        prop_assert_eq!(told, expected, "step {}, {:?}", step, operation);
    }
    Ok(())
}

/// The engine under test.
struct Player<E> {
    log: E,
    sys: Sys,
    lives: Lives,
}

impl<E: Engine> Player<E> {
    fn now(&self) -> u64 {
        self.sys.clock.unix_ms().get()
    }

    /// Does to the engine what the operation says, where the model says it is.
    async fn ask(&mut self, model: &Model, operation: &Operation) -> Result<Answer, Refusal> {
        let (log, lives) = (&self.log, &mut self.lives);
        match operation {
            Operation::Create { name, settings, texts, close } => {
                let create = Create {
                    content_type: settings.json.then(ContentType::json),
                    expiry: expiry(settings.life),
                    messages: messages(texts),
                    closing: closing(*close),
                };
                Ok(lives.created(&log.create(&address(*name), create).await?))
            }
            Operation::Append { name, append } => {
                let expected = append.expected.as_ref().map(|place| model.resolve(*name, place));
                let append = to_append(append, expected);
                Ok(log.append(&address(*name), append).await?.into())
            }
            Operation::Fork { name, source, at, sub_offset, fork } => {
                let at = at.as_ref().map(|place| model.resolve(*source, place));
                let fork = to_fork(*source, at, *sub_offset, fork);
                Ok(lives.created(&log.fork(&address(*name), fork).await?))
            }
            Operation::Read { name, from, bytes_max } => {
                let from = match from {
                    From::Start => ReadFrom::Start,
                    From::Now => ReadFrom::Now,
                    From::At(place) => ReadFrom::At(model.resolve(*name, place)),
                    From::Last => ReadFrom::Last,
                    From::Before(place) => ReadFrom::Before(model.resolve(*name, place)),
                };
                Ok(lives.chunk(&log.read(&address(*name), from, *bytes_max).await?))
            }
            Operation::Head { name } => {
                Ok(Answer::Seen(lives.seen(&log.head(&address(*name)).await?)))
            }
            Operation::Tail { name, after } => {
                let address = address(*name);
                let tail = log.tail(&address, model.resolve(*name, after));
                match self.sys.clock.timeout(WAIT, tail).await {
                    Ok(head) => Ok(Answer::Seen(lives.seen(&head?))),
                    Err(_) => Ok(Answer::Waits),
                }
            }
            Operation::Trim { name, before } => {
                let before = model.resolve(*name, before);
                Ok(Answer::Seen(lives.seen(&log.trim(&address(*name), before).await?)))
            }
            Operation::Delete { name, erase } => {
                let how = if *erase { Delete::Erase } else { Delete::Stream };
                log.delete(&address(*name), how).await?;
                Ok(Answer::Deleted)
            }
            Operation::List { prefix, after, limit } => {
                let after = after.map(path);
                let list = List { prefix: (*prefix).to_owned(), after, limit: *limit };
                match log.list(list).await {
                    Ok(page) => Ok(lives.page(&page)),
                    Err(error) => Err(Refusal::Unexpected(error.to_string())),
                }
            }
            Operation::Pass { .. } | Operation::Reopen => Ok(Answer::Silence),
        }
    }
}

fn path(name: Name) -> StreamPath {
    NAMES[name].parse().expect("a valid path")
}

fn address(name: Name) -> Address {
    path(name).into()
}

fn messages(texts: &[String]) -> Messages {
    Messages::copied(texts.iter().map(|text| text.as_bytes())).expect("a few small messages")
}

fn closing(close: bool) -> Closing {
    if close { Closing::Close } else { Closing::LeaveOpen }
}

fn content_type(json: bool) -> ContentType {
    if json { ContentType::json() } else { ContentType::octet_stream() }
}

fn expiry(life: Life) -> Expiry {
    match life {
        Life::Forever => Expiry::Never,
        Life::Idle(seconds) => Expiry::Sliding(Ttl::from_seconds(seconds)),
        Life::Until(ms) => Expiry::At(Timestamp::from_unix_ms(EPOCH.get() + ms)),
    }
}

fn producer(triple: Triple) -> Producer {
    Producer {
        id: triple.id.parse().expect("a short id"),
        epoch: Epoch::new(triple.epoch),
        seq: ProducerSeq::new(triple.seq),
    }
}

fn to_append(append: &Write, expected: Option<Offset>) -> Append {
    Append {
        messages: messages(&append.texts),
        content_type: append.json.map(content_type),
        producer: append.producer.map(producer),
        seq: append.seq.map(|seq| seq.parse().expect("a short sequence")),
        expected,
        closing: closing(append.close),
    }
}

fn to_fork(source: Name, offset: Option<Offset>, sub_offset: u64, fork: &Branch) -> Fork {
    Fork {
        source: address(source),
        offset,
        sub_offset: SubOffset::new(sub_offset),
        content_type: fork.json.map(content_type),
        lifetime: fork.life.map_or(Lifetime::Inherited, |life| Lifetime::Own(expiry(life))),
        messages: messages(&fork.texts),
        closing: closing(fork.close),
    }
}
